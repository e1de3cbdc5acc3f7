"""What a gateway does around credentials: for browsers, for sessions, while the authorization server is away, and that
no server sees them.
"""

import http.server
import json
import threading
import time

from idp import Idp, ask

APP = "https://app.example.com"
LEGACY = "2025-11-25"


class Spy(http.server.BaseHTTPRequestHandler):
    """A server that keeps what it is sent and is none."""

    seen: list = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append(f"{self.path}\n{self.headers}\n{body!r}")
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_DELETE = do_POST

    def log_message(self, *_):
        pass


def browsers(rows, where, rpc) -> None:
    """An application in a browser may read the challenge and the metadata before it has a credential."""

    def check(what: str, answer, good: bool) -> None:
        allowed = answer.headers.get("access-control-allow-origin")
        rows.add(good and allowed == APP, "browser", what, f"{answer} {answer.headers}")

    def words(answer, name: str) -> set:
        return {word.strip().lower() for word in answer.headers.get(f"access-control-{name}", "").split(",")}

    wanted = {"authorization", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"}
    before = {"Origin": APP, "Access-Control-Request-Method": "POST"}
    before["Access-Control-Request-Headers"] = ",".join(sorted(wanted))
    answer = ask(where.person, headers=before, method="OPTIONS")
    check("asks beforehand", answer, answer.status in (200, 204) and wanted <= words(answer, "allow-headers"))
    answer = rpc(where.person, "tools/list", more={"Origin": APP})
    good = answer.status == 401 and "www-authenticate" in words(answer, "expose-headers")
    check("may read the challenge", answer, good)
    answer = ask(where.metadata_url(where.person), headers={"Origin": APP})
    check("may read the metadata", answer, answer.status == 200)
    answer = rpc(where.person, "tools/list", more={"Origin": "https://elsewhere.example.com"})
    rows.add(answer.status == 403, "browser", "from elsewhere is refused", answer)


def sessions(rows, where) -> None:
    """A legacy session is of whom it was given to, whatever token they have by now."""
    idp, url = where.idp, where.robot

    def send(token, method: str, session=None, verb="POST", **params):
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if session:
            headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return ask(url, body if verb == "POST" else None, headers, verb)

    who = {"name": "curl", "version": "1"}
    opened = send(idp.token(url), "initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=who)
    session = opened.headers.get("mcp-session-id", "")
    rows.add(opened.status == 200 and bool(session), "session", "is opened", opened)
    for what, token, verb, status in (
        ("serves another token of the same", idp.token(url), "POST", 200),
        ("is nobody's without a token", None, "POST", 401),
        ("is unknown to another", idp.forged(url, sub="another"), "POST", 404),
        ("is not another's to end", idp.forged(url, sub="another"), "DELETE", 404),
        ("is nobody's to end without a token", None, "DELETE", 401),
        ("gives nobody a stream without a token", None, "GET", 401),
        ("is still there", idp.token(url), "POST", 200),
    ):
        answer = send(token, "tools/list", session, verb)
        rows.add(answer.status == status, "session", f"{what}: {status}", answer)


def leaks(rows, where, rpc) -> None:
    """A server sees no caller's credential."""
    token = where.idp.token(where.robot)
    answer = rpc(where.robot, "tools/list", f"Bearer {token}", more={"X-Forwarded-Authorization": token})
    shown = [what for what in Spy.seen if token in what or "authorization" in what.lower()]
    good = answer.status == 200 and bool(Spy.seen) and not shown
    rows.add(good, "server", "sees no token of a caller", shown or "nothing arrived")


def away(parts, rows, place, where, servers: dict, rpc) -> None:
    """The authorization server is away: who was known stays known, and nobody else is let in or sent to log in."""
    idp, url = where.idp, where.robot
    fresh = place(parts, idp, servers)
    good, unknown, early = idp.token(url), idp.forged(url, header={"kid": "made-since"}), idp.token(fresh.robot)

    def call(token, at):
        started = time.monotonic()
        answer = rpc(at, "tools/call", f"Bearer {token}", "fast__add", arguments={"a": 2, "b": 3})
        rows.add(time.monotonic() - started < 15, "outage", "nobody waits", time.monotonic() - started)
        return answer

    answer = call(good, url)
    rows.add(answer.status == 200, "outage", "before it", answer)
    parts.stop(idp.part)
    answer = call(good, url)
    rows.add(answer.status == 200, "outage", "a key that is known is good", answer)
    answer = call(unknown, url)
    rows.add(answer.status in (401, 503), "outage", "an unknown key lets nobody in", answer)
    answer = call(early, fresh.robot)
    good = answer.status == 503 and "retry-after" in answer.headers
    rows.add(good, "outage", "without keys nobody is sent to log in", f"{answer} {answer.headers}")


def judge(parts, rows, place, servers: dict, rpc) -> None:
    spy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Spy)
    threading.Thread(target=spy.serve_forever, daemon=True).start()
    more = {**servers, "spy": {"url": f"http://127.0.0.1:{spy.server_port}/mcp"}}
    where = place(parts, Idp(parts), more)
    browsers(rows, where, rpc)
    sessions(rows, where)
    leaks(rows, where, rpc)
    away(parts, rows, place, where, servers, rpc)
    spy.shutdown()
