//! Opens the journal that a configuration describes: the signing key, the lock, recovery, and the record of the policy
//! in force. Makes the journal's folder and key when they are not there, and nothing else.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use audit::entry::{Entry, Kind};
use audit::hash::Digest;
use audit::key::{SigningKey, is_name, next_path, promote_next, random};
use audit::note::Checkpoint;
use audit::prove::newest_checkpoint;
use audit::span::DigestKey;
use audit::verify::{DirSource, epoch_keys};
use audit::writer::{self, OnFatal, Options, Watch, block_on};
use parking_lot::Mutex;

use super::OnDisk;
use super::figures::Syncs;
use super::flood::{DENIED, Flood, LISTS};
use super::spans::{Spans, Unkept};
use crate::adapters::archive::{Archiver, Store};
use crate::config::{Audit, Checked, Durability};
use crate::lanes::{self, off_worker};
use crate::ports::journal::Journal;

/// Which log of the journal's folder a process writes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The log's name when the configuration gives none.
    pub instance: &'static str,
    /// How many processes may share the name; each takes the first free slot.
    pub slots: usize,
}

/// Opens the journal, and gives what is to be told about it.
///
/// # Errors
/// Why it does not open; then nothing may be served.
pub fn open(
    config: &Checked,
    place: Place,
    on_fatal: OnFatal,
) -> Result<(Arc<dyn Journal>, Vec<String>), String> {
    let spec = &config.audit;
    if spec.durability == Durability::Off {
        let key = config.keys.digest.map_or_else(random, Ok).map_err(|e| format!("keys: {e}"))?;
        let budgets = config.tasks.iter().any(|task| !task.profile.budgets.all.is_empty());
        let what = "warning: audit: durability: off: budgets start anew with every start of the gateway";
        let warnings = budgets.then(|| what.to_owned()).into_iter().collect();
        return Ok((Arc::new(Unkept(Spans::new(DigestKey::new(key)))), warnings));
    }
    let failed = |what: &Path, error: &dyn std::fmt::Display| format!("journal: {}: {error}", what.display());
    folder(&spec.dir).map_err(|e| failed(&spec.dir, &e))?;
    let (key, made) = signing_key(&spec.key).map_err(|e| failed(&spec.key, &e))?;
    let mut options = options(spec, place, key, on_fatal)?;
    let syncs = Arc::new(Syncs::default());
    options.watch.push(Arc::clone(&syncs) as Arc<dyn Watch>);
    let journal = writer::Journal::open(options).map_err(|error| format!("journal: {error}"))?;
    let mut said = Vec::new();
    if journal.opened().next_key_used {
        promote_next(&spec.key).map_err(|e| failed(&spec.key, &e))?;
    }
    if made {
        said.push(format!("the journal's signing key was made: {}", spec.key.display()));
    }
    if journal.opened().new {
        let dir = journal.opened().dir.display();
        said.push(format!("a new log begins in {dir}; verify it with --key {}", journal.first_key()));
    }
    if journal.opened().guard_missing {
        said.push("warning: the journal's guard holds no checkpoint of this log".into());
    }
    let digest = match config.keys.digest {
        Some(key) => key,
        None => {
            let what = "warning: no keys.digest: a key is made at start, so digests and span ids of other starts and replicas can't be compared";
            said.push(what.into());
            random().map_err(|e| format!("journal: {e}"))?
        }
    };
    let policy = Digest(config.digest);
    let record = Entry { policy_digest: Some(policy), digest: Some(policy), ..Entry::new(Kind::Config) };
    block_on(journal.record(record)).map_err(|error| format!("journal: {error}"))?;
    let archive = archive(spec, &journal)?;
    let kept = OnDisk {
        archive,
        strict: spec.durability == Durability::Strict,
        spans: Spans::new(DigestKey::new(digest)),
        policy,
        denied: Mutex::new(Flood::new(DENIED)),
        lists: Mutex::new(Flood::new(LISTS)),
        syncs,
        journal,
    };
    Ok((Arc::new(kept), said))
}

