"""The real parts and the gateway as processes: where they are, how they start, that they all end.

The test command says by environment variables where everything is installed.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = 60.0


def place(name: str) -> str:
    """A path from the environment, which must be set and exist."""
    value = os.environ.get(name, "")
    if not os.path.exists(value):
        sys.exit(f"{name} must name something that exists (`tests/run` sets it), not {value!r}")
    return value


def npm(*path: str) -> str:
    """A file of an installed npm package."""
    return os.path.join(place("REAL_NPM"), "node_modules", *path)


class Part:
    """One process in a group of its own, with what it wrote kept in a file."""

    def __init__(self, name: str, command: list, log: pathlib.Path, env=None, cwd=None):
        self.name, self.log, self.lines = name, log, []
        self.arrived = threading.Condition()
        self.process = subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=open(log, "wb"),
            env={**os.environ, **(env or {})},
            cwd=cwd,
            start_new_session=True,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self.process.stdout:
            with self.arrived:
                self.lines.append(line.rstrip("\n"))
                self.arrived.notify_all()
        with self.arrived:
            self.lines.append(None)
            self.arrived.notify_all()

    def line(self, prefix: str) -> str:
        """What follows the prefix on the first line of stdout that has it."""

        def found():
            return any(line is None or line.startswith(prefix) for line in self.lines)

        with self.arrived:
            self.arrived.wait_for(found, timeout=PATIENCE)
            for line in self.lines:
                if line is not None and line.startswith(prefix):
                    return line[len(prefix) :]
        raise RuntimeError(f"{self.name} never said {prefix!r}\n{self.tail()}")

    def port(self, port: int) -> None:
        """Waits until somebody listens on the port."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.05)
        raise RuntimeError(f"{self.name} does not listen on {port}\n{self.tail()}")

    def tail(self, most: int = 4000) -> str:
        return self.log.read_text(errors="replace")[-most:]

    def end(self) -> None:
        """Asks the process to end, then ends its whole group."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(15)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Parts:
    """Everything one run starts, in a temporary folder of its own. To be used with `with`."""

    def __enter__(self):
        self.running, self.names = [], 0
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="tollgate-real-"))
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return self

    def __exit__(self, kind, *_):
        for part in reversed(self.running):
            part.end()
        if os.environ.get("KEEP"):
            print(f"kept {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name: str, command: list, **options) -> Part:
        self.names += 1
        part = Part(name, command, self.folder / f"{self.names}-{name}.log", **options)
        self.running.append(part)
        return part

    def stop(self, part: Part) -> None:
        part.end()
        self.running.remove(part)

    def free_port(self) -> int:
        """A port that is free now, for servers that can't say which one they took."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    def fixture(self, *arguments: str):
        """The rmcp fixture over HTTP: the process and its URL."""
        part = self.start("fixture", [place("FIXTURE_SERVER"), *arguments])
        return part, part.line("listening on ")

    def gateway(self, servers: dict, **more):
        """The gateway in front of these servers: the process and the URL that it listens on."""
        mark = {name: os.environ[name] for name in ("TOLLGATE_TEST_RUN",) if name in os.environ}
        for server in servers.values():
            if "command" in server:
                # The gateway hands nothing on to a child by itself; the mark says whose child it is.
                server["env"] = {**server.get("env", {}), **mark}
        config = {"listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"}, "servers": servers, **more}
        # Several gateways stand in one folder: each has a journal of its own.
        config.setdefault("audit", {"dir": f"audit-{self.names}"})
        file = self.folder / f"gateway-{self.names}.yaml"
        file.write_text(json.dumps(config, indent=2))
        part = self.start("gateway", [place("TOLLGATE_BIN"), "serve", "--config", file], cwd=self.folder)
        return part, part.line("listening on ")
