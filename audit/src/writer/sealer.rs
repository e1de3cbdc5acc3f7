//! What follows a sync, on the writer's thread alone: the records are read back and hashed again, join the tree, and
//! are signed over. It starts new segments and key epochs. Nothing is ever signed that was not read back.

use std::path::PathBuf;
use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};

use super::head::{Head, Item, Unsynced};
use super::slot::Slot;
use super::snapshot::Preparing;
use crate::entry::{Entry, Int, Kind, Text};
use crate::error::Unavailable;
use crate::frame::{self, Frame, Frames};
use crate::hash::Digest;
use crate::key::{SigningKey, VerifierKey, handover};
use crate::layout::{self, CHECKPOINTS, LEAVES, LOG};
use crate::note::Checkpoint;
use crate::recover::Epoch;
use crate::storage::{AppendError, Mode, ReadFrom, Storage, StoredFile, append_all, replace};
use crate::tree::{Range, leaf_hash};

/// Leaves that are kept back at most, in bytes.
const OWED: usize = 64 << 10;

/// An appended-to side file and its length.
pub(crate) struct Side {
    pub(crate) file: Arc<dyn StoredFile>,
    pub(crate) size: u64,
}

impl Side {
    /// Opens a side file that has this length.
    pub(crate) fn open(storage: &dyn Storage, path: PathBuf, size: Option<u64>) -> std::io::Result<Side> {
        let mode = if size.is_some() { Mode::Append } else { Mode::Create };
        Ok(Side { file: storage.open(&path, mode)?, size: size.unwrap_or(0) })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), AppendError> {
        append_all(&*self.file, self.size, bytes)?;
        self.size += u64::try_from(bytes.len()).unwrap_or_default();
        Ok(())
    }
}

pub(crate) struct Sealer {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) dir: PathBuf,
    pub(crate) guard: Option<PathBuf>,
    pub(crate) key: Arc<SigningKey>,
    pub(crate) epoch: u64,
    pub(crate) log: Arc<str>,
    pub(crate) segment: u64,
    pub(crate) file: Arc<dyn StoredFile>,
    pub(crate) leaves: Side,
    pub(crate) checkpoints: Side,
    pub(crate) keys: Side,
    /// Over everything that was read back.
    pub(crate) range: Range,
    /// Up to where the segment was read back.
    pub(crate) offset: u64,
    /// Leaves that the side file does not have yet. It gets them in time for a checkpoint: one more file with new bytes
    /// makes every sync of the segment slower, and without a checkpoint they prove nothing.
    pub(crate) owed: Vec<u8>,
    /// Size of the last checkpoint.
    pub(crate) signed: u64,
    pub(crate) last: Option<Arc<str>>,
    /// The next segment's snapshot, being written.
    pub(crate) preparing: Option<Preparing>,
    /// What is read back goes through here.
    pub(crate) buffer: Vec<u8>,
    /// Room for the next records' leaves.
    pub(crate) spare: Unsynced,
}

/// A failure that must end this process, as against one that is tried again.
pub(crate) enum Fault {
    Fatal(String),
    Later(String),
}

pub(super) fn later(what: &str) -> impl FnOnce(std::io::Error) -> Fault {
    move |e| Fault::Later(format!("{what}: {e}"))
}

fn fatal(what: &str) -> impl FnOnce(std::io::Error) -> Fault {
    move |e| Fault::Fatal(format!("{what}: {e}"))
}

fn appended(what: &str) -> impl FnOnce(AppendError) -> Fault {
    move |e| match e {
        AppendError::Undone(e) => Fault::Later(format!("{what}: {e}")),
        AppendError::Lost(e) => Fault::Fatal(format!("{what}: {e}")),
    }
}

impl Sealer {
    /// Reads `[offset, end)` back and compares it with what was meant to be written there. Memory or a disk that
    /// changed a record shows here, before anything is signed.
    pub(crate) fn absorb(&mut self, end: u64, meant: &[Digest]) -> Result<(), Fault> {
        let from = ReadFrom::new(self.file.clone(), self.offset, end);
        let mut frames = Frames::over(from, std::mem::take(&mut self.buffer));
        let mut meant = meant.iter();
        while let Some((_, frame)) = frames.next().map_err(fatal("reading back"))? {
            let Frame::Whole(body) = frame else { return Err(corrupt(self.range.size())) };
            let leaf = leaf_hash(body);
            if meant.next() != Some(&leaf) {
                return Err(corrupt(self.range.size()));
            }
            self.range.push(leaf);
            self.owed.extend_from_slice(&leaf.0);
            if let Some(preparing) = &mut self.preparing {
                preparing.add(body);
            }
        }
        self.buffer = frames.into_buffer();
        if meant.next().is_some() {
            return Err(corrupt(self.range.size()));
        }
        self.offset = end;
        if self.owed.len() >= OWED { self.pay() } else { Ok(()) }
    }

