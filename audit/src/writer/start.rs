//! Opening a log: takes its lock, reads where it ends, settles which key signs, and writes what must come first.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::head::{Head, Item, Unsynced};
use super::sealer::{Fault, Sealer, Side};
use super::shared::Shared;
use super::thread::{self, own};
use super::{Durability, Journal, Opened, Options};
use crate::clock::rfc3339;
use crate::costs::unknown;
use crate::entry::{Entry, Int, Kind, Text};
use crate::error::{Error, Unavailable};
use crate::hash::{Digest, hex};
use crate::key::{SigningKey, VerifierKey, is_name, random};
use crate::layout::{self, CHECKPOINTS, KEYS, LEAVES, LOCK, LOG};
use crate::recover::{Epoch, Recovered, genesis, recover};
use crate::storage::{Lock, Mode, read_all, replace};
use crate::tree::Range;

/// What a log continues after its predecessor was found forked or rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The predecessor's id.
    pub log: String,
    /// Its size.
    pub size: u64,
    /// Its root.
    pub root: Digest,
    /// The operator's reason.
    pub reason: String,
}

/// Sets an instance's log aside, as evidence, so that the next [`Journal::open`] makes a new one that names it. `head`
/// is the newest checkpoint that is known of it. The directory gets the suffix `.forked-{time}`.
///
/// # Errors
/// Another process has it open, or it can't be moved.
pub fn fork(options: &Options, head: &crate::note::Checkpoint, reason: &str) -> Result<Fork, Error> {
    let (dir, lock) = take(options)?;
    let time = rfc3339(options.clock.wall_ms()).replace([':', '.'], "-");
    let mut aside = dir.clone().into_os_string();
    aside.push(format!(".forked-{time}"));
    options.storage.rename(&dir, Path::new(&aside)).map_err(Error::io("setting the log aside"))?;
    if let Some(guard) = guard_path(options, &dir) {
        let mut aside = guard.clone().into_os_string();
        aside.push(format!(".forked-{time}"));
        match options.storage.rename(&guard, Path::new(&aside)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::Io { what: "setting the guard aside".into(), error: e });
            }
            _ => {}
        }
    }
    drop(lock);
    Ok(Fork { log: head.origin.clone(), size: head.size, root: head.root, reason: reason.to_owned() })
}

fn guard_path(options: &Options, dir: &Path) -> Option<PathBuf> {
    let mut name = dir.file_name()?.to_owned();
    name.push(".checkpoint");
    Some(options.guard.as_ref()?.join(name))
}

/// Locks the first free slot.
fn take(options: &Options) -> Result<(PathBuf, Box<dyn Lock>), Error> {
    if !layout::is_instance(&options.instance) || !is_name(&options.deployment) {
        return Err(Error::Invalid("an instance's name has letters, digits, '-', '_' and '.' alone".into()));
    }
    for slot in 0..options.slots.max(1) {
        let name = match options.slots {
            0 | 1 => options.instance.clone(),
            _ => format!("{}-{slot}", options.instance),
        };
        let dir = options.dir.join(name);
        options.storage.create_dir(&dir).map_err(Error::io(format!("making {}", dir.display())))?;
        options.storage.sync_dir(&options.dir).map_err(Error::io("syncing the journal's directory"))?;
        match options.storage.lock(&dir.join(LOCK)) {
            Ok(lock) => return Ok((dir, lock)),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) if e.kind() == std::io::ErrorKind::Unsupported => return Err(Error::NetworkFs(dir)),
            Err(error) => return Err(Error::Io { what: format!("locking {}", dir.display()), error }),
        }
    }
    Err(Error::Locked(options.dir.join(&options.instance)))
}

fn read_guard(options: &Options, dir: &Path) -> Result<Option<Vec<u8>>, Error> {
    let Some(path) = guard_path(options, dir) else { return Ok(None) };
    let parent = path.parent().unwrap_or(dir);
    options.storage.create_dir(parent).map_err(Error::io("making the guard's directory"))?;
    match read_all(&*options.storage, &path, 1 << 20) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::Io { what: "reading the guard".into(), error }),
    }
}

