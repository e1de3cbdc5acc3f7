"""Metrics and traces with real parts: Prometheus scrapes the gateway under load from an SDK client, and its answers are
what the client saw; a real OTLP receiver gets spans over gRPC and HTTP, and they are what the journal says.
"""

import asyncio
import collections
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from mcp.client import Client
from oauth import Rows
from otlp import Collector
from parts import HERE, Parts, place

FILES = HERE.parent.parent / "metrics"
DASHBOARD = FILES / "grafana" / "tollgate.json"
RULES = [FILES / "prometheus" / name for name in ("recording.yml", "alerts.yml")]
PRICE = 2_000_000
# In the form of a GitHub token, with its checksum.
SECRET = f"ghp_{'a1B2' * 7}a13tNSQc"
MODERN = "2026-07-28"
PATIENCE = 40
LIMITED = 3


def get(url: str, accept: str = "*/*") -> str:
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=10) as answer:
        return answer.read().decode()


def until(what, check, patience=PATIENCE):
    """Asks again until the answer is good; gives the last answer."""
    end = time.monotonic() + patience
    while True:
        good, seen = check()
        if good or time.monotonic() > end:
            return good, f"{what}: {seen}"
        time.sleep(0.2)


class Prometheus:
    """A Prometheus that scrapes each second."""

    def __init__(self, parts: Parts, target: str):
        self.port = parts.free_port()
        folder = parts.folder / "prometheus"
        folder.mkdir()
        config = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules) for rules in RULES],
            "scrape_configs": [{"job_name": "tollgate", "static_configs": [{"targets": [target]}]}],
        }
        file = folder / "prometheus.yml"
        file.write_text(json.dumps(config))
        command = ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder}/data"]
        command += [f"--web.listen-address=127.0.0.1:{self.port}", "--enable-feature=exemplar-storage"]
        self.part = parts.start("prometheus", command)
        self.part.port(self.port)

    def api(self, path: str, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            return json.loads(get(url))["data"]
        except urllib.error.HTTPError as error:
            return {"result": [], "error": error.read().decode()}

    def query(self, expression: str) -> list:
        return self.api("query", query=expression)["result"]

    def value(self, expression: str):
        found = self.query(expression)
        return float(found[0]["value"][1]) if len(found) == 1 else found


def configuration(url: str, collector: Collector) -> dict:
    return {
        "servers": {
            "docs": {"url": url, "cost": {"per_call_usd": "0.002"}},
            "gone": {"url": "http://127.0.0.1:1/mcp"},
        },
        "default_task": "load",
        "tasks": {
            "load": {
                "principals": {"anonymous": True},
                "allow": ["docs__*", "gone__*"],
                "deny": ["docs__test_image_content"],
                "redact": True,
                "limits": {"budget_usd": {"task": {"day": 1000}}, "budget_calls": 1_000_000},
            },
            "slow": {"principals": {"anonymous": True}, "allow": ["docs__*"], "limits": {"calls": "1/min"}},
        },
        "tracing": {
            "endpoint": f"http://127.0.0.1:{collector.grpc}",
            "protocol": "grpc",
            "resource": {"service.name": "over-grpc"},
        },
    }


class Load:
    """An SDK client in a thread of its own: a few sessions that call until told to stop, and count what they saw."""

    def __init__(self, url: str):
        self.url, self.seen = url, collections.Counter()
        self.stop, self.pause, self.idle = threading.Event(), threading.Event(), threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self._all())
        except BaseException as error:  # noqa: BLE001 - told by whoever waits for it
            self.failure = error
        self.idle.set()

    async def _all(self) -> None:
        self.working = 3
        await asyncio.gather(*(self._one(n) for n in range(self.working)))

    async def _one(self, number: int) -> None:
        async with Client(self.url, mode="legacy" if number else MODERN) as client:
            turn = 0
            while not self.stop.is_set():
                if self.pause.is_set():
                    self.working -= 1
                    if self.working == 0:
                        self.idle.set()
                    while self.pause.is_set() and not self.stop.is_set():
                        await asyncio.sleep(0.05)
                    self.working += 1
                    continue
                turn += 1
                await self._turn(client, turn)
                await asyncio.sleep(0.02)

    async def _turn(self, client, turn: int) -> None:
        if turn % 5 == 1:
            await self._call(client, "docs__greet", {"name": SECRET})
        elif turn % 5 == 2:
            await self._call(client, "docs__test_error_handling", {})
        elif turn % 5 == 3:
            # A name that nobody has: each another one.
            await self._call(client, f"docs__invented_{id(client)}_{turn}", {})
        elif turn % 25 == 4:
            await self._call(client, "gone__away", {})
        else:
            await self._call(client, "docs__test_simple_text", {})

    async def _call(self, client, name: str, arguments: dict) -> None:
        tool = name.split("__")[1]
        tool = "other" if tool.startswith("invented") or name.startswith("gone") else tool
        try:
            result = await client.call_tool(name, arguments)
        except Exception as error:
            code = getattr(getattr(error, "error", error), "code", None)
            if code is None:
                raise
            outcome = "refused"
        else:
            outcome = "tool_error" if result.is_error else "ok"
            assert SECRET not in str(result), "a secret in a result"
        self.seen[name.split("__")[0], tool, outcome] += 1

    def rest(self) -> None:
        """Lets the calls under way end, and waits for that."""
        self.idle.clear()
        self.pause.set()
        if not self.idle.wait(PATIENCE) or self.failure:
            raise RuntimeError(f"the client does not rest: {self.failure!r}")

    def go_on(self) -> None:
        self.pause.clear()

    def end(self) -> None:
        self.stop.set()
        self.thread.join(PATIENCE)
        if self.failure:
            raise self.failure


