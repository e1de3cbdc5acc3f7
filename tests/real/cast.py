"""Who takes part in the matrix: the real servers, the real clients, and what is asked of each server."""

import json
import os
import subprocess

from parts import HERE, Parts, npm, place


class Server:
    """One server: how the gateway reaches it, how it is reached directly, what is asked of it."""

    def __init__(self, gateway: dict, direct, like: str = ""):
        self.gateway, self.direct = gateway, direct
        # Lists are compared with this server's: the same program behind another transport.
        self.like = like


def call(name: str, expect: str, progress: int = 0, /, **arguments) -> dict:
    step = {"do": "call", "name": name, "arguments": arguments, "progress": progress}
    return {"step": step, "expect": expect, "progress": progress}


def read(uri: str, expect: str) -> dict:
    return {"step": {"do": "read", "uri": uri}, "expect": expect}


def prompt(name: str, expect: str, /, **arguments) -> dict:
    return {"step": {"do": "prompt", "name": name, "arguments": arguments}, "expect": expect}


def complete(argument: str, value: str, expect: str, **reference) -> dict:
    return {"step": {"do": "complete", "argument": argument, "value": value, **reference}, "expect": expect}


EVERYTHING = [
    call("echo", "Echo: hello", message="hello"),
    call("get-sum", "5", a=2, b=3),
    call("trigger-long-running-operation", "completed", 3, duration=1, steps=3),
    read("demo://resource/dynamic/text/1", "Resource 1"),
    prompt("args-prompt", "Paris", city="Paris"),
    complete("department", "E", "Engineering", prompt="completable-prompt"),
    complete("resourceId", "1", "1", template="demo://resource/dynamic/text/{resourceId}"),
]
RMCP = [
    call("test_simple_text", "simple text"),
    call("greet", "Hello, Ada!", name="Ada"),
    call("test_tool_with_progress", "three times", 3),
    call("test_custom_header", "a b é", value="a b é", count=3),
    call("test_error_handling", "intentionally"),
    read("test://static-text", "static text resource"),
    read("test://template/7/data", "Data for ID: 7"),
    prompt("test_prompt_with_arguments", "arg1='a', arg2='b'", arg1="a", arg2="b"),
    complete("arg1", "pa", "paris", prompt="test_prompt_with_arguments"),
    complete("id", "1", "123", template="test://template/{id}/data"),
]


def asked(folder) -> dict:
    """What is asked of each server."""
    return {
        "everything-stdio": EVERYTHING,
        "everything-http": EVERYTHING,
        "everything-sse": EVERYTHING,
        "files": [call("read_text_file", "a file", path=f"{folder}/files/note.txt")],
        "memory": [call("read_graph", "entities"), read("memory://knowledge-graph", "entities")],
        "time": [call("get_current_time", "UTC", timezone="UTC")],
        "git": [call("git_status", "On branch", repo_path=f"{folder}/files")],
        "rmcp-modern": RMCP,
        "rmcp-legacy": RMCP,
        "rmcp-stdio": RMCP,
        "fast": [
            call("add", "5", a=2, b=3),
            call("count", "counted to 3", 3, to=3),
            read("fast://greeting", "Hello from FastMCP"),
            read("fast://square/4", "16"),
            prompt("review", "Please review tea", topic="tea"),
        ],
    }


def servers(parts: Parts) -> dict:
    """Starts those that are reached over HTTP, and says how to reach all."""
    node, python = place("REAL_NODE"), place("PY_MCP2")
    package = lambda name: npm("@modelcontextprotocol", name, "dist", "index.js")  # noqa: E731
    files = parts.folder / "files"
    files.mkdir()
    (files / "note.txt").write_text("a file\n")
    subprocess.run(["git", "init", "-q", files], check=True)
    child = lambda command, *args: {"command": command, "args": [str(word) for word in args]}  # noqa: E731

    everything = package("server-everything")
    started = {}
    for kind, path in (("streamableHttp", "mcp"), ("sse", "sse")):
        port = parts.free_port()
        part = parts.start(f"everything-{kind}", [node, everything, kind], env={"PORT": str(port)})
        part.port(port)
        started[kind] = {"url": f"http://127.0.0.1:{port}/{path}"}
    port = parts.free_port()
    parts.start("fast", [python, HERE / "servers" / "fast.py", port]).port(port)
    fast = {"url": f"http://127.0.0.1:{port}/mcp"}
    rmcp = {era: {"url": parts.fixture("--era", era)[1]} for era in ("modern", "legacy")}

    stdio = {
        "everything-stdio": child(node, everything, "stdio"),
        "files": child(node, package("server-filesystem"), files),
        "memory": child(node, package("server-memory")),
        "time": child(python, "-m", "mcp_server_time", "--local-timezone", "UTC"),
        "git": child(python, "-m", "mcp_server_git", "--repository", files),
        "rmcp-stdio": child(place("FIXTURE_SERVER"), "--stdio"),
    }
    stdio["memory"]["env"] = {"MEMORY_FILE_PATH": str(parts.folder / "memory.jsonl")}
    http = {
        "everything-http": started["streamableHttp"],
        "everything-sse": started["sse"],
        "rmcp-modern": rmcp["modern"],
        "rmcp-legacy": rmcp["legacy"],
        "fast": fast,
    }
    cast = {name: Server(spec, spec) for name, spec in stdio.items()}
    cast |= {name: Server(spec, spec["url"]) for name, spec in http.items()}
    for name in ("everything-stdio", "everything-sse"):
        cast[name].like = "everything-http"
    return cast


