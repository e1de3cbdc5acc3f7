//! From what stands in the files, in order, to what is wrong with it: which records are edited, missing, inserted or
//! moved. Pure, and linear in what is out of order. The rules are those of FORMAT.md, section "Localisation".

use std::collections::HashSet;

use super::{Class, Finding, How};

/// Records of the log that stand one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Number of its first line.
    pub(crate) line: u64,
}

impl Run {
    fn length(&self) -> u64 {
        self.last - self.first + 1
    }
}

/// A line that is no record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    pub(crate) line: u64,
    /// The `seq` that it names.
    pub(crate) claim: Option<u64>,
    pub(crate) how: How,
    pub(crate) other_log: bool,
}

/// Everything that was read.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) runs: Vec<Run>,
    pub(crate) foreign: Vec<Foreign>,
}

impl Seen {
    /// Notes a record of the log.
    pub(crate) fn authentic(&mut self, seq: u64, line: u64) {
        match self.runs.last_mut() {
            Some(run) if run.last + 1 == seq && run.line + run.length() == line => run.last = seq,
            _ => self.runs.push(Run { first: seq, last: seq, line }),
        }
    }
}

/// Greatest values over prefixes.
struct Prefix(Vec<u128>);

impl Prefix {
    fn raise(&mut self, at: usize, value: u128) {
        let mut at = at + 1;
        while let Some(slot) = self.0.get_mut(at) {
            *slot = value.max(*slot);
            at += at & at.wrapping_neg();
        }
    }

    /// Over `[0, before)`.
    fn greatest(&self, before: usize) -> u128 {
        let (mut at, mut found) = (before, 0);
        while at > 0 {
            found = found.max(self.0.get(at).copied().unwrap_or(0));
            at &= at - 1;
        }
        found
    }
}

