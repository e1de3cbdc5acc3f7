//! Without an authenticated list: the records' own chain and tree against the checkpoints. If all agree, only the leaf
//! hashes' files are damaged. If not, the first bad record is named and no more.

use std::io;

use super::keys::Keys;
use super::list::Notes;
use super::source::{Source, Stream};
use super::walk::{Light, Story, light};
use super::{Class, Facts, How, Warning};
use crate::frame::{Frame, Frames};
use crate::hash::Digest;
use crate::layout::LOG;
use crate::note::Checkpoint;
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
        facts: Facts::default(),
        story: Story::default(),
        line: 0,
    };
    let mut whole = true;
    for (at, segment) in segments.iter().enumerate() {
        whole = chain.segment(source, *segment, at + 1 == segments.len())?;
        if !whole {
            break;
        }
    }
    let Chain { mut facts, range, story, line, .. } = chain;
    facts.warnings.push(Warning::SideFile);
    facts.records = line;
    facts.size = if whole { range.size() } else { facts.signed.max(range.size()) };
    if facts.signed == 0 {
        facts.findings.retain(|f| f.class != Class::EpochGap);
        facts.find(Class::EpochGap, 0, range.size().saturating_sub(1), None);
    }
    if whole {
        story.warn(&mut facts);
    } else {
        facts.warnings.push(Warning::More);
    }
    Ok(facts)
}

impl Chain<'_> {
    /// Whether it is whole.
    fn segment(&mut self, source: &dyn Source, segment: u64, last: bool) -> io::Result<bool> {
        let mut frames = Frames::new(Stream::open(source, segment, LOG)?);
        let mut notes = Notes::open(source, segment, self.keys)?;
        let start = self.range.size();
        let mut due = notes.next(start, &mut self.facts)?;
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
            while let Some(checkpoint) = due.take_if(|c| c.size <= self.range.size()) {
                if !self.agrees(&checkpoint) {
                    return Ok(false);
                }
                due = notes.next(self.range.size(), &mut self.facts)?;
            }
        }
        // The rest is signed and not there.
        while due.is_some() {
            due = notes.next(self.range.size(), &mut self.facts)?;
        }
        let end = self.range.size();
        if !last && notes.last != Some(end) && end > start {
            self.facts.find(Class::EpochGap, notes.last.unwrap_or(start), end - 1, None);
        }
        Ok(true)
    }

    /// Takes a record that continues the chain; says of the first that does not what it is.
    fn record(&mut self, body: Option<&[u8]>, flaw: Option<bool>) -> bool {
        let next = self.range.size();
        let line = self.line;
        self.line += 1;
        let record = body.and_then(light);
        let (Some(body), Some(record)) = (body, record) else {
            self.facts.find(Class::Edited, next, next, Some(How::Rot));
            return false;
        };
        if record.log != self.keys.log() {
            self.facts.find(Class::WrongLog, next, next, Some(How::Edit));
            return false;
        }
        if flaw.is_some() {
            self.facts.find(Class::Edited, next, next, Some(How::Rot));
        }
        if flaw == Some(false) || !self.follows(&record, next, line) {
            return false;
        }
        self.prev = leaf_hash(body);
        self.range.push(self.prev);
        self.story.add(&record);
        let receipt = self.receipts.iter().find(|(seq, _)| *seq == next);
        if receipt.is_some_and(|(_, leaf)| *leaf != self.prev) {
            self.facts.find(Class::Fork, next, next, None);
        }
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

    /// Whether a checkpoint is of these records. One of an earlier size comes too late to be compared.
    fn agrees(&mut self, checkpoint: &Checkpoint) -> bool {
        if checkpoint.size < self.range.size() {
            self.facts.find(Class::BadSignature, checkpoint.size - 1, checkpoint.size - 1, None);
            return true;
        }
        let same = self.range.root() == checkpoint.root;
        if same {
            self.facts.sealed = checkpoint.size;
        } else {
            self.facts.find(Class::Rewritten, self.facts.sealed, checkpoint.size - 1, None);
        }
        same
    }
}
