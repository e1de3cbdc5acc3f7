#!/usr/bin/env python3
"""A second verifier of the journal, written from audit/FORMAT.md alone. It never writes, and reads nothing whole.

    verify.py DIR [--key VKEY] [--checkpoint FILE]... [--receipts FILE]... [--json]

A file of receipts has {"log":"ID","seq":N,"leaf":"HEX"} in each line. Numbers in brackets are the document's sections. The exit code is that of [10.6].
What grows with the journal is read piece by piece; what an attacker can make many of has a bound.
"""

import argparse
import json
import os
import sys

from keys import EPOCHS_HELD, Epochs, Key, begins
from listing import Listing, Survey, Tree
from localise import Findings, localise
from reading import Chain, Reading
from stored import DAMAGED, NAME, NOTE_MAX, TORN, WHOLE, Segment, Unreadable, hex32, lines, number, parse


class Verifier:
    """One verification; `outcome` is what it says."""

    def __init__(self, directory, key=None, anchors=(), receipts=()):
        self.directory, self.given = os.fspath(directory), Key(key) if key else None
        self.anchors, self.receipts, self.named = anchors, list(receipts), []
        self.findings, self.warnings = Findings(), []
        self.lines = self.size = self.sealed = self.anchored = 0
        self.torn = False

    def outcome(self) -> dict:
        try:
            verdict = self.judge()
        except Unreadable as error:
            verdict, self.findings = "UNDECIDED", Findings()
            self.warnings.append(str(error))
        found = self.findings.listed()
        if found:
            verdict = found[0][0]
        if self.findings.limited:
            self.warnings.append("not everything is listed")
        rows = [{"kind": kind, "manner": manner, "first": a, "last": b} for kind, manner, a, b in found]
        code = {"OK": 0, "UNDECIDED": 4}.get(verdict, 1 if found else 3)
        names = ("lines", "size", "sealed", "anchored")
        counts = {name: getattr(self, name) for name in names}
        return {"verdict": verdict, "exit": code, "findings": rows, **counts, "warnings": self.warnings}

    def scan(self):
        """The log's segments by number, and its `keys`."""
        files, keys, kept = {}, None, {}
        try:
            with os.scandir(self.directory) as entries:
                for entry in entries:
                    name, _, kind = entry.name.partition(".")
                    if not entry.is_file(follow_symlinks=False):
                        continue
                    if entry.name == "keys":
                        keys = entry.path
                    elif NAME.fullmatch(name) and kind == "keys":
                        kept[int(name)] = entry.path
                    elif NAME.fullmatch(name) and kind in ("log", "leaves", "checkpoints", "snapshot"):
                        files.setdefault(int(name), {})[kind] = entry.path
        except OSError as error:
            raise Unreadable(f"the directory: {error.strerror}") from error
        keys = keys or (kept[max(kept)] if kept else None)
        return [Segment(n, files[n]) for n in sorted(files) if "log" in files[n]], keys

    def epochs(self, segments, path):
        """The keys [7]; None with a finding, or if none is known."""
        stored, damaged = [], path is None
        for state, body, _ in lines(path):
            line = parse(body) if state == WHOLE else None
            line = line if line and is_epoch(line) else None
            damaged |= line is None
            if line is not None and len(stored) < EPOCHS_HELD:
                stored.append(line)
        damaged |= not stored
        if damaged:
            self.findings.add("BAD_SIGNATURE", 0, 1)
        head = segments[0].first if segments and segments[0].number == 0 else {}
        first = next((key for line in [*stored, head] if (key := begins(line))), None)
        if first and self.given and first.text != self.given.text:
            self.findings = Findings()
            self.findings.add("UNKNOWN_KEY", 0, 1)
            return None
        first = first or self.given
        if first is None:
            self.findings = Findings()
            return None
        epochs = Epochs(first)
        for line in stored:
            if not epochs.offer(line):
                skips = (number(line.get("epoch")) or 0) > len(epochs.keys)
                at = number(line["seq"]) if number(line["epoch"]) else 0
                self.findings.add("EPOCH_GAP" if skips else "BAD_SIGNATURE", at, at + 1)
        for segment in segments:
            if segment.first.get("kind") == "key":
                epochs.offer(segment.first)
        return epochs

    def walk(self, segments, reader) -> None:
        """Hands every line to the reader; a torn end of the last segment is none."""
        self.torn = False
        for at, segment in enumerate(segments):
            reader.begin(at)
            for state, body, right in lines(segment.files["log"]):
                if state == TORN and segment is segments[-1]:
                    self.torn = True
                elif state == TORN:
                    reader.read(None, DAMAGED, False)
                else:
                    reader.read(body, state, right)

    def judge(self) -> str:
        segments, path = self.scan()
        epochs = self.epochs(segments, path)
        if epochs is None:
            return "UNDECIDED"
        notes, leaves = self.kept_elsewhere(epochs)
        wanted, wanted_leaves = {note.size for note in notes}, {seq for seq, _ in leaves}
        listing = Listing(segments, epochs, wanted)
        if not listing.good:
            again = by_first_record(segments)
            second = Listing(again, epochs, wanted) if again != segments else listing
            listing = second if second.good else listing
        reading = self.by_list(segments, listing, wanted_leaves) if listing.good else None
        if reading:
            signed, later = listing.signed, reading.later
            self.size, self.sealed, self.lines = reading.size, listing.sealed, reading.lines
            tree, leaf = listing.tree, lambda seq: reading.extra.get(seq) or listing.leaf(seq)
        else:
            survey = Survey(segments, epochs)
            chain = Chain(epochs, survey, wanted, wanted_leaves)
            self.walk(segments, chain)
            chain.end()
            self.findings.extend(survey.findings)
            self.findings.extend(chain.findings)
            bad = "no list: the first bad place alone is named"
            self.warnings.append(bad if chain.bad else "leaf files are damaged")
            signed, later = survey.signed, chain.later
            self.size, self.sealed, self.lines = chain.size, chain.sealed, chain.lines
            tree, leaf = chain.tree, chain.extra.get
        if not signed and (later or self.findings.listed()):
            self.findings.drop("EPOCH_GAP")
            self.findings.add("EPOCH_GAP", 0, self.size)
        self.compare(notes, leaves, tree, leaf, signed)
        return self.verdict()

    def by_list(self, segments, listing: Listing, wanted_leaves):
        """The lines by the list, with what is wrong; None if it is the leaf file that was cut [10.2]."""
        reading, found, whole = self.read(segments, listing, wanted_leaves)
        if reading.size > listing.size and listing.signed > listing.size:
            return None
        kinds = {kind for kind, *_ in found.listed()}
        if kinds and kinds <= {"EDITED", "INSERTED"} and listing.sealed < listing.size:
            # Leaves that no checkpoint covers prove nothing: the records may go on as they should.
            size = listing.size
            listing.cut()
            again, clean, _ = self.read(segments, listing, wanted_leaves)
            if not clean.listed() and again.size >= size:
                self.warnings.append("leaf files are damaged")
                self.findings.extend(listing.findings)
                return again
            listing.uncut()
            reading, found, whole = self.read(segments, listing, wanted_leaves)
        self.findings.extend(listing.findings)
        self.findings.extend(found)
        if not whole:
            self.warnings.append("more was changed than is listed")
        return reading

    def read(self, segments, listing: Listing, wanted_leaves):
        reading, found = Reading(listing, wanted_leaves), Findings()
        self.walk(segments, reading)
        whole = localise(reading.runs, reading.foreign, reading.marks, reading.size, reading.limited, found)
        return reading, found, whole

    def kept_elsewhere(self, epochs):
        notes = []
        for raw in self.anchors:
            note, wrong = epochs.judge(raw)
            if wrong in ("BAD_SIGNATURE", "UNKNOWN_KEY", "WRONG_LOG"):
                self.findings.add(wrong, 0, 1)
            else:
                notes.append(note)
        # A receipt of another log says nothing of this one.
        return notes, self.receipts + [(seq, leaf) for log, seq, leaf in self.named if log == epochs.log]

    def compare(self, notes, leaves, tree: Tree, leaf, signed: int) -> None:
        """[10.5]"""
        reach = signed
        for note in notes:
            reach = max(reach, note.size)
            root = tree.roots.get(note.size)
            if root == note.root:
                self.anchored = max(self.anchored, note.size)
            elif root is not None:
                self.findings.add("FORK", note.size - 1, note.size)
        for seq, hash_ in leaves:
            reach = max(reach, seq + 1)
            here = leaf(seq)
            if here == hash_ and seq < self.sealed:
                self.anchored = max(self.anchored, seq + 1)
            elif here not in (hash_, None):
                self.findings.add("FORK", seq, seq + 1)
        self.findings.add("TRUNCATED", self.size, reach)

    def verdict(self) -> str:
        """[10.6], if nothing was found."""
        if not self.lines:
            return "UNDECIDED"
        if self.torn:
            return "TORN_TAIL"
        if self.sealed < self.lines:
            return "OK_UNSEALED_TAIL"
        if self.given is None:
            return "OK_UNPINNED"
        return "OK_UNANCHORED" if self.anchored < self.lines else "OK"