/// The archive of a log, at work.
fn archive(spec: &Audit, journal: &writer::Journal) -> Result<Option<Archiver>, String> {
    let Some(place) = &spec.archive else { return Ok(None) };
    let failed = |error: &dyn std::fmt::Display| format!("journal: archive: {error}");
    let store = Store::open(place, true).map_err(|error| failed(&error))?;
    let started = Archiver::start(store, journal.opened().dir.clone(), journal.log());
    started.map(Some).map_err(|error| failed(&error))
}

/// Sets a log aside and begins another that names it. Gives the new log's first key.
///
/// # Errors
/// Nothing is known of the old log, another process writes it, or a file operation failed.
pub fn fork(config: &Checked, place: Place, reason: &str) -> Result<String, String> {
    let spec = &config.audit;
    if spec.durability == Durability::Off {
        return Err("this configuration has no journal".into());
    }
    let key = SigningKey::load(&spec.key).map_err(|e| format!("journal: {}: {e}", spec.key.display()))?;
    let never: OnFatal = Arc::new(|_| {});
    let mut options = options(spec, place, key, never)?;
    let name = match place.slots {
        0 | 1 => options.instance.clone(),
        _ => format!("{}-0", options.instance),
    };
    (options.instance, options.slots) = (name, 1);
    let head = newest(&options)?;
    let fork = writer::fork(&options, &head, reason).map_err(|error| format!("journal: {error}"))?;
    options.fork = Some(fork);
    let journal = writer::Journal::open(options).map_err(|error| format!("journal: {error}"))?;
    journal.close();
    Ok(journal.first_key().to_string())
}

/// The newest checkpoint that is known of a log: the guard's, or its own.
fn newest(options: &Options) -> Result<Checkpoint, String> {
    let source = DirSource::new(options.dir.join(&options.instance));
    let failed = |error: io::Error| format!("journal: {error}");
    let keys = epoch_keys(&source, None).map_err(failed)?;
    let own = newest_checkpoint(&source, &keys).map_err(failed)?.map(|(checkpoint, _)| checkpoint);
    let guard = options.guard.as_ref().map(|dir| dir.join(format!("{}.checkpoint", options.instance)));
    let guard = guard.and_then(|path| std::fs::read(path).ok());
    let guard = guard.and_then(|note| Checkpoint::open(&note, &keys).ok()).map(|(checkpoint, _)| checkpoint);
    let newest = own.into_iter().chain(guard).max_by_key(|checkpoint| checkpoint.size);
    newest.ok_or_else(|| "journal: no checkpoint of this log is known".into())
}

/// The key, or a new one. Of several processes that start at once one makes it.
fn signing_key(path: &Path) -> io::Result<(SigningKey, bool)> {
    match SigningKey::load_or_make(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            SigningKey::load(path).map(|key| (key, false))
        }
        other => other,
    }
}

/// Records name callers: the folder is for its owner and group.
fn folder(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o750).create(dir)
}

fn options(spec: &Audit, place: Place, key: SigningKey, on_fatal: OnFatal) -> Result<Options, String> {
    let next = next_path(&spec.key);
    let next_key = match SigningKey::load(&next) {
        Ok(key) => Some(Arc::new(key)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(format!("journal: {}: {error}", next.display())),
    };
    let instance = spec.instance.clone().unwrap_or_else(|| place.instance.to_owned());
    Ok(Options {
        slots: place.slots,
        deployment: spec.deployment.clone().unwrap_or_else(host),
        durability: match spec.durability {
            Durability::Strict => writer::Durability::Strict,
            _ => writer::Durability::Buffered,
        },
        next_key,
        guard: spec.guard.clone(),
        segment_bytes: spec.segment_bytes,
        segment_ns: u64::try_from(spec.segment_age.as_nanos()).unwrap_or(u64::MAX),
        on_fatal: Some(on_fatal),
        // To make room for others costs as much as a quick sync, and moves the call to another core besides.
        aside: |quick, work| off_worker(!(quick && lanes::is_alone()), work),
        ..Options::new(&spec.dir, instance, Arc::new(key))
    })
}

/// The host's name, where it can be a log's.
fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if is_name(&name) && name.len() <= 64 { name } else { "tollgate".into() }
}
