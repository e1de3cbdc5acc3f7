//! Which segments have still to be kept, and how one is: each of its files once, the records last. An object that is
//! there already must hold the same bytes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use audit::archive::{content, is_closed, names};
use audit::layout::{LOG, parse};
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
    /// Whether it is known what is there.
    begun: bool,
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
            begun: false,
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

    /// Does what is next, and says whether there was anything.
    pub(super) async fn step(&mut self) -> Result<bool, Refused> {
        // First: the lag shows also while the archive is away.
        self.look().await?;
        if !self.begun {
            self.begin().await?;
        }
        let Some(segment) = self.waiting.front().copied() else { return Ok(false) };
        match self.send(segment).await {
            Ok(()) => self.kept += 1,
            Err(Refused::Different(why)) => {
                self.waiting.pop_front();
                self.refused.push(segment);
                return Err(Refused::Different(why));
            }
            Err(later) => return Err(later),
        }
        self.waiting.pop_front();
        Ok(true)
    }

    /// Compares what is here with what is there.
    async fn begin(&mut self) -> Result<(), Refused> {
        let mut there = BTreeMap::new();
        for object in self.store.list(Some(&self.place)).await.map_err(later)? {
            if let Some((segment, LOG)) = object.path.filename().and_then(parse) {
                there.insert(segment, object.size);
            }
        }
        let here = self.waiting.clone();
        let missing = self.disk(move |source| missing(source, here, &there)).await?;
        self.kept = count(self.waiting.len() - missing.len());
        (self.waiting, self.begun) = (missing, true);
        Ok(())
    }

    /// Takes up what was closed since.
    async fn look(&mut self) -> Result<(), Refused> {
        let from = self.open;
        let (from, to) = self.disk(move |source| closed(source, from)).await?;
        self.waiting.extend(from..to);
        self.open = Some(to);
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
            Err(Fault::There) => {
                let size = self.store.size(path).await.map_err(|fault| named(path, &fault))?;
                self.same(path, size, &bytes).await
            }
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

fn later(fault: Fault) -> Refused {
    Refused::Later(fault.to_string())
}

fn named(path: &Path, fault: &Fault) -> Refused {
    Refused::Later(format!("{path}: {fault}"))
}

/// The segments whose records are not there in their length. What has another one is looked at as if it were not there:
/// its bytes are compared then.
fn missing(
    source: &DirSource,
    here: VecDeque<u64>,
    there: &BTreeMap<u64, u64>,
) -> std::io::Result<VecDeque<u64>> {
    let mut missing = VecDeque::new();
    for segment in here {
        let log = source.open(&audit::layout::name(segment, LOG))?;
        let size = log.map(|file| file.size()).transpose()?;
        if size.is_none() || there.get(&segment).copied() != size {
            missing.push_back(segment);
        }
    }
    Ok(missing)
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
