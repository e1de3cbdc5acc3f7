//! Tests of budgets and the ledger: security cases L1, L3, L6, notices, renewal, and the arithmetic at random.

use std::sync::Arc;

use proptest::prelude::*;

use super::ledger::{Ledger, Short, Ticket};
use super::*;

/// 2026-07-28T12:00:00Z.
const NOON: i64 = 1_785_240_000;

fn who() -> Who<'static> {
    Who { task: "support", principal: "token|2:ci", run: "r1" }
}

fn ticket(n: usize) -> Ticket {
    Arc::from(n.to_string().as_str())
}

fn usd(text: &str) -> NanoUsd {
    NanoUsd::parse(text).unwrap()
}

fn budgets(scope: Scope, unit: Unit, limit: u64, strict: bool) -> Budgets {
    Budgets { all: vec![Budget { scope, unit, limit, strict }], runs_a_day: 3 }
}

fn dollars(amount: &str) -> Amounts {
    Amounts { usd: usd(amount), calls: 1, bytes: 0 }
}

#[test]
fn l1_parallel_calls_overspend_by_at_most_one_reservation() {
    for (strict, most) in [(false, 11), (true, 10)] {
        let budgets = budgets(Scope::Task(Period::Day), Unit::Usd, usd("1.05").nanos(), strict);
        let (lines, mut ledger) = (budgets.lines(&who(), NOON), Ledger::default());
        // All reserve before any settles.
        let admitted: Vec<usize> =
            (0..50).filter(|n| ledger.reserve(&ticket(*n), &lines, &dollars("0.1")).is_ok()).collect();
        assert_eq!(admitted.len(), most, "strict {strict}");
        for n in &admitted {
            assert!(ledger.settle(&ticket(*n), &dollars("0.1")));
        }
        let (spent, held) = ledger.read(&lines[0].key);
        assert_eq!(held, 0);
        assert!(spent <= usd("1.05").plus(if strict { NanoUsd::ZERO } else { usd("0.1") }).nanos());
    }
}

#[test]
fn each_step_counts_once_per_ticket() {
    let budgets = budgets(Scope::Principal(Period::Month), Unit::Usd, usd("1").nanos(), true);
    let (lines, mut ledger) = (budgets.lines(&who(), NOON), Ledger::default());
    for _ in 0..3 {
        ledger.reserve(&ticket(1), &lines, &dollars("0.4")).unwrap();
    }
    assert_eq!(ledger.read(&lines[0].key), (0, usd("0.4").nanos()));
    assert!(
        ledger.settle("1", &dollars("0.3")) && !ledger.settle("1", &dollars("0.3")) && !ledger.release("1")
    );
    assert_eq!(ledger.read(&lines[0].key), (usd("0.3").nanos(), 0));
    ledger.reserve(&ticket(2), &lines, &dollars("0.7")).unwrap();
    assert_eq!(ledger.reserve(&ticket(3), &lines, &dollars("0.01")), Err(Short(0)));
    assert!(ledger.release("2") && !ledger.settle("2", &dollars("5")));
    assert_eq!(ledger.read(&lines[0].key), (usd("0.3").nanos(), 0));
}

#[test]
fn a_call_that_one_budget_refuses_holds_nothing_of_the_others() {
    let mut all = budgets(Scope::Task(Period::Day), Unit::Usd, usd("10").nanos(), true);
    all.all.push(Budget { scope: Scope::Run, unit: Unit::Calls, limit: 0, strict: true });
    let (lines, mut ledger) = (all.lines(&who(), NOON), Ledger::default());
    assert_eq!(ledger.reserve(&ticket(1), &lines, &dollars("1")), Err(Short(1)));
    assert_eq!((ledger.read(&lines[0].key), ledger.size()), ((0, 0), (0, 0)));
}

#[test]
fn at_four_fifths_the_level_says_so() {
    let budgets = budgets(Scope::Task(Period::Day), Unit::Calls, 10, true);
    let (lines, mut ledger) = (budgets.lines(&who(), NOON), Ledger::default());
    let levels: Vec<(u64, bool)> = (0..10)
        .map(|n| ledger.reserve(&ticket(n), &lines, &dollars("0")).unwrap()[0])
        .map(|level| (level.left, level.low))
        .collect();
    assert_eq!(levels[6], (3, false));
    assert_eq!(levels[7], (2, true));
    assert_eq!(levels[9], (0, true));
}

#[test]
fn l3_a_clock_that_is_set_back_gives_no_budget_back() {
    let budgets = budgets(Scope::Principal(Period::Day), Unit::Calls, 2, true);
    let midnight = Period::Day.span(NOON).ends;
    let (mut ledger, mut clock, mut made) = (Ledger::default(), Steady::default(), 0);
    for (n, wall) in [midnight + 600, midnight + 1200, midnight - 2400, midnight - 2000, midnight + 900]
        .into_iter()
        .enumerate()
    {
        let now = clock.now(wall);
        ledger.sweep(now, 0);
        let lines = budgets.lines(&who(), now);
        made += usize::from(ledger.reserve(&ticket(n), &lines, &dollars("0")).is_ok());
    }
    assert_eq!(made, 2);
    // A clock that was years ahead is believed when it is corrected.
    let mut clock = Steady::default();
    clock.now(NOON + 400 * 86_400);
    assert_eq!(clock.now(NOON), NOON);
}

