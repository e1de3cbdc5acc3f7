"""A collector for the tests: rotel, a real receiver of OTLP over gRPC and HTTP, that hands everything it understood on to
a small sink, which decodes it.
"""

import gzip
import http.server
import pathlib
import threading

from parts import Parts, place


def fields(data: bytes):
    """The fields of a Protocol Buffers message: (number, value); lengths are bytes, the rest whole numbers."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        elif kind == 2:
            length = varint()
            value = data[at : at + length]
            at += length
        else:
            size = {1: 8, 5: 4}[kind]
            value = int.from_bytes(data[at : at + size], "little")
            at += size
        yield key >> 3, value


def one(data: bytes) -> dict:
    """The last value of each field."""
    return dict(fields(data))


def attributes(data: bytes, number: int) -> dict:
    found = {}
    for key, value in fields(data):
        if key == number:
            pair = one(value)
            kind, content = next(fields(pair[2]), (1, b""))
            found[pair[1].decode()] = content.decode() if kind == 1 else content
    return found


def spans(request: bytes):
    """The spans of an export request."""
    for key, of_resource in fields(request):
        if key != 1:
            continue
        resource = attributes(one(of_resource).get(1, b""), 1)
        for key, of_scope in fields(of_resource):
            if key != 2:
                continue
            for key, raw in fields(of_scope):
                if key != 2:
                    continue
                span = one(raw)
                yield {
                    "trace": span[1].hex(),
                    "span": span[2].hex(),
                    "parent": span.get(4, b"").hex(),
                    "name": span[5].decode(),
                    "kind": {2: "server", 3: "client"}[span[6]],
                    "start": span[7],
                    "end": span[8],
                    "error": one(span.get(15, b"")).get(3, 0) == 2,
                    "attributes": attributes(raw, 9),
                    "resource": resource,
                }


class Collector:
    """rotel and the sink behind it."""

    def __init__(self, parts: Parts):
        self.grpc, self.http = parts.free_port(), parts.free_port()
        self.spans, self.alone = [], threading.Lock()
        collector = self

        class Sink(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                found = list(spans(body))
                with collector.alone:
                    collector.spans += found
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
        threading.Thread(target=self.sink.serve_forever, daemon=True).start()
        agent = pathlib.Path(place("ROTEL"))
        agent.chmod(0o755)
        command = [agent, "start", "--exporter", "otlp", "--otlp-exporter-protocol", "http"]
        command += ["--otlp-exporter-endpoint", f"http://127.0.0.1:{self.sink.server_port}"]
        command += ["--otlp-grpc-endpoint", f"127.0.0.1:{self.grpc}"]
        command += ["--otlp-http-endpoint", f"127.0.0.1:{self.http}"]
        self.part = parts.start("rotel", command)
        self.part.port(self.grpc)
        self.part.port(self.http)

    def of(self, service: str) -> list:
        """What came from this service."""
        with self.alone:
            return [span for span in self.spans if span["resource"].get("service.name") == service]
