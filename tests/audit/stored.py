"""What the files of a journal hold: lines by audit/FORMAT.md, section 2, JSON objects, segments. Judges nothing."""

import base64
import functools
import hashlib
import json
import os
import re
import stat
import zlib

RECORD_MAX, NOTE_MAX, SNAPSHOT_MAX = 61_440, 131_072, 1 << 24
CHUNK = 1 << 20
HEAD = re.compile(rb"[0-9a-f]{8} [0-9a-f]{8} ")
HEX8, HEX64 = re.compile(rb"[0-9a-f]{8}"), re.compile(r"[0-9a-f]{64}")
NUMBER = re.compile(r"0|[1-9][0-9]{0,19}")
NAME = re.compile(r"[0-9]{8}|[1-9][0-9]{8,18}")
WHOLE, DAMAGED, TORN = "whole", "damaged", "torn"


class Unreadable(Exception):
    """A file of the journal can't be read: nothing can be said [10.6]."""


def sha256(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def number(value):
    """An integer, or its digits in a string [3]; None for everything else."""
    if isinstance(value, str) and NUMBER.fullmatch(value):
        value = int(value)
    return value if type(value) is int and 0 <= value < 1 << 64 else None


def refuse(_):
    raise ValueError


def unique(pairs):
    members = dict(pairs)
    return members if len(members) == len(pairs) else refuse(pairs)


def parse(body):
    """The JSON object that the bytes are, or None."""
    try:
        value = json.loads(body.decode(), parse_constant=refuse, object_pairs_hook=unique)
    except (AttributeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def hex32(value) -> bytes | None:
    return bytes.fromhex(value) if isinstance(value, str) and HEX64.fullmatch(value) else None


def unbase64(text: str) -> bytes | None:
    """Canonical base64 alone."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    return raw if base64.b64encode(raw).decode() == text else None


def well_formed(members) -> bool:
    """Step 2: whether what a line claims can be read."""
    if members is None or number(members.get("seq")) is None:
        return False
    texts = all(isinstance(members.get(name, ""), str) for name in ("log", "call"))
    return texts and ("prev" not in members or hex32(members["prev"]) is not None)


def opened(path: str):
    """A regular file; links, pipes and devices are as if they were not there [1]."""
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb", 0)
    except OSError as error:
        raise Unreadable(f"{os.path.basename(path)}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise Unreadable(f"{os.path.basename(path)}: not a regular file any more")
    return file


def read(file, size: int) -> bytes:
    try:
        return file.read(size) or b""
    except OSError as error:
        raise Unreadable(str(error)) from error


def right_line(buf: bytes, at: int, most: int):
    """Steps 1 to 4 of [2], where they find something: state, body, whether the CRC is the body's, the next start."""
    head = HEAD.match(buf, at)
    length = int(buf[at : at + 8], 16) if head else most + 1
    stop = at + 18 + length
    if length <= most and stop < len(buf):
        body = buf[at + 18 : stop]
        if zlib.crc32(body) == int(buf[at + 9 : at + 17], 16):
            return (WHOLE if buf[stop] == 10 else DAMAGED), body, True, stop + 1
    first = buf.find(b"\n", at, at + 18 + most + 1)
    if first >= at + 18 and HEX8.fullmatch(buf, at + 9, at + 17):
        body = buf[at + 18 : first]
        if zlib.crc32(body) == int(buf[at + 9 : at + 17], 16):
            return DAMAGED, body, True, first + 1
    if length <= most and buf[stop : stop + 1] == b"\n":
        return DAMAGED, buf[at + 18 : stop], False, stop + 1
    if first >= 0:
        return DAMAGED, (buf[at + 18 : first] if first >= at + 18 else None), False, first + 1
    return None


def lines(path, most=RECORD_MAX):
    """The lines of a file by [2]: state, body (or None; for a torn one its length) and whether its CRC is right."""
    if path is None:
        return
    with opened(path) as file:
        buf, at, ended = b"", 0, False
        while True:
            if not ended and len(buf) - at <= 18 + most + 1:
                more = read(file, CHUNK)
                buf, at, ended = buf[at:] + more, 0, not more
            elif at == len(buf):
                return
            elif found := right_line(buf, at, most):
                at = found[3]
                yield found[:3]
            else:  # Steps 5 and 6.
                passed = 0
                while (stop := buf.find(b"\n", at)) < 0 and not ended:
                    passed += len(buf) - at
                    buf, at = read(file, CHUNK), 0
                    ended = not buf
                yield (DAMAGED, None, False) if stop >= 0 else (TORN, passed + len(buf) - at, False)
                at = stop + 1 if stop >= 0 else len(buf)


class Segment:
    """The files of one segment, and the first record as far as it can be read."""

    def __init__(self, number_: int, files: dict):
        self.number, self.files = number_, files

    @functools.cached_property
    def first(self) -> dict:
        for state, body, _ in lines(self.files.get("log")):
            return (parse(body) if state != TORN else None) or {}
        return {}

    @functools.cached_property
    def leaf_count(self) -> int:
        if "leaves" not in self.files:
            return 0
        with opened(self.files["leaves"]) as file:
            return os.fstat(file.fileno()).st_size // 32

    def leaves(self, start: int, count: int) -> bytes:
        if "leaves" not in self.files:
            return b""
        with opened(self.files["leaves"]) as file:
            file.seek(32 * start)
            return read(file, 32 * count)

    def snapshot_nodes(self, size: int):
        """The peaks of the snapshot, if it is one of this size [8]."""
        if "snapshot" not in self.files:
            return None
        with opened(self.files["snapshot"]) as file:
            held = parse(read(file, SNAPSHOT_MAX)) or {}
        nodes = held.get("nodes")
        nodes = [hex32(node) for node in nodes] if isinstance(nodes, list) else [None]
        fits = number(held.get("size")) == size and len(nodes) == size.bit_count() and None not in nodes
        return nodes if fits else None