/// A new log: its id, its first key epoch, an empty segment. Nothing of it counts before the first record is synced.
fn create(options: &Options, dir: &Path) -> Result<Recovered, Error> {
    let id = hex(&random::<8>().map_err(Error::io("a log id"))?);
    let instance = dir.file_name().unwrap_or_default().to_string_lossy();
    let key = options.key.verifier(&format!("{}/{instance}/{id}", options.deployment));
    let prev = genesis(&key);
    let epoch = Epoch { epoch: 0, prev, seq: 0, sig: String::new(), vkey: key.to_string() };
    let storage = &*options.storage;
    replace(storage, &dir.join(KEYS), &epoch.line()).map_err(Error::io("writing keys"))?;
    for extension in [LEAVES, CHECKPOINTS, LOG] {
        let path = layout::path(dir, 0, extension);
        storage.open(&path, Mode::Create).map_err(Error::io(format!("making {}", path.display())))?;
    }
    storage.sync_dir(dir).map_err(Error::io("syncing the directory"))?;
    Ok(Recovered {
        epochs: vec![(epoch, key)],
        segment: 0,
        offset: 0,
        range: Range::default(),
        prev,
        totals: crate::costs::Totals::default(),
        dropped: None,
        signed: 0,
        leaves_size: 0,
        checkpoints_size: 0,
    })
}

/// The configured key, or the one that waits, whichever the log's last epoch names.
fn choose(options: &Options, last: &VerifierKey) -> Result<(Arc<SigningKey>, bool), Error> {
    if options.key.public() == *last.public() {
        return Ok((options.key.clone(), false));
    }
    match options.next_key.as_ref().filter(|k| k.public() == *last.public()) {
        Some(next) => Ok((next.clone(), true)),
        None => Err(Error::KeyMismatch(format!("it signs with {last}, and no record hands over to another"))),
    }
}

impl Journal {
    /// Opens the instance's log, or makes it. When this returns, the log's first records are durable and signed.
    ///
    /// # Errors
    /// See [`Error`]: nothing was written unless it is an I/O error.
    pub fn open(options: Options) -> Result<Arc<Journal>, Error> {
        let (dir, lock) = take(&options)?;
        let guard = read_guard(&options, &dir)?;
        let found = recover(&*options.storage, &dir, guard.as_deref())?;
        let new = found.is_none();
        let found = match found {
            Some(found) => found,
            None => create(&options, &dir)?,
        };
        let missing = || Error::Damaged { seq: 0, why: "no key epoch".into() };
        let (last, last_key) = found.epochs.last().ok_or_else(missing)?.clone();
        let first_key = found.epochs.first().ok_or_else(missing)?.1.clone();
        let (key, next_key_used) = choose(&options, &last_key)?;
        let opened = Opened {
            new,
            dir: dir.clone(),
            bytes_dropped: found.dropped.map_or(0, |(bytes, _)| bytes),
            orphans: found.totals.open.len(),
            next_key_used,
            guard_missing: options.guard.is_some() && guard.is_none() && !new,
        };
        let first = first_records(&options, &found, new, last.epoch, &last_key);
        let guard = guard_path(&options, &dir);
        let (mut head, mut sealer) = build(&options, dir, found, guard)?;
        (sealer.key, sealer.epoch) = (key, last.epoch);
        begin(&mut head, &mut sealer, first)?;
        let log = head.log.clone();
        let shared = Arc::new(Shared::new(options, head, sealer));
        shared.publish(&shared.sealer.lock());
        let thread = {
            let shared = shared.clone();
            let run = move || thread::run(&shared);
            std::thread::Builder::new()
                .name("journal".into())
                .spawn(run)
                .map_err(Error::io("starting the thread"))?
        };
        let thread = Mutex::new(Some(thread));
        Ok(Arc::new(Journal { shared, thread, opened, log, first_key, _lock: lock }))
    }
}

