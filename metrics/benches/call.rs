//! What counting one call costs: with the handles that a call carries, and for comparison one counter found by its labels.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_metrics::{Ended, Metrics, Outcome, Registry};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

fn counting(c: &mut Criterion) {
    let metrics = Metrics::new(Registry::new(), "0").unwrap();
    let server = metrics.server("docs");
    let task = metrics.task("support");
    let tool = server.listed("search_repositories");
    let count = |trace: &'static str| {
        let end = Ended { outcome: Outcome::Ok, seconds: black_box(0.0123), trace };
        tool.ended(&server, &task, end);
        server.cost(&task, 2_000_000);
        server.result(black_box(1234));
        metrics.overhead(black_box(0.0001));
    };
    c.bench_function("a call's end", |b| b.iter(|| count("")));
    c.bench_function("a call's end with an exemplar", |b| b.iter(|| count(TRACE)));

    c.bench_function("one counter looked up by its labels", |b| {
        b.iter(|| metrics.request(black_box("tools/list"), &server, black_box(Outcome::Ok)));
    });
}

criterion_group!(benches, counting);
criterion_main!(benches);
