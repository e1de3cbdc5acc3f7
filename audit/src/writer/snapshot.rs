//! The state that a segment begins with. Many runs take long to write down, so they are written from a copy, on a thread
//! of their own, while records go on into the old segment. Those that came since the copy stand behind it: whoever reads
//! the snapshot adds them. What is done while nobody can write does not grow with what is kept.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use ring::digest::{Context, SHA256};

use super::head::Head;
use super::sealer::{Fault, Sealer, later};
use crate::costs::Totals;
use crate::hash::Digest;
use crate::layout::{self, SNAPSHOT};
use crate::recover::{MAX_SNAPSHOT, Snapshot};
use crate::storage::{AppendError, Mode, Storage, StoredFile, append_all, replace};

/// Up to so many sums they are written at once: that takes no longer than the syncs beside it.
const FEW: usize = 2_048;

/// A snapshot's file on its way.
pub(crate) struct Draft {
    file: Arc<dyn StoredFile>,
    path: PathBuf,
    size: u64,
    hash: Context,
}

impl Draft {
    fn begin(storage: &dyn Storage, place: &Path) -> io::Result<Draft> {
        let mut path = place.as_os_str().to_owned();
        // Not where a snapshot is written that nobody began before.
        path.push(".draft");
        let path = PathBuf::from(path);
        let file = storage.open(&path, Mode::Create)?;
        Ok(Draft { file, path, size: 0, hash: Context::new(&SHA256) })
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        append_all(&*self.file, self.size, bytes).map_err(|e| match e {
            AppendError::Undone(e) | AppendError::Lost(e) => e,
        })?;
        self.size += u64::try_from(bytes.len()).unwrap_or_default();
        self.hash.update(bytes);
        Ok(())
    }

    /// Puts the file in its place, durable.
    fn end(self, storage: &dyn Storage, place: &Path) -> io::Result<Digest> {
        self.file.sync()?;
        storage.rename(&self.path, place)?;
        place.parent().map_or(Ok(()), |parent| storage.sync_dir(parent))?;
        Ok(Digest::from_slice(self.hash.finish().as_ref()).unwrap_or_default())
    }
}

/// A copy of the totals, being written, and what came since.
pub(crate) struct Preparing {
    thread: Option<JoinHandle<io::Result<Draft>>>,
    draft: Option<Draft>,
    /// The records since then, a comma before each.
    tail: Vec<u8>,
}

impl Preparing {
    /// A record that was read back.
    pub(crate) fn add(&mut self, body: &[u8]) {
        self.tail.push(b',');
        self.tail.extend_from_slice(body);
    }

    /// Waits for the thread, if it is still at work.
    fn join(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let draft = thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")))?;
        self.draft = Some(draft);
        Ok(())
    }

    /// Writes what came since, behind what was written before.
    fn catch_up(&mut self) -> io::Result<Option<&mut Draft>> {
        self.join()?;
        let Some(draft) = &mut self.draft else { return Ok(None) };
        draft.append(&std::mem::take(&mut self.tail))?;
        Ok(Some(draft))
    }

    /// Puts the snapshot in its place; `rest` are its other members. None if it became too large to be read.
    fn end(mut self, storage: &dyn Storage, place: &Path, rest: &[u8]) -> io::Result<Option<Digest>> {
        self.catch_up()?;
        let Some(mut draft) = self.draft else { return Ok(None) };
        draft.append(b"]},")?;
        draft.append(rest.get(1..).unwrap_or_default())?;
        if draft.size > MAX_SNAPSHOT {
            return Ok(None);
        }
        draft.end(storage, place).map(Some)
    }

    /// Ends the thread.
    pub(crate) fn leave(mut self) {
        drop(self.join());
    }
}

/// Writes the totals. The list of what came since begins with nothing, so that a comma can stand before each of it.
fn written(storage: &dyn Storage, place: &Path, totals: &Totals) -> io::Result<Draft> {
    let mut draft = Draft::begin(storage, place)?;
    let mut bytes = br#"{"totals":"#.to_vec();
    serde_json::to_writer(&mut bytes, totals)?;
    bytes.pop();
    bytes.extend_from_slice(br#","tail":[null"#);
    draft.append(&bytes)?;
    draft.file.sync()?;
    Ok(draft)
}

impl Sealer {
    fn place(&self) -> PathBuf {
        layout::path(&self.dir, self.segment + 1, SNAPSHOT)
    }

    /// Begins to write the totals down, if there are so many that nobody should wait for it. Everything written must
    /// have been read back. Says whether it was begun.
    pub(crate) fn prepare(&mut self, head: &Head) -> Result<bool, Fault> {
        if head.totals.sums() <= FEW {
            return Ok(false);
        }
        let (storage, place, totals) = (self.storage.clone(), self.place(), head.totals.clone());
        let work = move || written(&*storage, &place, &totals);
        let thread = std::thread::Builder::new().name("snapshot".into()).spawn(work);
        let thread = Some(thread.map_err(later("starting a thread"))?);
        self.preparing = Some(Preparing { thread, draft: None, tail: Vec::new() });
        Ok(true)
    }

    /// Whether what was begun is written, up to now. When that failed it is as if it was never begun.
    pub(crate) fn prepared(&mut self) -> Result<bool, Fault> {
        let Some(preparing) = &mut self.preparing else { return Ok(false) };
        if preparing.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(false);
        }
        // Whoever writes next waits for the little that comes until then.
        let result = preparing.catch_up().and_then(|draft| draft.map_or(Ok(()), |draft| draft.file.sync()));
        if result.is_err() {
            self.preparing = None;
        }
        result.map(|()| true).map_err(later("writing a snapshot"))
    }

    /// Puts the snapshot of everything written in its place, and gives its digest. Everything must have been read back.
    pub(super) fn snapshot(&mut self, head: &Head) -> Result<Digest, Fault> {
        let place = self.place();
        let mut snapshot = Snapshot {
            log: (&self.log).into(),
            nodes: self.range.nodes().to_vec(),
            prev: head.prev,
            segment: self.segment + 1,
            size: self.range.size(),
            totals: None,
        };
        if let Some(preparing) = self.preparing.take() {
            let ended = preparing.end(&*self.storage, &place, &json(&snapshot)?);
            if let Some(digest) = ended.map_err(later("writing a snapshot"))? {
                return Ok(digest);
            }
        } else {
            snapshot.totals = Some(Cow::Borrowed(&head.totals));
        }
        let mut bytes = json(&snapshot)?;
        if u64::try_from(bytes.len()).is_ok_and(|length| length > MAX_SNAPSHOT) {
            // It would not be read.
            snapshot.totals = None;
            bytes = json(&snapshot)?;
        }
        replace(&*self.storage, &place, &bytes).map_err(later("writing a snapshot"))?;
        Ok(Digest::sha256(&[&bytes]))
    }
}

fn json(snapshot: &Snapshot<'_>) -> Result<Vec<u8>, Fault> {
    serde_json::to_vec(snapshot).map_err(|e| Fault::Later(e.to_string()))
}
