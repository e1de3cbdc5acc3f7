"""What the lines of a journal are: audit/FORMAT.md, section 10.2 with a list of the leaves, 10.4 without."""

import hashlib
import itertools
import re

from keys import Epochs
from listing import Listing, Survey, Tree
from localise import LISTED, Findings
from stored import WHOLE, hex32, number, parse, sha256, well_formed

NEAR = 512
PREV_AT, SEQ_AT = re.compile(rb',"prev":"([0-9a-f]{64})"'), re.compile(rb',"seq":("?[0-9]+"?)')


def is_start(members) -> bool:
    """Whether it is a record that a start writes before the log's first checkpoint [10.1]."""
    return members is not None and members.get("kind") in ("open", "recovered")


class Reading:
    """What the lines are [10.2]: runs of records, foreign lines, and the marks of records that were changed."""

    def __init__(self, listing: Listing, wanted_leaves):
        self.list, self.log = listing, listing.epochs.log
        self.runs, self.foreign, self.marks = [], [], []
        self.size, self.next, self.lines, self.torn = listing.size, 0, 0, 0
        self.last = (listing.leaf(listing.size - 1) if listing.size else listing.epochs.genesis) or b""
        self.before, self.difference, self.limited = None, None, False
        self.wanted, self.extra, self.later = wanted_leaves, {}, 0

    def begin(self, segment: int) -> None:
        """The list knows where segments begin."""

    def read(self, body, state, right) -> None:
        self.later += not is_start(parse(body))
        leaf = hashlib.sha256(b"\0" + body).digest() if body is not None else None
        if leaf is not None and leaf == self.list.leaf(self.next):
            self.record(self.next)
        else:
            self.other(body, leaf, state, right)
        if state != WHOLE and self.found is not None:
            self.mark(self.found, "EDITED", "rot")
        self.before = leaf
        self.lines += 1

    def other(self, body, leaf, state, right) -> None:
        """Steps 2 to 7."""
        self.found = None
        members = parse(body)
        if not well_formed(members):
            return self.stranger(None, False, "rot")
        seq, prev = number(members["seq"]), hex32(members.get("prev"))
        if leaf == self.list.leaf(seq):
            return self.record(seq)
        manner = "edit" if right else "rot"
        if members.get("log") != self.log:
            return self.stranger(seq, right, manner)
        if seq >= self.list.size and seq == self.size and prev == self.last:
            self.size, self.last = seq + 1, leaf
            self.list.tree.append(leaf)
            if seq in self.wanted:
                self.extra[seq] = leaf
            return self.record(seq)
        place = self.rechained(body, seq) if state == WHOLE else None
        if place is None:
            return self.stranger(seq, False, manner)
        self.difference = place - seq
        self.record(place)
        return self.mark(place, "REWRITTEN", None) if prev == self.before else self.mark(place, "EDITED", "edit")

    def rechained(self, body: bytes, seq: int) -> int | None:
        """Step 6: where the body was a record, but for `prev` and `seq`."""
        spans = [PREV_AT.search(body), SEQ_AT.search(body)]
        if None in spans:
            return None
        (a, b), (c, d) = sorted(found.span(1) for found in spans)
        prev_first = spans[0].start() < spans[1].start()
        start = hashlib.sha256(b"\0" + body[:a])
        near = itertools.chain.from_iterable((seq + n, seq - n) for n in range(1, NEAR + 1))
        guesses = [self.next, seq if self.difference is None else seq + self.difference, seq]
        for place in itertools.chain(guesses, near):
            leaf = self.list.leaf(place)
            prev = self.list.leaf(place - 1) if place else self.list.epochs.genesis
            if leaf is None or prev is None:
                continue
            here = [prev.hex().encode(), str(place).encode()]
            trial = start.copy()
            trial.update((here[0] if prev_first else here[1]) + body[b:c])
            trial.update((here[1] if prev_first else here[0]) + body[d:])
            if trial.digest() == leaf:
                return place
        return None

    def record(self, seq: int) -> None:
        self.found, self.next = seq, seq + 1
        run = self.runs[-1] if self.runs else None
        if run and run[0] + run[2] == self.lines and run[1] + run[2] == seq:
            run[2] += 1
        elif len(self.runs) + len(self.foreign) < LISTED:
            self.runs.append([self.lines, seq, 1])
        else:
            self.limited = True

    def stranger(self, claim, other_log: bool, manner: str) -> None:
        if len(self.runs) + len(self.foreign) < LISTED:
            self.foreign.append((self.lines, claim, "WRONG_LOG" if other_log else None, manner))
        else:
            self.limited = True

    def mark(self, seq: int, kind: str, manner) -> None:
        mark = self.marks[-1] if self.marks else None
        if mark and mark[3:] == [kind, manner] and (mark[0] + mark[2], mark[1] + mark[2]) == (self.lines, seq):
            mark[2] += 1
        elif len(self.marks) < LISTED:
            self.marks.append([self.lines, seq, 1, kind, manner])
        else:
            self.limited = True


class Chain:
    """The records by themselves, where there is no list [10.4]."""

    def __init__(self, epochs: Epochs, survey: Survey, wanted, wanted_leaves):
        self.epochs, self.survey, self.notes, self.later = epochs, survey, {}, 0
        self.start, self.gaps = None, []
        self.tree, self.findings, self.last = Tree(wanted), Findings(), epochs.genesis
        self.sealed, self.bad, self.done, self.lines = 0, False, False, 0
        self.wanted, self.extra = wanted_leaves, {}

    def begin(self, segment: int) -> None:
        if self.start is not None and not self.done:
            self.gaps.append((max(self.sealed, self.start), self.tree.size))
        self.start, self.notes = self.tree.size, self.survey.notes[segment]

    def end(self) -> None:
        for start, end in self.gaps if not self.done else ():
            self.findings.add("EPOCH_GAP", start, end)

    def read(self, body, state, right) -> None:
        self.lines += 1
        self.later += not is_start(parse(body))
        if not self.done and (wrong := self.wrong(parse(body), state, right)):
            self.bad = self.done = True
            for finding in wrong:
                self.findings.add(*finding)
        elif not self.done:
            self.take(sha256(b"\0", body))

    def wrong(self, members, state, right) -> list:
        at = self.tree.size
        if members is None or not right:
            return [("EDITED", at, at + 1, "rot")]
        if members.get("log") != self.epochs.log:
            return [("WRONG_LOG", at, at + 1)]
        if not well_formed(members):
            return [("EDITED", at, at + 1, "rot")]
        seq = number(members["seq"])
        if seq != at:
            return [("MISSING", at, seq)] if seq > at else [("INSERTED", self.lines - 1, self.lines)]
        if hex32(members.get("prev")) != self.last:
            return [("EDITED", max(at - 1, 0), at + 1, "edit")]
        if state != WHOLE:
            self.bad = True
            self.findings.add("EDITED", at, at + 1, "rot")
        return []

    def take(self, leaf: bytes) -> None:
        if self.tree.size in self.wanted:
            self.extra[self.tree.size] = leaf
        self.tree.append(leaf)
        self.last = leaf
        size = self.tree.size
        here = self.tree.root() if size in self.notes else None
        for root in self.notes.get(size, ()):
            if root == here:
                self.sealed = size
            elif self.sealed == size:
                self.findings.add("FORK", size - 1, size)
            else:
                self.bad = self.done = True
                self.findings.add("REWRITTEN", self.sealed, size)
                break

    @property
    def size(self) -> int:
        return max(self.tree.size, self.survey.signed) if self.done else self.tree.size
