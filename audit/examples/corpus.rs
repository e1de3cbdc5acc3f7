//! Writes the tamper corpus to a folder: `cargo run -p tollgate-audit --example corpus -- DIR`. Each case is a
//! directory with a log's files in `log/` and what a verifier must say in `expected.json`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout
)]
#![allow(dead_code)]

#[path = "../tests/it/corpus.rs"]
mod corpus;
#[path = "../tests/it/oddities.rs"]
mod oddities;
#[path = "../tests/it/support.rs"]
mod support;

use std::path::Path;

use corpus::{Base, Case, Shape};
use support::{Random, rounds, stride};
use tollgate_audit::entry::{Entry, Int, Kind};
use tollgate_audit::read;
use tollgate_audit::verify::{DirSource, Source};
use tollgate_audit::writer::{Journal, Options, block_on};

/// Single cases over a whole log, fewer of them than in the tests: each is a copy of it.
fn cases(name: &str, shape: Shape, random: &mut Random) -> Vec<Case> {
    let base: Base = corpus::base(shape);
    let last = base.size() - 1;
    let mut all = corpus::sides(&base);
    all.extend(oddities::oddities(&base));
    let step = stride(41) as usize;
    for seq in (0..base.size()).step_by(step).chain([1, last - 1, last]) {
        all.extend(corpus::edits(&base, seq));
        all.extend(corpus::moves(&base, seq, (seq + 1).min(last)));
        all.extend(corpus::moves(&base, seq, random.below(base.size())));
    }
    for keep in [1, 2, 13, 77, 200, last - 1, last] {
        all.extend(corpus::cuts(&base, keep));
    }
    all.extend(corpus::flips(&base, rounds(150, 2_000), random));
    if shape.segments > 2 {
        all.extend(corpus::segments(&base));
    }
    for case in &mut all {
        case.name = format!("{name}-{}", case.name);
    }
    all
}

/// Two logs that share a run's id, in `receipts/`, and the receipts that any reader must compute, in `receipts.json`.
fn receipts(dir: &Path) {
    let place = dir.join("receipts");
    let entry = |kind, call: u64, sub: &'static str, server: &'static str| Entry {
        kind,
        outcome: None,
        cost_nanousd: None,
        args_mac: None,
        sub: Some(sub.into()),
        server: Some(server.into()),
        ..support::intent(call)
    };
    let journals = ["a", "b"].map(|instance| {
        Journal::open(Options { instance: instance.into(), ..support::options(&place) }).unwrap()
    });
    let call = |log: usize, number, sub, server, outcome: &'static str| {
        let (_, slot) = block_on(journals[log].intent(entry(Kind::Intent, number, sub, server))).unwrap();
        let cost = Some(Int((1 << 53) - 5 + number));
        let end = Entry {
            outcome: Some(outcome.into()),
            cost_nanousd: cost,
            ..entry(Kind::Outcome, number, sub, server)
        };
        slot.finish(end).wait().unwrap();
    };
    let note =
        |log: usize, kind, sub| drop(block_on(journals[log].record(entry(kind, 99, sub, ""))).unwrap());
    for (number, outcome) in (0..).zip(["ok", "failed", "tool_error", "unknown"]) {
        call(0, number, "u1", if number % 2 == 0 { "docs" } else { "files" }, outcome);
    }
    note(0, Kind::Denied, "u1");
    call(1, 4, "u1", "docs", "cancelled");
    note(1, Kind::Question, "u1");
    note(1, Kind::List, "u2");
    note(0, Kind::Denied, "odd \u{1}\"\\ ü\u{1f600}");
    call(1, 5, "u3", "docs", "ok");
    let (_, under_way) = block_on(journals[1].intent(entry(Kind::Intent, 6, "u3", "docs"))).unwrap();
    // Its process is ended before it is.
    std::mem::forget(under_way);
    journals.iter().for_each(|journal| journal.close());
    let sources = ["a", "b"].map(|instance| DirSource::new(place.join(instance)));
    let sources: Vec<&dyn Source> = sources.iter().map(|source| source as &dyn Source).collect();
    let (runs, _) = read::runs(&sources, "r1").unwrap();
    assert_eq!(runs.len(), 4);
    let documents: Vec<String> = runs.iter().map(|run| run.projection.document()).collect();
    std::fs::write(dir.join("receipts.json"), serde_json::to_vec_pretty(&documents).unwrap()).unwrap();
}

fn main() {
    let dir = std::env::args_os().nth(1).expect("usage: corpus DIR");
    let dir = Path::new(&dir);
    let mut random = Random(11);
    let mut names = std::collections::BTreeSet::new();
    let shapes = [
        ("one", Shape { records: 256, segments: 1, epochs: 1 }),
        ("many", Shape { records: 256, segments: 10, epochs: 3 }),
    ];
    for (name, shape) in shapes {
        for case in cases(name, shape, &mut random) {
            if !names.insert(case.name.clone()) {
                continue;
            }
            case.check();
            let place = dir.join(&case.name);
            case.files.store(&place.join("log"));
            let expected = serde_json::to_vec_pretty(&case.json()).expect("JSON");
            std::fs::write(place.join("expected.json"), expected).expect("the folder can be written");
        }
    }
    receipts(dir);
    println!("{} cases in {}", names.len(), dir.display());
}
