"""Credentials with real parts: an authorization server, SDK clients that log in by themselves, machines, tokens that
nobody should take. One row for each check.
"""

import base64
import collections
import json
import sys
import threading
import time
import urllib.parse
import urllib.request

import conduct
import hostile
import people
from conformance import saved
from idp import Idp, ask
from parts import HERE, Parts, npm, place

READ, WRITE = "mcp.read", "mcp.write"
# The gateway doesn't fetch keys more often than this.
COOLDOWN = 1
MODERN = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}


class Rows:
    """Prints a row for each check, and counts."""

    def __init__(self):
        self.counts, self.alone = collections.Counter(), threading.Lock()

    def add(self, good: bool, about, check: str, why="") -> None:
        with self.alone:
            self.counts["passed" if good else "failed"] += 1
            why = "" if good else f"\n      {str(why)[:900]}"
            print(f"{'pass' if good else 'FAIL':5} {str(about):26} {check}{why}", flush=True)


class Place:
    """The gateway under test: its base URL, endpoints, and the authorization server that it trusts."""

    def __init__(self, parts: Parts, idp: Idp, servers: dict, shim=None, **issuer):
        port = parts.free_port()
        self.idp, self.base = idp, f"http://127.0.0.1:{port}"
        self.person, self.robot = f"{self.base}/mcp", f"{self.base}/tasks/robot/mcp"
        scopes = {"*": READ, "fast__count": WRITE}
        tasks = {
            "support": {"principals": {"groups": ["support"]}, "allow": ["fast__*"], "scopes": scopes},
            "robot": {"principals": {"clients": ["robot"]}, "allow": ["fast__*"], "scopes": scopes},
        }
        trusted = {
            "issuer": idp.issuer,
            "audience": [self.person, self.robot],
            "scopes": [READ, WRITE],
            "implies": {WRITE: [READ]},
            "profile": "rfc9068",
            "claims": {"groups": "groups"},
            "jwks_cooldown": f"{COOLDOWN}s",
            **issuer,
        }
        self.part, _ = parts.gateway(
            servers,
            listen=f"127.0.0.1:{port}",
            auth={"issuers": [trusted], "egress": {"loopback": True}, **({"registration_shim": shim} if shim else {})},
            default_task="support",
            origins=[conduct.APP],
            tasks=tasks,
        )

    def metadata_url(self, endpoint: str) -> str:
        return f"{self.base}/.well-known/oauth-protected-resource{endpoint.removeprefix(self.base)}"


