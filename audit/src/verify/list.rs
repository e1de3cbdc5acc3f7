//! The authenticated leaf list: the leaf hashes' files, whose root is what was signed. With it every record can be
//! judged by itself. If the files do not lead to the signed roots there is no list, and this says from where.

use std::collections::BTreeMap;
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

/// Checkpoints of one segment that are held at once.
const MAX_HELD: usize = 1 << 18;
/// Roots of one size that are held: two already contradict each other.
const MAX_ROOTS: usize = 8;

/// The roots that one segment's checkpoints name, by size.
pub(crate) type Held = BTreeMap<u64, Vec<Digest>>;

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
    /// The tree over it, for what comes behind it.
    pub(crate) range: Range,
    /// The tree at the last root that was signed.
    sealed: Range,
    pub(crate) facts: Facts,
    block: Vec<u8>,
    /// Part and number of the block in memory.
    at: Option<(usize, u64)>,
}

/// Why there is no list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoList;

impl List {
    /// Leaves out what no checkpoint covers. Says whether there was any.
    pub(crate) fn cut(&mut self) -> bool {
        let longer = self.sealed.size() < self.size;
        self.range = self.sealed.clone();
        self.size = self.range.size();
        for part in &mut self.parts {
            part.count = part.count.min(self.size.saturating_sub(part.first));
        }
        let size = self.size;
        self.facts.roots.retain(|(at, _)| *at <= size);
        self.at = None;
        longer
    }

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
struct Notes<'a> {
    frames: Frames<Stream>,
    keys: &'a Keys,
}

impl<'a> Notes<'a> {
    fn open(source: &dyn Source, segment: u64, keys: &'a Keys) -> io::Result<Notes<'a>> {
        let frames = Frames::with_limit(Stream::open(source, segment, CHECKPOINTS)?, MAX_NOTE);
        Ok(Notes { frames, keys })
    }

    /// The next that a key of its own epoch signed; what is wrong with others becomes a finding. `about` stands in for
    /// the size of one that can't be read.
    fn next(&mut self, about: u64, facts: &mut Facts) -> io::Result<Option<Checkpoint>> {
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

/// All good checkpoints of a segment, in any order; those that fall become findings. `mark` is the size of the last that
/// does not, or that of a segment before.
pub(crate) fn each(
    source: &dyn Source,
    segment: u64,
    keys: &Keys,
    mark: &mut u64,
    facts: &mut Facts,
) -> io::Result<Held> {
    let (mut notes, mut begun, mut held) = (Notes::open(source, segment, keys)?, false, Held::new());
    while let Some(Checkpoint { size, root, .. }) = notes.next(mark.saturating_sub(1), facts)? {
        if begun && size < *mark {
            facts.find(Class::BadSignature, *mark - 1, *mark - 1, None);
        } else {
            (*mark, begun) = (size, true);
        }
        if held.len() < MAX_HELD || held.contains_key(&size) {
            let roots = held.entry(size).or_default();
            if !roots.contains(&root) && roots.len() < MAX_ROOTS {
                roots.push(root);
            }
        }
    }
    Ok(held)
}

/// What all checkpoints say by themselves, whatever the records are: the greatest size, and what is wrong with them.
pub(crate) fn survey(source: &dyn Source, segments: &[u64], keys: &Keys) -> io::Result<Facts> {
    let (mut facts, mut mark) = (Facts::default(), 0);
    for segment in segments {
        each(source, *segment, keys, &mut mark, &mut facts)?;
    }
    Ok(facts)
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
    sealed: Range,
    facts: Facts,
    /// Segments before were lost: the range is a snapshot's, to be believed when a root matches.
    bridged: bool,
}

/// A segment among the others.
struct Place {
    segment: u64,
    next: Option<u64>,
    /// One past its last leaf.
    end: u64,
}

fn ordered(
    source: &dyn Source,
    segments: &[u64],
    keys: &Keys,
    sizes: &[u64],
) -> io::Result<Result<List, NoList>> {
    let mut pass = Pass {
        keys,
        sizes,
        range: Range::default(),
        sealed: Range::default(),
        facts: Facts::default(),
        bridged: false,
    };
    let mut parts = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|i| segments.get(i));
        if *segment != before.map_or(0, |before| before.saturating_add(1)) {
            pass.bridge(source, *segment)?;
        }
        let file = source.open(&layout::name(*segment, LEAVES))?;
        let count = file.as_ref().map_or(Ok(0), |f| f.size())? / 32;
        let first = pass.range.size();
        parts.push(Part { first, count, file });
        let place = Place { segment: *segment, next: segments.get(at + 1).copied(), end: first + count };
        if pass.segment(source, &place)?.is_err() {
            return Ok(Err(NoList));
        }
    }
    let Pass { facts, range, sealed, bridged, .. } = pass;
    if bridged && facts.sealed == 0 {
        return Ok(Err(NoList));
    }
    Ok(Ok(List { parts, size: range.size(), range, sealed, facts, block: Vec::new(), at: None }))
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

    fn segment(&mut self, source: &dyn Source, place: &Place) -> io::Result<Result<(), NoList>> {
        let mut leaves =
            io::BufReader::with_capacity(64 * 1024, Stream::open(source, place.segment, LEAVES)?);
        let mut notes = Notes::open(source, place.segment, self.keys)?;
        let (start, end) = (self.range.size(), place.end);
        let mut open = start;
        loop {
            let size = self.range.size();
            let about = size.saturating_sub(1);
            let Some(checkpoint) = notes.next(about, &mut self.facts)? else { break };
            if checkpoint.size > end && place.next.is_none() {
                // Signed and not there any more: the log was cut.
                continue;
            }
            if checkpoint.size < start || checkpoint.size > end {
                // It is either the checkpoint or the segment that stands elsewhere.
                if !self.fits(source, place, start)? {
                    return Ok(Err(NoList));
                }
                self.facts.find(Class::BadSignature, about, about, None);
                continue;
            }
            if checkpoint.size < size {
                self.facts.find(Class::BadSignature, about, about, None);
                continue;
            }
            self.advance(&mut leaves, checkpoint.size)?;
            let same = self.range.root() == checkpoint.root;
            match same {
                true => self.sealed = self.range.clone(),
                // Two roots of one size are signed.
                false if self.sealed.size() == checkpoint.size => {
                    self.facts.find(Class::Fork, about, about, None);
                }
                false => return Ok(Err(NoList)),
            }
            self.facts.sealed = checkpoint.size;
            open = checkpoint.size;
        }
        self.advance(&mut leaves, end)?;
        if place.next.is_some() && end > open {
            self.facts.find(Class::EpochGap, open, end - 1, None);
        }
        Ok(Ok(()))
    }

    /// Whether the records say that the segment begins and ends where its leaves do.
    fn fits(&self, source: &dyn Source, place: &Place, start: u64) -> io::Result<bool> {
        let begins = |segment, seq| -> io::Result<bool> {
            Ok(header(source, segment)?.is_some_and(|h| h.seq.0 == seq))
        };
        Ok(begins(place.segment, start)? && place.next.map_or(Ok(true), |next| begins(next, place.end))?)
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
