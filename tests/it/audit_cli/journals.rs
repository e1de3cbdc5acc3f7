//! Journals for the tests of `tollgate audit`, written by the journal's own crate, and ways to damage them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use audit::entry::{Entry, Int, Kind};
use audit::frame::{Frame, Frames};
use audit::key::SigningKey;
use audit::writer::{Journal, Options, block_on};

/// A text that would steer a terminal.
pub(super) const HOSTILE: &str = "\u{1b}[2J\u{202e}\u{9b}31m";

/// A journal's folder, and one for other files.
pub(super) struct Book {
    journal: tempfile::TempDir,
    files: tempfile::TempDir,
}

impl Book {
    pub(super) fn new() -> Book {
        let dir = || tempfile::tempdir().expect("a folder");
        Book { journal: dir(), files: dir() }
    }

    pub(super) fn dir(&self) -> String {
        self.journal.path().to_string_lossy().into_owned()
    }

    pub(super) fn path(&self, instance: &str) -> PathBuf {
        self.journal.path().join(instance)
    }

    /// Writes a file outside the journal and gives its path.
    pub(super) fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.files.path().join(name);
        std::fs::write(&path, bytes).expect("write");
        path.to_string_lossy().into_owned()
    }

    pub(super) fn open(&self, instance: &str) -> Arc<Journal> {
        let key = Arc::new(SigningKey::generate().expect("a key"));
        Journal::open(Options::new(self.journal.path(), instance, key)).expect("it opens")
    }

    /// A closed log with so many calls of run `r1`: its first key and its id.
    pub(super) fn write(&self, instance: &str, calls: u64) -> (String, String) {
        let journal = self.open(instance);
        (0..calls).for_each(|index| call(&journal, "r1", index));
        journal.close();
        (journal.first_key().to_string(), journal.log().to_string())
    }

    fn log(&self, instance: &str) -> PathBuf {
        self.path(instance).join("00000000.log")
    }

    pub(super) fn records(&self, instance: &str) -> Vec<Entry> {
        let bodies = self.bodies(instance);
        bodies.split(|b| *b == b'\n').filter(|l| !l.is_empty()).filter_map(Entry::parse).collect()
    }

    /// The records' JSON, a line each; also that of lines whose CRC is wrong.
    pub(super) fn bodies(&self, instance: &str) -> Vec<u8> {
        let bytes = std::fs::read(self.log(instance)).expect("read");
        let mut frames = Frames::new(bytes.as_slice());
        let mut all = Vec::new();
        while let Some((_, frame)) = frames.next().expect("read") {
            if let Frame::Whole(body) | Frame::Flawed(Some(body), _) = frame {
                all.extend_from_slice(body);
                all.push(b'\n');
            }
        }
        all
    }

    /// Replaces a text in the records by one as long, without care.
    pub(super) fn edit(&self, instance: &str, from: &str, to: &str) {
        assert_eq!(from.len(), to.len());
        let text = String::from_utf8(std::fs::read(self.log(instance)).expect("read")).expect("UTF-8");
        assert!(text.contains(from));
        rewrite(&self.log(instance), text.replace(from, to).as_bytes());
    }

    /// Takes the last records away with their leaves and all later checkpoints, as a careful thief would.
    pub(super) fn cut(&self, instance: &str, records: usize) {
        let log = std::fs::read(self.log(instance)).expect("read");
        let ends: Vec<usize> =
            log.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(at, _)| at + 1).collect();
        let left = ends.len() - records;
        rewrite(&self.log(instance), &log[..ends[left - 1]]);
        let leaves = self.path(instance).join("00000000.leaves");
        let bytes = std::fs::read(&leaves).expect("read");
        rewrite(&leaves, &bytes[..left * 32]);
        self.only_first_checkpoint(instance);
    }

    pub(super) fn only_first_checkpoint(&self, instance: &str) {
        let path = self.path(instance).join("00000000.checkpoints");
        let bytes = std::fs::read(&path).expect("read");
        let mut frames = Frames::with_limit(bytes.as_slice(), 128 * 1024);
        frames.next().expect("read").expect("one");
        let end = usize::try_from(frames.offset()).expect("small");
        assert!(end < bytes.len(), "there is only one");
        rewrite(&path, &bytes[..end]);
    }
}

fn rewrite(path: &Path, bytes: &[u8]) {
    std::fs::remove_file(path).expect("remove");
    std::fs::write(path, bytes).expect("write");
}

fn entry(kind: Kind, run: &str) -> Entry {
    Entry {
        iss: Some("https://idp".into()),
        sub: Some("u1".into()),
        task: Some("support".into()),
        run: Some(run.to_owned().into()),
        method: Some("tools/call".into()),
        server: Some("docs".into()),
        tool: Some(format!("=1+1{HOSTILE}").into()),
        rule: Some(HOSTILE.into()),
        ..Entry::new(kind)
    }
}

/// A whole call; it costs 1000 and its index in 10^-9 dollars.
pub(super) fn call(journal: &Arc<Journal>, run: &str, index: u64) {
    let of =
        |kind| Entry { call: Some(format!("c{index}").into()), index: Some(Int(index)), ..entry(kind, run) };
    let (_, slot) = block_on(journal.intent(of(Kind::Intent))).expect("intent");
    let cost = Some(Int(1000 + index));
    let ended =
        Entry { outcome: Some("ok".into()), cost_nanousd: cost, ms: Some(Int(3)), ..of(Kind::Outcome) };
    slot.finish(ended).wait().expect("outcome");
}

pub(super) fn denied(journal: &Journal, run: &str) {
    let refusal =
        Entry { decision: Some("hidden".into()), reason: Some("tool".into()), ..entry(Kind::Denied, run) };
    block_on(journal.record(refusal)).expect("denied");
}
