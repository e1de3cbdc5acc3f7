//! Cases Z1 to Z3: power cuts at every place of a busy journal's diary. Nothing that was acknowledged is lost, nothing
//! is there twice, and what is left verifies.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tollgate_audit::frame::line;
use tollgate_audit::hash::Digest;
use tollgate_audit::read::{Filter, all};
use tollgate_audit::verify::{self, verify};
use tollgate_audit::writer::{Durability, Journal, Options, block_on};

use crate::disk::{FakeDisk, Op, survive};
use crate::support::*;

fn fake(disk: &FakeDisk, clock: &Arc<HandClock>) -> Options {
    Options {
        storage: Arc::new(disk.clone()),
        clock: clock.clone(),
        durability: Durability::Strict,
        segment_bytes: 6_000,
        sync_interval: Duration::ZERO,
        next_key: Some(key(2)),
        ..options(Path::new("/j"))
    }
}

/// A diary of a journal in `strict` with rotations and a change of keys.
fn busy() -> Vec<Op> {
    let (disk, clock) = (FakeDisk::default(), HandClock::new());
    let journal = Journal::open(fake(&disk, &clock)).unwrap();
    for number in 0..24 {
        clock.pass(Duration::from_millis(300));
        let (receipt, slot) = block_on(journal.intent(intent(number))).unwrap();
        disk.ack(receipt.seq, receipt.leaf);
        let receipt = slot.finish(outcome(number)).wait().unwrap();
        disk.ack(receipt.seq, receipt.leaf);
        if number == 12 {
            journal.rotate_key(key(2)).unwrap().wait().unwrap();
        }
    }
    let diary = disk.diary();
    assert!(
        diary
            .iter()
            .filter(|op| matches!(op, Op::Create(p, _) if p.extension().is_some_and(|e| e == "log")))
            .count()
            > 3
    );
    diary
}

fn acknowledged(diary: &[Op]) -> Vec<(u64, Digest)> {
    diary
        .iter()
        .filter_map(|op| if let Op::Ack(seq, leaf) = op { Some((*seq, *leaf)) } else { None })
        .collect()
}

#[test]
fn g2_z3_power_cuts_lose_nothing_that_was_acknowledged() {
    let diary = busy();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let diary = &diary;
            scope.spawn(move || cut_power(diary, seed, rounds(12_500, 500_000)));
        }
    });
}

/// So many states of what is left of a diary.
fn cut_power(diary: &[Op], seed: u64, states: u64) {
    let dir = Path::new("/j/gw");
    let mut random = Random(seed);
    for state in 0..states {
        let cut = random.below(diary.len() as u64 + 1) as usize;
        let files = survive(&diary[..cut], dir, &mut random);
        if state % 8 == 0 {
            // Before anything is mended. A checkpoint may be damaged, even an epoch's first; records are never called
            // changed. Of what was never acknowledged a line may be left with a hole in it, which is none of the log's.
            let report = verify(&files, &verify::Options::default());
            let kept = acknowledged(&diary[..cut]).iter().map(|(seq, _)| seq + 1).max().unwrap_or(0);
            let damaged = |f: &verify::Finding| match f.class {
                verify::Class::BadSignature | verify::Class::EpochGap => true,
                verify::Class::Inserted => f.first >= kept,
                _ => false,
            };
            assert!(report.findings.iter().all(damaged), "state {state}, cut {cut}: {report:?}");
        }
        let disk = FakeDisk::with(dir, &files);
        let journal = Journal::open(fake(&disk, &HandClock::new()))
            .unwrap_or_else(|e| panic!("state {state}, cut {cut}: {e}"));
        journal.close();
        let after = disk.files(dir);
        let records = all(&after, &Filter::default()).unwrap();
        for (at, record) in records.iter().enumerate() {
            assert_eq!(record.entry.seq.0, at as u64, "state {state}, cut {cut}");
        }
        for (seq, leaf) in acknowledged(&diary[..cut]) {
            let here = records.get(seq as usize).map(|r| r.leaf);
            assert_eq!(here, Some(leaf), "state {state}, cut {cut}: record {seq} is lost");
        }
        if state % 8 == 0 {
            let with = verify::Options { key: Some(journal.first_key().clone()), ..Default::default() };
            let report = verify(&after, &with);
            assert!(report.findings.is_empty(), "state {state}, cut {cut}: {report:?}");
            assert_eq!(report.sealed, report.records);
        }
    }
}

#[test]
fn z1_a_torn_write_at_every_byte_of_the_last_batch_is_cut() {
    let dir = Path::new("/j/gw");
    let (disk, clock) = (FakeDisk::default(), HandClock::new());
    let journal = Journal::open(fake(&disk, &clock)).unwrap();
    call(&journal, 0);
    note(&journal);
    let before = disk.files(dir);
    call(&journal, 1);
    let whole = disk.files(dir);
    let (start, bytes) = (before.get("00000000.log").len(), whole.get("00000000.log").to_vec());
    for cut in start..bytes.len() {
        let mut files = before.clone();
        files.put("00000000.log", bytes[..cut].to_vec());
        let disk = FakeDisk::with(dir, &files);
        let journal = Journal::open(fake(&disk, &clock)).unwrap();
        let lines = [start, start + line(&all(&whole, &Filter::default()).unwrap()[3].json).len()];
        let kept = lines.into_iter().filter(|end| *end <= cut).max().unwrap();
        assert_eq!(journal.opened().bytes_dropped, (cut - kept) as u64);
        journal.close();
        let with = verify::Options { key: Some(journal.first_key().clone()), ..Default::default() };
        let report = verify(&disk.files(dir), &with);
        assert_eq!(report.verdict.name(), "OK_UNANCHORED", "cut {cut}: {report:?}");
        let found = all(&disk.files(dir), &Filter::default()).unwrap();
        let recovered = found.iter().find_map(|r| r.entry.bytes_dropped);
        assert_eq!(recovered.map_or(0, |n| n.0), (cut - kept) as u64);
    }
}

#[test]
fn z3_what_was_signed_is_never_cut() {
    let dir = Path::new("/j/gw");
    let (disk, clock) = (FakeDisk::default(), HandClock::new());
    let journal = Journal::open(fake(&disk, &clock)).unwrap();
    call(&journal, 0);
    note(&journal);
    let files = disk.files(dir);
    let bytes = files.get("00000000.log").to_vec();
    for at in [10, bytes.len() / 2, bytes.len() - 3] {
        let mut spoiled = files.clone();
        let mut flipped = bytes.clone();
        flipped[at] ^= 1;
        spoiled.put("00000000.log", flipped.clone());
        let disk = FakeDisk::with(dir, &spoiled);
        assert!(Journal::open(fake(&disk, &clock)).is_err(), "byte {at}");
        assert_eq!(disk.files(dir).get("00000000.log"), flipped, "the evidence is as it was");
    }
}
