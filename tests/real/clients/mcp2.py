"""The Python SDK 2.x as a client, in either era."""

import asyncio

import mcp_types as types
from common import Official, doers
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from plan import read_plan, run_steps, tell

MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


def paging(cursor) -> dict:
    return {"cursor": cursor}


async def main() -> None:
    plan = read_plan()
    target = plan["target"]
    if isinstance(target, dict):
        target = stdio_client(StdioServerParameters(**target))
    async with Client(target, mode=MODES[plan["mode"]]) as client:
        tell(connected=client.protocol_version, server=getattr(client.server_info, "name", None))
        await run_steps(plan["steps"], doers(types, Official(client, paging)))


asyncio.run(main())
