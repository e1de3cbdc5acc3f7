//! The authenticated leaf list: the leaf hashes' files, whose root is what was signed. With it every record can be
//! judged by itself. If the files do not lead to the signed roots there is no list, and this says from where.

use std::io::{self, Read};
use std::sync::Arc;

use super::keys::{Keys, header};
use super::source::{ReadAt, Source, Stream};
use super::{Class, Facts};
use crate::frame::{Frame, Frames};
use crate::hash::Digest;
use crate::layout::{self, CHECKPOINTS, LEAVES, SNAPSHOT};
use crate::note::{Checkpoint, MAX_NOTE, NoteError};
use crate::recover::Snapshot;
use crate::tree::Range;

/// Leaves that are read at once.
const BLOCK: u64 = 1024;
/// Greatest snapshot that is read to bridge a lost segment, in bytes.
const MAX_SNAPSHOT: u64 = 64 << 20;

/// One segment's part of the list.
struct Part {
    first: u64,
    count: u64,
    file: Option<Arc<dyn ReadAt>>,
}

/// The list. Records that no part holds are known to be missing, and no more of them.
pub(crate) struct List {
    parts: Vec<Part>,
    /// One past the last leaf.
    pub(crate) size: u64,
    pub(crate) facts: Facts,
    block: Vec<u8>,
    /// Part and number of the block in memory.
    at: Option<(usize, u64)>,
}

/// Why there is no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoList;

impl List {
    /// The leaf hash of a record, if a part holds it.
    pub(crate) fn get(&mut self, seq: u64) -> io::Result<Option<Digest>> {
        let index = self.parts.partition_point(|p| p.first <= seq);
        let Some(part) = index.checked_sub(1).and_then(|i| self.parts.get(i)) else { return Ok(None) };
        let offset = seq - part.first;
        let (Some(file), true) = (&part.file, offset < part.count) else { return Ok(None) };
        let number = offset / BLOCK;
        if self.at != Some((index, number)) {
            let length = usize::try_from((part.count - number * BLOCK).min(BLOCK) * 32).unwrap_or(0);
            self.block.resize(length, 0);
            self.at = None;
            read_exact_at(&**file, &mut self.block, number * BLOCK * 32)?;
            self.at = Some((index, number));
        }
        let start = usize::try_from(offset % BLOCK * 32).unwrap_or(0);
        Ok(self.block.get(start..start + 32).and_then(Digest::from_slice))
    }
}

fn read_exact_at(file: &dyn ReadAt, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    let (mut rest, mut at) = (buffer, offset);
    while !rest.is_empty() {
        let read = file.read_at(rest, at)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        at += u64::try_from(read).unwrap_or_default();
        rest = rest.get_mut(read..).unwrap_or_default();
    }
    Ok(())
}

/// A segment's checkpoints, one after the other.
pub(crate) struct Notes<'a> {
    frames: Frames<Stream>,
    keys: &'a Keys,
    /// Size of the last valid one.
    pub(crate) last: Option<u64>,
}

impl<'a> Notes<'a> {
    pub(crate) fn open(source: &dyn Source, segment: u64, keys: &'a Keys) -> io::Result<Notes<'a>> {
        let frames = Frames::with_limit(Stream::open(source, segment, CHECKPOINTS)?, MAX_NOTE);
        Ok(Notes { frames, keys, last: None })
    }

    /// The next that a key of its own epoch signed; what is wrong with others becomes a finding. `about` stands in for
    /// the size of one that can't be read.
    pub(crate) fn next(&mut self, about: u64, facts: &mut Facts) -> io::Result<Option<Checkpoint>> {
        while let Some((_, frame)) = self.frames.next()? {
            let note = match frame {
                Frame::Whole(note) => note,
                // A writer was ended in the middle of the last one.
                Frame::Torn => return Ok(None),
                Frame::Flawed(..) => {
                    facts.find(Class::BadSignature, about, about, None);
                    continue;
                }
            };
            let class = match self.keys.open(note) {
                Ok((checkpoint, true)) if checkpoint.size > 0 => {
                    self.last = Some(checkpoint.size);
                    facts.signed = facts.signed.max(checkpoint.size);
                    return Ok(Some(checkpoint));
                }
                Ok((checkpoint, false)) => {
                    let at = checkpoint.size.saturating_sub(1);
                    facts.find(Class::EpochKey, at, at, None);
                    continue;
                }
                Ok(_) | Err(NoteError::Malformed | NoteError::BadSignature) => Class::BadSignature,
                Err(NoteError::UnknownKey) => Class::UnknownKey,
                Err(NoteError::NoCheckpoint) => Class::WrongLog,
            };
            facts.find(class, about, about, None);
        }
        Ok(None)
    }
}

/// Reads the list, in the order of the files' names or, if that does not lead to the signed roots, in the order of what
/// the segments say of themselves.
pub(crate) fn read(
    source: &dyn Source,
    segments: &[u64],
    keys: &Keys,
    sizes: &[u64],
) -> io::Result<Result<List, NoList>> {
    if let Ok(list) = ordered(source, segments, keys, sizes)? {
        return Ok(Ok(list));
    }
    let mut claimed = Vec::new();
    for segment in segments {
        let claim = header(source, *segment)?.map_or(u64::MAX, |h| h.seq.0);
        claimed.push((claim, *segment));
    }
    claimed.sort_unstable();
    let other: Vec<u64> = claimed.into_iter().map(|(_, segment)| segment).collect();
    if other == segments { Ok(Err(NoList)) } else { ordered(source, &other, keys, sizes) }
}

/// Reads the leaves of one segment after the other, and compares the roots at every checkpoint.
struct Pass<'a> {
    keys: &'a Keys,
    sizes: &'a [u64],
    range: Range,
    facts: Facts,
    /// Segments before were lost: the range is a snapshot's, to be believed when a root matches.
    bridged: bool,
}

