//! What a log's files say at start: where its last whole record ends, its tree, its keys, its totals. It cuts what was
//! torn, and only above the last checkpoint: below it nothing is ever cut, and the log does not open.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::costs::Totals;
use crate::entry::{Entry, Text};
use crate::error::Error;
use crate::frame::{Frame, Frames};
use crate::hash::Digest;
use crate::key::{VerifierKey, handover};
use crate::layout::{self, CHECKPOINTS, KEYS, LEAVES, LOG, SNAPSHOT};
use crate::note::{Checkpoint, MAX_NOTE, Note};
use crate::storage::{Mode, ReadFrom, Storage, append_all, read_all};
use crate::tree::{self, Range};

/// First line of what the first record's `prev` is the SHA-256 of.
const GENESIS_LABEL: &str = "dev.tollgate/audit/genesis/v1";
/// Greatest size of a snapshot that is read or written with its totals, in bytes.
pub(crate) const MAX_SNAPSHOT: u64 = 256 << 20;

/// The `prev` of a log's first record.
pub fn genesis(key: &VerifierKey) -> Digest {
    Digest::sha256(&[format!("{GENESIS_LABEL}\n{}\n{key}\n", key.name()).as_bytes()])
}

/// A key epoch as it stands in the file `keys`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// From 0.
    pub epoch: u64,
    /// `prev` of the epoch's first record.
    pub prev: Digest,
    /// `seq` of the epoch's first record: the first `open`, or a `key`.
    pub seq: u64,
    /// The previous key's signature over the hand-over, base64; empty for epoch 0.
    pub sig: String,
    /// The epoch's key.
    pub vkey: String,
}

impl Epoch {
    /// The key, if the epoch follows `last` and that epoch's key signed it.
    pub fn follows(&self, last: &(Epoch, VerifierKey)) -> Option<VerifierKey> {
        use base64::{Engine, prelude::BASE64_STANDARD};
        let key = VerifierKey::parse(&self.vkey)?;
        let signature = BASE64_STANDARD.decode(&self.sig).ok()?;
        let message = handover(&key, self.epoch, self.seq, &self.prev);
        let next = self.epoch == last.0.epoch + 1 && self.seq > last.0.seq && key.name() == last.1.name();
        (next && last.1.verify(&message, &signature)).then_some(key)
    }

    /// The key, if this is the first epoch.
    pub fn first(&self) -> Option<VerifierKey> {
        let key = VerifierKey::parse(&self.vkey)?;
        (self.epoch == 0 && self.seq == 0 && self.sig.is_empty() && self.prev == genesis(&key)).then_some(key)
    }

    pub(crate) fn line(&self) -> Vec<u8> {
        crate::frame::line(&serde_json::to_vec(self).unwrap_or_default())
    }
}

/// State at a segment's start.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Snapshot<'a> {
    pub(crate) log: Text,
    pub(crate) nodes: Vec<Digest>,
    pub(crate) prev: Digest,
    pub(crate) segment: u64,
    pub(crate) size: u64,
    /// Left out when they would make it too large: then they are added up anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) totals: Option<Cow<'a, Totals>>,
}

/// Where a log ends.
pub(crate) struct Recovered {
    pub(crate) epochs: Vec<(Epoch, VerifierKey)>,
    pub(crate) segment: u64,
    /// Length of the segment's log in bytes.
    pub(crate) offset: u64,
    pub(crate) range: Range,
    pub(crate) prev: Digest,
    pub(crate) totals: Totals,
    pub(crate) dropped: Option<(u64, Digest)>,
    /// Size of the last checkpoint.
    pub(crate) signed: u64,
    /// Lengths of the segment's other files.
    pub(crate) leaves_size: u64,
    pub(crate) checkpoints_size: u64,
}

/// A log's files, being read.
struct Reader<'a> {
    storage: &'a dyn Storage,
    dir: &'a Path,
    epochs: Vec<(Epoch, VerifierKey)>,
}

/// One segment, being scanned.
struct Scan {
    range: Range,
    prev: Digest,
    totals: Totals,
    leaves: Vec<Digest>,
    end: u64,
    file: u64,
    /// The root at each size of interest that was passed.
    roots: Vec<(u64, Digest)>,
}

