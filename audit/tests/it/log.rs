//! A journal in normal use: order, receipts, restart, totals, rotation, keys, clocks, back-pressure, locks.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tollgate_audit::costs::{Principal, RunKey};
use tollgate_audit::entry::{Entry, Kind};
use tollgate_audit::error::{Error, Unavailable};
use tollgate_audit::note::Checkpoint;
use tollgate_audit::read::{self, Filter};
use tollgate_audit::runs::{Projection, Status};
use tollgate_audit::storage::Storage;
use tollgate_audit::verify::{self, DirSource, Verdict, verify};
use tollgate_audit::writer::{Durability, Journal, Options, block_on, fork};

use crate::support::*;

fn check(journal_dir: &std::path::Path, options: &verify::Options) -> verify::Report {
    verify(&DirSource::new(journal_dir), options)
}

#[test]
fn a_closed_log_is_proven_with_its_key_and_its_last_checkpoint() {
    for durability in [Durability::Buffered, Durability::Strict] {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(Options { durability, ..options(dir.path()) }).unwrap();
        let receipts: Vec<_> = (0..20).flat_map(|n| call(&journal, n)).collect();
        let seqs: Vec<u64> = receipts.iter().map(|r| r.seq).collect();
        assert_eq!(seqs, (1..=40).collect::<Vec<u64>>());
        journal.close();
        let last = journal.last_checkpoint().unwrap().to_string().into_bytes();
        let with = verify::Options {
            key: Some(journal.first_key().clone()),
            checkpoints: vec![last],
            receipts: receipts.iter().map(|r| (r.seq, r.leaf)).collect(),
        };
        let report = check(&journal.opened().dir, &with);
        assert_eq!((report.verdict, report.records, report.sealed), (Verdict::Ok, 42, 42), "{report:?}");
        let unanchored =
            check(&journal.opened().dir, &verify::Options { checkpoints: vec![], receipts: vec![], ..with });
        assert_eq!((unanchored.verdict, unanchored.horizon()), (Verdict::OkUnanchored, Some(41)));
        let unpinned = check(&journal.opened().dir, &verify::Options::default());
        assert_eq!(unpinned.verdict, Verdict::OkUnpinned);
    }
}

#[test]
fn z21_a_crash_after_the_intent_leaves_an_unknown_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(options(dir.path())).unwrap();
    call(&journal, 0);
    let (_, slot) = block_on(journal.intent(intent(1))).unwrap();
    let copy = tempfile::tempdir().unwrap();
    Files::load(&journal.opened().dir).store(&copy.path().join("gw"));
    drop(slot);
    let journal = Journal::open(options(copy.path())).unwrap();
    assert_eq!(journal.opened().orphans, 1);
    let found = read::all(
        &DirSource::new(&journal.opened().dir),
        &Filter { call: Some("c1".into()), ..Filter::default() },
    );
    let found = found.unwrap();
    assert_eq!(found.len(), 2);
    let last = &found[1].entry;
    assert_eq!(
        (last.kind, last.outcome.as_deref(), last.reason.as_deref()),
        (Kind::Outcome, Some("unknown"), Some("crashed"))
    );
    assert_eq!((last.server.as_deref(), last.index), (Some("docs"), intent(1).index));
}

#[test]
fn a_dropped_slot_records_that_nobody_knows_the_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(options(dir.path())).unwrap();
    let (_, slot) = block_on(journal.intent(intent(1))).unwrap();
    drop(slot);
    journal.close();
    let found = read::all(
        &DirSource::new(&journal.opened().dir),
        &Filter { call: Some("c1".into()), ..Filter::default() },
    );
    assert_eq!(found.unwrap()[1].entry.reason.as_deref(), Some("abandoned"));
}

#[test]
fn l4_who_leaves_before_the_intent_is_taken_is_charged_nothing() {
    use std::future::Future;
    let dir = tempfile::tempdir().unwrap();
    let mut strict = Options { durability: Durability::Strict, queue: 2, ..options(dir.path()) };
    // No thread but the writer's will wait for the disk.
    strict.aside = |_, _| ();
    let journal = Journal::open(strict).unwrap();
    let priced = |n| Entry {
        day: Some("2026-12-01".into()),
        reserved_bytes: Some(7.into()),
        reserved_nanousd: Some(9.into()),
        ..intent(n)
    };
    // The first waits for the sync, the second for room.
    let mut calls = [0, 1].map(|n| Box::pin(journal.intent(priced(n))));
    let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
    let pending: Vec<bool> =
        calls.iter_mut().map(|call| call.as_mut().poll(&mut nobody).is_pending()).collect();
    assert_eq!(pending, [true, true]);
    drop(calls);
    journal.close();
    let records = read::all(&DirSource::new(&journal.opened().dir), &Filter::default()).unwrap();
    let ends: Vec<&Entry> = records.iter().map(|r| &r.entry).filter(|e| e.kind == Kind::Outcome).collect();
    assert_eq!(ends.len(), 1);
    assert_eq!((ends[0].outcome.as_deref(), ends[0].reason.as_deref()), (Some("cancelled"), Some("unsent")));
    assert_eq!((ends[0].cost_nanousd, ends[0].charged_bytes, &ends[0].day), (None, None, &None));
    let counts = records.iter().filter(|r| r.entry.kind == Kind::DeniedCount).map(|r| &r.entry);
    let counts: Vec<_> = counts.map(|e| (e.reason.as_deref(), e.count)).collect();
    assert_eq!(counts, [(Some("cancelled"), Some(1.into()))]);
}