    /// Writes the leaves that the side file lacks.
    fn pay(&mut self) -> Result<(), Fault> {
        self.leaves.append(&self.owed).map_err(appended("writing leaves"))?;
        self.owed.clear();
        Ok(())
    }

    /// Signs the tree as far as it was read back, if it grew. The file must not have been written by another.
    pub(crate) fn sign(&mut self, written: u64) -> Result<(), Fault> {
        if self.range.size() == self.signed {
            return Ok(());
        }
        if self.file.size().map_err(fatal("looking at the segment"))? < written {
            return Err(Fault::Fatal("the segment was cut by another".into()));
        }
        self.pay()?;
        let checkpoint =
            Checkpoint { origin: self.log.to_string(), size: self.range.size(), root: self.range.root() };
        let note = checkpoint.sign(&self.key);
        self.checkpoints.append(&frame::line(note.as_bytes())).map_err(appended("writing a checkpoint"))?;
        self.signed = checkpoint.size;
        if let Some(guard) = &self.guard {
            replace(&*self.storage, guard, note.as_bytes()).map_err(later("writing the guard"))?;
        }
        self.last = Some(note.into());
        Ok(())
    }

    /// Closes the segment and begins the next with a header of this kind. Everything written must have been synced
    /// and read back.
    pub(crate) fn rotate(&mut self, head: &mut Head, mut header: Entry) -> Result<(), Fault> {
        self.sign(head.offset)?;
        self.leaves.file.sync().map_err(fatal("syncing leaves"))?;
        self.checkpoints.file.sync().map_err(fatal("syncing checkpoints"))?;
        let next = self.segment + 1;
        let snapshot = self.snapshot(head)?;
        let path = |extension| layout::path(&self.dir, next, extension);
        let open = |extension| Side::open(&*self.storage, path(extension), None);
        let leaves = open(LEAVES).map_err(later("making leaves"))?;
        let checkpoints = open(CHECKPOINTS).map_err(later("making checkpoints"))?;
        let file = open(LOG).map_err(later("making a segment"))?.file;
        header.snapshot = Some(snapshot);
        header.segment = Some(Int(next));
        header.size = Some(Int(self.range.size()));
        self.switch(head, file, header)?;
        (self.leaves, self.checkpoints, self.segment) = (leaves, checkpoints, next);
        self.storage.sync_dir(&self.dir).map_err(fatal("syncing the directory"))
    }

    /// Writes the header to the new file and makes it the head's.
    fn switch(&mut self, head: &mut Head, file: Arc<dyn StoredFile>, header: Entry) -> Result<(), Fault> {
        let old = (std::mem::replace(&mut head.file, file.clone()), std::mem::take(&mut head.offset));
        let item = Item { entry: header.into(), slot: Slot::new(), keep: false, after: None, place: false };
        let done = head.write(&mut [item].into()).map_err(|refused| match refused.error {
            Unavailable::Poisoned(why) => Fault::Fatal(why),
            other => Fault::Later(other.to_string()),
        });
        if let Err(fault) = done {
            (head.file, head.offset) = old;
            return Err(fault);
        }
        // The old segment is complete: what guards it now is its mode and its last checkpoint.
        let _ = old.0.seal();
        (self.file, self.offset) = (file, 0);
        Ok(())
    }

    /// Hands over to the next key: its epoch begins with the next segment's first record.
    pub(crate) fn hand_over(&mut self, head: &mut Head, next: Arc<SigningKey>) -> Result<VerifierKey, Fault> {
        self.sign(head.offset)?;
        let vkey = next.verifier(&self.log);
        let message = handover(&vkey, self.epoch + 1, head.seq, &head.prev);
        let epoch = Epoch {
            epoch: self.epoch + 1,
            prev: head.prev,
            seq: head.seq,
            sig: BASE64_STANDARD.encode(self.key.sign(&message)),
            vkey: vkey.to_string(),
        };
        let before = self.keys.size;
        self.keys.append(&epoch.line()).map_err(appended("writing keys"))?;
        self.keys.file.sync().map_err(fatal("syncing keys"))?;
        let header = Entry {
            epoch: Some(Int(epoch.epoch)),
            sig: Some(Text::from(epoch.sig)),
            vkey: Some(Text::from(epoch.vkey)),
            ..Entry::new(Kind::Key)
        };
        if let Err(fault) = self.rotate(head, header) {
            // Not handed over: the next attempt stands elsewhere in the chain.
            self.keys.file.truncate(before).map_err(fatal("cutting keys"))?;
            self.keys.size = before;
            return Err(fault);
        }
        (self.epoch, self.key) = (self.epoch + 1, next);
        Ok(vkey)
    }
}

fn corrupt(seq: u64) -> Fault {
    Fault::Fatal(format!(
        "record {seq} is not what was written: memory, the disk or another process changed it"
    ))
}