def rpc(url: str, method: str, authorization=None, name=None, more=None, **params):
    """One modern request as curl would send it, with `more` headers."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
        **(more or {}),
    }
    if name:
        headers["Mcp-Name"], body["params"]["name"] = name, name
    if authorization is not None:
        headers["Authorization"] = authorization
    return ask(url, json.dumps(body).encode(), headers)


def add(url: str, token: str):
    return rpc(url, "tools/call", f"Bearer {token}", "fast__add", arguments={"a": 2, "b": 3})


def count(url: str, token: str):
    return rpc(url, "tools/call", f"Bearer {token}", "fast__count", arguments={"to": 3})


# ---------------------------------------------------------------- machines


def machines(rows: Rows, where: Place) -> None:
    idp, url = where.idp, where.robot
    read, write = idp.token(url), idp.token(url, WRITE)

    def check(what: str, answer, good: bool) -> None:
        rows.add(good, "machine", what, answer)

    answer = add(url, read)
    check("calls a tool", answer, answer.status == 200 and b'"5"' in answer.body)
    listed = rpc(url, "tools/list", f"Bearer {read}")
    check("lists what it could step up to", listed, listed.status == 200 and b"fast__count" in listed.body)
    refused = count(url, read)
    named = refused.challenge()
    good = refused.status == 403 and named.get("error") == "insufficient_scope"
    check("is told every scope that it lacks", refused, good and {READ, WRITE} <= set(named["scope"].split()))
    wanted = where.metadata_url(url)
    check("is told where the metadata is", refused, named.get("resource_metadata") == wanted)
    answer = count(url, write)
    check("calls with the scope", answer, answer.status == 200 and b"counted to 3" in answer.body)
    answer = add(url, write)
    check("has what the scope implies", answer, answer.status == 200 and b'"5"' in answer.body)
    answer = rpc(where.person, "tools/list", f"Bearer {idp.token(where.person)}")
    check("may not use another task", answer, answer.status == 403 and b"fast__" not in answer.body)
    documents(check, where)


def documents(check, where: Place) -> None:
    """What is told to everybody."""
    for endpoint in (where.person, where.robot):
        answer = ask(where.metadata_url(endpoint))
        told = answer.json() if answer.status == 200 else {}
        check(f"metadata names {endpoint.removeprefix(where.base)}", answer, told.get("resource") == endpoint)
        issuers, scopes = told.get("authorization_servers"), set(told.get("scopes_supported", ()))
        good = issuers == [where.idp.issuer] and {READ, WRITE} <= scopes
        check("metadata names issuer and scopes", answer, good and told["bearer_methods_supported"] == ["header"])
    answer = ask(f"{where.base}/.well-known/oauth-protected-resource")
    check("metadata at the root", answer, answer.status == 200 and answer.json()["resource"] == where.person)
    for name in ("oauth-authorization-server", "openid-configuration"):
        answer = ask(f"{where.base}/.well-known/{name}")
        check(f"serves no {name}", answer, answer.status == 404)


def rotations(rows: Rows, where: Place) -> None:
    """Tokens from before a rotation and from after it, through both algorithms."""
    idp, url = where.idp, where.robot
    for number in (1, 2, 3):
        time.sleep(1.5 * COOLDOWN)
        old = idp.token(url)
        idp.control("rotate")
        alg = json.loads(decoded(idp.token(url).split(".")[0]))["alg"]
        for what, token in (("old", old), (f"new {alg}", idp.token(url))):
            answer = add(url, token)
            rows.add(answer.status == 200, "machine", f"rotation {number}: a token of the {what} key", answer)


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def opaque(parts: Parts, rows: Rows, idp: Idp, servers: dict) -> None:
    """Tokens that say nothing: the gateway asks the authorization server."""
    secret = parts.folder / "introspection-secret"
    secret.write_text("secret of gateway")
    client = {"client_id": "gateway", "client_secret": f"file:{secret}"}
    where = Place(parts, idp, servers, introspection=client, profile="plain")
    people.look_up(parts, rows, where)
    idp.control("client", name="robot", format="opaque")
    read, gone, other = (idp.token(url) for url in (where.robot, where.robot, "http://127.0.0.1:1/mcp"))
    idp.control("client", name="robot", format="jwt")
    idp.machine("/token/revocation", token=gone)
    for what, token, status in (
        ("is looked up", read, 200),
        ("is looked up again", read, 200),
        ("is refused once revoked", gone, 401),
        ("is refused for another resource", other, 401),
        ("is refused if nobody knows it", "nobody-knows-this-token", 401),
    ):
        answer = add(where.robot, token)
        rows.add(answer.status == status and "." not in token, "opaque token", what, answer)
    answer = count(where.robot, read)
    rows.add(answer.challenge().get("error") == "insufficient_scope", "opaque token", "holds its scopes", answer)


def by_hand(parts: Parts, rows: Rows, servers: dict) -> None:
    """An authorization server that registers nobody, and the gateway's shim for it."""
    idp = Idp(parts, registers=False)
    shim = {"issuer": idp.issuer, "client_id": "by-hand", "redirect_uris": ["http://127.0.0.1/callback"]}
    where = Place(parts, idp, servers, shim=shim)
    people.come_and_go(parts, rows, where)
    answer = ask(f"{where.base}/.well-known/oauth-authorization-server")
    rows.add(answer.status == 404, "registration shim", "stays under its own path", answer)
    bad = json.dumps({"redirect_uris": ["https://elsewhere.example.com/callback"]}).encode()
    told = ask(where.metadata_url(where.person)).json()["authorization_servers"]
    url = urllib.parse.urlsplit(told[0])
    metadata = ask(f"{where.base}/.well-known/oauth-authorization-server{url.path}").json()
    answer = ask(metadata["registration_endpoint"], bad, {"Content-Type": "application/json"})
    refused = answer.status == 400 and answer.json()["error"] == "invalid_redirect_uri"
    rows.add(refused, "registration shim", "refuses another redirect URI", answer)


def stand_in(parts: Parts, rows: Rows, idp: Idp) -> None:
    """The conformance suite's judgement of the authorization server: what the rest proves rests on it."""
    folder, port = parts.folder / "authorization", parts.free_port()
    client = idp.register("suite", f"http://127.0.0.1:{port}/callback")
    judging = parts.start(
        "suite",
        [
            *(place("REAL_NODE"), npm("@modelcontextprotocol", "conformance", "dist", "index.js")),
            *("authorization", "--url", idp.issuer, "--client-id", client, "--resource", f"{idp.issuer}/mcp"),
            *("--port", port, "-o", folder, "--spec-version", MODERN),
        ],
    )
    page = f"{idp.issuer}/auth"
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    browser.open(page + judging.line(page), timeout=60).close()
    judging.process.wait(60)
    for scenario, result in saved(folder).items():
        about = f"authorization server {scenario}"
        rows.add(bool(result.good) and not result.bad, "suite", about, result.checks)
    rows.add(len(saved(folder)) == 2, "suite", "judges the authorization server", judging.lines)


def main() -> int:
    words = sys.argv[1:]
    wanted = lambda part: not words or part in words  # noqa: E731
    patterns = [word for word in words if word not in ("machines", "opaque", "stand-in", "conduct", "shim", "logins")]
    rows = Rows()
    with Parts() as parts:
        port = parts.free_port()
        parts.start("fast", [place("PY_MCP2"), HERE / "servers" / "fast.py", port]).port(port)
        servers = {"fast": {"url": f"http://127.0.0.1:{port}/mcp"}}
        idp = Idp(parts)
        where = Place(parts, idp, servers)
        if wanted("stand-in"):
            stand_in(parts, rows, idp)
        if wanted("machines"):
            machines(rows, where)
            hostile.judge(rows, where, Idp(parts), rpc)
            rotations(rows, where)
        if wanted("conduct"):
            conduct.judge(parts, rows, Place, servers, rpc)
        if wanted("opaque"):
            opaque(parts, rows, idp, servers)
        if wanted("shim"):
            by_hand(parts, rows, servers)
        if wanted("logins") or patterns:
            people.log_in(parts, rows, where, patterns)
        if rows.counts["failed"]:
            print(f"the last that the gateway said:\n{where.part.tail()}")
    print(f"{rows.counts['passed']} passed, {rows.counts['failed']} failed")
    return 1 if rows.counts["failed"] or not rows.counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
