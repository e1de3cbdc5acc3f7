//! Reads every record and judges it by the authenticated list: is it the log's, and which. What follows from where
//! they stand is decided in `align`. It never trusts a hash that is stored beside a record.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;

use serde::Deserialize;

use super::align::{Foreign, Seen, resolve, without};
use super::keys::Keys;
use super::list::List;
use super::source::{Source, Stream};
use super::{Class, Facts, Finding, How, Warning};
use crate::entry::{Int, Kind};
use crate::frame::{Frame, Frames};
use crate::hash::Digest;
use crate::layout::LOG;
use crate::tree::leaf_hash;

/// How far around its own number a record's place is searched when the chain was computed again.
const REACH: u64 = 512;
/// Hashes that may be spent on that.
const BUDGET: u64 = 2_000_000;
/// Lines of others and runs out of order that are listed.
const MAX_LISTED: usize = 16_384;
/// Open calls that are followed.
const MAX_OPEN: usize = 1 << 20;

/// The members that the verifier looks at.
#[derive(Deserialize)]
pub(crate) struct Light<'a> {
    #[serde(borrow)]
    pub(crate) call: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(crate) kind: Kind,
    #[serde(borrow, default)]
    pub(crate) log: Cow<'a, str>,
    #[serde(default)]
    pub(crate) prev: Digest,
    pub(crate) seq: Option<Int>,
}

/// Serde takes an array for a structure, too.
fn object<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    body.trim_ascii_start().starts_with(b"{").then(|| serde_json::from_slice(body).ok()).flatten()
}

/// Reads the members of a record; `None` when it is no JSON object with these in their forms.
pub(crate) fn light(body: &[u8]) -> Option<Light<'_>> {
    object(body)
}

/// Whether it is a JSON object that does not name this log, whatever else it has.
pub(crate) fn names_another(body: &[u8], log: &str) -> bool {
    #[derive(Deserialize)]
    struct Named {
        log: Option<serde_json::Value>,
    }
    object::<Named>(body).is_some_and(|n| n.log.as_ref().and_then(serde_json::Value::as_str) != Some(log))
}

/// What the records tell beside their order.
#[derive(Default)]
pub(crate) struct Story {
    open: HashSet<String>,
    steps: u64,
    /// Records that no start writes before the log's first checkpoint.
    later: u64,
}

impl Story {
    pub(crate) fn add(&mut self, record: &Light<'_>) {
        self.later += u64::from(!matches!(record.kind, Kind::Open | Kind::Recovered));
        match (record.kind, record.call.as_deref()) {
            (Kind::Intent, Some(call)) if self.open.len() < MAX_OPEN => {
                self.open.insert(call.to_owned());
            }
            (Kind::Outcome, Some(call)) => {
                self.open.remove(call);
            }
            (Kind::ClockStep, _) => self.steps += 1,
            _ => {}
        }
    }

    pub(crate) fn warn(self, facts: &mut Facts) {
        facts.later = self.later;
        if self.steps > 0 {
            facts.warnings.push(Warning::ClockStep { count: self.steps });
        }
        if !self.open.is_empty() {
            let count = u64::try_from(self.open.len()).unwrap_or_default();
            facts.warnings.push(Warning::OrphanIntent { count });
        }
    }
}

struct Walk<'a> {
    keys: &'a Keys,
    list: List,
    seen: Seen,
    story: Story,
    /// Number of the line.
    line: u64,
    /// The record that should come next.
    next: u64,
    /// Behind the list: the last leaf, for the chain.
    last: Option<Digest>,
    /// One past the last record.
    size: u64,
    /// By how much the last rewritten record's number was off.
    shift: i128,
    budget: u64,
    /// Records that were changed and can be told.
    marks: Vec<Mark>,
    /// Leaf hash of the line before.
    before: Digest,
    more: bool,
    sizes: &'a [u64],
    receipts: &'a [(u64, Digest)],
}

/// Records of neighbouring lines that were changed in one manner.
struct Mark {
    line: u64,
    first: u64,
    last: u64,
    class: Class,
    how: Option<How>,
}

/// What a line is.
#[derive(Clone, Copy)]
enum Is {
    /// A record of the log.
    Record(u64),
    /// One whose number or `prev` was written anew.
    Rechained(u64),
    Foreign(Option<u64>, bool),
}

