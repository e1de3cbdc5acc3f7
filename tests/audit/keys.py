"""Keys, checkpoints and key epochs by audit/FORMAT.md, sections 6 and 7. Reads no file."""

import bisect
import re

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from stored import NOTE_MAX, number, sha256, unbase64

EPOCHS_HELD = 1 << 12


class Key:
    """A vkey [6]. Raises ValueError for what is none."""

    def __init__(self, text):
        if not isinstance(text, str) or text.count("+") < 2:
            raise ValueError("no vkey")
        self.text = text
        self.name, id_, key = text.split("+", 2)
        raw = unbase64(key)
        if not self.name or re.search(r"[\s\x00-\x1f]", self.name) or not raw or len(raw) != 33 or raw[0] != 1:
            raise ValueError("no vkey")
        self.id = sha256(self.name.encode(), b"\n", raw)[:4]
        if self.id.hex() != id_:
            raise ValueError("the vkey's id is another")
        self.public = Ed25519PublicKey.from_public_bytes(raw[1:])

    def signed(self, signature: bytes, text: bytes) -> bool:
        try:
            self.public.verify(signature, text)
        except (InvalidSignature, ValueError):
            return False
        return True


class Note:
    """A checkpoint [6]. Raises ValueError for what is none."""

    def __init__(self, raw: bytes):
        text = raw.decode()
        if len(raw) > NOTE_MAX or re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text):
            raise ValueError("no note")
        head, gap, tail = text.rpartition("\n\n")
        fields, signatures = head.split("\n"), tail.split("\n")
        if not gap or signatures.pop() != "" or not 1 <= len(signatures) <= 64 or len(fields) != 3:
            raise ValueError("no note")
        self.text, self.origin, self.signatures = head.encode() + b"\n", fields[0], []
        self.size, self.root = number(fields[1]), unbase64(fields[2])
        if not self.origin or not self.size or self.root is None or len(self.root) != 32:
            raise ValueError("no checkpoint")
        for line in signatures:
            found = re.fullmatch(r"— ([^\s+]+) (\S+)", line)
            blob = found and unbase64(found[2])
            if not blob or len(blob) < 5:
                raise ValueError("no signature line")
            self.signatures.append((found[1], blob[:4], blob[4:]))

    def signers(self, keys):
        """The known keys that signed it. Raises ValueError if one of them did so wrongly."""
        signers = set()
        for name, id_, signature in self.signatures:
            for key in keys:
                if (key.name, key.id) == (name, id_):
                    if not key.signed(signature, self.text):
                        raise ValueError("wrong signature")
                    signers.add(key.text)
        return signers


def genesis(key: Key) -> bytes:
    return sha256(f"dev.tollgate/audit/genesis/v1\n{key.name}\n{key.text}\n".encode())


def begins(line: dict) -> Key | None:
    """The first epoch's key, if the line, or the record, is that epoch [7]."""
    try:
        key = Key(line.get("vkey"))
    except ValueError:
        return None
    plain = number(line.get("epoch")) == number(line.get("seq")) == 0 and line.get("sig", "") == ""
    return key if plain and line.get("prev") == genesis(key).hex() else None


class Epochs:
    """The keys of the log, each with the first `seq` that it signs [7]."""

    def __init__(self, first: Key):
        self.log, self.keys, self.starts = first.name, [first], [0]
        self.genesis = genesis(first)
        self.known, self.begun = {first.text: first}, False

    def offer(self, line: dict) -> bool:
        """Takes an epoch if it is valid behind those that are here."""
        epoch, start, prev, vkey = (line.get(name) for name in ("epoch", "seq", "prev", "vkey"))
        epoch, start = number(epoch), number(start)
        if epoch == 0:
            right = not self.begun and vkey == self.keys[0].text and begins(line) is not None
            self.begun |= right
            return right
        try:
            key, signature = Key(vkey), unbase64(line.get("sig"))
        except (TypeError, ValueError):
            return False
        text = f"dev.tollgate/audit/key/v1\n{self.log}\n{epoch}\n{vkey}\n{start}\n{prev}\n"
        last = len(self.keys) - 1
        if epoch != last + 1 or start is None or start <= self.starts[last] or key.name != self.log:
            return False
        if last >= EPOCHS_HELD or signature is None or not self.keys[last].signed(signature, text.encode()):
            return False
        self.keys.append(key)
        self.starts.append(start)
        self.known[vkey] = key
        return True

    def of(self, size: int) -> Key:
        return self.keys[max(bisect.bisect_left(self.starts, size) - 1, 0)]

    def judge(self, raw: bytes):
        """A stored note and what is wrong with it, by [10.1]."""
        try:
            note = Note(raw)
            signers = note.signers(self.known.values())
        except ValueError:
            return None, "BAD_SIGNATURE"
        if not signers:
            return note, "UNKNOWN_KEY"
        if note.origin != self.log:
            return note, "WRONG_LOG"
        return note, None if self.of(note.size).text in signers else "EPOCH_KEY"
