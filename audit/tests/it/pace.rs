//! Nobody waits for what need not be waited for: `strict` for the sync alone, and no record for a segment's snapshot.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tollgate_audit::clock::SystemClock;
use tollgate_audit::entry::{Entry, Kind};
use tollgate_audit::error::Unavailable;
use tollgate_audit::read;
use tollgate_audit::storage::{Disk, Lock, Mode, Storage, StoredFile};
use tollgate_audit::verify::{self, DirSource, verify};
use tollgate_audit::writer::{Durability, Journal, Options, OutcomeSlot, Receipt, block_on};

use crate::support::*;

#[test]
fn g13_strict_waits_for_the_sync_and_for_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let interval = Duration::from_secs(60);
    let strict = Options { durability: Durability::Strict, sync_interval: interval, ..options(dir.path()) };
    let journal = Journal::open(strict).unwrap();
    let start = Instant::now();
    for number in 0..5 {
        call(&journal, number);
    }
    assert!(start.elapsed() < interval / 2, "{:?}", start.elapsed());
}

/// A disk on which drafts of snapshots are written when somebody says so.
struct Slow {
    gate: Arc<Mutex<Receiver<()>>>,
    /// Told when a draft is begun.
    begun: Mutex<Sender<()>>,
}

struct Draft {
    file: Arc<dyn StoredFile>,
    gate: Arc<Mutex<Receiver<()>>>,
}

impl StoredFile for Draft {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        // Closed for ever when the test is over.
        let _ = self.gate.lock().recv();
        self.file.append(bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn truncate(&self, size: u64) -> io::Result<()> {
        self.file.truncate(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn seal(&self) -> io::Result<()> {
        self.file.seal()
    }
}

impl Storage for Slow {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        Disk::default().create_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Disk::default().sync_dir(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        Disk::default().list(dir)
    }

    fn open(&self, path: &Path, mode: Mode) -> io::Result<Arc<dyn StoredFile>> {
        let file = Disk::default().open(path, mode)?;
        if mode == Mode::Create && path.to_string_lossy().contains(".snapshot.") {
            let _ = self.begun.lock().send(());
            return Ok(Arc::new(Draft { file, gate: self.gate.clone() }));
        }
        Ok(file)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Disk::default().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Disk::default().remove(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        Disk::default().lock(path)
    }
}

/// A journal with so many runs that their snapshot is long.
fn many_runs(journal: &Journal) {
    for run in 0..3_000 {
        let entry = Entry { run: Some(format!("many-{run}").into()), ..Entry::new(Kind::Denied) };
        block_on(journal.record(entry)).unwrap();
    }
}

#[test]
fn l4_z19_records_go_on_while_a_long_snapshot_is_written_and_totals_stay_exact() {
    let dir = tempfile::tempdir().unwrap();
    let (open, gate) = channel();
    let (begun, told) = channel();
    let slow = Options {
        storage: Arc::new(Slow { gate: Arc::new(Mutex::new(gate)), begun: Mutex::new(begun) }),
        clock: Arc::new(SystemClock::new()),
        segment_bytes: 600_000,
        ..options(dir.path())
    };
    let journal = Journal::open(slow.clone()).unwrap();
    many_runs(&journal);
    told.recv_timeout(Duration::from_secs(20)).expect("a snapshot is begun");
    let (done, calls) = channel();
    let worker = journal.clone();
    std::thread::spawn(move || {
        (0..50).for_each(|number| drop(call(&worker, number)));
        done.send(()).unwrap();
    });
    let waited = calls.recv_timeout(Duration::from_secs(20));
    drop(open);
    assert_ne!(waited, Err(RecvTimeoutError::Timeout), "the calls wait for the snapshot");
    let next = journal.opened().dir.join("00000001.log");
    let start = Instant::now();
    for number in 50.. {
        call(&journal, number);
        if next.exists() {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the segment does not end");
    }
    (2_000..2_050).for_each(|number| drop(call(&journal, number)));
    let before = journal.totals(Clone::clone);
    journal.close();
    let log = journal.opened().dir.clone();
    let key = journal.first_key().clone();
    drop(journal);
    let snapshot = std::fs::read_to_string(log.join("00000001.snapshot")).unwrap();
    assert!(snapshot.contains(r#""tail":[null,{"#), "the calls stand behind the sums");
    assert_eq!(read::totals(&DirSource::new(&log)).unwrap(), before);
    // The records before are not read again: they are not there.
    let first = log.join("00000000.log");
    std::fs::rename(&first, log.join("kept")).unwrap();
    let again = Journal::open(Options { storage: Arc::new(Disk::default()), ..slow }).unwrap();
    again.totals(|now| assert_eq!(*now, before));
    again.close();
    drop(again);
    std::fs::rename(log.join("kept"), first).unwrap();
    let report = verify(&DirSource::new(&log), &verify::Options { key: Some(key), ..Default::default() });
    assert!(report.findings.is_empty() && report.problems.is_empty(), "{report:?}");
}

#[test]
fn z15_a_key_is_handed_over_while_a_long_snapshot_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let small = Options { segment_bytes: 600_000, ..options(dir.path()) };
    let journal = Journal::open(small.clone()).unwrap();
    many_runs(&journal);
    journal.rotate_key(key(2)).unwrap().wait().unwrap();
    (0..20).for_each(|number| drop(call(&journal, number)));
    let before = journal.totals(Clone::clone);
    journal.close();
    let log = journal.opened().dir.clone();
    drop(journal);
    assert_eq!(read::totals(&DirSource::new(&log)).unwrap(), before);
    let again = Journal::open(Options { key: key(2), ..small }).unwrap();
    again.totals(|now| assert_eq!(*now, before));
}

#[test]
fn z19_calls_of_one_moment_are_written_together_and_none_waits_for_one_that_left() {
    type Call<'a> = Pin<Box<dyn Future<Output = Result<(Receipt, OutcomeSlot), Unavailable>> + 'a>>;
    let dir = tempfile::tempdir().unwrap();
    let interval = Duration::from_secs(60);
    let journal = Journal::open(Options { sync_interval: interval, ..options(dir.path()) }).unwrap();
    let mut calls: Vec<Call<'_>> =
        (0..40).map(|number| Box::pin(journal.intent(intent(number))) as Call<'_>).collect();
    let mut context = Context::from_waker(Waker::noop());
    let first = calls.iter_mut().map(|call| call.as_mut().poll(&mut context)).collect::<Vec<_>>();
    let before = journal.stats().records;
    let waiting = first.iter().filter(|poll| poll.is_pending()).count();
    assert!(waiting >= 20, "{waiting} wait");
    // One of them leaves: all that had come are written.
    calls.pop();
    assert!(journal.stats().records >= before + waiting as u64);
    let mut slots: Vec<OutcomeSlot> = Vec::new();
    for poll in first {
        if let Poll::Ready(done) = poll {
            slots.push(done.unwrap().1);
        }
    }
    for call in calls.iter_mut().skip(slots.len()) {
        match call.as_mut().poll(&mut context) {
            Poll::Ready(done) => slots.push(done.unwrap().1),
            Poll::Pending => panic!("it was written"),
        }
    }
    // Outcomes that nobody asks for are written all the same.
    let before = journal.stats().records;
    let written = slots.len() as u64;
    slots.into_iter().enumerate().for_each(|(number, slot)| drop(slot.finish(outcome(number as u64))));
    assert_eq!(journal.stats().records, before + written);
}
