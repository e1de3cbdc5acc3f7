#!/usr/bin/env python3
"""The journal's archive in a real server that speaks S3: kept while the server is away, hangs and comes back, read back
by the commands, never overwritten.

`tests/run archive` sets the environment: TOLLGATE_BIN, and a Python that has moto and boto3.
"""

import collections
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.request

import boto3
import botocore.config

import parts

BUCKET, PREFIX = "logs", "prod/eu"
URL = f"s3://{BUCKET}/{PREFIX}"
KEYS = {"ARCHIVE_ID": "AKIAIOSFODNN7EXAMPLE", "ARCHIVE_SECRET": "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLEKEY"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "archive", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
    "dev.tollgate/run": "r1",
}
PATIENCE = 120.0
results = []


@contextlib.contextmanager
def case(name: str):
    """One check; the first that fails ends the run, since the others follow from it."""
    try:
        yield
    except Exception:
        results.append((name, False))
        print(f"FAILED {name}", flush=True)
        raise
    results.append((name, True))
    print(f"ok     {name}", flush=True)


def until(what: str, done):
    deadline = time.monotonic() + PATIENCE
    while not (value := done()):
        assert time.monotonic() < deadline, f"still waiting for: {what}"
        time.sleep(0.05)
    return value


class Archive:
    """The S3 server, the bucket in it, and a gateway that keeps its journal there."""

    def __init__(self, run: parts.Parts):
        self.run, self.port = run, run.free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.s3 = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=KEYS["ARCHIVE_ID"],
            aws_secret_access_key=KEYS["ARCHIVE_SECRET"],
            config=botocore.config.Config(s3={"addressing_style": "path"}),
        )
        self.config = {
            "url": URL,
            "endpoint": self.endpoint,
            "allow_http": True,
            "access_key": "env:ARCHIVE_ID",
            "secret_key": "env:ARCHIVE_SECRET",
        }

    def serve(self) -> None:
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", self.port]
        self.server = self.run.start("s3", command)
        self.server.port(self.port)
        self.s3.create_bucket(Bucket=BUCKET)

    def requests(self) -> collections.Counter:
        """What was asked of the server so far, by method and key."""
        found = re.findall(r'"(?:\x1b\[\d+m)*(\w+) (\S+) HTTP[^"]*" (\d+)', self.server.log.read_text(errors="replace"))
        return collections.Counter((method, path, int(status)) for method, path, status in found)

    def gateway(self) -> None:
        audit = {"dir": "journal", "segment": {"bytes": "64KiB"}, "archive": self.config}
        servers = {"notes": {"command": parts.place("TOLLGATE_BIN"), "args": ["demo-server"]}}
        self.process, self.url = self.run.gateway(servers, audit=audit)
        self.admin = self.process.line("admin on ")

    def restart(self) -> None:
        self.run.stop(self.process)
        self.gateway()

    def call(self) -> float:
        """One call; how long it took."""
        params = {"name": "read", "arguments": {}, "_meta": META}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "read",
        }
        request = urllib.request.Request(f"{self.url}/servers/notes/mcp", body.encode(), headers)
        start = time.monotonic()
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert b'"result"' in answer.read()
        return time.monotonic() - start

    def status(self) -> dict:
        with urllib.request.urlopen(f"{self.admin}/status", timeout=30) as answer:
            return json.load(answer)["archive"]

    def work(self, done) -> float:
        """Calls until the archive's status is as it should be; the slowest call."""
        slowest = 0.0

        def step():
            nonlocal slowest
            slowest = max([slowest, *(self.call() for _ in range(10))])
            return done(self.status())

        until("the archive", step)
        return slowest

    def objects(self) -> dict:
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=PREFIX)
        return {o["Key"]: (o["ETag"], o["LastModified"]) for page in pages for o in page.get("Contents", [])}

    def command(self, *words: str) -> subprocess.CompletedProcess:
        env = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": KEYS["ARCHIVE_ID"],
            "AWS_SECRET_ACCESS_KEY": KEYS["ARCHIVE_SECRET"],
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }
        command = [parts.place("TOLLGATE_BIN"), "audit", *words]
        return subprocess.run(command, env=env, cwd=self.run.folder, capture_output=True, text=True, timeout=120)


def away(archive: Archive) -> None:
    with case("calls go on while the server is away, and the lag shows"):
        archive.work(lambda status: status["lag_segments"] >= 3 and status["error"])
        status = archive.status()
        assert status["kept_segments"] == 0 and KEYS["ARCHIVE_SECRET"] not in json.dumps(status), status
    with case("what was closed meanwhile is caught up when it comes"):
        archive.serve()
        archive.work(lambda status: status["lag_segments"] == 0 and status["kept_segments"] >= 3)
        assert archive.status()["error"] is None
    with case("a server that hangs delays no call"):
        os.kill(archive.server.process.pid, signal.SIGSTOP)
        kept = archive.status()["kept_segments"]
        slowest = archive.work(lambda status: status["lag_segments"] >= 3)
        assert slowest < 5, f"a call took {slowest:.1f} s"
        os.kill(archive.server.process.pid, signal.SIGCONT)
        archive.work(lambda status: status["lag_segments"] == 0 and status["kept_segments"] >= kept + 3)


