"""The Python SDK 1.x as a client (legacy only)."""

import asyncio

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from plan import read_plan, run_steps, tell, texts


async def every(page, field: str) -> list:
    """All entries of a list, over all of its pages."""
    entries, cursor = [], None
    while True:
        answer = await page(params=types.PaginatedRequestParams(cursor=cursor))
        entries += getattr(answer, field)
        cursor = answer.nextCursor
        if cursor is None:
            return entries


def doers(session: ClientSession) -> dict:
    async def tools():
        return [tool.name for tool in await every(session.list_tools, "tools")]

    async def resources():
        return [str(entry.uri) for entry in await every(session.list_resources, "resources")]

    async def templates():
        listed = await every(session.list_resource_templates, "resourceTemplates")
        return [entry.uriTemplate for entry in listed]

    async def prompts():
        return [prompt.name for prompt in await every(session.list_prompts, "prompts")]

    async def call(name, arguments=None, progress=False):
        seen = []

        async def on_progress(done, total, message):
            seen.append(done)

        result = await session.call_tool(
            name, arguments or {}, progress_callback=on_progress if progress else None
        )
        return {"texts": texts(result.content), "error": bool(result.isError), "progress": len(seen)}

    async def read(uri):
        return {"texts": texts((await session.read_resource(uri)).contents)}

    async def prompt(name, arguments=None):
        messages = (await session.get_prompt(name, arguments or {})).messages
        return {"texts": texts(message.content for message in messages)}

    async def complete(argument, value, prompt=None, template=None):
        if prompt:
            ref = types.PromptReference(type="ref/prompt", name=prompt)
        else:
            ref = types.ResourceTemplateReference(type="ref/resource", uri=template)
        answer = await session.complete(ref, {"name": argument, "value": value})
        return {"values": answer.completion.values}

    return {each.__name__: each for each in (tools, resources, templates, prompts, call, read, prompt, complete)}


async def use(streams, steps: list) -> None:
    async with ClientSession(streams[0], streams[1]) as session:
        hello = await session.initialize()
        tell(connected=str(hello.protocolVersion), server=hello.serverInfo.name)
        await run_steps(steps, doers(session))


async def main() -> None:
    plan = read_plan()
    target = plan["target"]
    if isinstance(target, dict):
        async with stdio_client(StdioServerParameters(**target)) as streams:
            await use(streams, plan["steps"])
    else:
        async with streamable_http_client(target) as streams:
            await use(streams, plan["steps"])


asyncio.run(main())