#[test]
fn a_new_run_id_gives_no_new_budget_for_ever() {
    let budgets = budgets(Scope::Run, Unit::Calls, 2, true);
    let mut ledger = Ledger::default();
    let made = (0..40)
        .filter(|n| {
            let run = format!("run{n}");
            let lines = budgets.lines(&Who { run: &run, ..who() }, NOON);
            ledger.reserve(&ticket(*n), &lines, &dollars("0")).is_ok()
        })
        .count();
    assert_eq!(made, 6, "three runs' worth");
    let other = budgets.lines(&Who { principal: "token|1:x", ..who() }, NOON);
    assert!(ledger.reserve(&ticket(99), &other, &dollars("0")).is_ok());
}

#[test]
fn what_is_spent_is_named_with_its_renewal() {
    let text = |scope, unit, limit, n: usize| {
        let line = budgets(scope, unit, limit, true).lines(&who(), NOON)[n].clone();
        Spent { line, scope }.to_string()
    };
    assert_eq!(
        text(Scope::Task(Period::Day), Unit::Usd, usd("2.00").nanos(), 0),
        "The budget of 2 USD for this task, per day is spent. It renews at 2026-07-29T00:00:00Z."
    );
    assert_eq!(
        text(Scope::Principal(Period::Month), Unit::Calls, 500, 0),
        "The budget of 500 calls for you under this task, per month is spent. It renews at 2026-08-01T00:00:00Z."
    );
    assert!(text(Scope::Run, Unit::Bytes, 5, 0).ends_with("It does not renew; begin another run."));
    assert!(text(Scope::Run, Unit::Bytes, 5, 1).contains("your runs under this task"));
}

#[test]
fn l6_counters_that_live_outlast_any_crowd_and_dead_ones_go() {
    let budgets = budgets(Scope::Principal(Period::Day), Unit::Calls, 1, true);
    let mut ledger = Ledger::default();
    let lines = budgets.lines(&who(), NOON);
    ledger.reserve(&ticket(0), &lines, &dollars("0")).unwrap();
    ledger.settle("0", &dollars("0"));
    for n in 1..5000 {
        let name = format!("p{n}");
        let lines = budgets.lines(&Who { principal: &name, ..who() }, NOON);
        ledger.reserve(&ticket(n), &lines, &dollars("0")).unwrap();
        ledger.release(&ticket(n));
    }
    ledger.sweep(NOON + 3600, 0);
    assert_eq!(ledger.reserve(&ticket(9999), &lines, &dollars("0")), Err(Short(0)));
    assert_eq!(ledger.sweep(NOON + 2 * 86_400, 3600), 5000);
    assert_eq!(ledger.size(), (0, 0));
}

#[test]
fn budgets_that_can_not_be_meant_are_flaws() {
    let one = |scope, limit| Budget { scope, unit: Unit::Usd, limit, strict: false };
    let all = vec![
        one(Scope::Run, 1),
        one(Scope::Task(Period::Day), 0),
        one(Scope::Task(Period::Month), 1),
        one(Scope::Run, 2),
    ];
    let flaws = Budgets { all, runs_a_day: 1 }.flaws();
    let at: Vec<String> = flaws.iter().map(|f| crate::flaw::Path(&f.at).to_string()).collect();
    assert_eq!(at, ["limits.budgets[1]", "limits.budgets[3]"]);
}

#[test]
fn calendars_end() {
    assert_eq!(Period::Month.span(NOON).name, "2026-07");
    assert_eq!(Period::Day.span(1_709_164_800).name, "2024-02-29");
    for odd in [i64::MIN, -1, 0, i64::MAX] {
        let span = Period::Day.span(odd);
        assert!(span.ends >= odd || odd == i64::MAX, "{odd} {span:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever happens in whatever order, nothing is lost, nothing is held twice, and the limit holds.
    #[test]
    fn what_is_spent_and_held_adds_up(steps in prop::collection::vec((0..3_u8, 0..12_usize, 0..40_u64), 1..120), limit in 1..300_u64, strict: bool) {
        let budgets = budgets(Scope::Task(Period::Day), Unit::Bytes, limit, strict);
        let lines = budgets.lines(&who(), NOON);
        let (mut ledger, mut open, mut spent) = (Ledger::default(), std::collections::HashMap::new(), 0_u64);
        let bytes = |bytes| Amounts { bytes, ..Amounts::default() };
        for (what, name, amount) in steps {
            let held: u64 = open.values().sum();
            match what {
                0 if !open.contains_key(&name) => {
                    let admitted = ledger.reserve(&ticket(name), &lines, &bytes(amount)).is_ok();
                    let want = if strict { spent + held + amount <= limit } else { spent + held < limit };
                    prop_assert_eq!(admitted, want);
                    if admitted {
                        open.insert(name, amount);
                    }
                }
                0 => prop_assert!(ledger.reserve(&ticket(name), &lines, &bytes(amount)).is_ok()),
                1 => {
                    let known = open.remove(&name);
                    // No call spends more than it reserved here.
                    let actual = known.map_or(amount, |held: u64| held.min(amount));
                    prop_assert_eq!(ledger.settle(&name.to_string(), &bytes(actual)), known.is_some());
                    spent += known.map_or(0, |_| actual);
                }
                _ => prop_assert_eq!(ledger.release(&name.to_string()), open.remove(&name).is_some()),
            }
            prop_assert_eq!(ledger.read(&lines[0].key), (spent, open.values().sum()));
            if strict {
                prop_assert!(spent <= limit);
            }
        }
    }
}
