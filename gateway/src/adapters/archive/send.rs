//! Which segments have still to be kept, and how one is: each of its files once, the records last. An object that is
//! there already must hold the same bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use audit::archive::{content, is_closed, names};
use audit::layout::LOG;
use audit::verify::{DirSource, Source as _};
use bytes::Bytes;
use object_store::path::Path;

use super::store::{Fault, Store};

/// Bytes that are compared at once.
const PIECE: usize = 4 << 20;

/// Why a segment is not kept.
pub(super) enum Refused {
    /// It may be tried again.
    Later(String),
    /// Something else is kept under its name.
    Different(String),
}

/// The segments of one log.
pub(super) struct Queue {
    store: Store,
    source: Arc<DirSource>,
    place: Path,
    /// Segments before this one were closed when the work began: they may be there already.
    old: u64,
    waiting: VecDeque<u64>,
    /// The first segment that was not closed yet; `None` before the first look.
    open: Option<u64>,
    kept: u64,
    /// Segments under whose names the archive holds something else.
    pub(super) refused: Vec<u64>,
}

impl Queue {
    pub(super) fn new(store: Store, source: DirSource, log: &str) -> Queue {
        let place = store.place(log);
        Queue {
            store,
            source: Arc::new(source),
            place,
            old: 0,
            waiting: VecDeque::new(),
            open: None,
            kept: 0,
            refused: Vec::new(),
        }
    }

    /// Closed segments that are not kept.
    pub(super) fn lag(&self) -> u64 {
        count(self.waiting.len()).saturating_add(count(self.refused.len()))
    }

    /// Segments that are kept.
    pub(super) fn kept(&self) -> u64 {
        self.kept
    }

    /// Does what is next, and says whether there was anything. A segment that fails goes behind the others, so that it
    /// stands in the way of none.
    pub(super) async fn step(&mut self) -> Result<bool, Refused> {
        // First: the lag shows also while the archive is away.
        self.look().await?;
        let Some(segment) = self.waiting.pop_front() else { return Ok(false) };
        // An attempt that is given up has failed too.
        self.waiting.push_back(segment);
        let done = match segment < self.old && self.is_there(segment).await? {
            true => Ok(()),
            false => self.send(segment).await,
        };
        if let Err(Refused::Later(why)) = done {
            return Err(Refused::Later(why));
        }
        self.waiting.retain(|waiting| *waiting != segment);
        match done {
            Ok(()) => self.kept += 1,
            Err(_) => self.refused.push(segment),
        }
        done.map(|()| true)
    }

    /// Whether a segment's records are there in their length. Only what is expected is asked for: whatever else is at
    /// that place has no say. What has another length is looked at as if it were not there: its bytes are compared then.
    async fn is_there(&self, segment: u64) -> Result<bool, Refused> {
        let name = audit::layout::name(segment, LOG);
        let path = self.place.clone().join(name.as_str());
        let here = self.disk(move |source| source.open(&name)?.map(|file| file.size()).transpose()).await?;
        match self.store.size(&path).await {
            Ok(size) => Ok(here == Some(size)),
            Err(Fault::Absent) => Ok(false),
            Err(fault) => Err(named(&path, &fault)),
        }
    }

    /// Takes up what was closed since.
    async fn look(&mut self) -> Result<(), Refused> {
        let from = self.open;
        let (from, to) = self.disk(move |source| closed(source, from)).await?;
        self.waiting.extend(from..to);
        if self.open.replace(to).is_none() {
            self.old = to;
        }
        Ok(())
    }

    async fn send(&self, segment: u64) -> Result<(), Refused> {
        for name in names(segment) {
            let path = self.place.clone().join(name.as_str());
            let bytes = self.disk(move |source| content(source, &name).map(Bytes::from)).await?;
            self.keep(&path, bytes).await?;
        }
        Ok(())
    }

    /// The store is asked first: not every one heeds the condition of a put.
    async fn keep(&self, path: &Path, bytes: Bytes) -> Result<(), Refused> {
        match self.store.size(path).await {
            Ok(size) => return self.same(path, size, &bytes).await,
            Err(Fault::Absent) => {}
            Err(fault) => return Err(named(path, &fault)),
        }
        match self.store.create(path, bytes.clone()).await {
            Ok(()) => Ok(()),
            Err(Fault::There) => match self.store.size(path).await {
                Ok(size) => self.same(path, size, &bytes).await,
                // A folder, say.
                Err(Fault::Absent) => {
                    Err(Refused::Later(format!("{path}: what is in its place is no object")))
                }
                Err(fault) => Err(named(path, &fault)),
            },
            Err(fault) => Err(named(path, &fault)),
        }
    }

    async fn same(&self, path: &Path, size: u64, bytes: &Bytes) -> Result<(), Refused> {
        let different = || Refused::Different(format!("{path}: the archive holds something else"));
        if size != count(bytes.len()) {
            return Err(different());
        }
        let mut from = 0_u64;
        for piece in bytes.chunks(PIECE) {
            let to = from.saturating_add(count(piece.len()));
            let there = self.store.piece(path, from, to).await.map_err(|fault| named(path, &fault))?;
            if there != piece {
                return Err(different());
            }
            from = to;
        }
        Ok(())
    }

    /// Reads files where nobody waits.
    async fn disk<R: Send + 'static>(
        &self,
        read: impl FnOnce(&DirSource) -> std::io::Result<R> + Send + 'static,
    ) -> Result<R, Refused> {
        let source = Arc::clone(&self.source);
        let done = tokio::task::spawn_blocking(move || read(&source)).await;
        let failed = |error: String| Refused::Later(format!("reading the journal: {error}"));
        done.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))
    }
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn named(path: &Path, fault: &Fault) -> Refused {
    Refused::Later(format!("{path}: {fault}"))
}

/// The closed segments from one on, or from the first that is here.
fn closed(source: &DirSource, from: Option<u64>) -> std::io::Result<(u64, u64)> {
    let from = match from {
        Some(from) => from,
        None => source.segments()?.first().copied().unwrap_or(0),
    };
    let mut to = from;
    while is_closed(source, to)? {
        to += 1;
    }
    Ok((from, to))
}
