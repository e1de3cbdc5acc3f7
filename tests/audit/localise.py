"""Where a journal was changed: the findings, and the localisation of audit/FORMAT.md, section 10.3.

Works on runs of records, foreign lines and numbers alone. It reads no file and hashes nothing.
"""

import bisect
import collections

LISTED = 16_384
PIECES = 1 << 20
ORDER = (
    "FORK REWRITTEN WRONG_LOG EDITED MISSING INSERTED MOVED TRUNCATED BAD_SIGNATURE UNKNOWN_KEY EPOCH_KEY EPOCH_GAP"
).split()


class Findings:
    """What was found: intervals of numbers [start, end), by class and, for edits, by manner."""

    def __init__(self):
        self.found, self.limited = {}, False

    def add(self, kind: str, start: int, end: int, manner=None) -> None:
        intervals = self.found.setdefault((kind, manner), [])
        if intervals and intervals[-1][0] <= start <= intervals[-1][1]:
            intervals[-1][1] = max(intervals[-1][1], end)
        elif end > start:
            intervals.append([start, end])
            if len(intervals) >= 4 * LISTED:
                intervals[:] = joined(intervals)
                self.limited |= len(intervals) >= 2 * LISTED
                del intervals[2 * LISTED :]

    def extend(self, other: "Findings") -> None:
        self.limited |= other.limited
        for (kind, manner), intervals in other.found.items():
            for start, end in intervals:
                self.add(kind, start, end, manner)

    def drop(self, kind: str) -> None:
        self.found = {key: intervals for key, intervals in self.found.items() if key[0] != kind}

    def listed(self) -> list:
        """Kind, manner, first and last number of each, the gravest first."""
        rows = [(key, joined(intervals)) for key, intervals in self.found.items()]
        rows.sort(key=lambda row: (ORDER.index(row[0][0]), row[0][1] or ""))
        return [(kind, manner, start, end - 1) for (kind, manner), found in rows for start, end in found]


def joined(intervals) -> list:
    """The same numbers in the fewest intervals, in order."""
    result = []
    for start, end in sorted(map(tuple, intervals)):
        if result and start <= result[-1][1]:
            result[-1][1] = max(result[-1][1], end)
        elif end > start:
            result.append([start, end])
    return result


def without(start: int, end: int, holes) -> list:
    """What is left of [start, end) without the holes, which are joined."""
    result = []
    for a, b in holes[max(bisect.bisect_right(holes, [start]) - 1, 0) :]:
        if a >= end:
            break
        if b > start:
            result.append((start, a))
            start = b
    return [(a, b) for a, b in [*result, (start, end)] if a < b]


def cut(runs):
    """Step 1: pieces (line, seq, count) that cover the same records or none in common; None if they are too many."""
    bounds = sorted({bound for _, seq, count in runs for bound in (seq, seq + count)})
    pieces = []
    for line, seq, count in runs:
        inner = bounds[bisect.bisect_right(bounds, seq) : bisect.bisect_left(bounds, seq + count)]
        if len(pieces) + len(inner) >= PIECES:
            return None
        for a, b in zip([seq, *inner], [*inner, seq + count], strict=True):
            pieces.append((line + a - seq, a, b - a))
    return pieces


class Heaviest:
    """The greatest sum that ends before a rank: a Fenwick tree of maxima."""

    def __init__(self, size: int):
        self.best = [0] * (size + 1)

    def below(self, rank: int) -> int:
        best = 0
        while rank > 0:
            best = max(best, self.best[rank])
            rank &= rank - 1
        return best

    def put(self, rank: int, value: int) -> None:
        rank += 1
        while rank < len(self.best):
            self.best[rank] = max(self.best[rank], value)
            rank += rank & -rank


