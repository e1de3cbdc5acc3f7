"""The Python SDK 1.x as a client that logs in (legacy only)."""

import asyncio

from common import Official, doers
from login import client, provider, with_login
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client
from plan import read_plan, run_steps, tell


def paging(cursor) -> dict:
    return {"params": types.PaginatedRequestParams(cursor=cursor)}


async def main() -> None:
    plan = read_plan()
    auth = provider(plan["target"], plan["login"], lambda code, all_: (code, all_.get("state")))
    async with (
        client(auth) as http,
        streamable_http_client(plan["target"], http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        hello = await session.initialize()
        tell(connected=str(hello.protocolVersion), server=hello.serverInfo.name)
        await run_steps(plan["steps"], with_login(doers(types, Official(session, paging))))


asyncio.run(main())
