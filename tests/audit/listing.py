"""The tree and the authenticated list of audit/FORMAT.md, section 10.1."""

import bisect
import functools
import hashlib

from keys import Epochs
from localise import Findings
from stored import NOTE_MAX, TORN, WHOLE, Segment, Unreadable, lines, number, sha256

NOTES_HELD = 1 << 18


class Tree:
    """The peaks of an RFC 6962 tree, and its root at the sizes that are asked for."""

    def __init__(self, wanted=()):
        self.size, self.peaks, self.wanted, self.roots = 0, [], wanted, {}

    def append(self, leaf: bytes) -> None:
        size = self.size
        while size & 1:
            leaf = hashlib.sha256(b"\1" + self.peaks.pop() + leaf).digest()
            size >>= 1
        self.peaks.append(leaf)
        self.size += 1
        if self.size in self.wanted:
            self.roots[self.size] = self.root()

    def root(self) -> bytes:
        if not self.peaks:
            return sha256()
        return functools.reduce(lambda right, left: sha256(b"\1", left, right), reversed(self.peaks))


class Survey:
    """What the checkpoints say by themselves, whatever the records are [10.4]."""

    def __init__(self, segments, epochs: Epochs):
        self.findings, self.signed, self.notes, mark = Findings(), 0, [], 0
        for segment in segments:
            begun, held = False, {}
            self.notes.append(held)
            for note, wrong in judged(segment, epochs):
                at = note.size - 1 if wrong == "EPOCH_KEY" else max(mark - 1, 0)
                if wrong:
                    self.findings.add(wrong, at, at + 1)
                    continue
                self.signed = max(self.signed, note.size)
                if begun and note.size < mark:
                    self.findings.add("BAD_SIGNATURE", at, at + 1)
                else:
                    begun, mark = True, note.size
                if len(held) < NOTES_HELD or note.size in held:
                    roots = held.setdefault(note.size, [])
                    if note.root not in roots and len(roots) < 8:
                        roots.append(note.root)


def judged(segment: Segment, epochs: Epochs):
    """The notes of a segment, and what is wrong with each."""
    for state, body, _ in lines(segment.files.get("checkpoints"), NOTE_MAX):
        if state == WHOLE:
            yield epochs.judge(body)
        elif state != TORN:
            yield None, "BAD_SIGNATURE"


class Listing:
    """The authenticated list [10.1] that one order of the segments gives, if it gives one."""

    def __init__(self, order, epochs: Epochs, wanted):
        self.epochs, self.tree, self.findings = epochs, Tree(wanted), Findings()
        self.pieces, self.starts = [], []
        self.sealed = self.signed = 0
        self.good, jumped, self.trees = True, False, {}
        self.mark()
        for at, segment in enumerate(order):
            if segment.number != (order[at - 1].number + 1 if at else 0):
                jumped |= self.jump(segment)
            self.take(segment, order[at + 1] if at + 1 < len(order) else None)
        if jumped and not self.sealed:
            self.good = False
        self.size = self.tree.size
        self.trees["whole"] = (self.size, list(self.tree.peaks))

    def mark(self) -> None:
        self.trees["sealed"] = (self.tree.size, list(self.tree.peaks))

    def cut(self) -> None:
        """Leaves out what no checkpoint covers."""
        self.restore("sealed")

    def uncut(self) -> None:
        self.restore("whole")

    def restore(self, which: str) -> None:
        self.size, peaks = self.trees[which]
        roots = self.trees.setdefault("roots", dict(self.tree.roots))
        self.tree.size, self.tree.peaks = self.size, list(peaks)
        self.tree.roots = {size: root for size, root in roots.items() if size <= self.size}

    def jump(self, segment: Segment) -> bool:
        """Lost segments: the tree becomes the snapshot's."""
        seq = number(segment.first.get("seq"))
        if seq is None or seq <= self.tree.size or number(segment.first.get("segment")) is None:
            return False
        nodes = segment.snapshot_nodes(seq)
        if nodes is not None:
            self.tree.size, self.tree.peaks = seq, nodes
        return nodes is not None

    def take(self, segment: Segment, following: Segment | None) -> None:
        first = self.tree.size
        end, last = first + segment.leaf_count, first
        self.starts.append(first)
        self.pieces.append(segment)
        places = [(segment, first), *([(following, end)] if following else [])]
        for note, wrong in judged(segment, self.epochs):
            at = note.size - 1 if wrong == "EPOCH_KEY" else max(self.tree.size - 1, 0)
            if wrong:
                self.findings.add(wrong, at, at + 1)
                continue
            self.signed = max(self.signed, note.size)
            if note.size > end and not following:
                continue
            if not first <= note.size <= end:
                # It is either the checkpoint or the segment that stands elsewhere.
                self.good &= all(number(piece.first.get("seq")) == seq for piece, seq in places)
                self.findings.add("BAD_SIGNATURE", at, at + 1)
            elif note.size < self.tree.size:
                self.findings.add("BAD_SIGNATURE", at, at + 1)
            else:
                self.grow(segment, first, note.size)
                if self.tree.root() == note.root:
                    self.sealed = last = note.size
                    self.mark()
                elif self.sealed == note.size:
                    self.findings.add("FORK", at, at + 1)
                else:
                    self.good = False
        self.grow(segment, first, end)
        if following and end > last:
            self.findings.add("EPOCH_GAP", last, end)

    def grow(self, segment: Segment, first: int, size: int) -> None:
        while self.tree.size < size:
            raw = segment.leaves(self.tree.size - first, min(size - self.tree.size, 8192))
            if len(raw) < 32:
                raise Unreadable("a leaf file changed while it was read")
            for at in range(0, len(raw) - 31, 32):
                self.tree.append(raw[at : at + 32])

    @functools.lru_cache(maxsize=64)  # noqa: B019 one listing lives as long as the program needs it
    def block(self, piece: int, number_: int) -> bytes:
        return self.pieces[piece].leaves(1024 * number_, 1024)

    def leaf(self, seq: int) -> bytes | None:
        """The list at `seq`; None where it has nothing."""
        if not 0 <= seq < self.size:
            return None
        piece = bisect.bisect_right(self.starts, seq) - 1
        if piece < 0:
            return None
        seq -= self.starts[piece]
        return self.block(piece, seq >> 10)[32 * (seq & 1023) :][:32] or None
