//! Measures appending, syncing, verifying and opening: `cargo run --release -p tollgate-audit --example figures -- [RECORDS]`.
//! 1,600,000 records, the default, are a journal of a good GiB. Verifying and opening run in processes of their own, so
//! that their memory is theirs.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss)]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tollgate_audit::entry::{Entry, Int, Kind};
use tollgate_audit::hash::Digest;
use tollgate_audit::key::{SigningKey, VerifierKey};
use tollgate_audit::verify::{DirSource, Options as Verify, verify};
use tollgate_audit::writer::{Durability, Journal, Options, block_on};

fn intent(call: u64) -> Entry {
    Entry {
        call: Some(format!("0193a5b0-7c00-7000-8000-{call:012x}").into()),
        iss: Some("https://idp.example.com/realms/platform".into()),
        sub: Some("8c1f3c1e-4d0e-4f62-9d8e-1f2f3a4b5c6d".into()),
        task: Some("support".into()),
        run: Some("run-1".into()),
        index: Some(Int(call)),
        method: Some("tools/call".into()),
        server: Some("docs".into()),
        tool: Some("search".into()),
        decision: Some("allowed".into()),
        args_bytes: Some(Int(120)),
        args_mac: Some(Digest([1; 32])),
        span: Some("0011223344556677".into()),
        trace: Some("00112233445566770011223344556677".into()),
        ..Entry::new(Kind::Intent)
    }
}

fn calls(journal: &Arc<Journal>, from: u64, count: u64) {
    for call in from..from + count {
        let (_, slot) = block_on(journal.intent(intent(call))).unwrap();
        let outcome =
            Entry { outcome: Some("ok".into()), cost_nanousd: Some(Int(2_000_000)), ..intent(call) };
        slot.finish(outcome).wait().unwrap();
    }
}

fn rate(what: &str, count: u64, start: Instant) {
    let took = start.elapsed();
    println!(
        "{what}: {count} in {took:.2?}, {:.0}/s, {:.2} µs each",
        count as f64 / took.as_secs_f64(),
        took.as_secs_f64() * 1e6 / count as f64
    );
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["verify", dir, key] => verified(dir, key),
        ["open", dir, times] => opened(dir, times.parse().unwrap()),
        [] => all(1_600_000),
        [records] => all(records.parse().unwrap()),
        _ => println!("figures [RECORDS]"),
    }
}

fn key() -> Arc<SigningKey> {
    Arc::new(SigningKey::from_seed([9; 32]).unwrap())
}

fn all(records: u64) {
    let dir = std::env::temp_dir().join(format!("tollgate-audit-figures-{}", std::process::id()));
    let journal = Journal::open(Options::new(&dir, "buffered", key())).unwrap();
    let start = Instant::now();
    calls(&journal, 0, records / 2);
    rate("buffered, one caller: records", records, start);
    let start = Instant::now();
    journal.close();
    println!("closing: {:.2?}", start.elapsed());
    let place = journal.opened().dir.clone();
    let vkey = journal.first_key().to_string();
    drop(journal);
    let bytes: u64 = std::fs::read_dir(&place).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    println!("the journal: {} MiB", bytes >> 20);
    again(&["verify", place.to_str().unwrap(), &vkey]);
    again(&["open", dir.to_str().unwrap(), "3"]);
    strict(&dir);
    stall(&dir);
    std::fs::remove_dir_all(Path::new(&dir)).unwrap();
}

/// This program in a process of its own.
fn again(args: &[&str]) {
    let status = std::process::Command::new(std::env::current_exe().unwrap()).args(args).status().unwrap();
    assert!(status.success());
}

fn verified(dir: &str, key: &str) {
    let with = Verify { key: VerifierKey::parse(key), ..Verify::default() };
    let start = Instant::now();
    let report = verify(&DirSource::new(dir), &with);
    assert!(report.findings.is_empty() && report.problems.is_empty(), "{report:?}");
    rate(&format!("verify {}", report.verdict.name()), report.records, start);
    peak();
}

/// Opens, as a start does that follows a killed process.
fn opened(dir: &str, times: u64) {
    for _ in 0..times {
        let start = Instant::now();
        let journal = Journal::open(Options::new(dir, "buffered", key())).unwrap();
        println!("opening: {:.2?}", start.elapsed());
        drop(journal);
    }
    peak();
}

fn strict(dir: &Path) {
    for callers in [1, 64] {
        let options = Options {
            durability: Durability::Strict,
            ..Options::new(dir, format!("strict-{callers}"), key())
        };
        let journal = Journal::open(options).unwrap();
        let each = 6_400 / callers / if callers == 1 { 8 } else { 1 };
        let start = Instant::now();
        std::thread::scope(|scope| {
            for caller in 0..callers {
                let journal = &journal;
                scope.spawn(move || calls(journal, caller * 1_000_000, each / 2));
            }
        });
        rate(&format!("strict, {callers} callers: records"), each / 2 * 2 * callers, start);
    }
}

/// The longest that a caller waits, also while a segment ends that has the sums of 65,536 runs.
fn stall(dir: &Path) {
    let small = Options { segment_bytes: 32 << 20, ..Options::new(dir, "runs", key()) };
    let journal = Journal::open(small).unwrap();
    let mut longest = std::time::Duration::ZERO;
    for run in 0..100_000 {
        let entry =
            Entry { run: Some(format!("run-{run}").into()), kind: Kind::Denied, index: None, ..intent(run) };
        let start = Instant::now();
        block_on(journal.record(entry)).unwrap();
        longest = longest.max(start.elapsed());
    }
    let segments = std::fs::read_dir(&journal.opened().dir).unwrap();
    let segments = segments.filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|e| e == "log"));
    println!("{} segments, many runs: the longest wait for a record was {longest:.2?}", segments.count());
}

/// Memory at its most, and time on a core: the wall's time means little on a busy machine.
fn peak() {
    let on_core = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos: Option<f64> = on_core.split(' ').next().and_then(|n| n.parse().ok());
    println!("on a core: {:.2} s", nanos.unwrap_or(f64::NAN) / 1e9);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().filter(|l| l.starts_with("VmHWM")).for_each(|l| println!("{l}"));
}
