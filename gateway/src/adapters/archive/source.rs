//! Reads logs from an archive as the verifier reads a folder: in pieces, of which a bounded number is held, however
//! large the logs are.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;

use audit::layout::{self, KEYS, LOG};
use audit::verify::{ReadAt, Source};
use bytes::Bytes;
use lru::LruCache;
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::runtime::Runtime;

use super::store::{Fault, Object, Store, of_url};

/// Bytes that are fetched at once.
const PIECE: u64 = 2 << 20;
/// Pieces that are held.
const PIECES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);

type Pieces = Mutex<LruCache<(Path, u64), Bytes>>;

/// What all files of an archive share.
struct Shared {
    runtime: Runtime,
    store: Store,
    pieces: Pieces,
}

/// One log of an archive, as it was when it was listed.
pub struct Archived {
    shared: Arc<Shared>,
    files: BTreeMap<String, Object>,
}

struct Piecewise {
    shared: Arc<Shared>,
    path: Path,
    size: u64,
}

fn failed(fault: &Fault) -> io::Error {
    io::Error::other(fault.to_string())
}

/// All logs at or below a URL, with their URLs.
///
/// # Errors
/// It is no URL of an archive, or can't be listed.
pub fn logs(url: &str) -> io::Result<Vec<(String, Archived)>> {
    let store = of_url(url).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(store.list()).map_err(|fault| failed(&fault))?;
    let shared = Arc::new(Shared { runtime, store, pieces: Mutex::new(LruCache::new(PIECES)) });
    let mut logs: BTreeMap<String, Archived> = BTreeMap::new();
    for object in found {
        let below = shared.store.below(&object.path);
        let (log, name) = below.rsplit_once('/').unwrap_or(("", &below));
        if layout::parse(name).is_none() && name != KEYS {
            continue;
        }
        let archived = logs
            .entry(log.to_owned())
            .or_insert_with(|| Archived { shared: Arc::clone(&shared), files: BTreeMap::new() });
        archived.files.insert(name.to_owned(), object);
    }
    logs.retain(|_, archived| archived.files.keys().any(|name| name != KEYS));
    let shown = |log: String| if log.is_empty() { url.to_owned() } else { shared.store.shown(&log) };
    Ok(logs.into_iter().map(|(log, archived)| (shown(log), archived)).collect())
}

impl Archived {
    fn numbers(&self, extension: &str) -> impl Iterator<Item = u64> {
        let all = self.files.keys().filter_map(|name| layout::parse(name));
        all.filter(move |(_, e)| *e == extension).map(|(segment, _)| segment)
    }
}

impl Source for Archived {
    fn segments(&self) -> io::Result<Vec<u64>> {
        let mut all: Vec<u64> = self.numbers(LOG).collect();
        all.sort_unstable();
        Ok(all)
    }

    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn ReadAt>>> {
        // A folder of a journal, and a copy of one, has the file itself. What was kept of it with a segment whose records
        // are not there yet says nothing of these.
        let newest = match name == KEYS && !self.files.contains_key(KEYS) {
            true => self.segments()?.last().map(|segment| layout::name(*segment, KEYS)),
            false => None,
        };
        let name = newest.as_deref().unwrap_or(name);
        let Some(Object { path, size }) = self.files.get(name) else { return Ok(None) };
        let file = Piecewise { shared: Arc::clone(&self.shared), path: path.clone(), size: *size };
        Ok(Some(Arc::new(file)))
    }
}

impl Piecewise {
    fn piece(&self, number: u64) -> io::Result<Bytes> {
        let key = (self.path.clone(), number);
        if let Some(bytes) = self.shared.pieces.lock().get(&key) {
            return Ok(bytes.clone());
        }
        let from = number.saturating_mul(PIECE);
        let to = from.saturating_add(PIECE).min(self.size);
        let piece = self.shared.store.piece(&self.path, from, to);
        let bytes = self.shared.runtime.block_on(piece).map_err(|fault| failed(&fault))?;
        if u64::try_from(bytes.len()).ok() != Some(to - from) {
            return Err(io::Error::other(format!("{}: not as long as it was listed", self.path)));
        }
        self.shared.pieces.lock().put(key, bytes.clone());
        Ok(bytes)
    }
}

impl ReadAt for Piecewise {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.size {
            return Ok(0);
        }
        let bytes = self.piece(offset / PIECE)?;
        let rest = bytes.get(usize::try_from(offset % PIECE).unwrap_or(usize::MAX)..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), rest.get(..length)) {
            to.copy_from_slice(from);
        }
        Ok(length)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.size)
    }
}