class Client:
    """A client program that carries out a plan; see clients/plan.py."""

    def __init__(self, name: str, mode: str, command: list):
        self.name, self.mode, self.command = name, mode, command

    def __str__(self) -> str:
        return f"{self.name} {self.mode}"

    def run(self, target, steps: list, **more) -> list:
        """The outcome of every step, and of having connected (the first)."""
        plan = {"target": target, "mode": self.mode, "steps": steps, **more}
        done = subprocess.run(
            [str(word) for word in self.command],
            input=json.dumps(plan),
            text=True,
            capture_output=True,
            env={**os.environ, "PYTHONPATH": str(HERE / "clients")},
            timeout=600,
            check=False,
        )
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        hello = next((line for line in lines if "connected" in line), None)
        if hello is None:
            return [{"ok": False, "error": done.stderr[-1500:]}]
        told = {line["step"]: line for line in lines if "step" in line}
        lost = {"ok": False, "error": f"the client ended (code {done.returncode}): {done.stderr[-800:]}"}
        return [{"ok": True, "value": hello}] + [told.get(number, lost) for number in range(len(steps))]


class Inspector(Client):
    """The Inspector's command line: one process for each step."""

    FLAGS = {
        "tools": lambda step: ["tools/list"],
        "prompts": lambda step: ["prompts/list"],
        "resources": lambda step: ["resources/list"],
        "templates": lambda step: ["resources/templates/list"],
        "read": lambda step: ["resources/read", "--uri", step["uri"]],
        "call": lambda step: ["tools/call", "--tool-name", step["name"], *pairs("--tool-arg", step)],
        "prompt": lambda step: ["prompts/get", "--prompt-name", step["name"], *pairs("--prompt-args", step)],
    }
    NAMES = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}

    def __init__(self, mode: str, command: list, home):
        super().__init__("inspector", mode, command)
        self.home = home

    def run(self, target, steps: list) -> list:
        return [{"ok": True, "value": {"connected": True}}] + [self.step(target, step) for step in steps]

    def step(self, target: str, step: dict) -> dict:
        command = [*self.command, "--cli", target, "--transport", "http", "--protocol-era", self.mode]
        command += ["--method", *self.FLAGS[step["do"]](step)]
        env = {**os.environ, "HOME": str(self.home)}
        done = subprocess.run(
            [str(word) for word in command], env=env, text=True, capture_output=True, timeout=90, check=False
        )
        try:
            answer = json.loads(done.stdout[done.stdout.index("{") :])
        except ValueError:
            return {"ok": False, "error": (done.stderr or done.stdout)[-500:]}
        for field, name in self.NAMES.items():
            if field in answer:
                return {"ok": True, "value": [entry[name] for entry in answer[field]]}
        content = answer.get("content") or answer.get("contents")
        content = content or [message["content"] for message in answer.get("messages", [])]
        texts = [part["text"] for part in content if "text" in part]
        return {"ok": True, "value": {"texts": texts, "error": answer.get("isError", False)}}


def pairs(flag: str, step: dict) -> list:
    given = [f"{name}={value}" for name, value in step.get("arguments", {}).items()]
    return [flag, *given] if given else []


def clients(parts: Parts) -> list:
    scripts, node = HERE / "clients", place("REAL_NODE")
    programs = {
        "mcp-1.30": ([place("PY_MCP1"), scripts / "mcp1.py"], ["legacy"]),
        "mcp-2.3": ([place("PY_MCP2"), scripts / "mcp2.py"], ["legacy", "auto", "modern"]),
        "sdk-1.32": ([node, scripts / "sdk1.mjs"], ["legacy"]),
        "client-2.4": ([node, scripts / "sdk2.mjs"], ["legacy", "auto", "modern"]),
        "rmcp-3.11": ([place("FIXTURE_CLIENT")], ["legacy", "auto", "modern"]),
        "fastmcp-4.2": ([place("PY_MCP2"), scripts / "fast.py"], ["legacy", "auto"]),
    }
    cast = [Client(name, mode, command) for name, (command, modes) in programs.items() for mode in modes]
    inspector = [node, npm("@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")]
    return cast + [Inspector(mode, inspector, parts.folder) for mode in ("legacy", "modern")]
