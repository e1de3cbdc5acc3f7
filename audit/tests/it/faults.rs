//! Cases Z4, Z5 and Z18: the n-th operation fails, for every n and in every way; a failed sync ends the journal; space
//! that returns is used by itself.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_audit::error::Unavailable;
use tollgate_audit::read::{Filter, all};
use tollgate_audit::verify::{self, verify};
use tollgate_audit::writer::{Durability, Journal, Options, Receipt, block_on};

use crate::disk::{Failure, FakeDisk};
use crate::support::*;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EDQUOT: i32 = 122;

fn fake(disk: &FakeDisk, durability: Durability) -> Options {
    Options {
        storage: Arc::new(disk.clone()),
        durability,
        sync_interval: Duration::ZERO,
        segment_bytes: 3_000,
        ..options(Path::new("/j"))
    }
}

/// Calls until one is refused; what was acknowledged.
fn work(journal: &Arc<Journal>) -> Vec<Receipt> {
    let mut taken = Vec::new();
    for number in 0..5 {
        if let Ok((receipt, slot)) = block_on(journal.intent(intent(number))) {
            taken.push(receipt);
            // The answer of `buffered` does not wait; a kept outcome may be written later.
            if let Ok(receipt) = poll_for(slot.finish(outcome(number))) {
                taken.push(receipt);
            }
        }
        let _ = journal.checkpoint().map(|t| t.wait());
    }
    taken
}

/// An outcome that is kept for later has no answer yet.
fn poll_for(ticket: tollgate_audit::writer::Ticket) -> Result<Receipt, ()> {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};
    let mut ticket = std::pin::pin!(ticket);
    for _ in 0..200 {
        if let Poll::Ready(result) = ticket.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result.map_err(|_| ());
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Err(())
}

fn check(disk: &FakeDisk, taken: &[Receipt], what: &str) {
    let dir = Path::new("/j/gw");
    let journal = Journal::open(fake(disk, Durability::Strict)).unwrap_or_else(|e| panic!("{what}: {e}"));
    journal.close();
    let files = disk.files(dir);
    let records = all(&files, &Filter::default()).unwrap();
    for receipt in taken {
        assert_eq!(
            records.get(receipt.seq as usize).map(|r| r.leaf),
            Some(receipt.leaf),
            "{what}: {}",
            receipt.seq
        );
    }
    let with = verify::Options { key: Some(journal.first_key().clone()), ..Default::default() };
    let report = verify(&files, &with);
    assert!(report.findings.is_empty(), "{what}: {report:?}");
}

#[test]
fn g3_z4_every_operation_fails_once_and_for_ever() {
    let ways = [
        Failure::Error(EIO),
        Failure::Error(ENOSPC),
        Failure::Error(EDQUOT),
        Failure::Short,
        Failure::Interrupted,
    ];
    for durability in [Durability::Buffered, Durability::Strict] {
        for failure in ways {
            for forever in [false, true] {
                if forever && failure == Failure::Interrupted {
                    continue; // It would be tried for ever, and rightly.
                }
                let mut n = 1;
                loop {
                    let disk = FakeDisk::default();
                    let journal = Journal::open(fake(&disk, durability)).unwrap();
                    disk.fail(n, failure, forever);
                    let taken = work(&journal);
                    let fired = disk.heal();
                    drop(journal);
                    check(&disk, &taken, &format!("{durability:?}, {failure:?} at {n}, for ever: {forever}"));
                    if !fired {
                        assert!(n > 20, "{n}");
                        break;
                    }
                    n += 1;
                }
            }
        }
    }
}

#[test]
fn z4_calls_are_refused_while_the_disk_is_full_and_go_on_by_themselves() {
    let disk = FakeDisk::default();
    let journal = Journal::open(fake(&disk, Durability::Buffered)).unwrap();
    let (_, slot) = block_on(journal.intent(intent(0))).unwrap();
    disk.fail(1, Failure::Error(ENOSPC), true);
    let refused = block_on(journal.intent(intent(1))).map(|_| ());
    assert!(matches!(&refused, Err(error) if error.retryable()), "{refused:?}");
    let late = slot.finish(outcome(0));
    assert!(journal.stats().fault.is_some());
    disk.heal();
    call(&journal, 2);
    let receipt = late.wait().unwrap();
    journal.close();
    let records = all(&disk.files(Path::new("/j/gw")), &Filter::default()).unwrap();
    assert_eq!(records[receipt.seq as usize].entry.call.as_deref(), Some("c0"), "the outcome was kept");
    assert!(records.iter().all(|r| r.entry.call.as_deref() != Some("c1")));
}

