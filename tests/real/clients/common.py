"""The steps of a plan as the three Python SDKs do them: alike, but for the calls and names of each."""

from plan import texts


def field(entry, *names):
    """An attribute under the first of the names that it has: SDKs spell the same field in two ways."""
    return next(getattr(entry, name) for name in names if hasattr(entry, name))


class Official:
    """The calls of the official SDK, 1.x and 2.x. `paging` makes the arguments that ask for the page at a cursor."""

    def __init__(self, client, paging):
        self.client, self.paging = client, paging

    async def every(self, ask, *names) -> list:
        """All entries of a list, over all of its pages."""
        entries, cursor = [], None
        while True:
            answer = await ask(**self.paging(cursor))
            entries += field(answer, *names)
            cursor = field(answer, "next_cursor", "nextCursor")
            if cursor is None:
                return entries

    async def tools(self):
        return await self.every(self.client.list_tools, "tools")

    async def resources(self):
        return await self.every(self.client.list_resources, "resources")

    async def templates(self):
        return await self.every(self.client.list_resource_templates, "resource_templates", "resourceTemplates")

    async def prompts(self):
        return await self.every(self.client.list_prompts, "prompts")

    async def call(self, name, arguments, on_progress):
        return await self.client.call_tool(name, arguments, progress_callback=on_progress)

    async def read(self, uri):
        return (await self.client.read_resource(uri)).contents

    async def prompt(self, name, arguments):
        return (await self.client.get_prompt(name, arguments)).messages

    async def complete(self, ref, argument):
        return (await self.client.complete(ref, argument)).completion.values


def doers(types, sdk) -> dict:
    """One coroutine for each kind of step.

    `types` has the SDK's reference types. `sdk` has coroutines: `tools`, `resources`, `templates` and `prompts` list
    entries; `call(name, arguments, on_progress)` gives a result, `read(uri)` contents, `prompt(name, arguments)`
    messages, `complete(ref, argument)` values.
    """

    async def tools():
        return [tool.name for tool in await sdk.tools()]

    async def resources():
        return [str(entry.uri) for entry in await sdk.resources()]

    async def templates():
        return [field(entry, "uri_template", "uriTemplate") for entry in await sdk.templates()]

    async def prompts():
        return [prompt.name for prompt in await sdk.prompts()]

    async def call(name, arguments=None, progress=False):
        seen = []

        async def on_progress(done, total, message):
            seen.append(done)

        result = await sdk.call(name, arguments or {}, on_progress if progress else None)
        error = bool(field(result, "is_error", "isError"))
        return {"texts": texts(result.content), "error": error, "progress": len(seen)}

    async def read(uri):
        return {"texts": texts(await sdk.read(uri))}

    async def prompt(name, arguments=None):
        return {"texts": texts(message.content for message in await sdk.prompt(name, arguments or {}))}

    async def complete(argument, value, prompt=None, template=None):
        if prompt:
            ref = types.PromptReference(type="ref/prompt", name=prompt)
        else:
            ref = types.ResourceTemplateReference(type="ref/resource", uri=template)
        return {"values": await sdk.complete(ref, {"name": argument, "value": value})}

    return {each.__name__: each for each in (tools, resources, templates, prompts, call, read, prompt, complete)}
