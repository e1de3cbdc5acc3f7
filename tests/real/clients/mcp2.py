"""The Python SDK 2.x as a client, in either era."""

import asyncio

import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from plan import read_plan, run_steps, tell, texts

MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


async def every(page, field: str) -> list:
    """All entries of a list, over all of its pages."""
    entries, cursor = [], None
    while True:
        answer = await page(cursor=cursor)
        entries += getattr(answer, field)
        cursor = answer.next_cursor
        if cursor is None:
            return entries


def doers(client: Client) -> dict:
    async def tools():
        return [tool.name for tool in await every(client.list_tools, "tools")]

    async def resources():
        return [str(entry.uri) for entry in await every(client.list_resources, "resources")]

    async def templates():
        listed = await every(client.list_resource_templates, "resource_templates")
        return [entry.uri_template for entry in listed]

    async def prompts():
        return [prompt.name for prompt in await every(client.list_prompts, "prompts")]

    async def call(name, arguments=None, progress=False):
        seen = []

        async def on_progress(done, total, message):
            seen.append(done)

        result = await client.call_tool(name, arguments or {}, progress_callback=on_progress if progress else None)
        return {"texts": texts(result.content), "error": bool(result.is_error), "progress": len(seen)}

    async def read(uri):
        return {"texts": texts((await client.read_resource(uri)).contents)}

    async def prompt(name, arguments=None):
        messages = (await client.get_prompt(name, arguments or {})).messages
        return {"texts": texts(message.content for message in messages)}

    async def complete(argument, value, prompt=None, template=None):
        if prompt:
            ref = types.PromptReference(type="ref/prompt", name=prompt)
        else:
            ref = types.ResourceTemplateReference(type="ref/resource", uri=template)
        answer = await client.complete(ref, {"name": argument, "value": value})
        return {"values": answer.completion.values}

    return {each.__name__: each for each in (tools, resources, templates, prompts, call, read, prompt, complete)}


async def main() -> None:
    plan = read_plan()
    target = plan["target"]
    if isinstance(target, dict):
        target = stdio_client(StdioServerParameters(**target))
    async with Client(target, mode=MODES[plan["mode"]]) as client:
        tell(connected=client.protocol_version, server=getattr(client.server_info, "name", None))
        await run_steps(plan["steps"], doers(client))


asyncio.run(main())