def post(url: str, name: str, meta=None):
    """One call of a tool as a modern client makes it, with more in its `_meta`."""
    known = {"io.modelcontextprotocol/protocolVersion": MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": name, "arguments": {}, "_meta": {**known, **(meta or {})}}
    body = json.dumps({"jsonrpc": "2.0", "id": "a-1", "method": "tools/call", "params": params}).encode()
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": name,
    }
    request = urllib.request.Request(url, body, headers)
    with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def tool(*command, **more) -> tuple:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **more)
    return done.returncode == 0, done.stdout + done.stderr


def files(rows: Rows, admin: str) -> None:
    """The files by themselves, and the page by the official linter."""
    good, said = tool("promtool", "check", "rules", *RULES)
    rows.add(good, "promtool", "the rules are well-formed", said)
    good, said = tool("promtool", "test", "rules", FILES / "prometheus" / "tests.yml")
    rows.add(good, "promtool", "the rules do what their unit tests say", said)
    good, said = tool("promtool", "check", "metrics", input=get(f"{admin}/metrics"))
    rows.add(good and not said.strip(), "promtool", "the page of metrics has nothing to find fault with", said)
    page = get(f"{admin}/metrics", "application/openmetrics-text")
    rows.add(page.endswith("# EOF\n"), "OpenMetrics", "the page ends as the format says", page[-80:])


def names(rows: Rows, admin: str) -> None:
    exported = set(re.findall(r"^# TYPE (\S+)", get(f"{admin}/metrics"), re.M))
    texts = [file.read_text() for file in [DASHBOARD, *RULES]]
    # What has a colon before or after it is a recorded series.
    used = set(re.findall(r"(?<![:\w])(?:tollgate|process)_\w+\b(?!:)", "\n".join(texts)))
    used = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    missing = sorted(used - exported)
    rows.add(len(used) > 20 and not missing, "names", f"all {len(used)} names in the files are exported", missing)


def answers(rows: Rows, prometheus: Prometheus, load: Load) -> None:
    """What Prometheus says when everything rests is what the client saw."""
    load.rest()
    for (server, name, outcome), count in sorted(load.seen.items()):
        labels = f'server="{server}",tool="{name}",task="load",outcome="{outcome}"'
        ask = f"tollgate_calls_total{{{labels}}}"
        good, seen = until(count, lambda ask=ask, count=count: ((v := prometheus.value(ask)) == count, v))
        rows.add(good, "PromQL", f"{server} {name} {outcome}: the client's {count} calls", seen)
    paid = sum(count for (server, name, _), count in load.seen.items() if server == "docs" and name != "other")
    dollars = paid * PRICE / 1e9
    value = prometheus.value('tollgate_cost_usd_total{server="docs",task="load"}')
    rows.add(value == dollars, "PromQL", f"{paid} calls cost {dollars} dollars, to the last digit", value)
    count = prometheus.value('sum(tollgate_call_duration_seconds_count{server="docs"})')
    want = LIMITED + sum(count for (server, *_), count in load.seen.items() if server == "docs")
    rows.add(count == want, "PromQL", f"the histogram has the client's {want} calls of docs", count)
    labels = prometheus.query("count by (tool) (tollgate_calls_total)")
    tools = sorted(found["metric"].get("tool", "") for found in labels)
    fine = tools == ["greet", "other", "test_error_handling", "test_simple_text"]
    rows.add(fine, "PromQL", "invented names are no labels (X7)", tools)
    load.go_on()


