"""The official conformance suite: against the fixture directly, then with the gateway in between.

What passes directly must pass through the gateway, save what open-scenarios.yaml names.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys

import yaml

from idp import Idp
from parts import HERE, Parts, npm, place

REVISIONS = ("2025-11-25", "2026-07-28")
# The scenarios of the client leg that a gateway can have a part in: the others of auth/ are about people who log in.
CLIENT_LEG = {
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
        "auth/client-credentials-basic",
    ],
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
        "sep-2322-client-request-state",
        "auth/client-credentials-basic",
    ],
}
BAD = ("FAILURE", "WARNING")


class Scenario:
    """The checks of one scenario in one run."""

    def __init__(self, checks: list):
        self.checks = checks
        self.good = {check["id"] for check in checks if check["status"] == "SUCCESS"}
        self.bad = [check for check in checks if check["status"] in BAD]

    def wrong(self, direct: "Scenario") -> dict:
        """What keeps this run from passing, by check: what failed, and what is missing or skipped that
        the direct run could check."""
        missing = {name: "not checked" for name in sorted(direct.good - self.good)}
        return missing | {check["id"]: check.get("errorMessage", check["status"]) for check in self.bad}


def suite(*arguments, env=None) -> str:
    """Runs the suite's command and returns what it wrote; its exit code is not a verdict."""
    command = [place("REAL_NODE"), npm("@modelcontextprotocol", "conformance", "dist", "index.js"), *arguments]
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **(env or {})},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        check=False,
    )
    return done.stdout


def server_run(parts: Parts, label: str, url: str, revision: str) -> dict:
    folder = parts.folder / f"server-{label}-{revision}"
    said = suite("server", "--url", url, "--requirements", revision, "-o", folder, "--timeout", "90000")
    found = {re.sub("^server-", "", name, count=1): value for name, value in saved(folder).items()}
    if not found:
        raise RuntimeError(f"the suite saved nothing:\n{said[-3000:]}")
    return found


def saved(folder: pathlib.Path) -> dict:
    """What a run saved: the scenarios by the name of their folder, without its time."""
    found = {}
    for file in sorted(folder.glob("**/checks.json")):
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", file.parent.name)
        found[name] = Scenario(json.loads(file.read_text()))
    return found


def required(revision: str) -> list:
    """The scenarios that the suite itself says a server of this revision must pass."""
    file = npm("@modelcontextprotocol", "conformance", "requirements", f"{revision}.yaml")
    return yaml.safe_load(pathlib.Path(file).read_text())["server"]


def client_run(parts: Parts, label: str, scenario: str, revision: str, direct: bool) -> Scenario:
    folder = parts.folder / f"client-{label}-{revision}-{scenario.replace('/', '-')}"
    hook = f"{sys.executable} {HERE / 'leg_hook.py'}"
    said = suite(
        *("client", "--command", hook, "--scenario", scenario, "--spec-version", revision),
        *("-o", folder, "--timeout", "90000"),
        # Extensions belong to no revision.
        *(["--force"] if scenario.startswith("auth/") else []),
        env={"LEG_DIRECT": "1" if direct else ""},
    )
    for result in saved(folder).values():
        if "CLIENT EXITED WITH ERROR" in said:
            result.bad.append({"id": "client", "status": "FAILURE", "errorMessage": said[-1500:]})
        return result
    raise RuntimeError(f"the suite saved nothing for {scenario}:\n{said[-3000:]}")