/// Cuts runs where others begin or end, so that any two cover the same records or none in common.
fn pieces(runs: &[Run]) -> Vec<Run> {
    let mut cuts: Vec<u64> = runs.iter().flat_map(|r| [r.first, r.last + 1]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let mut out = Vec::with_capacity(runs.len());
    for run in runs {
        let from = cuts.partition_point(|c| *c <= run.first);
        let mut start = run.first;
        for cut in cuts.iter().skip(from).take_while(|c| **c <= run.last) {
            out.push(Run { first: start, last: cut - 1, line: run.line + (start - run.first) });
            start = *cut;
        }
        out.push(Run { first: start, last: run.last, line: run.line + (start - run.first) });
    }
    out
}

/// Which pieces stand where they belong: those in every heaviest ascending sequence. Weight: records, and among equals
/// those whose line number is their `seq`.
fn kept(pieces: &[Run]) -> Vec<bool> {
    let mut starts: Vec<u64> = pieces.iter().map(|p| p.first).collect();
    starts.sort_unstable();
    starts.dedup();
    let rank = |p: &Run| starts.partition_point(|s| *s < p.first);
    let weight = |p: &Run| {
        let length = u128::from(p.length());
        (length << 64) + if p.line == p.first { length } else { 0 }
    };
    let mut up = Vec::with_capacity(pieces.len());
    let mut best = Prefix(vec![0; starts.len() + 1]);
    for p in pieces {
        let value = weight(p) + best.greatest(rank(p));
        best.raise(rank(p), value);
        up.push(value);
    }
    let total = up.iter().copied().max().unwrap_or(0);
    let mut best = Prefix(vec![0; starts.len() + 1]);
    let mut optimal = Vec::new();
    for (at, (p, up)) in pieces.iter().zip(&up).enumerate().rev() {
        let mirrored = starts.len() - 1 - rank(p);
        let down = weight(p) + best.greatest(mirrored);
        best.raise(mirrored, down);
        if up + down - weight(p) == total {
            optimal.push((up - weight(p), *up, p.first, at));
        }
    }
    // Of equal copies the first in the files is the record.
    optimal.sort_unstable();
    optimal.dedup_by_key(|(from, to, first, _)| (*from, *to, *first));
    let mut out = vec![false; pieces.len()];
    let mut reached = 0;
    for (at, (from, to, _, piece)) in optimal.iter().enumerate() {
        let alone = *from >= reached && optimal.get(at + 1).is_none_or(|(next, ..)| next >= to);
        reached = reached.max(*to);
        if let Some(slot) = out.get_mut(*piece) {
            *slot = alone;
        }
    }
    out
}

/// Ranges of records, ascending and apart.
type Ranges = Vec<(u64, u64)>;

/// What is left of the ranges without others, which ascend and are apart.
pub(crate) fn without(ranges: Ranges, taken: &[(u64, u64)]) -> Ranges {
    let mut out = Vec::new();
    for (mut first, last) in ranges {
        let from = taken.partition_point(|(_, end)| *end < first);
        let mut open = true;
        for (start, end) in taken.iter().skip(from).take_while(|(start, _)| *start <= last) {
            if *start > first {
                out.push((first, start - 1));
            }
            if *end >= last {
                open = false;
                break;
            }
            first = end + 1;
        }
        if open {
            out.push((first, last));
        }
    }
    out
}

/// Everything that is wrong with a log that should have the records `[0, size)`.
pub(crate) fn resolve(seen: &Seen, size: u64) -> Vec<Finding> {
    let pieces = pieces(&seen.runs);
    let kept = kept(&pieces);
    let mut findings = Vec::new();
    let stays: HashSet<(u64, u64)> =
        pieces.iter().zip(&kept).filter(|(_, k)| **k).map(|(p, _)| (p.first, p.last)).collect();
    let mut strays: HashSet<(u64, u64)> = HashSet::new();
    for (piece, _) in pieces.iter().zip(&kept).filter(|(_, k)| !**k) {
        let range = (piece.first, piece.last);
        if stays.contains(&range) || !strays.insert(range) {
            push(&mut findings, Class::Inserted, (piece.line, piece.line + piece.length() - 1), None);
        } else {
            push(&mut findings, Class::Moved, range, None);
        }
    }
    let mut moved: Ranges = strays.into_iter().collect();
    moved.sort_unstable();
    let stay: Vec<&Run> = pieces.iter().zip(&kept).filter(|(_, k)| **k).map(|(p, _)| p).collect();
    let mut foreign = seen.foreign.iter().peekable();
    let mut next = 0;
    for run in stay.iter().map(|r| Some(*r)).chain([None]) {
        let (end, line) = run.map_or((size, u64::MAX), |r| (r.first, r.line));
        let gap = if next < end { vec![(next, end - 1)] } else { Vec::new() };
        let mut here = Vec::new();
        while let Some(f) = foreign.next_if(|f| f.line < line) {
            here.push(*f);
        }
        fill(without(gap, &moved), here, run.is_none().then_some(size), &mut findings);
        next = run.map_or(next, |r| r.last + 1);
    }
    merge(findings)
}

/// Sorts, and joins what is side by side.
pub(crate) fn merge(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|f| (f.class, f.how, f.first));
    let mut out = Vec::with_capacity(findings.len());
    findings.into_iter().for_each(|f| push(&mut out, f.class, (f.first, f.last), f.how));
    out.sort_by_key(|f| (f.class, f.first));
    out
}

/// The lines between two records that stay, against the records that should stand there.
fn fill(mut slots: Ranges, mut here: Vec<Foreign>, end: Option<u64>, findings: &mut Vec<Finding>) {
    let edited = |f: &Foreign| if f.other_log { Class::WrongLog } else { Class::Edited };
    here.retain(|f| {
        let claim = f.claim.filter(|c| slots.iter().any(|(a, b)| (a..=b).contains(&c)));
        if let Some(seq) = claim {
            slots = without(std::mem::take(&mut slots), &[(seq, seq)]);
            push(findings, edited(f), (seq, seq), Some(f.how));
        }
        claim.is_none()
    });
    for f in here {
        if let Some(seq) = slots.first().map(|(first, _)| *first) {
            slots = without(std::mem::take(&mut slots), &[(seq, seq)]);
            push(findings, edited(&f), (seq, seq), Some(f.how));
        } else {
            let class = if f.other_log { Class::WrongLog } else { Class::Inserted };
            push(findings, class, (f.line, f.line), f.other_log.then_some(f.how));
        }
    }
    for range in slots {
        let cut = end.is_some_and(|end| range.1 + 1 == end);
        push(findings, if cut { Class::Truncated } else { Class::Missing }, range, None);
    }
}

/// Adds a finding, or widens the last.
fn push(findings: &mut Vec<Finding>, class: Class, range: (u64, u64), how: Option<How>) {
    match findings.last_mut() {
        Some(last)
            if last.class == class
                && last.how == how
                && (last.first..=last.last.saturating_add(1)).contains(&range.0) =>
        {
            last.last = last.last.max(range.1);
        }
        _ => findings.push(Finding { class, first: range.0, last: range.1, how }),
    }
}

#[cfg(test)]
mod tests;