def kept(pieces) -> set:
    """Step 2: the indices of the pieces that are in every heaviest rising sequence."""
    ranks = {seq: rank for rank, seq in enumerate(sorted({seq for _, seq, _ in pieces}))}
    weights = [(count << 65) + (count if line == seq else 0) for line, seq, count in pieces]
    up, down = Heaviest(len(ranks)), Heaviest(len(ranks))
    before, behind = [], [0] * len(pieces)
    for (_, seq, _), weight in zip(pieces, weights, strict=True):
        before.append(up.below(ranks[seq]) + weight)
        up.put(ranks[seq], before[-1])
    for at in range(len(pieces) - 1, -1, -1):
        rank = len(ranks) - 1 - ranks[pieces[at][1]]
        behind[at] = down.below(rank) + weights[at]
        down.put(rank, behind[at])
    whole, firsts, spans = max(before, default=0), set(), []
    for at, (_, seq, _) in enumerate(pieces):
        if before[at] + behind[at] - weights[at] == whole and seq not in firsts:
            firsts.add(seq)
            spans.append((before[at] - weights[at], before[at], at))
    spans.sort()
    alone, reach = set(), -1
    for place, (start, end, at) in enumerate(spans):
        if start >= reach and (place + 1 == len(spans) or spans[place + 1][0] >= end):
            alone.add(at)
        reach = max(reach, end)
    return alone


def fill(start: int, end: int, moved, foreign, is_last: bool, findings: Findings) -> None:
    """Steps 4 and 5 between two kept runs: slots [start, end), and foreign lines (line, claim, kind, manner)."""
    free = without(start, end, moved)
    starts = [a for a, _ in free]
    taken, waiting = set(), []

    def take(slot, kind, manner):
        taken.add(slot)
        findings.add(kind or "EDITED", slot, slot + 1, None if kind else manner)

    for line, claim, kind, manner in foreign:
        place = bisect.bisect_right(starts, claim) - 1 if claim is not None else -1
        if place >= 0 and claim < free[place][1] and claim not in taken:
            take(claim, kind, manner)
        else:
            waiting.append((line, kind, manner))
    lowest = (slot for a, b in free for slot in range(a, b) if slot not in taken)
    for line, kind, manner in waiting:
        slot = next(lowest, None)
        if slot is None:
            findings.add(kind or "INSERTED", line, line + 1)
        else:
            take(slot, kind, manner)
    busy = joined([*moved, *((slot, slot + 1) for slot in taken)])
    for a, b in without(start, end, busy):
        findings.add("TRUNCATED" if is_last and b == end else "MISSING", a, b)


def localise(runs, foreign, marks, size: int, limited: bool, findings: Findings) -> bool:
    """All of section 10.3. False if not all is listed: then what is behind the last kept run is not judged."""
    pieces = cut(runs)
    if pieces is None:
        return False
    stay = kept(pieces)
    steady = {pieces[at][1] for at in stay}
    moved, inserted = [], []
    for at, (line, seq, count) in enumerate(pieces):
        if at in stay:
            continue
        if seq in steady:
            inserted.append((line, line + count))
        else:
            steady.add(seq)
            moved.append((seq, seq + count))
    for kind, intervals in (("MOVED", moved), ("INSERTED", inserted)):
        for start, end in intervals:
            findings.add(kind, start, end)
    moved, inserted = joined(moved), joined(inserted)
    for line, seq, count, kind, manner in marks:
        for a, b in without(line, line + count, inserted):
            findings.add(kind, seq + a - line, seq + b - line, manner)
    line, seq, strangers = 0, 0, collections.deque(foreign)
    for at in sorted(stay):
        between = []
        while strangers and strangers[0][0] < pieces[at][0]:
            between.append(strangers.popleft())
        fill(seq, pieces[at][1], within(moved, seq, pieces[at][1]), between, False, findings)
        line, seq = pieces[at][0] + pieces[at][2], pieces[at][1] + pieces[at][2]
    if not limited:
        fill(seq, size, within(moved, seq, size), strangers, True, findings)
    return not limited


def within(intervals, start: int, end: int) -> list:
    """The intervals that have numbers of [start, end)."""
    first = max(bisect.bisect_right(intervals, [start]) - 1, 0)
    return intervals[first : bisect.bisect_left(intervals, [end])]