def expressions() -> list:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", [])]


def dashboard(rows: Rows, prometheus: Prometheus) -> None:
    """Every expression of the dashboard gives something, under load."""
    pending = {}
    for title, expression in expressions():
        filled = expression.replace("$__rate_interval", "15s").replace("$__range", "1m")
        pending[title, re.sub(r"\$(server|task|job)\b", ".*", filled)] = "nothing"
    total, end = len(pending), time.monotonic() + PATIENCE
    while pending and time.monotonic() < end:
        for key in list(pending):
            data = prometheus.api("query", query=key[1])
            pending[key] = data.get("error", "nothing")
            # A ratio of nothing is no answer.
            if any(found["value"][1] != "NaN" for found in data["result"]):
                del pending[key]
        time.sleep(0.3 if pending else 0)
    rows.add(total > 30 and not pending, "dashboard", f"all {total} expressions give something", pending)


def rules(rows: Rows, prometheus: Prometheus) -> None:
    def healthy():
        groups = prometheus.api("rules")["groups"]
        states = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
        return bool(states) and set(states.values()) == {"ok"}, states

    good, seen = until("health", healthy)
    rows.add(good, "rules", "every rule is evaluated without an error", seen)
    recorded = re.findall(r"record: (\S+)", RULES[0].read_text())
    good, seen = until("without a value", lambda: (not (e := [n for n in recorded if not prometheus.query(n)]), e))
    rows.add(good, "rules", f"all {len(recorded)} recorded series have values", seen)


def exemplars(rows: Rows, prometheus: Prometheus, journal) -> None:
    now = time.time()

    def found():
        ask = "tollgate_call_duration_seconds_bucket"
        data = prometheus.api("query_exemplars", query=ask, start=now - 300, end=time.time() + 1)
        return bool(data), {e["labels"]["trace_id"] for series in data for e in series["exemplars"]}

    good, seen = until("exemplars", found)
    traces = found()[1]
    known = {record["trace"] for record in journal() if record.get("trace")}
    # A refused call has a trace and no intent.
    rows.add(good and bool(traces & known), "exemplars", "they name traces that the journal has", seen)


