"""Every real client against every real server, all servers behind one gateway at /mcp.

What a client sees through the gateway is compared with what it sees directly. One row for each check.
"""

import collections
import fnmatch
import sys

from cast import Inspector, asked, clients, servers
from parts import Parts

KINDS = ("tools", "prompts", "resources", "templates")
# What the Inspector's command line is asked: it needs a process for each step.
FEW = ("everything-http", "rmcp-modern", "time", "fast")
# Behind the gateways with another placement of the meter; tools of `fast` have output schemas, which clients check.
METERED = ("rmcp-modern", "rmcp-legacy", "fast")


def exposed(server: str, kind: str, name: str) -> str:
    """The name that the gateway shows for a server's own."""
    return f"{server}__{name}" if kind in ("tools", "prompts") else f"{server}+{name}"


def through(server: str, step: dict) -> dict:
    """The same step, asked of the gateway."""
    kinds = {"call": "tools", "prompt": "prompts", "read": "resources"}
    field = {"call": "name", "prompt": "name", "read": "uri"}
    changed = dict(step)
    if step["do"] in field:
        name = field[step["do"]]
        changed[name] = exposed(server, kinds[step["do"]], step[name])
    for name, kind in (("prompt", "prompts"), ("template", "templates")):
        if step["do"] == "complete" and name in step:
            changed[name] = exposed(server, kind, step[name])
    return changed


class Rows:
    def __init__(self):
        self.counts = collections.Counter()

    def add(self, good: bool, client, check: str, why: str = "") -> None:
        self.counts["passed" if good else "failed"] += 1
        why = "" if good else f"\n      {why}"
        print(f"{'pass' if good else 'FAIL':5} {str(client):18} {check}{why}", flush=True)


def listing(client, target, kinds=KINDS) -> dict:
    """What a client lists of one server directly. A server without a kind of thing lists none of it."""
    done = client.run(target, [{"do": kind} for kind in kinds])
    if not done[0]["ok"]:
        raise RuntimeError(f"{client} can't reach {target} directly: {done[0]['error']}")
    return {
        kind: result.get("value", []) if result["ok"] else [] for kind, result in zip(kinds, done[1:], strict=True)
    }


def compare(rows: Rows, client, kind: str, wanted: dict, result: dict) -> None:
    """One row for each server: the gateway lists exactly what the server does."""
    listed = result.get("value", []) if result["ok"] else []
    for server, names in wanted.items():
        want = [exposed(server, kind, name) for name in names]
        got = [name for name in listed if name.startswith(exposed(server, kind, ""))]
        missing, more = sorted(set(want) - set(got)), sorted(set(got) - set(want))
        why = result.get("error") or f"{len(got)} of {len(want)}; missing {missing}, too many {more}"
        good = result["ok"] and not missing and not more and len(got) == len(want)
        rows.add(good, client, f"{kind} of {server}: {len(want)}", why[:700])


def judge(rows: Rows, client, server: str, item: dict, result: dict) -> None:
    step, value = item["step"], result.get("value", {})
    name = step.get("name") or step.get("uri") or step.get("prompt") or step.get("template")
    check = f"{step['do']} {server} {name}"
    if not result["ok"]:
        return rows.add(False, client, check, result["error"])
    found = value.get("values") if step["do"] == "complete" else value.get("texts")
    if not any(item["expect"] in text for text in found):
        return rows.add(False, client, check, f"{item['expect']!r} is not in {found}"[:500])
    heard, wanted = value.get("progress", 0), item.get("progress", 0)
    if heard < wanted and not isinstance(client, Inspector):
        return rows.add(False, client, check, f"heard of progress {heard} times, not {wanted}")
    failed = step.get("name") == "test_error_handling"
    if value.get("error", False) != failed:
        return rows.add(False, client, check, f"isError is {not failed}: {found}"[:500])
    return rows.add(True, client, check)


def unknown(rows: Rows, client, name: str, result: dict) -> None:
    """An unknown tool is an error, as a protocol error or a result; never a hang and never a success."""
    told = not result["ok"] and not any(word in result["error"] for word in ("in time", "within", "Timeout"))
    refused = told or result.get("value", {}).get("error") is True
    rows.add(refused, client, f"unknown tool {name}", str(result)[:500])