#[test]
fn z8_a_snapshot_that_is_too_large_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let small = Options { segment_bytes: 4_000, ..options(dir.path()) };
    let journal = Journal::open(small.clone()).unwrap();
    for n in 0..30 {
        call(&journal, n);
        note(&journal);
    }
    let before = journal.totals(Clone::clone);
    journal.close();
    let log = journal.opened().dir.clone();
    drop(journal);
    for file in std::fs::read_dir(&log).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "snapshot") {
            std::fs::File::options().write(true).open(file).unwrap().set_len(257 << 20).unwrap();
        }
    }
    Journal::open(small).unwrap().totals(|now| assert_eq!(*now, before));
}

#[test]
fn l4_totals_are_the_same_after_a_restart_and_over_rotations() {
    let dir = tempfile::tempdir().unwrap();
    let small = Options { segment_bytes: 4_000, ..options(dir.path()) };
    let journal = Journal::open(small.clone()).unwrap();
    for n in 0..50 {
        call(&journal, n);
        if n % 7 == 0 {
            note(&journal);
        }
    }
    let before = journal.totals(Clone::clone);
    journal.close();
    let log = journal.opened().dir.clone();
    drop(journal);
    assert!(log.join("00000003.log").exists(), "rotated");
    let again = Journal::open(small).unwrap();
    again.totals(|now| assert_eq!(*now, before));
    let scanned = read::totals(&DirSource::new(&log)).unwrap();
    assert_eq!(scanned, before);
    let run = RunKey {
        principal: Principal { sub: "u1".into(), ..Principal::default() },
        task: "support".into(),
        run: "r1".into(),
    };
    assert_eq!(before.runs[&run].next_index, 50);
    assert_eq!(before.runs[&run].servers["docs"].nanousd, (0..50).map(|n| 1000 + n).sum::<u64>());
    // Without the snapshot the same comes from all segments.
    again.close();
    drop(again);
    let snapshots: Vec<_> = std::fs::read_dir(&log).unwrap().map(|e| e.unwrap().path()).collect();
    snapshots
        .iter()
        .filter(|p| p.extension().is_some_and(|e| e == "snapshot"))
        .for_each(|p| std::fs::remove_file(p).unwrap());
    let again = Journal::open(options(dir.path())).unwrap();
    again.totals(|now| assert_eq!(*now, before));
}

#[test]
fn a_runs_calls_are_read_in_order_from_the_chain_alone() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(options(dir.path())).unwrap();
    for n in [2, 0, 3, 1] {
        call(&journal, n);
    }
    let refusal = Entry { run: Some("r1".into()), ..Entry::new(Kind::Denied) };
    block_on(journal.record(Entry { sub: Some("u1".into()), task: Some("support".into()), ..refusal }))
        .unwrap();
    let stranger = Entry { sub: Some("u2".into()), ..intent(0) };
    drop(block_on(journal.intent(stranger)).unwrap());
    journal.close();
    let source = DirSource::new(&journal.opened().dir);
    let (runs, damaged) = read::runs(&[&source], "r1").unwrap();
    assert_eq!(damaged, 0);
    assert_eq!(runs.len(), 2, "two principals never share a run");
    let indices: Vec<_> = runs[0].calls.iter().filter_map(|c| c.first.entry.index).map(|i| i.0).collect();
    assert_eq!(indices, [0, 1, 2, 3]);
    assert_eq!(runs[0].calls[4].first.entry.kind, Kind::Denied);
    assert!(runs[0].calls[..4].iter().all(|c| c.outcome.is_some()));
    // What the writer has added up is what a reader computes.
    let known = journal.totals(|totals| totals.runs[&runs[0].projection.key].clone());
    let logs = [(journal.log().to_string().into(), known)].into();
    assert_eq!(runs[0].projection, Projection { logs, ..runs[0].projection.clone() });
    assert_eq!(runs[0].projection.status(), Status::Completed);
    assert_eq!(runs[1].projection.status(), Status::Failed, "nobody told how its call ended");
}