def again(archive: Archive) -> None:
    with case("after a restart nothing is sent again"):
        archive.restart()
        until("the archive", lambda: archive.status()["kept_segments"] >= 6 and archive.status()["lag_segments"] == 0)
        before, asked = archive.objects(), archive.requests()
        archive.work(lambda status: status["kept_segments"] >= 8)
        after = archive.objects()
        assert all(after[key] == value for key, value in before.items())
        puts = {path: n for (method, path, status), n in archive.requests().items() if method == "PUT" and status == 200}
        del puts[f"/{BUCKET}"]
        assert puts and set(puts.values()) == {1}, puts
        assert asked
    with case("each segment is there whole, its records last"):
        names = collections.defaultdict(set)
        for key in archive.objects():
            number, kind = pathlib.PurePath(key).name.split(".")
            names[int(number)].add(kind)
        whole = {"keys", "snapshot", "leaves", "checkpoints", "log"}
        assert names.pop(0) == whole - {"snapshot"}
        assert all(kinds == whole for kinds in names.values()), names


def read(archive: Archive, key: str) -> None:
    # What is still on its way would come between two of the commands, and they would speak of different ends.
    until("the archive", lambda: archive.status()["lag_segments"] == 0)
    with case("verify reads it from there"):
        done = archive.command("verify", URL, "--key", key, "--json")
        report = json.loads(done.stdout)
        assert (done.returncode, report["verdict"]) == (3, "OK_UNANCHORED"), done
        assert report["dir"].startswith(URL + "/") and report["records"] > 500, report
    with case("verify with the checkpoint of the archive's end proves everything"):
        kept = archive.command("checkpoint", "--dir", URL, "--key", key)
        (archive.run.folder / "kept").write_text(kept.stdout)
        done = archive.command("verify", URL, "--key", key, "--checkpoint", "kept")
        assert done.returncode == 0 and "OK: every record is proven" in done.stdout, done
    with case("the second verifier agrees on a copy of it"):
        copy = archive.run.folder / "copy"
        copy.mkdir()
        for name in archive.objects():
            archive.s3.download_file(BUCKET, name, str(copy / pathlib.PurePath(name).name))
        second = [sys.executable, parts.HERE.parent / "audit" / "verify.py", copy, "--key", key, "--json"]
        done = subprocess.run(second, capture_output=True, text=True, timeout=300)
        assert done.returncode == 3 and json.loads(done.stdout)["verdict"] == "OK_UNANCHORED", done
        done = archive.command("verify", str(copy), "--key", key)
        assert done.returncode == 3 and "OK_UNANCHORED" in done.stdout, done
    with case("run, show, costs and prove read from there"):
        rows = archive.command("run", "r1", "--dir", URL, "--json").stdout.splitlines()
        calls = [json.loads(row)["index"] for row in rows[:50]]
        assert len(rows) > 200 and calls == list(range(50)), (len(rows), calls)
        # The second start is in a segment that may not be closed yet.
        opened = archive.command("show", "--dir", URL, "--kind", "open").stdout.splitlines()
        assert len(opened) in (1, 2), opened
        costs = archive.command("costs", "--dir", URL, "--by", "server").stdout
        assert costs.count("notes") == 1, costs
        (archive.run.folder / "proof").write_text(archive.command("prove", "42", "--dir", URL, "--key", key).stdout)
        assert archive.command("check-proof", "proof", "--key", key).returncode == 0
    with case("a wrong credential or bucket is an error and no verdict"):
        done = archive.command("verify", "s3://nothing/here", "--key", key)
        assert done.returncode == 4 and done.stderr, done


def spoiled(archive: Archive, key: str) -> None:
    with case("something else under a segment's name stays, and is told"):
        newest = max(int(pathlib.PurePath(name).name.split(".")[0]) for name in archive.objects())
        folder = str(pathlib.PurePath(next(iter(archive.objects()))).parent)
        taken = f"{folder}/{newest + 3:08}.leaves"
        archive.s3.put_object(Bucket=BUCKET, Key=taken, Body=b"something else")
        archive.work(lambda status: status["refused"] == [newest + 3] and status["kept_segments"] >= newest + 4)
        assert archive.status()["lag_segments"] >= 1
        assert archive.s3.get_object(Bucket=BUCKET, Key=taken)["Body"].read() == b"something else"
    with case("a record that was changed there is named"):
        name = f"{folder}/00000001.log"
        log = bytearray(archive.s3.get_object(Bucket=BUCKET, Key=name)["Body"].read())
        at = log.index(b'"outcome":"ok"') + 11
        log[at : at + 2] = b"OK"
        archive.s3.put_object(Bucket=BUCKET, Key=name, Body=bytes(log))
        done = archive.command("verify", URL, "--key", key, "--json")
        assert done.returncode == 1 and "EDITED" in done.stdout, done


def main() -> int:
    os.environ.update(KEYS)
    with contextlib.suppress(Exception), parts.Parts() as run:
        archive = Archive(run)
        archive.gateway()
        try:
            away(archive)
            again(archive)
            logs = "".join(path.read_text(errors="replace") for path in run.folder.glob("*-gateway.log"))
            key = re.search(r"verify it with --key (\S+)", logs).group(1)
            read(archive, key)
            spoiled(archive, key)
            assert KEYS["ARCHIVE_SECRET"] not in logs
        except Exception as error:
            print(repr(error)[:4000], file=sys.stderr)
            said = archive.process.log.read_text(errors="replace").splitlines()
            print("\n".join([line for line in said if " tollgate::request: " not in line][-40:]), file=sys.stderr)
            raise
    failed = sum(not good for _, good in results)
    failed = failed or (0 if len(results) == 12 else 1)
    print(f"{sum(good for _, good in results)} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
