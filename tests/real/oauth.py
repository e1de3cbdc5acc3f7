"""Credentials with real parts: an authorization server, SDK clients that log in by themselves, machines, and tokens that
nobody should take, all against one gateway. One row for each check.
"""

import base64
import collections
import concurrent.futures
import json
import sys
import threading
import time
import urllib.request

import hostile
from cast import Client
from conformance import saved
from idp import Idp, ask
from parts import HERE, Parts, npm, place

READ, WRITE = "mcp.read", "mcp.write"
# What a token lives at least 30 s longer than it says: clocks differ.
LEEWAY = 30
LIFETIME = 10
ROTATION = 4
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

    def __init__(self, parts: Parts, idp: Idp, servers: dict, **issuer):
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
            auth={"issuers": [trusted], "egress": {"loopback": True}},
            default_task="support",
            tasks=tasks,
        )

    def metadata_url(self, endpoint: str) -> str:
        return f"{self.base}/.well-known/oauth-protected-resource{endpoint.removeprefix(self.base)}"


def rpc(url: str, method: str, authorization=None, name=None, **params):
    """One modern request as curl would send it."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
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


# ---------------------------------------------------------------- clients that log in


def people() -> list:
    """Every client in every era that it has: (client, whether it was registered beforehand)."""
    scripts, node = HERE / "clients", place("REAL_NODE")
    programs = [
        ("mcp-1.30", [place("PY_MCP1"), scripts / "login1.py"], ["legacy"]),
        ("mcp-2.3", [place("PY_MCP2"), scripts / "login2.py"], ["legacy", "auto", "modern"]),
        ("sdk-1.32", [node, scripts / "login1.mjs"], ["legacy"]),
        ("client-2.4", [node, scripts / "login2.mjs"], ["legacy", "auto", "modern"]),
    ]
    cast = [(Client(name, mode, command), False) for name, command, modes in programs for mode in modes]
    return cast + [(Client(name, modes[-1], command), True) for name, command, modes in programs]


class Person:
    """One client program on its way from the first 401 to a renewed token."""

    def __init__(self, where: Place, client: Client, known: bool, redirect: str):
        self.where, self.client = where, client
        self.name = f"{client}{' known' if known else ''}"
        self.login = {"name": self.name, "redirect": redirect}
        self.known = known

    def control(self, **set_) -> dict:
        return {"do": "post", "url": f"{self.where.idp.issuer}/control/client", "body": {"name": self.name, **set_}}

    def steps(self) -> list:
        """(what it shows, the step, what the texts of its result hold; None: it must fail; ...: its result is not judged)."""
        plus = {"do": "call", "name": "fast__add", "arguments": {"a": 2, "b": 3}}
        counting = {"do": "call", "name": "fast__count", "arguments": {"to": 3}}
        rotated = {"do": "post", "url": f"{self.where.idp.issuer}/control/rotated", "body": {}}
        # This SDK ends the whole session when it is refused for good.
        refused = [] if self.client.name == "mcp-1.30" else [("is refused a scope", counting, None)]
        # This SDK renews its token where it should ask for more scopes, and so can't step up: its user logs in again.
        again = [("logs out", {"do": "forget"}, ...)] if self.client.name == "sdk-1.32" else []
        return [
            ("lists tools", {"do": "tools"}, ...),
            ("calls a tool", plus, "5"),
            *refused,
            ("may have it now", self.control(deny=[], lifetime=LIFETIME), ...),
            *again,
            ("steps up", counting, "counted to 3"),
            ("the key is rotated", rotated, ...),
            ("calls with a token of the old key", plus, "5"),
            ("the token expires", {"do": "sleep", "seconds": LIFETIME + LEEWAY + 2}, ...),
            ("renews its token", plus, "5"),
            ("steps up for good", counting, "counted to 3"),
        ]

    def go(self, rows: Rows) -> None:
        idp, name = self.where.idp, self.name
        idp.control("client", name=name, deny=[WRITE])
        if self.known:
            self.login["client_id"] = idp.register(name, self.login["redirect"])
        steps = self.steps()
        done = self.client.run(self.where.person, [step for _, step, _ in steps], login=self.login)
        rows.add(done[0]["ok"], name, "logs in and connects", done[0].get("error"))
        if not done[0]["ok"]:
            return
        for (check, step, wanted), result in zip(steps, done[1:], strict=True):
            rows.add(matches(step, wanted, result), name, check, result)
        self.judge(rows, idp.events(name))

    def judge(self, rows: Rows, events: list) -> None:
        """What the authorization server saw."""

        def every(kind: str, **wanted) -> list:
            found = [event for event in events if event["kind"] == kind]
            return [event for event in found if all(event.get(key) == value for key, value in wanted.items())]

        name, resource = self.name, self.where.person
        asked, granted = every("asked"), every("granted")
        codes = every("granted", grant="authorization_code")
        rows.add(len(every("registered")) == 1, name, "registers once", events)
        rows.add(len(asked) >= 2 and asked == every("asked", pkce="S256"), name, "asks with PKCE", events)
        rows.add(len(codes) >= 2 and codes == every("granted", verifier=True), name, "proves its verifier", events)
        aimed = asked == every("asked", resource=resource) and granted == every("granted", resource=resource)
        rows.add(aimed, name, "names the resource", events)
        first, last = (set(event["scope"].split()) for event in (codes[0], codes[-1])) if codes else ((), ())
        rows.add(WRITE not in first and WRITE in last, name, "gets the scope only in the end", events)
        rows.add(bool(every("granted", grant="refresh_token")), name, "uses its refresh token", events)


def matches(step: dict, wanted, result: dict) -> bool:
    if wanted is None:
        return not result["ok"] and "in time" not in result["error"] and "Timeout" not in result["error"]
    if step["do"] == "tools":
        return result["ok"] and {"fast__add", "fast__count"} <= set(result["value"])
    if wanted is ...:
        return result["ok"]
    value = result.get("value", {})
    return result["ok"] and not value["error"] and any(wanted in text for text in value["texts"])


def logins(parts: Parts, rows: Rows, where: Place, patterns: list) -> None:
    chosen = [
        Person(where, client, known, f"http://127.0.0.1:{parts.free_port()}/callback")
        for client, known in people()
        if not patterns or any(pattern in str(client) for pattern in patterns)
    ]
    done = threading.Event()

    def rotate():
        while not done.wait(ROTATION):
            where.idp.control("rotate")

    with concurrent.futures.ThreadPoolExecutor(len(chosen) + 1) as pool:
        rotating = pool.submit(rotate)
        try:
            for task in [pool.submit(person.go, rows) for person in chosen]:
                task.result()
        finally:
            done.set()
        rotating.result()


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
        good = told.get("authorization_servers") == [where.idp.issuer] and {READ, WRITE} <= set(told["scopes_supported"])
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
    patterns = [word for word in words if word not in ("machines", "opaque", "stand-in", "logins")]
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
        if wanted("opaque"):
            opaque(parts, rows, idp, servers)
        if wanted("logins") or patterns:
            logins(parts, rows, where, patterns)
        if rows.counts["failed"]:
            print(f"the last that the gateway said:\n{where.part.tail()}")
    print(f"{rows.counts['passed']} passed, {rows.counts['failed']} failed")
    return 1 if rows.counts["failed"] or not rows.counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