#[test]
fn z15_a_key_is_rotated_by_the_old_key_alone() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(options(dir.path())).unwrap();
    call(&journal, 0);
    let new = journal.rotate_key(key(2)).unwrap().wait().unwrap();
    assert!(new.contains(&journal.log().to_string()));
    call(&journal, 1);
    journal.close();
    let (first, log) = (journal.first_key().clone(), journal.opened().dir.clone());
    let last = journal.last_checkpoint().unwrap().to_string().into_bytes();
    drop(journal);
    let with = verify::Options { key: Some(first), checkpoints: vec![last], receipts: vec![] };
    let report = check(&log, &with);
    assert_eq!((report.verdict, report.epochs), (Verdict::Ok, 2), "{report:?}");
    // The old key, a stranger's, and the new one as the one that waited.
    for wrong in [1, 3] {
        let refused = Journal::open(Options { key: key(wrong), ..options(dir.path()) });
        assert!(matches!(refused.map(|_| ()), Err(Error::KeyMismatch(_))), "{wrong}");
    }
    let journal = Journal::open(Options { next_key: Some(key(2)), ..options(dir.path()) }).unwrap();
    assert!(journal.opened().next_key_used);
}

#[test]
fn z16_clock_steps_are_records_and_warnings() {
    let dir = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let journal = Journal::open(Options { clock: clock.clone(), ..options(dir.path()) }).unwrap();
    call(&journal, 0);
    clock.pass(Duration::from_secs(5));
    call(&journal, 1);
    for wall in [1_796_000_000_000 - 3_600_000, 0, 4_294_967_296_000] {
        clock.wall_ms.store(wall, Ordering::SeqCst);
        call(&journal, 2);
    }
    journal.close();
    let steps = read::all(
        &DirSource::new(&journal.opened().dir),
        &Filter { kinds: vec![Kind::ClockStep], ..Filter::default() },
    );
    let steps: Vec<i64> = steps.unwrap().iter().filter_map(|r| r.entry.step_ms).collect();
    assert_eq!(steps.len(), 3);
    assert_eq!(steps[0], -3_605_000);
    let report = check(
        &journal.opened().dir,
        &verify::Options { key: Some(journal.first_key().clone()), ..Default::default() },
    );
    assert_eq!(report.verdict, Verdict::OkUnanchored);
    assert_eq!(report.warnings, [verify::Warning::ClockStep { count: 3 }]);
}

#[test]
fn z8_the_guard_refuses_an_older_copy_and_another_history() {
    let (dir, guard) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let guarded = |dir: &std::path::Path| Options { guard: Some(guard.path().to_owned()), ..options(dir) };
    let journal = Journal::open(guarded(dir.path())).unwrap();
    call(&journal, 0);
    note(&journal);
    let old = Files::load(&journal.opened().dir);
    call(&journal, 1);
    journal.close();
    let head = journal.last_checkpoint().unwrap().to_string();
    let head = Checkpoint::open(head.as_bytes(), [journal.first_key()]).unwrap().0;
    drop(journal);
    let copy = tempfile::tempdir().unwrap();
    old.store(&copy.path().join("gw"));
    let refused = Journal::open(guarded(copy.path())).map(|_| ());
    assert!(matches!(refused, Err(Error::RolledBack { .. })), "{refused:?}");
    let gone = tempfile::tempdir().unwrap();
    let refused = Journal::open(guarded(gone.path())).map(|_| ());
    assert!(matches!(refused, Err(Error::RolledBack { here: 0, .. })), "{refused:?}");
    // The same length, another history: without the guard the old copy goes on by itself.
    let other = Journal::open(options(copy.path())).unwrap();
    (5..9).for_each(|n| drop(call(&other, n)));
    other.close();
    drop(other);
    let refused = Journal::open(guarded(copy.path())).map(|_| ());
    assert!(matches!(refused, Err(Error::Forked(_))), "{refused:?}");
    // The operator sets it aside; the new log names the old.
    let set = fork(&guarded(copy.path()), &head, "restored from a snapshot").unwrap();
    let journal = Journal::open(Options { fork: Some(set), ..guarded(copy.path()) }).unwrap();
    assert!(journal.opened().new);
    let first = read::all(&DirSource::new(&journal.opened().dir), &Filter::default()).unwrap();
    assert_eq!(first[0].entry.fork_log.as_deref(), Some(head.origin.as_str()));
    assert_eq!(first[0].entry.fork_root, Some(head.root));
}

