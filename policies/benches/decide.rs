//! One decision among a thousand rules in a hundred tasks, and in one task: at most 5 µs without a condition.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tollgate_policies::caller::{Caller, Proof};
use tollgate_policies::compile::{RuleSpec, ScopeSpec, TaskSpec};
use tollgate_policies::select::{TaskOffer, Tasks};
use tollgate_policies::{Entry, Hints, Kind, Subject, Task};

const ARGUMENTS: &str = r#"{"q":"how to write a gateway","limit":10,"tags":["a","b"]}"#;

fn spec(name: &str, rules: usize) -> TaskSpec {
    let rule = |n: usize| match n % 5 {
        0 => format!("server{n}__get_*"),
        1 => format!("*__delete_{n}"),
        2 => format!("server{n}__{{list,search,find}}_*"),
        3 => format!("server{}__*_{n}", n % 7),
        _ => format!("server{n}__exact"),
    };
    TaskSpec {
        allow: (0..rules / 2)
            .map(rule)
            .chain(["docs__search".to_owned(), "docs__plain".to_owned()])
            .collect(),
        deny: (rules / 2..rules * 3 / 4).map(rule).collect(),
        rules: (rules * 3 / 4..rules)
            .map(|n| RuleSpec { tool: rule(n), when: "args.limit <= 100".into(), message: None })
            .chain([RuleSpec {
                tool: "docs__search".into(),
                when: "args.q.size() <= 200".into(),
                message: None,
            }])
            .collect(),
        scopes: vec![ScopeSpec { tool: "docs__*".into(), scopes: vec!["mcp.read".into()] }],
        ..TaskSpec::named(name)
    }
}

fn decisions(c: &mut Criterion) {
    let caller = Caller { scopes: vec!["mcp.read".into()], ..Caller::new(Proof::Token("ci".into())) };
    let subject = Subject { caller: &caller, run: "r", now: 1_785_240_000 };
    let entry =
        |exposed, own| Entry { server: "docs", kind: Kind::Tool, exposed, own, hints: Hints::default() };
    let (plain, search) = (entry("docs__plain", "plain"), entry("docs__search", "search"));

    let hundred = (0..100).map(|n| spec(&format!("task{n}"), 10));
    let tasks =
        Tasks::new(Task::compile_all(hundred).into_iter().filter_map(|t| Some(t.ok()?.task)), Some("task50"));
    let offer = TaskOffer { url: Some("task77"), ..TaskOffer::default() };
    let choose = || tasks.choose(&caller, true, offer).ok();
    let decide =
        |entry: &Entry<'_>| choose().map(|t| t.decide(&subject, black_box(entry), Some(ARGUMENTS)).shown());
    c.bench_function("1000 rules in 100 tasks, no condition", |b| b.iter(|| decide(&plain)));
    c.bench_function("1000 rules in 100 tasks, a condition on the arguments", |b| b.iter(|| decide(&search)));

    let one = Task::compile(spec("one", 1000)).ok().map(|t| t.task);
    let decide = |entry: &Entry<'_>| {
        one.as_ref().map(|t| t.decide(&subject, black_box(entry), Some(ARGUMENTS)).shown())
    };
    c.bench_function("1000 rules in one task, no condition", |b| b.iter(|| decide(&plain)));
    c.bench_function("1000 rules in one task, a condition on the arguments", |b| b.iter(|| decide(&search)));
}

criterion_group!(benches, decisions);
criterion_main!(benches);
