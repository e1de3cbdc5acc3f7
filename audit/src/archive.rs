//! What of a log is kept elsewhere for good: closed segments, file by file, none of which ever changes. The file `keys`
//! grows, so each segment has its own: the epochs up to the segment's end. This says which files, and connects to nothing.

use std::io;

use crate::frame::{Frame, Frames, line};
use crate::layout::{self, CHECKPOINTS, KEYS, LEAVES, LOG, SNAPSHOT};
use crate::recover::Epoch;
use crate::verify::{Source, header, whole};

/// Greatest size of a file that is kept, in bytes: twice what a segment may be configured to.
const MAX_FILE: u64 = 2 << 30;

/// Whether nothing will be written to a segment any more: the one behind it is signed, so that no start goes back to
/// this one.
///
/// # Errors
/// A file can't be read.
pub fn is_closed(source: &dyn Source, segment: u64) -> io::Result<bool> {
    let next = source.open(&layout::name(segment.saturating_add(1), CHECKPOINTS))?;
    Ok(next.map(|file| file.size()).transpose()?.is_some_and(|size| size > 0))
}

/// The files of a closed segment in the order in which they must be kept. With its last, the records, a segment is
/// complete.
pub fn names(segment: u64) -> impl Iterator<Item = String> {
    let all = [KEYS, SNAPSHOT, LEAVES, CHECKPOINTS, LOG];
    all.into_iter().filter(move |e| segment > 0 || *e != SNAPSHOT).map(move |e| layout::name(segment, e))
}

/// What is kept under one of [`names`].
///
/// # Errors
/// It can't be read, or is none of a closed segment.
pub fn content(source: &dyn Source, name: &str) -> io::Result<Vec<u8>> {
    let wrong = |why| io::Error::new(io::ErrorKind::InvalidData, format!("{name}: {why}"));
    let (segment, extension) = layout::parse(name).ok_or_else(|| wrong("no file of a segment"))?;
    if extension != KEYS {
        return whole(source, name, MAX_FILE)?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, name));
    }
    let next =
        header(source, segment.saturating_add(1))?.ok_or_else(|| wrong("the segment is not closed"))?;
    let all = whole(source, KEYS, MAX_FILE)?.unwrap_or_default();
    let mut frames = Frames::new(all.as_slice());
    let mut kept = Vec::new();
    while let Some((_, Frame::Whole(body))) = frames.next()? {
        let epoch: Epoch = serde_json::from_slice(body)?;
        if epoch.seq < next.seq.0 {
            kept.extend_from_slice(&line(body));
        }
    }
    if kept.is_empty() { Err(wrong("no key epoch is known")) } else { Ok(kept) }
}
