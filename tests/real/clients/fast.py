"""FastMCP's client, in either era."""

import asyncio

import mcp_types as types
from common import doers
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport
from plan import read_plan, run_steps, tell

MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


class Sdk:
    def __init__(self, client: Client):
        self.client = client
        self.tools, self.resources = client.list_tools, client.list_resources
        self.templates, self.prompts = client.list_resource_templates, client.list_prompts
        self.read = client.read_resource

    async def call(self, name, arguments, on_progress):
        return await self.client.call_tool_mcp(name, arguments, progress_handler=on_progress)

    async def prompt(self, name, arguments):
        return (await self.client.get_prompt(name, arguments)).messages

    async def complete(self, ref, argument):
        return (await self.client.complete(ref, argument)).values


async def main() -> None:
    plan = read_plan()
    async with Client(StreamableHttpTransport(plan["target"]), mode=MODES[plan["mode"]]) as client:
        tell(connected=client.protocol_version, server=getattr(client.server_info, "name", None))
        await run_steps(plan["steps"], doers(types, Sdk(client)))


asyncio.run(main())