#[test]
fn z17_a_second_writer_does_not_start_and_slots_are_taken_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(options(dir.path())).unwrap();
    assert!(matches!(Journal::open(options(dir.path())).map(|_| ()), Err(Error::Locked(_))));
    call(&journal, 0);
    let slots = Options { instance: "stdio".into(), slots: 2, ..options(dir.path()) };
    let one = Journal::open(slots.clone()).unwrap();
    let two = Journal::open(slots.clone()).unwrap();
    assert!(one.opened().dir.ends_with("stdio-0") && two.opened().dir.ends_with("stdio-1"));
    assert_ne!(one.log(), two.log());
    assert!(matches!(Journal::open(slots.clone()).map(|_| ()), Err(Error::Locked(_))));
    drop(one);
    assert!(Journal::open(slots).unwrap().opened().dir.ends_with("stdio-0"));
    assert_eq!(read::logs(dir.path()).unwrap().len(), 3);
}

#[test]
fn z17_a_segment_that_another_wrote_to_ends_this_writer() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(options(dir.path())).unwrap();
    call(&journal, 0);
    note(&journal);
    let storage = tollgate_audit::storage::Disk::default();
    let path = journal.opened().dir.join("00000000.log");
    let file = storage.open(&path, tollgate_audit::storage::Mode::Append).unwrap();
    file.append(b"foreign").unwrap();
    let _ = block_on(journal.intent(intent(1)));
    assert!(matches!(journal.checkpoint().unwrap().wait(), Err(Unavailable::Poisoned(_))));
    assert!(matches!(block_on(journal.intent(intent(2))).map(|_| ()), Err(Unavailable::Poisoned(_))));
}

#[test]
fn z19_callers_wait_for_room_and_nothing_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let tight = Options { queue: 8, durability: Durability::Strict, ..options(dir.path()) };
    let journal = Journal::open(tight).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let journal = &journal;
            scope.spawn(move || (0..25).for_each(|n| drop(call(journal, thread * 100 + n))));
        }
    });
    assert_eq!(journal.stats().places, 8);
    journal.close();
    let report = check(&journal.opened().dir, &verify::Options::default());
    assert_eq!((report.records, report.findings.len()), (2 + 16 * 25 * 2, 0));
    let totals = read::totals(&DirSource::new(&journal.opened().dir)).unwrap();
    assert_eq!(totals.tasks.values().map(|t| t.calls).sum::<u64>(), 400);
}

#[test]
fn z23_counted_refusals_heartbeats_and_the_lag() {
    let dir = tempfile::tempdir().unwrap();
    let clock = HandClock::new();
    let journal = Journal::open(Options { clock: clock.clone(), ..options(dir.path()) }).unwrap();
    (0..1000).for_each(|_| journal.count_denied("rate"));
    journal.count_denied("origin");
    note(&journal);
    call(&journal, 0);
    assert_eq!(journal.stats().checkpoint_lag_ns, 0);
    clock.pass(Duration::from_millis(400));
    assert_eq!(journal.stats().checkpoint_lag_ns, 400_000_000);
    clock.pass(Duration::from_secs(61));
    let deadline = std::time::Instant::now() + Duration::from_secs(5);
    while journal.stats().signed < 6 && std::time::Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    let kinds: Vec<(Kind, Option<u64>)> =
        read::all(&DirSource::new(&journal.opened().dir), &Filter::default())
            .unwrap()
            .iter()
            .map(|r| (r.entry.kind, r.entry.count.map(|c| c.0)))
            .collect();
    assert!(kinds.contains(&(Kind::DeniedCount, Some(1000))), "{kinds:?}");
    assert!(kinds.contains(&(Kind::DeniedCount, Some(1))));
    assert!(kinds.contains(&(Kind::Heartbeat, None)));
}

#[test]
fn z22_bodies_are_not_in_the_log_and_secrets_in_no_file_but_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(options(dir.path())).unwrap();
    call(&journal, 0);
    journal.close();
    let seed = [1_u8; 32];
    for (name, bytes) in Files::load(&journal.opened().dir).0 {
        assert!(!bytes.windows(32).any(|w| w == seed), "{name}");
    }
}

#[test]
fn closing_twice_is_closing_once_and_later_records_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let journal = Journal::open(options(dir.path())).unwrap();
    journal.close();
    journal.close();
    assert_eq!(block_on(journal.record(Entry::new(Kind::List))), Err(Unavailable::Closed));
    assert_eq!(journal.checkpoint().map(|_| ()), Err(Unavailable::Closed));
    let weak = Arc::downgrade(&journal);
    drop(journal);
    assert!(weak.upgrade().is_none());
}