/// What comes first: what was cut, the calls whose end nobody knows, and who writes from here on.
fn first_records(
    options: &Options,
    found: &Recovered,
    new: bool,
    epoch: u64,
    key: &VerifierKey,
) -> Vec<Entry> {
    let mut all = Vec::new();
    if let Some((bytes, digest)) = found.dropped {
        all.push(Entry {
            bytes_dropped: Some(Int(bytes)),
            digest: Some(digest),
            ..Entry::new(Kind::Recovered)
        });
    }
    let mut orphans: Vec<&Entry> = found.totals.open.values().map(|intent| &**intent).collect();
    orphans.sort_by_key(|e| e.seq);
    all.extend(orphans.into_iter().map(|intent| unknown(intent, "crashed")));
    let strict = options.durability == Durability::Strict;
    let mut open = Entry {
        durability: Some(Text::Borrowed(if strict { "strict" } else { "buffered" })),
        epoch: Some(Int(epoch)),
        ..Entry::new(Kind::Open)
    };
    if new {
        open.vkey = Some(Text::from(key.to_string()));
        open.segment = Some(Int(0));
        if let Some(fork) = &options.fork {
            open.fork_log = Some(Text::from(fork.log.clone()));
            open.fork_root = Some(fork.root);
            open.fork_size = Some(Int(fork.size));
            open.reason = Some(Text::from(fork.reason.clone()));
        }
    }
    all.push(open);
    all
}

fn build(
    options: &Options,
    dir: PathBuf,
    found: Recovered,
    guard: Option<PathBuf>,
) -> Result<(Head, Sealer), Error> {
    let log: Arc<str> = found.epochs.first().map_or("", |(_, key)| key.name()).into();
    let storage = options.storage.clone();
    let path = |extension| layout::path(&dir, found.segment, extension);
    let file = storage.open(&path(LOG), Mode::Append).map_err(Error::io("opening the segment"))?;
    let side = |path: PathBuf, size| {
        let what = format!("opening {}", path.display());
        Side::open(&*storage, path, Some(size)).map_err(Error::io(what))
    };
    let leaves = side(path(LEAVES), found.leaves_size)?;
    let checkpoints = side(path(CHECKPOINTS), found.checkpoints_size)?;
    let keys_size = found.epochs.iter().map(|(epoch, _)| epoch.line().len()).sum::<usize>();
    let keys = side(dir.join(KEYS), u64::try_from(keys_size).unwrap_or_default())?;
    let mut totals = found.totals;
    totals.forget(options.keep_runs_ms);
    let boot = hex(&random::<8>().map_err(Error::io("a boot id"))?);
    let head = Head {
        clock: options.clock.clone(),
        watch: options.watch.clone(),
        log: log.clone(),
        boot: Text::from(boot),
        ts: (0, Text::default()),
        strict: options.durability == Durability::Strict,
        file: file.clone(),
        offset: found.offset,
        seq: found.range.size(),
        prev: found.prev,
        totals,
        unsynced: Unsynced::default(),
        skew_ms: None,
        buffer: Vec::new(),
    };
    let sealer = Sealer {
        storage: storage.clone(),
        dir,
        guard,
        key: options.key.clone(),
        epoch: 0,
        log,
        segment: found.segment,
        file,
        leaves,
        checkpoints,
        keys,
        range: found.range,
        offset: found.offset,
        owed: Vec::new(),
        signed: found.signed,
        last: None,
        preparing: None,
        buffer: Vec::new(),
        spare: Unsynced::default(),
    };
    Ok((head, sealer))
}

/// Writes, syncs and signs the first records.
fn begin(head: &mut Head, sealer: &mut Sealer, first: Vec<Entry>) -> Result<(), Error> {
    let mut items: std::collections::VecDeque<Item> = first.into_iter().map(own).collect();
    let failed =
        |why: String| Error::Io { what: "beginning the journal".into(), error: std::io::Error::other(why) };
    while !items.is_empty() {
        head.write(&mut items).map_err(|refused: super::head::Refused| match refused.error {
            Unavailable::Write(why) | Unavailable::Poisoned(why) => failed(why),
            Unavailable::Closed => failed("closed".into()),
        })?;
    }
    head.file.sync().map_err(Error::io("syncing the segment"))?;
    let unsynced = std::mem::take(&mut head.unsynced);
    sealer.absorb(head.offset, &unsynced.leaves).and_then(|()| sealer.sign(head.offset)).map_err(
        |fault| match fault {
            Fault::Fatal(why) | Fault::Later(why) => failed(why),
        },
    )?;
    // A log whose records go on has a checkpoint: without one a verifier takes it for stripped.
    sealer.checkpoints.file.sync().map_err(Error::io("syncing checkpoints"))
}