def plan(client, cast: dict, questions: dict) -> list:
    """All that this client is asked to do: (kind of check, server, item, step)."""
    few = isinstance(client, Inspector)
    steps = [("list", kind, None, {"do": kind}) for kind in KINDS]
    for server in cast:
        items = [item for item in questions[server] if not (few and item["step"]["do"] == "complete")]
        if few:
            items = items[:1] + [item for item in items[1:] if item["step"]["do"] in ("read", "prompt")]
        if few and server not in FEW:
            continue
        steps += [("item", server, item, through(server, item["step"])) for item in items]
    for name in ("rmcp-modern__no-such-tool", "no-such-server__tool", "notool"):
        steps.append(("unknown", name, None, {"do": "call", "name": name}))
    return steps


def play(rows: Rows, client, url: str, cast: dict, base: dict, questions: dict) -> None:
    # What server-everything lists depends on what the client can do, so each client asks it itself.
    own = listing(client, cast["everything-http"].direct) if client.mode != "modern" else None
    steps = plan(client, cast, questions)
    done = client.run(url, [step for *_, step in steps])
    rows.add(done[0]["ok"], client, "connects", done[0].get("error", ""))
    if not done[0]["ok"]:
        return
    for (kind, about, item, _), result in zip(steps, done[1:], strict=True):
        if kind == "list":
            wanted = {name: base[server.like or name][about] for name, server in cast.items()}
            for name in ("everything-stdio", "everything-http", "everything-sse"):
                wanted[name] = own[about] if own else client.own[about]
            compare(rows, client, about, wanted, result)
        elif kind == "item":
            judge(rows, client, about, item, result)
        else:
            unknown(rows, client, about, result)


def placed(rows: Rows, client, gateway: tuple, questions: dict) -> None:
    """Results parse and validate wherever the meter stands; the matrix itself runs with the default."""
    placement, url = gateway
    asked_of = [(name, item) for name in METERED for item in questions[name] if item["step"]["do"] != "complete"]
    # The list comes first: it says which arguments are mirrored into headers.
    steps = [{"do": "tools"}, *(through(name, item["step"]) for name, item in asked_of)]
    done = client.run(f"{url}/mcp", steps)
    rows.add(done[0]["ok"], client, f"connects, meter {placement}", done[0].get("error", ""))
    if done[0]["ok"]:
        for (name, item), result in zip(asked_of, done[2:], strict=True):
            judge(rows, client, f"{name} (meter {placement})", item, result)


def with_own_lists(cast: dict, players: list, everybody: list) -> None:
    """A client pinned to the modern era can't ask a legacy server; its twin in the legacy era can."""
    twins = {client.name: client for client in everybody if client.mode == "legacy"}
    for client in players:
        if client.mode == "modern":
            client.own = listing(twins[client.name], cast["everything-http"].direct)


def main() -> int:
    patterns = sys.argv[1:] or ["*"]
    rows = Rows()
    with Parts() as parts:
        cast, everybody = servers(parts), clients(parts)
        players = [who for who in everybody if any(fnmatch.fnmatch(str(who), f"*{p}*") for p in patterns)]
        asker = next(client for client in everybody if str(client) == "mcp-2.3 auto")
        base = {name: listing(asker, server.direct) for name, server in cast.items() if not server.like}
        with_own_lists(cast, players, everybody)
        gateway, url = parts.gateway({name: server.gateway for name, server in cast.items()})
        for client in players:
            play(rows, client, f"{url}/mcp", cast, base, asked(parts.folder))
        for placement in ("meta", "off"):
            servers_of = {name: cast[name].gateway for name in METERED}
            _, other = parts.gateway(servers_of, meter={"placement": placement})
            for client in players:
                if not isinstance(client, Inspector):
                    placed(rows, client, (placement, other), asked(parts.folder))
        if rows.counts["failed"]:
            print(f"the last that the gateway said:\n{gateway.tail()}")
    print(f"{rows.counts['passed']} passed, {rows.counts['failed']} failed")
    return 1 if rows.counts["failed"] or not players else 0


if __name__ == "__main__":
    sys.exit(main())