class Judge:
    """Prints a row for each scenario and counts; knows which ones may fail."""

    def __init__(self, open_scenarios: dict):
        self.open = open_scenarios
        self.counts = collections.Counter()

    def row(self, verdict: str, where: str, scenario: str, why: str = "") -> None:
        self.counts["failed" if verdict == "FAIL" else verdict] += 1
        print(f"{verdict:5} {where:32} {scenario}" + (f"\n      {why}" if why else ""), flush=True)

    def direct(self, where: str, scenario: str, result: Scenario) -> bool:
        """A direct run has to pass: otherwise nothing is proven by the gateway's."""
        wrong = result.wrong(result)
        self.row("FAIL" if wrong else "pass", where, scenario, told(wrong))
        return not wrong

    def through(self, leg: str, revision: str, label: str, scenario: str, result, direct: Scenario) -> None:
        where, unchecked = f"{leg} {revision} {label}", self.open["unchecked"]
        wrong = {
            name: why
            for name, why in result.wrong(direct).items()
            if not (why == "not checked" and name in unchecked)
        }
        wrong |= {name: "is checked after all" for name in result.good & unchecked.keys()}
        listed = self.open.get(leg, {}).get(revision, {}).get(scenario)
        if listed is None:
            return self.row("FAIL" if wrong else "pass", where, scenario, told(wrong))
        # An entry may name the only checks that are still open; then the others must pass.
        reason, checks = (listed["reason"], listed["checks"]) if isinstance(listed, dict) else (listed, wrong)
        for name in checks if isinstance(listed, dict) else [scenario][: not wrong]:
            if name not in wrong:
                return self.row("FAIL", where, scenario, f"{name} passes, so it must leave the list ({reason})")
        beyond = {name: why for name, why in wrong.items() if name not in checks}
        return self.row("FAIL" if beyond else "open", where, scenario, told(beyond) or f"{reason}: {told(wrong)}")


def told(wrong: dict) -> str:
    return "; ".join(f"{name}: {why}" for name, why in wrong.items())[:600]


def demanding(parts: Parts, server: dict) -> tuple:
    """A gateway that wants an access token, behind a shim that adds one since the suite can't: the processes and
    the shim's URL."""
    idp, port = Idp(parts), parts.free_port()
    resource = f"http://127.0.0.1:{port}/servers/fixture/mcp"
    gateway, base = parts.gateway(
        {"fixture": server},
        listen=f"127.0.0.1:{port}",
        auth={"issuers": [{"issuer": idp.issuer, "audience": resource}], "egress": {"loopback": True}},
    )
    token = {"TARGET": base, "AUTHORIZATION": f"Bearer {idp.token(resource)}"}
    shim = parts.start("shim", [place("REAL_NODE"), HERE / "shim.mjs"], env=token)
    return gateway, idp.part, shim, shim.line("listening on ")


def server_leg(parts: Parts, judge: Judge) -> None:
    fixture, url = parts.fixture()
    behind = {
        "http": {"url": url},
        "stdio": {"command": place("FIXTURE_SERVER"), "args": ["--stdio"]},
        "credential": {"url": url},
    }
    for revision in REVISIONS:
        direct = server_run(parts, "direct", url, revision)
        for scenario in required(revision):
            if scenario not in direct:
                judge.row("FAIL", f"server {revision} direct", scenario, "was not run")
        passing = {
            name: result
            for name, result in direct.items()
            if judge.direct(f"server {revision} direct", name, result)
        }
        for label, server in behind.items():
            started = demanding(parts, server) if label == "credential" else parts.gateway({"fixture": server})
            found = server_run(parts, label, f"{started[-1]}/servers/fixture/mcp", revision)
            for name, result in passing.items():
                judge.through("server", revision, label, name, found.get(name, Scenario([])), result)
            for part in started[:-1]:
                parts.stop(part)
    parts.stop(fixture)


def client_leg(parts: Parts, judge: Judge) -> None:
    for revision, scenarios in CLIENT_LEG.items():
        for scenario in scenarios:
            direct = client_run(parts, "direct", scenario, revision, True)
            if judge.direct(f"client {revision} direct", scenario, direct):
                found = client_run(parts, "gateway", scenario, revision, False)
                judge.through("client", revision, "gateway", scenario, found, direct)


def main() -> int:
    legs = sys.argv[1:] or ["server", "client"]
    judge = Judge(yaml.safe_load((HERE / "open-scenarios.yaml").read_text()))
    with Parts() as parts:
        if "server" in legs:
            server_leg(parts, judge)
        if "client" in legs:
            client_leg(parts, judge)
    counts = judge.counts
    print(f"{counts['pass']} passed, {counts['failed']} failed, {counts['open']} open")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
