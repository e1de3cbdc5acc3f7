//! Makes proof files from a log's files: the record, its path, and the newest checkpoint over it. It checks what it
//! made before it hands it out.

use std::io;

use crate::hash::Digest;
use crate::key::VerifierKey;
use crate::layout::{self, CHECKPOINTS, LEAVES};
use crate::note::{Checkpoint, MAX_NOTE};
use crate::proof::{Proof, ProofError};
use crate::read::{Cursor, Filter, each};
use crate::verify::Source;
use crate::{frame, tree};

/// Why there is no proof.
#[derive(Debug, thiserror::Error)]
pub enum ProveError {
    /// A file can't be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The log has no such record.
    #[error("the log has no record {0}")]
    NoRecord(u64),
    /// No checkpoint covers it yet.
    #[error("no checkpoint covers record {0} yet")]
    Unsealed(u64),
    /// The log's files contradict each other.
    #[error("the log's files do not prove it ({0}); run `tollgate audit verify`")]
    Broken(#[from] ProofError),
}

/// The newest checkpoint of a log that these keys signed, with its note; `None` when there is none.
///
/// # Errors
/// A file can't be read.
pub fn newest_checkpoint(
    source: &dyn Source,
    keys: &[VerifierKey],
) -> io::Result<Option<(Checkpoint, String)>> {
    for segment in source.segments()?.into_iter().rev() {
        let Some(file) = source.open(&layout::name(segment, CHECKPOINTS))? else { continue };
        let mut frames = frame::Frames::with_limit(Whole(file, 0), MAX_NOTE);
        let mut found = None;
        while let Some((_, frame)) = frames.next()? {
            if let frame::Frame::Whole(note) = frame
                && let Ok((checkpoint, _)) = Checkpoint::open(note, keys)
            {
                found = Some((checkpoint, String::from_utf8_lossy(note).into_owned()));
            }
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

struct Whole(std::sync::Arc<dyn crate::verify::ReadAt>, u64);

impl io::Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(buffer, self.1)?;
        self.1 += u64::try_from(read).unwrap_or_default();
        Ok(read)
    }
}

/// Proves the record `seq` under the log's newest checkpoint. `keys` are those of its epochs.
///
/// # Errors
/// There is no proof.
pub fn prove(source: &dyn Source, seq: u64, keys: &[VerifierKey]) -> Result<Proof, ProveError> {
    let mut record = None;
    let mut start = Cursor { segment: segment_of(source, seq)?, ..Cursor::default() };
    each(source, &Filter::default(), &mut start, &mut |found| {
        if found.entry.seq.0 == seq {
            record = Some(found.json);
        }
        record.is_none()
    })?;
    let record = record.ok_or(ProveError::NoRecord(seq))?;
    let (checkpoint, note) = newest_checkpoint(source, keys)?.ok_or(ProveError::Unsealed(seq))?;
    if checkpoint.size <= seq {
        return Err(ProveError::Unsealed(seq));
    }
    let mut leaves = Leaves::new(source)?;
    let mut failed = None;
    let mut read = |index| match leaves.get(index) {
        Ok(leaf) => leaf,
        Err(e) => {
            failed = Some(e);
            None
        }
    };
    let path = tree::inclusion(&mut read, seq, checkpoint.size);
    if let Some(error) = failed {
        return Err(error.into());
    }
    let path = path.ok_or(ProveError::Broken(ProofError::NotIncluded))?;
    let proof = Proof { record, index: seq, path, checkpoint: note };
    proof.check(keys)?;
    Ok(proof)
}

/// The last segment that does not begin behind a record.
fn segment_of(source: &dyn Source, seq: u64) -> io::Result<u64> {
    for segment in source.segments()?.into_iter().rev() {
        let mut first = None;
        each(source, &Filter::default(), &mut Cursor { segment, ..Cursor::default() }, &mut |found| {
            first = Some(found.entry.seq.0);
            false
        })?;
        if first.is_some_and(|first| first <= seq) {
            return Ok(segment);
        }
    }
    Ok(0)
}

/// The leaf hashes of all segments, one segment in memory at a time.
struct Leaves {
    /// Index of the first leaf, and the file.
    parts: Vec<(u64, std::sync::Arc<dyn crate::verify::ReadAt>)>,
    /// Place of the part in memory.
    at: Option<usize>,
    bytes: Vec<u8>,
}

impl Leaves {
    fn new(source: &dyn Source) -> io::Result<Leaves> {
        let (mut parts, mut first) = (Vec::new(), 0);
        for segment in source.segments()? {
            if let Some(file) = source.open(&layout::name(segment, LEAVES))? {
                let count = file.size()? / 32;
                parts.push((first, file));
                first += count;
            }
        }
        Ok(Leaves { parts, at: None, bytes: Vec::new() })
    }

    fn get(&mut self, index: u64) -> io::Result<Option<Digest>> {
        let Some(at) = self.parts.partition_point(|(first, _)| *first <= index).checked_sub(1) else {
            return Ok(None);
        };
        let Some((first, file)) = self.parts.get(at) else { return Ok(None) };
        if self.at != Some(at) {
            self.bytes.clear();
            self.at = None;
            io::Read::read_to_end(&mut Whole(file.clone(), 0), &mut self.bytes)?;
            self.at = Some(at);
        }
        let start = usize::try_from((index - first) * 32).unwrap_or(usize::MAX - 32);
        Ok(self.bytes.get(start..start + 32).and_then(Digest::from_slice))
    }
}