/// Reads what is there; `None` when there is no log. Cuts torn ends.
pub(crate) fn recover(
    storage: &dyn Storage,
    dir: &Path,
    guard: Option<&[u8]>,
) -> Result<Option<Recovered>, Error> {
    let names = storage.list(dir).map_err(Error::io(format!("listing {}", dir.display())))?;
    let mut segments: Vec<u64> =
        names.iter().filter_map(|n| layout::parse(n)).filter(|(_, e)| *e == LOG).map(|(s, _)| s).collect();
    segments.sort_unstable();
    let mut reader = Reader { storage, dir, epochs: Vec::new() };
    reader.read_keys()?;
    while let Some(segment) = segments.pop() {
        if let Some(found) = reader.segment(segment, guard)? {
            return Ok(Some(found));
        }
        // Its header never became durable: the segment before is still the last. Of the first segment nothing was
        // ever acknowledged, or the checkpoint of its first record would be there.
        if reader.signed_anything(segment)? || (segments.is_empty() && (segment > 0 || guard.is_some())) {
            return Err(Error::Damaged { seq: 0, why: format!("segment {segment} has no whole record") });
        }
        if !segments.is_empty() {
            for extension in [LOG, LEAVES, CHECKPOINTS, SNAPSHOT] {
                let _ = storage.remove(&layout::path(dir, segment, extension));
            }
        }
    }
    match guard {
        // All of it is gone, and somebody knows that it was there.
        Some(note) => Err(Error::RolledBack { guard: size_of(note), here: 0 }),
        None => Ok(None),
    }
}

/// The size that a checkpoint names, signed or not.
fn size_of(note: &[u8]) -> u64 {
    Note::parse(note).and_then(|n| Checkpoint::of_text(&n.text)).map_or(0, |c| c.size)
}