def by_first_record(segments) -> list:
    """The segments in the order of the `seq` of their first records; without one it stays behind the one before."""
    keys, last = {}, 0
    for segment in segments:
        seq = number(segment.first.get("seq"))
        last = keys[segment] = last if seq is None else seq
    return sorted(segments, key=keys.get)


def verify(directory, key=None, anchors=(), receipts=()) -> dict:
    """The outcome as a dictionary. Raises ValueError if `key` is no vkey."""
    return Verifier(directory, key, anchors, receipts).outcome()


def is_epoch(line: dict) -> bool:
    """Whether a line of `keys` has an epoch's members in their forms [7]."""
    numbers = all(type(line.get(name)) is int and number(line[name]) is not None for name in ("epoch", "seq"))
    texts = all(isinstance(line.get(name), str) for name in ("sig", "vkey"))
    return numbers and texts and hex32(line.get("prev")) is not None


def receipts_of(path: str) -> list:
    """The receipts in a file: log, `seq`, leaf."""
    found = []
    with open(path, "rb") as file:
        for line in file:
            held = parse(line) or {}
            row = (held.get("log"), number(held.get("seq")), hex32(held.get("leaf")))
            if not isinstance(row[0], str) or None in row:
                raise ValueError(f"{path} has a line that is no receipt")
            found.append(row)
    return found


def note_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(NOTE_MAX + 1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Verifies a journal by audit/FORMAT.md.")
    parser.add_argument("dir")
    parser.add_argument("--key")
    parser.add_argument("--checkpoint", action="append", default=[])
    parser.add_argument("--receipts", action="append", default=[])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    try:
        anchors = [note_file(path) for path in given.checkpoint]
        verifier = Verifier(given.dir, given.key, anchors)
        verifier.named = [row for path in given.receipts for row in receipts_of(path)]
        outcome = verifier.outcome()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if given.json:
        print(json.dumps(outcome))
    else:
        print(outcome["verdict"])
        for row in outcome["findings"]:
            print(f"{row['kind']} {row['first']}..{row['last']}" + (f" ({row['manner']})" if row["manner"] else ""))
        for warning in outcome["warnings"]:
            print(f"warning: {warning}")
    return outcome["exit"]


if __name__ == "__main__":
    sys.exit(main())
