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
    println!("{} cases in {}", names.len(), dir.display());
}
