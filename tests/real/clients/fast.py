"""FastMCP's client, in either era."""

import asyncio

import mcp_types as types
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from plan import read_plan, run_steps, tell, texts

MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


def doers(client: Client) -> dict:
    async def tools():
        return [tool.name for tool in await client.list_tools()]

    async def resources():
        return [str(entry.uri) for entry in await client.list_resources()]

    async def templates():
        return [entry.uri_template for entry in await client.list_resource_templates()]

    async def prompts():
        return [prompt.name for prompt in await client.list_prompts()]

    async def call(name, arguments=None, progress=False):
        seen = []

        async def on_progress(done, total, message):
            seen.append(done)

        result = await client.call_tool_mcp(
            name, arguments or {}, progress_handler=on_progress if progress else None
        )
        return {"texts": texts(result.content), "error": bool(result.is_error), "progress": len(seen)}

    async def read(uri):
        return {"texts": texts(await client.read_resource(uri))}

    async def prompt(name, arguments=None):
        messages = (await client.get_prompt(name, arguments or {})).messages
        return {"texts": texts(message.content for message in messages)}

    async def complete(argument, value, prompt=None, template=None):
        if prompt:
            ref = types.PromptReference(type="ref/prompt", name=prompt)
        else:
            ref = types.ResourceTemplateReference(type="ref/resource", uri=template)
        answer = await client.complete(ref, {"name": argument, "value": value})
        return {"values": answer.values}

    return {each.__name__: each for each in (tools, resources, templates, prompts, call, read, prompt, complete)}


async def main() -> None:
    plan = read_plan()
    async with Client(StreamableHttpTransport(plan["target"]), mode=MODES[plan["mode"]]) as client:
        tell(connected=client.protocol_version, server=getattr(client.server_info, "name", None))
        await run_steps(plan["steps"], doers(client))


asyncio.run(main())
