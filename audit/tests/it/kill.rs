//! Case Z2: a writing process is killed, at random and at every failpoint, over and over on one log. Everything that
//! it said was taken is there.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate_audit::read::{Filter, all};
use tollgate_audit::verify::{self, DirSource, verify};
use tollgate_audit::writer::{Durability, Hook, Journal, Options};

use crate::support::*;

const DIR: &str = "TOLLGATE_AUDIT_KILL_DIR";
const POINT: &str = "TOLLGATE_AUDIT_KILL_POINT";
const POINTS: [&str; 9] =
    ["write", "written", "sync", "synced", "acknowledged", "sign", "signed", "rotate", "rotated"];

/// Writes until it is killed. Does nothing in a run of all tests.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let point = std::env::var(POINT).unwrap_or_default();
    let (name, nth) = point.split_once(':').unwrap_or(("", "0"));
    let (name, nth, hits) = (name.to_owned(), nth.parse::<u64>().unwrap(), AtomicU64::new(0));
    let hook: Hook = Arc::new(move |at| {
        if at == name && hits.fetch_add(1, Ordering::SeqCst) == nth {
            std::process::abort();
        }
    });
    let clock = HandClock::new();
    let journal = Journal::open(Options {
        durability: if nth.is_multiple_of(2) { Durability::Buffered } else { Durability::Strict },
        segment_bytes: 20_000,
        clock: clock.clone(),
        hook: Some(hook),
        ..options(Path::new(&dir))
    })
    .unwrap();
    for number in 0..5_000 {
        clock.pass(Duration::from_millis(100));
        for receipt in call(&journal, number) {
            println!("ack {} {}", receipt.seq, receipt.leaf);
            std::io::stdout().flush().unwrap();
        }
    }
}

#[test]
fn g1_z2_killed_writers_lose_nothing_that_they_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(6);
    let mut taken: Vec<(u64, String)> = Vec::new();
    let cycles = rounds(500, 20_000);
    for cycle in 0..cycles {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["kill::child", "--exact", "--nocapture"]).env(DIR, dir.path());
        let at_random = cycle % 3 == 0;
        if !at_random {
            let point = POINTS[(cycle - cycle / 3) as usize % POINTS.len()];
            command.env(POINT, format!("{point}:{}", random.below(4)));
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acks = 1 + random.below(60);
        let mut seen = 0;
        while let Some(Ok(line)) = lines.next() {
            // The test harness begins the line of its own.
            let Some((_, ack)) = line.split_once("ack ") else { continue };
            let (seq, leaf) = ack.split_once(' ').unwrap();
            taken.push((seq.parse().unwrap(), leaf.to_owned()));
            seen += 1;
            if at_random && seen == acks {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }
    assert!(taken.len() as u64 > cycles, "{} acknowledged", taken.len());
    let journal = Journal::open(options(dir.path())).unwrap();
    journal.close();
    let source = DirSource::new(&journal.opened().dir);
    let records = all(&source, &Filter::default()).unwrap();
    assert!(records.iter().enumerate().all(|(at, r)| r.entry.seq.0 == at as u64));
    for (seq, leaf) in taken {
        assert_eq!(records[seq as usize].leaf.hex(), leaf, "record {seq}");
    }
    let with = verify::Options { key: Some(journal.first_key().clone()), ..Default::default() };
    let report = verify(&source, &with);
    assert_eq!(report.verdict.name(), "OK_UNANCHORED", "{report:?}");
}
