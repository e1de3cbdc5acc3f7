//! The log's key epochs, each handed over by the one before: from the file `keys` and from the segments' first
//! records, whichever is whole. The first key is the one that was given.

use std::io;

use super::source::{Source, Stream};
use super::{Class, Finding};
use crate::entry::{Entry, Kind};
use crate::frame::{Frame, Frames};
use crate::key::VerifierKey;
use crate::layout::{KEYS, LOG};
use crate::note::{Checkpoint, NoteError};
use crate::recover::{Epoch, genesis};

/// Most epochs that are looked at.
const MAX_EPOCHS: usize = 100_000;

pub(crate) struct Keys {
    epochs: Vec<(Epoch, VerifierKey)>,
    /// The keys alone, for the notes.
    keys: Vec<VerifierKey>,
}

/// A segment's first record, if it can be read at all.
pub(crate) fn header(source: &dyn Source, segment: u64) -> io::Result<Option<Entry>> {
    let mut frames = Frames::new(Stream::open(source, segment, LOG)?);
    Ok(match frames.next()? {
        Some((_, Frame::Whole(body) | Frame::Flawed(Some(body), _))) => Entry::parse(body),
        _ => None,
    })
}

impl Keys {
    /// `None` when no first key is known. Findings: hand-overs that nobody signed, and another first key.
    pub(crate) fn read(
        source: &dyn Source,
        segments: &[u64],
        pinned: Option<&VerifierKey>,
        findings: &mut Vec<Finding>,
    ) -> io::Result<Option<Keys>> {
        let mut candidates = Vec::new();
        let mut damaged = false;
        let mut frames = Frames::new(Stream::of(source, KEYS)?);
        while let Some((_, frame)) = frames.next()? {
            let read = match frame {
                Frame::Whole(body) => serde_json::from_slice::<Epoch>(body).ok(),
                _ => None,
            };
            damaged |= read.is_none();
            candidates.extend(read);
            if candidates.len() > MAX_EPOCHS {
                break;
            }
        }
        damaged |= candidates.is_empty();
        let listed = candidates.len();
        for segment in segments {
            candidates.extend(header(source, *segment)?.and_then(epoch));
        }
        let own = candidates.iter().find_map(Epoch::first);
        let Some(first) = pinned.cloned().or_else(|| own.clone()) else { return Ok(None) };
        let mut report = |class, seq| findings.push(Finding { class, first: seq, last: seq, how: None });
        if own.is_some_and(|own| own != first) {
            // Nothing else can be judged.
            report(Class::UnknownKey, 0);
            return Ok(None);
        }
        if damaged {
            report(Class::BadSignature, 0);
        }
        let start =
            Epoch { epoch: 0, prev: genesis(&first), seq: 0, sig: String::new(), vkey: first.to_string() };
        let mut begun = false;
        let mut epochs = vec![(start.clone(), first)];
        for (at, candidate) in candidates.iter().enumerate() {
            // The first epoch is there before its line is; a second line of it is one too many.
            let taken = extend(&mut epochs, candidate) || (*candidate == start && !begun);
            begun |= *candidate == start;
            if !taken && at < listed {
                let skipped = candidate.epoch > epochs.last().map_or(0, |(e, _)| e.epoch) + 1;
                let (class, seq) = match candidate.epoch {
                    0 => (Class::BadSignature, 0),
                    _ if skipped => (Class::EpochGap, candidate.seq),
                    _ => (Class::BadSignature, candidate.seq),
                };
                report(class, seq);
            }
        }
        let keys = epochs.iter().map(|(_, key)| key.clone()).collect();
        Ok(Some(Keys { epochs, keys }))
    }

    pub(crate) fn log(&self) -> &str {
        self.keys.first().map_or("", VerifierKey::name)
    }

    pub(crate) fn into_keys(self) -> Vec<VerifierKey> {
        self.keys
    }

    pub(crate) fn count(&self) -> u64 {
        u64::try_from(self.epochs.len()).unwrap_or_default()
    }

    /// What the first record's `prev` must be.
    pub(crate) fn genesis(&self) -> crate::hash::Digest {
        self.epochs.first().map(|(epoch, _)| epoch.prev).unwrap_or_default()
    }

    /// Reads a checkpoint, and says whether the epoch that its size lies in is the one whose key signed it.
    pub(crate) fn open(&self, note: &[u8]) -> Result<(Checkpoint, bool), NoteError> {
        let (checkpoint, key) = Checkpoint::open(note, &self.keys)?;
        let at = self.epochs.partition_point(|(epoch, _)| epoch.seq < checkpoint.size).saturating_sub(1);
        let right = self.epochs.get(at).is_some_and(|(_, k)| k == key);
        Ok((checkpoint, right))
    }
}

fn epoch(header: Entry) -> Option<Epoch> {
    let number = header.epoch?.0;
    if header.kind != Kind::Key && header.seq.0 != 0 {
        return None;
    }
    Some(Epoch {
        epoch: number,
        prev: header.prev,
        seq: header.seq.0,
        sig: header.sig.map(Into::into).unwrap_or_default(),
        vkey: header.vkey?.into(),
    })
}

/// Appends a candidate that follows, and says whether it did. A hand-over that was not taken up may be followed by
/// another of the same number.
fn extend(epochs: &mut Vec<(Epoch, VerifierKey)>, candidate: &Epoch) -> bool {
    let key = epochs.last().and_then(|last| candidate.follows(last));
    key.map(|key| epochs.push((candidate.clone(), key))).is_some()
}
