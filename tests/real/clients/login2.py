"""The Python SDK 2.x as a client that logs in, in either era."""

import asyncio

import mcp_types as types
from common import Official, doers
from login import client, provider, with_login
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult
from plan import read_plan, run_steps, tell

MODES = {"legacy": "legacy", "auto": "auto", "modern": "2026-07-28"}


def paging(cursor) -> dict:
    return {"cursor": cursor}


def result(code, answer):
    return AuthorizationCodeResult(code=code, state=answer.get("state"), iss=answer.get("iss"))


async def main() -> None:
    plan = read_plan()
    auth = provider(plan["target"], plan["login"], result)
    async with client(auth) as http:
        transport = streamable_http_client(plan["target"], http_client=http)
        async with Client(transport, mode=MODES[plan["mode"]]) as session:
            tell(connected=session.protocol_version, server=getattr(session.server_info, "name", None))
            await run_steps(plan["steps"], with_login(doers(types, Official(session, paging))))


asyncio.run(main())
