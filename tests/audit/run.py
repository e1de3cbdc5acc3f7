#!/usr/bin/env python3
"""A run's receipt by audit/FORMAT.md, section 9.1, and nothing else of the project. It reads records and proves nothing: verify first.

    run.py RUN DIR...

Each DIR is a journal's directory or one log's. One line for each principal and task that used the run's id.
"""

import base64
import hashlib
import json
import os
import sys

from stored import NAME, WHOLE, lines, number, parse

WHO = ("client", "iss", "sub", "tenant")
SAFE = (1 << 53) - 1


def text(record, member):
    value = record.get(member, "")
    return value if isinstance(value, str) else ""


def canonical(value) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def integer(value):
    return value if value <= SAFE else str(value)


def logs(directory):
    """The directories of single logs."""
    names = sorted(os.listdir(directory))
    if any(name == "keys" or name.endswith(".log") for name in names):
        return [directory]
    inside = (os.path.join(directory, name) for name in names)
    return [path for path in inside if os.path.isdir(path) and any(n.endswith(".log") for n in os.listdir(path))]


def records(log, run):
    """The run's records of a log with their leaf hashes, in order."""
    files = [(name.partition("."), name) for name in os.listdir(log)]
    segments = sorted((int(n), name) for (n, _, kind), name in files if kind == "log" and NAME.fullmatch(n))
    for _, name in segments:
        for state, body, _ in lines(os.path.join(log, name)):
            record = parse(body) if state == WHOLE else None
            if record is not None and record.get("run") == run:
                yield record, hashlib.sha256(b"\0" + body).digest()


class Log:
    """What one log tells of a run."""

    def __init__(self):
        self.head, self.last, self.leaf, self.updated = bytes(32), 0, b"", ""
        self.calls = self.refused = self.open = 0
        self.servers, self.degraded, self.decided = {}, set(), None

    def add(self, record, leaf):
        kind = record.get("kind")
        if kind == "intent":
            self.calls, self.open = self.calls + 1, self.open + 1
        elif kind == "outcome":
            self.ended(record)
        elif kind == "denied":
            self.refused += 1
        elif kind == "question":
            self.decided = (text(record, "ts"), "input_required")
        self.head = hashlib.sha256(self.head + leaf).digest()
        self.last, self.leaf, self.updated = number(record["seq"]), leaf, text(record, "ts")

    def ended(self, record):
        self.open = max(self.open - 1, 0)
        server, outcome = text(record, "server"), record.get("outcome")
        status = {"ok": "completed", "tool_error": "completed", "refused": "completed", "cancelled": "cancelled"}
        status = status.get(outcome, "failed")
        if status == "failed":
            self.degraded.add(server)
        elif status == "completed":
            self.degraded.discard(server)
        calls, cost = self.servers.get(server, (0, 0))
        self.servers[server] = (calls + 1, cost + (number(record.get("cost_nanousd")) or 0))
        self.decided = (text(record, "ts"), status)


def status_of(held):
    if any(log.open for log in held.values()):
        return "working"
    decided = [(log.decided[0], name, log.decided[1]) for name, log in held.items() if log.decided]
    if decided:
        return max(decided)[2]
    return "failed" if any(log.refused for log in held.values()) else "completed"


def receipt(identity, held) -> bytes:
    servers = {}
    for log in held.values():
        for server, (calls, cost) in log.servers.items():
            had = servers.get(server, (0, 0))
            servers[server] = (had[0] + calls, had[1] + cost)
    heads = b"".join(name.encode() + b"\n" + held[name].head for name in sorted(held, key=str.encode))
    body = canonical({
        "calls": integer(sum(log.calls for log in held.values())),
        "chainHead": {name: {"leaf": log.leaf.hex(), "seq": integer(log.last)} for name, log in held.items()},
        "cost_nanousd": integer(sum(cost for _, cost in servers.values())),
        "degraded": sorted(set().union(*(log.degraded for log in held.values())), key=str.encode),
        "journalHead": hashlib.sha256(b"dev.tollgate/audit/run/v1\n" + heads).hexdigest(),
        "principal": {member: identity[member] for member in WHO if identity[member]},
        "refused": integer(sum(log.refused for log in held.values())),
        "run": identity["run"],
        "servers": {s: {"calls": integer(n), "cost_nanousd": integer(cost)} for s, (n, cost) in servers.items()},
        "status": status_of(held),
        "task": identity["task"],
        "updated": max(log.updated for log in held.values()),
        "v": 1,
    })
    named = canonical({member: value for member, value in identity.items() if value})
    token = base64.urlsafe_b64encode(named).rstrip(b"=")
    proof = hashlib.sha256(b"dev.tollgate/audit/run-receipt/v1\n" + body).hexdigest()
    return body[:-1] + b',"pollToken":"' + token + b'","receiptHash":"' + proof.encode() + b'"}'


def receipts(run, directories):
    """All receipts of a run's id, by task and principal."""
    runs = {}
    for log in {os.path.realpath(log) for directory in directories for log in logs(directory)}:
        for record, leaf in records(log, run):
            key = (text(record, "task"), *(text(record, member) for member in WHO))
            runs.setdefault(key, {}).setdefault(text(record, "log"), Log()).add(record, leaf)
    for task, *who in sorted(runs):
        identity = {**dict(zip(WHO, who)), "run": run, "task": task}
        yield receipt(identity, runs[(task, *who)])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    for line in receipts(sys.argv[1], sys.argv[2:]):
        sys.stdout.buffer.write(line + b"\n")