/// Walks over all records.
pub(crate) fn walk(
    source: &dyn Source,
    segments: &[u64],
    keys: &Keys,
    list: List,
    (sizes, receipts): (&[u64], &[(u64, Digest)]),
) -> io::Result<Facts> {
    let size = list.size;
    let mut walk = Walk {
        keys,
        list,
        seen: Seen::default(),
        story: Story::default(),
        line: 0,
        next: 0,
        last: None,
        size,
        shift: 0,
        budget: BUDGET,
        marks: Vec::new(),
        before: keys.genesis(),
        more: false,
        sizes,
        receipts,
    };
    for (at, segment) in segments.iter().enumerate() {
        let last = at + 1 == segments.len();
        let mut frames = Frames::new(Stream::open(source, *segment, LOG)?);
        while let Some((offset, frame)) = frames.next()? {
            match frame {
                Frame::Whole(body) => walk.line(body, None)?,
                Frame::Flawed(Some(body), right) => walk.line(body, Some(right))?,
                Frame::Flawed(None, _) => walk.foreign(None, How::Rot, false),
                Frame::Torn if last => {
                    walk.list.facts.torn_bytes = frames.offset() - offset;
                    continue;
                }
                Frame::Torn => walk.foreign(None, How::Rot, false),
            }
            walk.line += 1;
            if walk.seen.foreign.len() + walk.seen.runs.len() > MAX_LISTED {
                walk.more = true;
                return walk.finish();
            }
        }
    }
    walk.finish()
}