def records(parts: Parts, folder: str) -> list:
    command = [place("TOLLGATE_BIN"), "audit", "show", "--dir", str(parts.folder / folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def traces(rows: Rows, about: str, collector: Collector, journal) -> None:
    """The spans of a service against its journal."""
    intents = {(r["trace"], r["span"]): r for r in journal() if r["kind"] == "intent"}
    ends = {(r["trace"], r["span"]): r for r in journal() if r["kind"] == "outcome"}

    def clients():
        return {(s["trace"], s["span"]): s for s in collector.of(about) if s["kind"] == "client"}

    good, _ = until("spans", lambda: (clients().keys() == intents.keys(), len(clients())))
    spans = clients()
    why = f"{len(spans)} spans, {len(intents)} intents"
    rows.add(good and bool(intents), about, f"a client span for each of {len(intents)} intents, and no other", why)
    servers = {s["span"]: s for s in collector.of(about) if s["kind"] == "server"}
    wrong = []
    for ids, span in spans.items():
        record, end = intents.get(ids), ends.get(ids)
        parent, own = servers.get(span["parent"]), span["attributes"]
        if record is None or end is None or parent is None:
            wrong.append((ids, "has no intent, outcome or parent"))
            continue
        above = parent["attributes"]
        facts = [
            (own["mcp.method.name"], record["method"]),
            (own.get("gen_ai.tool.name"), record["tool"]),
            (span["name"], f"{record['method']} {record['tool']}"),
            (own["tollgate.server"], record["server"]),
            (own["tollgate.call_id"], record["call"]),
            (above["tollgate.task"], record["task"]),
            (above["tollgate.run"], record["run"]),
            (above["tollgate.outcome"], end["outcome"]),
            (above.get("tollgate.cost_nanousd"), end.get("cost_nanousd")),
            (parent["trace"], record["trace"]),
            (span["error"], end["outcome"] != "ok"),
            (own.get("error.type"), {"ok": None}.get(end["outcome"], end["outcome"])),
            (parent["start"] <= span["start"] <= span["end"] <= parent["end"], True),
            (abs((span["end"] - span["start"]) / 1e6 - end["ms"]) < 500, True),
        ]
        wrong += [(ids, got, want) for got, want in facts if got != want]
    rows.add(not wrong, about, "names, times, cost and outcome are the journal's", wrong[:3])
    text = json.dumps(collector.of(about))
    rows.add(SECRET not in text, about, "no secret in a span (X5)", "the key is in a span")


def parents(rows: Rows, about: str, url: str, collector: Collector) -> None:
    """The caller's trace goes on, and its decision counts."""
    trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    dark = "0af7651916cd43dd8448eb211c80319c"
    post(url, "docs__test_simple_text", {"traceparent": f"00-{dark}-{span}-00"})
    post(url, "docs__test_simple_text", {"traceparent": f"00-{trace}-{span}-01"})

    def of(which):
        return [s for s in collector.of(about) if s["trace"] == which]

    good, seen = until("spans of the trace", lambda: (len(of(trace)) == 2, of(trace)))
    found = {s["kind"]: s for s in of(trace)}
    fine = good and found["server"]["parent"] == span and found["client"]["parent"] == found["server"]["span"]
    rows.add(fine, about, "the caller's span is the parent", seen)
    fine = good and found["server"]["attributes"].get("jsonrpc.request.id") == "a-1"
    rows.add(fine, about, "the request's id is an attribute", seen)
    rows.add(not of(dark), about, "a trace that its caller does not sample is not exported", of(dark))


def limited(url: str) -> None:
    """A task whose rate is broken by every call but the first."""
    for _ in range(LIMITED):
        post(url.replace("/mcp", "/tasks/slow/mcp"), "docs__test_simple_text")


def over_http(rows: Rows, parts: Parts, fixture: str, collector: Collector) -> None:
    """The same over HTTP, set up by the environment alone; then the collector goes away."""
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.http}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_SERVICE_NAME": "over-http",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=a%20test",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    os.environ.update(variables)
    try:
        audit = {"dir": "audit-http"}
        part, base = parts.gateway({"docs": {"url": fixture, "cost": {"per_call_usd": "0.002"}}}, audit=audit)
    finally:
        for name in variables:
            del os.environ[name]
    url = f"{base}/mcp"
    for _ in range(20):
        post(url, "docs__test_simple_text")
    post(url, "docs__test_error_handling")
    traces(rows, "over-http", collector, lambda: records(parts, "audit-http"))
    there = [s["resource"].get("deployment.environment.name") for s in collector.of("over-http")]
    rows.add(set(there) == {"a test"}, "over-http", "the resource is the environment's", set(there))
    parts.stop(collector.part)
    begun = time.monotonic()
    good = all("result" in (post(url, "docs__test_simple_text") or {}) for _ in range(20))
    took = time.monotonic() - begun
    rows.add(good and took < 10, "no collector", "calls go on without the collector", f"{took:.1f} s")
    part.process.terminate()
    part.process.wait(30)
    rows.add(part.process.returncode == 0, "no collector", "the gateway ends without it", part.tail(400))


def main() -> None:
    rows = Rows()
    with Parts() as parts:
        _, fixture = parts.fixture()
        collector = Collector(parts)
        config = configuration(fixture, collector)
        part, base = parts.gateway(config.pop("servers"), audit={"dir": "audit-grpc"}, **config)
        url, admin = f"{base}/mcp", part.line("admin on ")
        prometheus = Prometheus(parts, admin.removeprefix("http://"))

        def journal():
            return records(parts, "audit-grpc")

        load = Load(url)
        try:
            limited(url)
            dashboard(rows, prometheus)
            rules(rows, prometheus)
            exemplars(rows, prometheus, journal)
            files(rows, admin)
            names(rows, admin)
            answers(rows, prometheus, load)
        finally:
            load.end()
        parents(rows, "over-grpc", url, collector)
        dark = "0af7651916cd43dd8448eb211c80319c"
        traces(rows, "over-grpc", collector, lambda: [r for r in journal() if r.get("trace") != dark])
        over_http(rows, parts, fixture, collector)
    print(f"{rows.counts['passed']} passed, {rows.counts['failed']} failed")
    sys.exit(1 if rows.counts["failed"] else 0)


if __name__ == "__main__":
    main()
