"""The Python SDK 1.x as a client (legacy only)."""

import asyncio

from common import Official, doers
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from plan import read_plan, run_steps, tell


def paging(cursor) -> dict:
    return {"params": types.PaginatedRequestParams(cursor=cursor)}


async def use(streams, steps: list) -> None:
    async with ClientSession(streams[0], streams[1]) as session:
        hello = await session.initialize()
        tell(connected=str(hello.protocolVersion), server=hello.serverInfo.name)
        await run_steps(steps, doers(types, Official(session, paging)))


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