/// Counts what begins and what ends.
#[derive(Default)]
struct Told([AtomicU64; 2]);

impl tollgate_audit::writer::Watch for Told {
    fn appended(&self, _: &tollgate_audit::entry::Entry, _: &Receipt) {}

    fn fault(&self, why: Option<&str>) {
        self.0[usize::from(why.is_none())].fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn z4_a_full_disk_is_told_of_and_gathers_nothing() {
    let (disk, clock, told) = (FakeDisk::default(), HandClock::new(), Arc::new(Told::default()));
    let options =
        Options { clock: clock.clone(), watch: vec![told.clone()], ..fake(&disk, Durability::Buffered) };
    let journal = Journal::open(options).unwrap();
    let turn = || drop(journal.checkpoint().map(|ticket| ticket.wait()));
    disk.fail(1, Failure::Error(ENOSPC), true);
    assert!(block_on(journal.intent(intent(0))).is_err());
    for _ in 0..100 {
        journal.count_denied("rate");
        clock.pass(Duration::from_secs(2));
        turn();
        assert!(journal.stats().fault.is_some(), "until it is over");
    }
    assert!(journal.stats().queued <= 2, "{}", journal.stats().queued);
    disk.heal();
    // Nobody calls.
    (0..3).for_each(|_| turn());
    assert_eq!(journal.stats().fault, None);
    assert_eq!(told.0.each_ref().map(|n| n.load(Ordering::SeqCst)), [1, 1]);
    clock.pass(Duration::from_secs(2));
    turn();
    journal.close();
    let records = all(&disk.files(Path::new("/j/gw")), &Filter::default()).unwrap();
    let counts: Vec<u64> = records.iter().filter_map(|r| r.entry.count.map(|count| count.0)).collect();
    assert_eq!(counts.iter().sum::<u64>(), 100, "{counts:?}");
    assert!(counts.len() <= 2, "{counts:?}");
}

#[test]
fn z5_a_failed_sync_is_never_tried_again() {
    for durability in [Durability::Buffered, Durability::Strict] {
        let disk = FakeDisk::default();
        let fatal = Arc::new(AtomicU64::new(0));
        let seen = fatal.clone();
        let on_fatal: tollgate_audit::writer::OnFatal = Arc::new(move |why| {
            assert!(why.contains("sync"), "{why}");
            seen.fetch_add(1, Ordering::SeqCst);
        });
        let journal = Journal::open(Options { on_fatal: Some(on_fatal), ..fake(&disk, durability) }).unwrap();
        disk.fail_sync();
        let first = block_on(journal.intent(intent(0))).map(|_| ());
        assert_eq!(first.is_err(), durability == Durability::Strict, "{first:?}");
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while fatal.load(Ordering::SeqCst) == 0 && std::time::Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let later = block_on(journal.intent(intent(1))).map(|_| ());
        assert!(matches!(later, Err(Unavailable::Poisoned(_))), "{later:?}");
        journal.close();
        assert_eq!(fatal.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn z18_nothing_is_taken_after_a_sync_that_failed_whoever_met_it() {
    for round in 0..40 {
        let disk = FakeDisk::default();
        let options = Options { segment_bytes: 1 << 20, ..fake(&disk, Durability::Strict) };
        let journal = Journal::open(options).unwrap();
        let lost = AtomicU64::new(0);
        std::thread::scope(|scope| {
            // With one caller it meets the fault itself; with more the thread may.
            for caller in 0..1 + round % 3 {
                let (journal, lost, disk) = (&journal, &lost, &disk);
                scope.spawn(move || {
                    for number in 0..200 {
                        if (caller, number) == (0, 20) {
                            disk.fail_sync();
                        }
                        let before = lost.load(Ordering::SeqCst);
                        match block_on(journal.intent(intent(caller * 1_000 + number))) {
                            Ok((_, slot)) => {
                                assert_eq!(before, 0, "taken after a sync had failed");
                                drop(slot);
                            }
                            Err(error) => {
                                assert!(matches!(error, Unavailable::Poisoned(_)), "{error:?}");
                                lost.fetch_add(1, Ordering::SeqCst);
                            }
                        }
                    }
                });
            }
        });
        assert!(lost.into_inner() > 100);
    }
}
