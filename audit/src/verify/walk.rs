//! Reads every record and judges it by the authenticated list: is it the log's, and which. What follows from where
//! they stand is decided in `align`. It never trusts a hash that is stored beside a record.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;

use serde::Deserialize;

use super::align::{Foreign, Seen, resolve};
use super::keys::Keys;
use super::list::List;
use super::source::{Source, Stream};
use super::{Class, Facts, How, Warning};
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

/// Reads the members of a record; `None` when it is no JSON object.
pub(crate) fn light(body: &[u8]) -> Option<Light<'_>> {
    serde_json::from_slice(body).ok()
}

/// What the records tell beside their order.
#[derive(Default)]
pub(crate) struct Story {
    open: HashSet<String>,
    steps: u64,
}

impl Story {
    pub(crate) fn add(&mut self, record: &Light<'_>) {
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
    rewritten: Vec<(u64, u64)>,
    /// Leaf hash of the line before.
    before: Digest,
    flawed: Vec<(u64, How)>,
    more: bool,
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
    receipts: &[(u64, Digest)],
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
        rewritten: Vec::new(),
        before: keys.genesis(),
        flawed: Vec::new(),
        more: false,
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
                return walk.finish(receipts);
            }
        }
    }
    walk.finish(receipts)
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
                    (_, Some(_)) => self.flawed.push((seq, How::Rot)),
                    (Is::Rechained(_), None) if chained => widen(&mut self.rewritten, seq),
                    // Its place was written anew, and not so that the chain would hold.
                    (Is::Rechained(_), None) => self.flawed.push((seq, How::Edit)),
                    _ => {}
                }
            }
            Is::Foreign(claim, other) => {
                let rot = flaw == Some(false) || record.is_none();
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
            return Ok(Is::Record(seq));
        }
        // Rot is nobody's rewriting.
        match if whole { self.rechained(body, seq)? } else { None } {
            Some(place) => Ok(Is::Rechained(place)),
            None => Ok(Is::Foreign(claim, false)),
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

    fn finish(mut self, receipts: &[(u64, Digest)]) -> io::Result<Facts> {
        let mut conflicts = Vec::new();
        for (seq, leaf) in receipts {
            if self.list.get(*seq)?.is_some_and(|here| here != *leaf) {
                conflicts.push(*seq);
            }
        }
        let mut facts = self.list.facts;
        conflicts.into_iter().for_each(|seq| facts.find(Class::Fork, seq, seq, None));
        facts.records = self.line;
        facts.size = self.size;
        if self.more {
            facts.warnings.push(Warning::More);
        }
        let mut findings = resolve(&self.seen, self.size);
        if let Some((first, _)) = self.rewritten.first().copied() {
            for finding in findings.iter_mut().filter(|f| f.how.is_some() && f.first + 1 == first) {
                finding.how = Some(How::Rewrite);
            }
        }
        facts.findings.append(&mut findings);
        for (first, last) in self.rewritten {
            facts.find(Class::Rewritten, first, last, None);
        }
        for (seq, how) in self.flawed {
            facts.find(Class::Edited, seq, seq, Some(how));
        }
        self.story.warn(&mut facts);
        Ok(facts)
    }
}

/// Adds one to ranges that grow at their end.
fn widen(ranges: &mut Vec<(u64, u64)>, seq: u64) {
    match ranges.last_mut() {
        Some((_, last)) if *last + 1 == seq => *last = seq,
        _ => ranges.push((seq, seq)),
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