impl Walk<'_> {
    /// Judges a line; `flaw` says of a damaged one whether its CRC is its body's.
    fn line(&mut self, body: &[u8], flaw: Option<bool>) -> io::Result<()> {
        let leaf = leaf_hash(body);
        let record = light(body);
        let is = self.what(body, leaf, record.as_ref(), flaw.is_none())?;
        match is {
            Is::Record(seq) | Is::Rechained(seq) => {
                self.seen.authentic(seq, self.line);
                self.next = seq + 1;
                if let Some(record) = &record {
                    self.story.add(record);
                }
                let chained = record.as_ref().is_some_and(|r| r.prev == self.before);
                match (is, flaw) {
                    (_, Some(_)) => self.mark(seq, Class::Edited, Some(How::Rot)),
                    (Is::Rechained(_), None) if chained => self.mark(seq, Class::Rewritten, None),
                    // Its place was written anew, and not so that the chain would hold.
                    (Is::Rechained(_), None) => self.mark(seq, Class::Edited, Some(How::Edit)),
                    _ => {}
                }
            }
            Is::Foreign(claim, other) => {
                let rot = flaw == Some(false) || record.is_none_or(|r| r.seq.is_none());
                // A damaged line may name anything.
                self.foreign(claim, if rot { How::Rot } else { How::Edit }, other && !rot);
            }
        }
        self.before = leaf;
        Ok(())
    }

    fn foreign(&mut self, claim: Option<u64>, how: How, other_log: bool) {
        self.before = Digest::default();
        self.seen.foreign.push(Foreign { line: self.line, claim, how, other_log });
    }

    fn what(&mut self, body: &[u8], leaf: Digest, record: Option<&Light<'_>>, whole: bool) -> io::Result<Is> {
        if self.list.get(self.next)? == Some(leaf) {
            return Ok(Is::Record(self.next));
        }
        let Some(record) = record else { return Ok(Is::Foreign(None, false)) };
        let claim = record.seq.map(|s| s.0);
        let Some(seq) = claim else { return Ok(Is::Foreign(None, false)) };
        if self.list.get(seq)? == Some(leaf) {
            return Ok(Is::Record(seq));
        }
        if record.log != self.keys.log() {
            return Ok(Is::Foreign(claim, true));
        }
        if seq >= self.list.size && seq == self.size && self.follows(record)? {
            self.last = Some(leaf);
            self.size += 1;
            self.behind(seq, leaf);
            return Ok(Is::Record(seq));
        }
        // Rot is nobody's rewriting.
        match if whole { self.rechained(body, seq)? } else { None } {
            Some(place) => Ok(Is::Rechained(place)),
            None => Ok(Is::Foreign(claim, false)),
        }
    }

    /// The tree goes on behind the list.
    fn behind(&mut self, seq: u64, leaf: Digest) {
        self.list.facts.compare(self.receipts, seq, leaf);
        let range = &mut self.list.range;
        if range.size() == seq {
            range.push(leaf);
            if self.sizes.binary_search(&range.size()).is_ok() {
                self.list.facts.roots.push((range.size(), range.root()));
            }
        }
    }

    fn mark(&mut self, seq: u64, class: Class, how: Option<How>) {
        match self.marks.last_mut() {
            Some(m)
                if (m.class, m.how, m.last + 1) == (class, how, seq)
                    && m.line + (seq - m.first) == self.line =>
            {
                m.last = seq;
            }
            _ => self.marks.push(Mark { line: self.line, first: seq, last: seq, class, how }),
        }
    }

    /// Whether a record behind the list continues the chain.
    fn follows(&mut self, record: &Light<'_>) -> io::Result<bool> {
        let prev = match (self.last, self.size.checked_sub(1)) {
            (Some(last), _) => Some(last),
            (None, Some(before)) => self.list.get(before)?,
            (None, None) => Some(self.keys.genesis()),
        };
        Ok(prev == Some(record.prev))
    }

    /// The record whose bytes these are but for `prev` and `seq`.
    fn rechained(&mut self, body: &[u8], seq: u64) -> io::Result<Option<u64>> {
        let Some(parts) = Parts::of(body) else { return Ok(None) };
        let shifted = u64::try_from(i128::from(seq) + self.shift).ok();
        let near = (0..=REACH).flat_map(|d| [seq.checked_sub(d), seq.checked_add(d)]).flatten();
        for place in [Some(self.next), shifted].into_iter().flatten().chain(near) {
            if self.budget == 0 || place >= self.list.size {
                continue;
            }
            self.budget -= 1;
            let prev = match place.checked_sub(1) {
                Some(before) => self.list.get(before)?,
                None => Some(self.keys.genesis()),
            };
            let Some(prev) = prev else { continue };
            if self.list.get(place)? == Some(parts.leaf(prev, place)) {
                self.shift = i128::from(place) - i128::from(seq);
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn finish(mut self) -> io::Result<Facts> {
        for (seq, leaf) in self.receipts {
            if let Some(here) = self.list.get(*seq)? {
                self.list.facts.compare(&[(*seq, *leaf)], *seq, here);
            }
        }
        let mut facts = self.list.facts;
        facts.records = self.line;
        facts.size = self.size;
        if self.more {
            facts.warnings.push(Warning::More);
        }
        let mut findings = resolve(&self.seen, self.size);
        // What is wrong with a copy is that it is there.
        let copies: Vec<(u64, u64)> =
            findings.iter().filter(|f| f.class == Class::Inserted).map(|f| (f.first, f.last)).collect();
        let mut marks = Vec::new();
        for mark in &self.marks {
            let lines = vec![(mark.line, mark.line + (mark.last - mark.first))];
            for (from, to) in without(lines, &copies) {
                let place = |line: u64| mark.first + (line - mark.line);
                let (first, last) = (place(from), place(to));
                marks.push(Finding { class: mark.class, first, last, how: mark.how });
            }
        }
        if let Some(rewritten) = marks.iter().find(|m| m.class == Class::Rewritten) {
            for finding in findings.iter_mut().filter(|f| f.how.is_some() && f.first + 1 == rewritten.first) {
                finding.how = Some(How::Rewrite);
            }
        }
        facts.findings.append(&mut findings);
        facts.findings.append(&mut marks);
        self.story.warn(&mut facts);
        facts.later += u64::try_from(self.seen.foreign.len()).unwrap_or_default();
        Ok(facts)
    }
}

/// A record's bytes around its `prev` and its `seq`.
struct Parts<'a> {
    head: &'a [u8],
    middle: &'a [u8],
    tail: &'a [u8],
    quoted: bool,
}

impl<'a> Parts<'a> {
    fn of(body: &'a [u8]) -> Option<Parts<'a>> {
        // A quote inside a text is escaped: these bytes can't be in one.
        let prev = memchr::memmem::find(body, b",\"prev\":\"")? + 9;
        let seq = memchr::memmem::find(body, b",\"seq\":")? + 7;
        let quoted = body.get(seq) == Some(&b'"');
        let from = seq + usize::from(quoted);
        let digits = body.get(from..)?.iter().take_while(|b| b.is_ascii_digit()).count();
        let end = from + digits + usize::from(quoted);
        Some(Parts {
            head: body.get(..prev)?,
            middle: body.get(prev + 64..seq)?,
            tail: body.get(end..)?,
            quoted,
        })
    }

    fn leaf(&self, prev: Digest, seq: u64) -> Digest {
        let quote: &[u8] = if self.quoted { b"\"" } else { b"" };
        Digest::sha256(&[
            &[0],
            self.head,
            prev.hex().as_bytes(),
            self.middle,
            quote,
            seq.to_string().as_bytes(),
            quote,
            self.tail,
        ])
    }
}
