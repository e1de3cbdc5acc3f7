"""Clients that log in by themselves: SDKs with their own OAuth flow, from the first 401 to a renewed token."""

import concurrent.futures
import threading

from cast import Client
from parts import HERE, Parts, place

WRITE = "mcp.write"
# A token lives so much longer than it says, since clocks differ.
LEEWAY = 30
LIFETIME = 10
ROTATION = 4


def everybody() -> list:
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

    def __init__(self, where, client: Client, known: bool, redirect: str):
        self.where, self.client = where, client
        self.name = f"{client}{' known' if known else ''}"
        self.login = {"name": self.name, "redirect": redirect}
        self.known = known

    def control(self, **set_) -> dict:
        return {"do": "post", "url": f"{self.where.idp.issuer}/control/client", "body": {"name": self.name, **set_}}

    def steps(self) -> list:
        """(what it shows, the step, what the texts of its result hold; None: it must fail; ...: any result)."""
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

    def go(self, rows) -> None:
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

    def judge(self, rows, events: list) -> None:
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


def address(parts: Parts) -> str:
    return f"http://127.0.0.1:{parts.free_port()}/callback"


def come_and_go(parts: Parts, rows, where) -> None:
    """Each client registers, logs in and calls a tool."""
    plus = {"do": "call", "name": "fast__add", "arguments": {"a": 2, "b": 3}}
    for client, known in everybody():
        if known:
            continue
        login = {"name": str(client), "redirect": address(parts)}
        done = client.run(where.person, [plus], login=login)
        good = done[0]["ok"] and matches(plus, "5", done[1])
        rows.add(good, client, "registers, logs in and calls", done)


def look_up(parts: Parts, rows, where) -> None:
    """A client whose tokens are opaque."""
    client = next(client for client, _ in everybody() if str(client) == "client-2.4 modern")
    where.idp.control("client", name="reader", format="opaque")
    plus = {"do": "call", "name": "fast__add", "arguments": {"a": 2, "b": 3}}
    done = client.run(where.person, [plus], login={"name": "reader", "redirect": address(parts)})
    seen = any(event.get("type") == "opaque" for event in where.idp.events("reader"))
    rows.add(seen and done[0]["ok"] and matches(plus, "5", done[1]), "opaque token", "of a person is looked up", done)


def log_in(parts: Parts, rows, where, patterns: list) -> None:
    """All that a client does, for all clients or those whose names hold one of the patterns."""
    chosen = [
        Person(where, client, known, address(parts))
        for client, known in everybody()
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
