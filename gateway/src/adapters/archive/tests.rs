//! The archive on a folder: what is kept, when, and what is never done to it.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use audit::entry::{Entry, Kind};
use audit::key::SigningKey;
use audit::verify::{DirSource, Options as Verify, Source, verify};
use audit::writer::{Journal, Options, block_on};

use super::{Archived, Archiver, Store, logs};
use crate::config::{Archive, archive_url};

/// A journal whose segments are short.
struct Bench {
    root: tempfile::TempDir,
    key: Arc<SigningKey>,
}

impl Bench {
    fn new() -> Bench {
        Bench { root: tempfile::tempdir().unwrap(), key: Arc::new(SigningKey::from_seed([7; 32]).unwrap()) }
    }

    fn open(&self) -> Arc<Journal> {
        let options = Options::new(self.root.path().join("audit"), "gw", Arc::clone(&self.key));
        Journal::open(Options { segment_bytes: 2_000, sync_interval: Duration::ZERO, ..options }).unwrap()
    }

    fn url(&self) -> String {
        format!("file://{}", self.archive().display())
    }

    fn archive(&self) -> PathBuf {
        self.root.path().join("archive")
    }

    /// Where one log's files are kept.
    fn kept(&self, journal: &Journal) -> PathBuf {
        self.archive().join(&**journal.log())
    }

    fn start(&self, journal: &Journal) -> Archiver {
        let spec = Archive::of(archive_url(&self.url()).unwrap());
        let store = Store::open(&spec, true).unwrap();
        Archiver::start(store, journal.opened().dir.clone(), journal.log()).unwrap()
    }