fn ordered(
    source: &dyn Source,
    segments: &[u64],
    keys: &Keys,
    sizes: &[u64],
) -> io::Result<Result<List, NoList>> {
    let mut pass = Pass { keys, sizes, range: Range::default(), facts: Facts::default(), bridged: false };
    let mut parts = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        pass.bridge(source, *segment)?;
        let file = source.open(&layout::name(*segment, LEAVES))?;
        let count = file.as_ref().map_or(Ok(0), |f| f.size())? / 32;
        let first = pass.range.size();
        parts.push(Part { first, count, file });
        let last = at + 1 == segments.len();
        if pass.segment(source, *segment, first + count, last)?.is_err() {
            return Ok(Err(NoList));
        }
    }
    let Pass { mut facts, range, bridged, .. } = pass;
    if bridged && facts.sealed == 0 {
        return Ok(Err(NoList));
    }
    if facts.signed == 0 {
        facts.findings.retain(|f| f.class != Class::EpochGap);
        facts.find(Class::EpochGap, 0, range.size().saturating_sub(1), None);
    }
    Ok(Ok(List { parts, size: range.size(), facts, block: Vec::new(), at: None }))
}

impl Pass<'_> {
    /// Over segments that are not there: the segment's snapshot has the tree so far.
    fn bridge(&mut self, source: &dyn Source, segment: u64) -> io::Result<()> {
        let Some(header) = header(source, segment)? else { return Ok(()) };
        let claims = header.seq.0;
        if claims <= self.range.size() || header.segment.is_none() {
            return Ok(());
        }
        let bytes = Stream::open(source, segment, SNAPSHOT)?.all(MAX_SNAPSHOT)?;
        let snapshot = serde_json::from_slice::<Snapshot>(&bytes).ok().filter(|s| s.size == claims);
        if let Some(range) = snapshot.and_then(|s| Range::from_parts(s.size, s.nodes)) {
            self.range = range;
            self.bridged = true;
        }
        Ok(())
    }

    fn segment(
        &mut self,
        source: &dyn Source,
        segment: u64,
        end: u64,
        last: bool,
    ) -> io::Result<Result<(), NoList>> {
        let mut leaves = io::BufReader::with_capacity(64 * 1024, Stream::open(source, segment, LEAVES)?);
        let mut notes = Notes::open(source, segment, self.keys)?;
        let start = self.range.size();
        while let Some(checkpoint) = notes.next(self.range.size().saturating_sub(1), &mut self.facts)? {
            if checkpoint.size > end {
                // Signed and not there any more: at the log's end a cut, else no list.
                if last {
                    continue;
                }
                return Ok(Err(NoList));
            }
            if checkpoint.size < start || checkpoint.size < self.range.size() {
                return Ok(Err(NoList));
            }
            self.advance(&mut leaves, checkpoint.size)?;
            if self.range.root() != checkpoint.root {
                return Ok(Err(NoList));
            }
            self.facts.sealed = self.facts.sealed.max(checkpoint.size);
        }
        self.advance(&mut leaves, end)?;
        if !last && notes.last != Some(end) && end > start {
            let open = notes.last.unwrap_or(start);
            self.facts.find(Class::EpochGap, open, end - 1, None);
        }
        Ok(Ok(()))
    }

    fn advance(&mut self, leaves: &mut impl Read, to: u64) -> io::Result<()> {
        let mut leaf = [0; 32];
        while self.range.size() < to {
            leaves.read_exact(&mut leaf)?;
            self.range.push(Digest(leaf));
            if self.sizes.binary_search(&self.range.size()).is_ok() {
                self.facts.roots.push((self.range.size(), self.range.root()));
            }
        }
        Ok(())
    }
}
