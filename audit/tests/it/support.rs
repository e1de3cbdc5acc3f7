//! A clock that is set by hand, keys, records, and logs in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_audit::clock::Clock;
use tollgate_audit::entry::{Entry, Int, Kind};
use tollgate_audit::hash::Digest;
use tollgate_audit::key::SigningKey;
use tollgate_audit::verify::{ReadAt, Source};
use tollgate_audit::writer::{Journal, Options, Receipt, block_on};

/// Whether the sizes are those of a release.
fn full() -> bool {
    std::env::var_os("TOLLGATE_AUDIT_FULL").is_some()
}

/// By how much the usual sizes are multiplied.
fn times() -> u64 {
    std::env::var("TOLLGATE_AUDIT_TIMES").ok().and_then(|n| n.parse().ok()).unwrap_or(1).max(1)
}

/// A number of rounds: the usual, or the release's.
pub(crate) fn rounds(usual: u64, release: u64) -> u64 {
    if full() { release } else { usual * times() }
}

/// How far apart places are that are tried: all of them in a release.
pub(crate) fn stride(usual: u64) -> u64 {
    if full() { 1 } else { usual.div_ceil(times()) }
}

/// Both times are set by hand.
pub(crate) struct HandClock {
    pub(crate) wall_ms: AtomicU64,
    pub(crate) mono_ns: AtomicU64,
}

impl HandClock {
    pub(crate) fn new() -> Arc<HandClock> {
        Arc::new(HandClock { wall_ms: AtomicU64::new(1_796_000_000_000), mono_ns: AtomicU64::new(0) })
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.wall_ms.fetch_add(time.as_millis() as u64, Ordering::SeqCst);
        self.mono_ns.fetch_add(time.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn wall_ms(&self) -> u64 {
        self.wall_ms.load(Ordering::SeqCst)
    }

    fn mono_ns(&self) -> u64 {
        self.mono_ns.load(Ordering::SeqCst)
    }
}

pub(crate) fn key(seed: u8) -> Arc<SigningKey> {
    Arc::new(SigningKey::from_seed([seed; 32]).unwrap())
}

pub(crate) fn options(dir: &Path) -> Options {
    Options {
        deployment: "example.com".into(),
        sync_interval: Duration::from_millis(1),
        clock: HandClock::new(),
        ..Options::new(dir, "gw", key(1))
    }
}

pub(crate) fn intent(call: u64) -> Entry {
    Entry {
        call: Some(format!("c{call}").into()),
        sub: Some("u1".into()),
        task: Some("support".into()),
        run: Some("r1".into()),
        index: Some(Int(call)),
        server: Some("docs".into()),
        tool: Some("search".into()),
        args_mac: Some(Digest::sha256(&[&call.to_be_bytes()])),
        ..Entry::new(Kind::Intent)
    }
}

pub(crate) fn outcome(call: u64) -> Entry {
    Entry {
        outcome: Some("ok".into()),
        cost_nanousd: Some(Int(1000 + call)),
        kind: Kind::Outcome,
        ..intent(call)
    }
}

/// Makes a whole call and waits for both records.
pub(crate) fn call(journal: &Arc<Journal>, number: u64) -> [Receipt; 2] {
    let (receipt, slot) = block_on(journal.intent(intent(number))).unwrap();
    [receipt, slot.finish(outcome(number)).wait().unwrap()]
}

pub(crate) fn note(journal: &Journal) -> String {
    journal.checkpoint().unwrap().wait().unwrap().to_string()
}

/// A log's files in memory.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Files(pub(crate) BTreeMap<String, Arc<Vec<u8>>>);

impl Files {
    pub(crate) fn load(dir: &Path) -> Files {
        let mut files = Files::default();
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            files.0.insert(name, Arc::new(std::fs::read(&path).unwrap()));
        }
        files
    }

    pub(crate) fn store(&self, dir: &Path) {
        std::fs::create_dir_all(dir).unwrap();
        for (name, bytes) in &self.0 {
            std::fs::write(dir.join(name), bytes.as_slice()).unwrap();
        }
    }

    pub(crate) fn get(&self, name: &str) -> &[u8] {
        &self.0[name]
    }

    pub(crate) fn put(&mut self, name: &str, bytes: Vec<u8>) {
        self.0.insert(name.to_owned(), Arc::new(bytes));
    }
}

struct Bytes(Arc<Vec<u8>>);

impl ReadAt for Bytes {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = self.0.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

impl Source for Files {
    fn segments(&self) -> io::Result<Vec<u64>> {
        Ok(self.0.keys().filter_map(|n| n.strip_suffix(".log")?.parse().ok()).collect())
    }

    fn open(&self, name: &str) -> io::Result<Option<Arc<dyn ReadAt>>> {
        Ok(self.0.get(name).map(|bytes| Arc::new(Bytes(bytes.clone())) as Arc<dyn ReadAt>))
    }
}

/// SplitMix64: repeatable, no dependency.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