impl Reader<'_> {
    fn read(&self, path: PathBuf, most: u64) -> Result<Vec<u8>, Error> {
        match read_all(self.storage, &path, most) {
            Ok(bytes) => Ok(bytes),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Error::Io { what: format!("reading {}", path.display()), error }),
        }
    }

    fn read_keys(&mut self) -> Result<(), Error> {
        let bytes = self.read(self.dir.join(KEYS), 64 << 20)?;
        let mut frames = Frames::new(bytes.as_slice());
        while let Ok(Some((_, Frame::Whole(body)))) = frames.next() {
            let Ok(epoch) = serde_json::from_slice::<Epoch>(body) else { break };
            let key = match self.epochs.last() {
                None => epoch.first(),
                Some(last) => epoch.follows(last),
            };
            let Some(key) = key else { break };
            self.epochs.push((epoch, key));
        }
        Ok(())
    }

    fn keys(&self) -> impl Iterator<Item = &VerifierKey> + Clone {
        self.epochs.iter().map(|(_, key)| key)
    }

    /// The segment's last checkpoint that a key of the log signed, and where the last whole one ends.
    fn checkpoint(&self, segment: u64) -> Result<(Option<Checkpoint>, u64), Error> {
        let bytes = self.read(layout::path(self.dir, segment, CHECKPOINTS), 1 << 30)?;
        let mut frames = Frames::with_limit(bytes.as_slice(), MAX_NOTE);
        let (mut last, mut end) = (None, 0);
        while let Ok(Some((_, Frame::Whole(note)))) = frames.next() {
            let note = note.to_vec();
            end = frames.offset();
            last = Some(note);
        }
        Ok((last.and_then(|n| Some(Checkpoint::open(&n, self.keys()).ok()?.0)), end))
    }

    fn signed_anything(&self, segment: u64) -> Result<bool, Error> {
        Ok(self.checkpoint(segment)?.0.is_some())
    }

    /// The state before a segment: from its snapshot if its header vouches for it, else from all segments before.
    fn start(&self, segment: u64) -> Result<Scan, Error> {
        let empty = |prev| Scan {
            range: Range::default(),
            prev,
            totals: Totals::default(),
            leaves: Vec::new(),
            end: 0,
            file: 0,
            roots: Vec::new(),
        };
        let first = self.epochs.first().map(|(epoch, _)| epoch.prev);
        let genesis =
            first.ok_or_else(|| Error::Damaged { seq: 0, why: "the file `keys` is not whole".into() })?;
        if segment == 0 {
            return Ok(empty(genesis));
        }
        if let Some(snapshot) = self.snapshot(segment)? {
            let range = Range::from_parts(snapshot.size, snapshot.nodes);
            let totals = snapshot.totals.and_then(|totals| totals.into_owned().caught_up());
            if let (Some(range), Some(totals)) = (range, totals) {
                return Ok(Scan { range, totals, ..empty(snapshot.prev) });
            }
        }
        let mut state = empty(genesis);
        for before in 0..segment {
            state = Scan { leaves: Vec::new(), roots: Vec::new(), ..state };
            self.scan(before, &mut state, &[])?;
            if state.end != state.file {
                return Err(Error::Damaged {
                    seq: state.range.size(),
                    why: format!("in closed segment {before}"),
                });
            }
        }
        Ok(state)
    }

    fn snapshot(&self, segment: u64) -> Result<Option<Snapshot<'static>>, Error> {
        let path = layout::path(self.dir, segment, SNAPSHOT);
        // One that is too large is none, like one that is gone or can't be read: the records suffice.
        let Ok(bytes) = read_all(self.storage, &path, MAX_SNAPSHOT) else { return Ok(None) };
        let Some(vouched) = self.header(segment)?.and_then(|h| h.snapshot) else { return Ok(None) };
        if Digest::sha256(&[&bytes]) != vouched {
            return Ok(None);
        }
        Ok(serde_json::from_slice::<Snapshot<'_>>(&bytes).ok().filter(|s| s.segment == segment))
    }

    fn header(&self, segment: u64) -> Result<Option<Entry>, Error> {
        let path = layout::path(self.dir, segment, LOG);
        let file =
            self.storage.open(&path, Mode::Read).map_err(Error::io(format!("opening {}", path.display())))?;
        let mut frames = Frames::new(ReadFrom::new(file, 0, u64::MAX));
        match frames.next() {
            Ok(Some((_, Frame::Whole(body)))) => Ok(Entry::parse(body)),
            Ok(_) => Ok(None),
            Err(error) => Err(Error::Io { what: format!("reading {}", path.display()), error }),
        }
    }

    /// Reads records on from a state until the first that is damaged or does not follow.
    fn scan(&self, segment: u64, state: &mut Scan, sizes: &[u64]) -> Result<(), Error> {
        let path = layout::path(self.dir, segment, LOG);
        let failed = |error| Error::Io { what: format!("reading {}", path.display()), error };
        let file = self.storage.open(&path, Mode::Read).map_err(failed)?;
        state.file = file.size().map_err(failed)?;
        state.end = 0;
        let mut frames = Frames::new(ReadFrom::new(file, 0, state.file));
        let log = self.epochs.first().map_or("", |(_, key)| key.name());
        while let Some((_, frame)) = frames.next().map_err(failed)? {
            let Frame::Whole(body) = frame else { break };
            let Some(entry) = Entry::parse(body) else { break };
            if entry.seq.0 != state.range.size() || entry.prev != state.prev || entry.log != log {
                break;
            }
            state.prev = tree::leaf_hash(body);
            state.range.push(state.prev);
            state.leaves.push(state.prev);
            if sizes.contains(&state.range.size()) {
                state.roots.push((state.range.size(), state.range.root()));
            }
            state.totals.add(&entry, &state.prev);
            state.end = frames.offset();
        }
        Ok(())
    }

    /// Reads the last segment; `None` when it has no whole record.
    fn segment(&mut self, segment: u64, guard: Option<&[u8]>) -> Result<Option<Recovered>, Error> {
        if self.epochs.is_empty() || self.header(segment)?.is_none() {
            return Ok(None);
        }
        let (signed, checkpoints_size) = self.checkpoint(segment)?;
        let guard = guard.map(|g| Checkpoint::open(g, self.keys()).map(|(c, _)| c));
        let guard =
            guard.transpose().map_err(|e| Error::Invalid(format!("the guard is not this log's: {e}")))?;
        let mut state = self.start(segment)?;
        let base = state.range.size();
        let footer = if segment > 0 { self.checkpoint(segment - 1)?.0 } else { None };
        if footer.is_some_and(|f| f.size == base && f.root != state.range.root()) {
            return Err(Error::Forked(base));
        }
        let known: Vec<&Checkpoint> = signed.iter().chain(&guard).collect();
        self.scan(segment, &mut state, &known.iter().map(|c| c.size).collect::<Vec<u64>>())?;
        let size = state.range.size();
        if let Some(guard) = guard.as_ref().filter(|g| g.size > size) {
            return Err(Error::RolledBack { guard: guard.size, here: size });
        }
        for checkpoint in known {
            if checkpoint.size > size {
                return Err(Error::Damaged { seq: size, why: format!("{} are signed", checkpoint.size) });
            }
            let found = state.roots.iter().find(|(at, _)| *at == checkpoint.size);
            if checkpoint.size > base && found.map(|(_, root)| *root) != Some(checkpoint.root) {
                return Err(Error::Forked(checkpoint.size));
            }
        }
        self.settle_keys(size)?;
        let dropped = self.cut(segment, &state)?;
        self.cut_checkpoints(segment, checkpoints_size)?;
        let leaves_size = self.mend_leaves(segment, &state.leaves)?;
        Ok(Some(Recovered {
            epochs: std::mem::take(&mut self.epochs),
            segment,
            offset: state.end,
            range: state.range,
            prev: state.prev,
            totals: state.totals,
            dropped,
            signed: signed.map_or(0, |c| c.size),
            leaves_size,
            checkpoints_size,
        }))
    }

    /// Takes back a hand-over whose record did not become durable.
    fn settle_keys(&mut self, size: u64) -> Result<(), Error> {
        let before = self.epochs.len();
        self.epochs.retain(|(epoch, _)| epoch.seq < size);
        let lines: Vec<u8> = self.epochs.iter().flat_map(|(epoch, _)| epoch.line()).collect();
        let path = self.dir.join(KEYS);
        let file = self.storage.open(&path, Mode::Append).map_err(Error::io("opening keys"))?;
        let length = u64::try_from(lines.len()).unwrap_or_default();
        if before != self.epochs.len() || file.size().map_err(Error::io("reading keys"))? > length {
            file.truncate(length).and_then(|()| file.sync()).map_err(Error::io("cutting keys"))?;
        }
        Ok(())
    }

    fn cut(&self, segment: u64, state: &Scan) -> Result<Option<(u64, Digest)>, Error> {
        if state.end == state.file {
            return Ok(None);
        }
        let path = layout::path(self.dir, segment, LOG);
        let failed = |error| Error::Io { what: format!("cutting {}", path.display()), error };
        let file = self.storage.open(&path, Mode::Append).map_err(failed)?;
        let mut context = ring::digest::Context::new(&ring::digest::SHA256);
        let mut rest = ReadFrom::new(file.clone(), state.end, state.file);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = std::io::Read::read(&mut rest, &mut buffer).map_err(failed)?;
            if read == 0 {
                break;
            }
            context.update(buffer.get(..read).unwrap_or_default());
        }
        file.truncate(state.end).and_then(|()| file.sync()).map_err(failed)?;
        let digest = Digest::from_slice(context.finish().as_ref()).unwrap_or_default();
        Ok(Some((state.file - state.end, digest)))
    }

    fn cut_checkpoints(&self, segment: u64, size: u64) -> Result<(), Error> {
        let path = layout::path(self.dir, segment, CHECKPOINTS);
        let failed = |error| Error::Io { what: format!("cutting {}", path.display()), error };
        let file = self.storage.open(&path, Mode::Append).map_err(failed)?;
        if file.size().map_err(failed)? != size {
            file.truncate(size).map_err(failed)?;
        }
        Ok(())
    }

    /// Leaf hashes are written after their records and not synced: here they are made whole from the records.
    fn mend_leaves(&self, segment: u64, leaves: &[Digest]) -> Result<u64, Error> {
        let path = layout::path(self.dir, segment, LEAVES);
        let failed = |error| Error::Io { what: format!("mending {}", path.display()), error };
        let right: Vec<u8> = leaves.iter().flat_map(|l| l.0).collect();
        let file = self.storage.open(&path, Mode::Append).map_err(failed)?;
        let there = self.read(path.clone(), 1 << 32)?;
        let same = there.iter().zip(&right).take_while(|(a, b)| a == b).count();
        let kept = u64::try_from(same).unwrap_or_default();
        if same != there.len() {
            file.truncate(kept).map_err(failed)?;
        }
        append_all(&*file, kept, right.get(same..).unwrap_or_default()).map_err(|e| match e {
            crate::storage::AppendError::Undone(e) | crate::storage::AppendError::Lost(e) => failed(e),
        })?;
        Ok(u64::try_from(right.len()).unwrap_or_default())
    }
}