    fn read(&self) -> (String, Archived) {
        let mut all = logs(&self.url()).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

/// Writes until so many segments are closed.
fn fill(journal: &Journal, segments: usize) {
    let dir = DirSource::new(&journal.opened().dir);
    until("segments", || {
        block_on(journal.record(Entry::new(Kind::Heartbeat))).unwrap();
        journal.checkpoint().unwrap().wait().unwrap();
        dir.segments().unwrap().len() > segments
    });
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "still waiting for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    all.sort();
    all
}

fn pinned(journal: &Journal) -> Verify {
    Verify { key: Some(journal.first_key().clone()), ..Verify::default() }
}

#[test]
fn closed_segments_are_kept_and_verified_from_there() {
    let bench = Bench::new();
    let journal = bench.open();
    fill(&journal, 2);
    let next = Arc::new(SigningKey::from_seed([8; 32]).unwrap());
    journal.rotate_key(next).unwrap().wait().unwrap();
    fill(&journal, 5);
    let archiver = bench.start(&journal);
    until("the archive", || archiver.state().kept_segments >= 5 && archiver.state().lag_segments == 0);
    fill(&journal, 7);
    until("what was closed since", || archiver.state().kept_segments >= 7);
    archiver.stop();
    journal.close();
    let (url, archived) = bench.read();
    assert_eq!(url, format!("{}/{}", bench.url(), journal.log()));
    let report = verify(&archived, &pinned(&journal));
    assert_eq!((report.verdict.name(), report.epochs), ("OK_UNANCHORED".into(), 2), "{report:?}");
    assert_eq!(report.sealed, report.records);
    // The bytes are those of the folder, and what is copied from the archive is a log by itself.
    for (name, bytes) in files(&bench.kept(&journal)) {
        if !name.ends_with(".keys") {
            assert_eq!(std::fs::read(journal.opened().dir.join(&name)).unwrap(), bytes, "{name}");
        }
    }
    let copied = verify(&DirSource::new(bench.kept(&journal)), &pinned(&journal));
    assert_eq!(copied, report);
}

#[test]
fn what_is_kept_is_not_sent_again_and_never_overwritten() {
    let bench = Bench::new();
    let journal = bench.open();
    fill(&journal, 4);
    let archiver = bench.start(&journal);
    until("the archive", || archiver.state().kept_segments >= 4);
    drop(archiver);
    let kept = bench.kept(&journal);
    let before = files(&kept);
    // One is changed, one was sent in part; a new start says so of the one, and goes on with the other.
    let changed = kept.join("00000001.log");
    std::fs::write(&changed, b"something else").unwrap();
    std::fs::remove_file(kept.join("00000002.log")).unwrap();
    let times = |name: &str| std::fs::metadata(kept.join(name)).unwrap().modified().unwrap();
    let sent = ["00000000.log", "00000002.leaves"].map(times);
    let archiver = bench.start(&journal);
    until("the rest", || archiver.state().kept_segments >= 3 && archiver.state().refused == [1]);
    let state = archiver.state();
    assert_eq!(state.lag_segments, 1);
    assert!(state.error.is_some_and(|(why, _)| why.contains("something else")));
    assert_eq!(std::fs::read(&changed).unwrap(), b"something else");
    assert_eq!(["00000000.log", "00000002.leaves"].map(times), sent);
    std::fs::write(&changed, &before.iter().find(|(name, _)| name == "00000001.log").unwrap().1).unwrap();
    assert_eq!(files(&kept), before);
}

#[test]
fn an_archive_that_is_away_delays_nothing_and_is_caught_up() {
    let bench = Bench::new();
    let journal = bench.open();
    std::fs::create_dir_all(bench.archive()).unwrap();
    // No folder can be made where a file is.
    let deployment = bench.archive().join("tollgate");
    std::fs::write(&deployment, b"").unwrap();
    let archiver = bench.start(&journal);
    fill(&journal, 3);
    until("the lag", || archiver.state().lag_segments >= 3 && archiver.state().error.is_some());
    assert_eq!(archiver.state().kept_segments, 0);
    std::fs::remove_file(&deployment).unwrap();
    until("the archive", || archiver.state().lag_segments == 0 && archiver.state().kept_segments >= 3);
    assert_eq!(archiver.state().error, None);
    let (_, archived) = bench.read();
    assert_eq!(verify(&archived, &pinned(&journal)).verdict.name(), "OK_UNANCHORED");
}

#[test]
fn z6_what_was_changed_in_an_archive_is_named() {
    let bench = Bench::new();
    let journal = bench.open();
    fill(&journal, 3);
    let archiver = bench.start(&journal);
    until("the archive", || archiver.state().kept_segments >= 3);
    let log = bench.kept(&journal).join("00000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let (_, archived) = bench.read();
    let report = verify(&archived, &pinned(&journal));
    assert_eq!(report.verdict.name(), "EDITED", "{report:?}");
    assert_eq!(report.findings.len(), 1);
}

#[test]
fn z20_what_else_is_in_an_archive_stands_in_the_way_of_nothing() {
    use std::os::unix::ffi::OsStrExt as _;

    let bench = Bench::new();
    let journal = bench.open();
    fill(&journal, 2);
    let archiver = bench.start(&journal);
    until("the archive", || archiver.state().kept_segments >= 2);
    drop(archiver);
    let kept = bench.kept(&journal);
    for name in [&b"evil\nname.log"[..], b"\xff\xfe.log", b"00000000.log#1", b"..%2fx.log"] {
        std::fs::write(kept.join(std::ffi::OsStr::from_bytes(name)), b"x").unwrap();
    }
    for (to, name) in [(kept.as_path(), "loop"), (Path::new("/nonexistent"), "dangling.log")] {
        std::os::unix::fs::symlink(to, kept.join(name)).unwrap();
    }
    let segments = DirSource::new(&journal.opened().dir).segments().unwrap();
    let next = segments.last().unwrap() + 1;
    let folder = kept.join(format!("{next:08}.log"));
    std::fs::create_dir(&folder).unwrap();
    // After a restart too, and also for segments behind the one whose place is taken.
    let archiver = bench.start(&journal);
    fill(&journal, usize::try_from(next).unwrap() + 3);
    until("the segments behind it", || archiver.state().kept_segments >= next + 2);
    let state = archiver.state();
    assert!(state.lag_segments >= 1 && state.refused.is_empty(), "{state:?}");
    assert!(state.error.is_some_and(|(why, _)| why.contains("is no object")));
    std::fs::remove_dir(&folder).unwrap();
    until("the one that was in the way", || archiver.state().lag_segments == 0);
    let (_, archived) = bench.read();
    let report = verify(&archived, &pinned(&journal));
    assert_eq!(report.verdict.name(), "OK_UNANCHORED", "{report:?}");
}

#[test]
fn the_folder_of_a_journal_is_read_as_an_archive_too() {
    let bench = Bench::new();
    let journal = bench.open();
    fill(&journal, 2);
    journal.close();
    let mut all = logs(&format!("file://{}", bench.root.path().join("audit").display())).unwrap();
    let (_, archived) = all.remove(0);
    assert!(all.is_empty());
    let report = verify(&archived, &pinned(&journal));
    assert_eq!(report, verify(&DirSource::new(&journal.opened().dir), &pinned(&journal)));
    assert_eq!(report.verdict.name(), "OK_UNANCHORED", "{report:?}");
}
