//! Without an authenticated list: the records' own chain and tree against the checkpoints. If all agree, only the leaf
//! hashes' files are damaged. If not, the first bad record is named and no more.

use std::io;

use super::keys::Keys;
use super::list::{each, survey};
use super::source::{Source, Stream};
use super::walk::{Light, Story, light, names_another};
use super::{Class, Facts, How, Warning};
use crate::frame::{Frame, Frames};
use crate::hash::Digest;
use crate::layout::LOG;
use crate::tree::{Range, leaf_hash};

struct Chain<'a> {
    keys: &'a Keys,
    sizes: &'a [u64],
    receipts: &'a [(u64, Digest)],
    range: Range,
    prev: Digest,
    facts: Facts,
    story: Story,
    line: u64,
    /// What no checkpoint closes.
    gaps: Vec<(u64, u64)>,
}

/// Walks over all records until the first that is bad.
pub(crate) fn walk(
    source: &dyn Source,
    segments: &[u64],
    keys: &Keys,
    sizes: &[u64],
    receipts: &[(u64, Digest)],
) -> io::Result<Facts> {
    let mut chain = Chain {
        keys,
        sizes,
        receipts,
        range: Range::default(),
        prev: keys.genesis(),
        // The checkpoints count in any case, also those behind the first bad record.
        facts: survey(source, segments, keys)?,
        story: Story::default(),
        line: 0,
        gaps: Vec::new(),
    };
    let mut whole = true;
    for (at, segment) in segments.iter().enumerate() {
        whole = chain.segment(source, *segment, at + 1 == segments.len())?;
        if !whole {
            break;
        }
    }
    let Chain { mut facts, range, story, line, gaps, .. } = chain;
    facts.warnings.push(Warning::SideFile);
    facts.records = line;
    facts.size = if whole { range.size() } else { facts.signed.max(range.size()) };
    if whole {
        gaps.into_iter().for_each(|(first, last)| facts.find(Class::EpochGap, first, last, None));
        story.warn(&mut facts);
    } else {
        facts.later += 1;
        facts.warnings.push(Warning::More);
    }
    Ok(facts)
}

impl Chain<'_> {
    /// Whether it is whole.
    fn segment(&mut self, source: &dyn Source, segment: u64, last: bool) -> io::Result<bool> {
        let mut frames = Frames::new(Stream::open(source, segment, LOG)?);
        let start = self.range.size();
        // What is wrong with them is known from the survey.
        let mut held = each(source, segment, self.keys, &mut 0, &mut Facts::default())?;
        while let Some((offset, frame)) = frames.next()? {
            let (body, flaw) = match frame {
                Frame::Whole(body) => (Some(body), None),
                Frame::Flawed(body, right) => (body, Some(right)),
                Frame::Torn if last => {
                    self.facts.torn_bytes = frames.offset() - offset;
                    continue;
                }
                Frame::Torn => (None, Some(false)),
            };
            if !self.record(body, flaw) {
                return Ok(false);
            }
            let size = self.range.size();
            let roots = held.remove(&size).unwrap_or_default();
            if !roots.iter().all(|root| self.agrees(size, root)) {
                return Ok(false);
            }
        }
        let (open, end) = (self.facts.sealed.max(start), self.range.size());
        if !last && end > open {
            self.gaps.push((open, end - 1));
        }
        Ok(true)
    }

    /// Takes a record that continues the chain; says of the first that does not what it is.
    fn record(&mut self, body: Option<&[u8]>, flaw: Option<bool>) -> bool {
        let next = self.range.size();
        let line = self.line;
        self.line += 1;
        let record = body.and_then(light);
        let right = flaw != Some(false);
        if right && body.is_some_and(|b| names_another(b, self.keys.log())) {
            self.facts.find(Class::WrongLog, next, next, Some(How::Edit));
            return false;
        }
        let (Some(body), Some(record)) = (body, record.filter(|r| r.seq.is_some())) else {
            self.facts.find(Class::Edited, next, next, Some(How::Rot));
            return false;
        };
        if !right || !self.follows(&record, next, line) {
            if !right {
                self.facts.find(Class::Edited, next, next, Some(How::Rot));
            }
            return false;
        }
        if flaw.is_some() {
            self.facts.find(Class::Edited, next, next, Some(How::Rot));
        }
        self.prev = leaf_hash(body);
        self.range.push(self.prev);
        self.story.add(&record);
        self.facts.compare(self.receipts, next, self.prev);
        if self.sizes.binary_search(&self.range.size()).is_ok() {
            self.facts.roots.push((self.range.size(), self.range.root()));
        }
        true
    }

    fn follows(&mut self, record: &Light<'_>, next: u64, line: u64) -> bool {
        let seq = record.seq.map_or(next, |s| s.0);
        if seq == next && record.prev == self.prev {
            return true;
        }
        match seq.cmp(&next) {
            std::cmp::Ordering::Greater => self.facts.find(Class::Missing, next, seq - 1, None),
            std::cmp::Ordering::Less => self.facts.find(Class::Inserted, line, line, None),
            // Either this record's `prev` or the record before is not what it was.
            std::cmp::Ordering::Equal => {
                self.facts.find(Class::Edited, next.saturating_sub(1), next, Some(How::Edit));
            }
        }
        false
    }

    /// Whether a checkpoint of this size is of these records.
    fn agrees(&mut self, size: u64, root: &Digest) -> bool {
        let last = size.saturating_sub(1);
        if self.range.root() == *root {
            self.facts.sealed = size;
            return true;
        }
        if self.facts.sealed == size {
            // Two roots of one size are signed: these records are of one of them.
            self.facts.find(Class::Fork, last, last, None);
            return true;
        }
        self.facts.find(Class::Rewritten, self.facts.sealed, last, None);
        false
    }
}
