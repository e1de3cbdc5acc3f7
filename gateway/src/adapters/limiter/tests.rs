//! Tests of the counters in memory: cases L1, L3 and L6.

use std::sync::Arc;
use std::time::Duration;

use policies::budget::{Amounts, Budget, Budgets as Spec, Scope, Unit};
use policies::money::NanoUsd;
use policies::rate::{Per, Quota, Who};

use super::*;

fn applies(quota: &str) -> Applies {
    Applies { key: "k".into(), quota: Quota::parse(quota, None).unwrap(), per: Per::Principal }
}

#[tokio::test(start_paused = true)]
async fn l3_rates_follow_the_monotonic_clock_alone() {
    let counters = InMemory::default();
    let rates = [applies("1/s")];
    assert_eq!(counters.rate(&rates).await, Ok(()));
    let over = counters.rate(&rates).await;
    assert_eq!(over, Err(Refused::Over(Slow { at: 0, wait: Duration::from_secs(1) })));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(counters.rate(&rates).await, Ok(()));
}

#[tokio::test]
async fn no_more_calls_under_way_than_allowed_and_no_names_left_behind() {
    let counters = InMemory::default();
    assert_eq!(counters.enter("a", 2).await, Ok(()));
    assert_eq!(counters.enter("a", 2).await, Ok(()));
    assert_eq!(counters.enter("a", 2).await, Err(Refused::Over(Full)));
    counters.leave("a");
    assert_eq!(counters.enter("a", 2).await, Ok(()));
    counters.leave("a");
    counters.leave("a");
    counters.leave("a");
    assert!(counters.open.lock().is_empty());
    assert_eq!(counters.enter("a", 0).await, Err(Refused::Over(Full)));
}

#[tokio::test]
async fn l1_parallel_calls_never_overspend_a_strict_budget() {
    let counters = Arc::new(InMemory::default());
    let limit = 10 * 1_000_000_000;
    let all = vec![Budget { scope: Scope::Run, unit: Unit::Usd, limit, strict: true }];
    let lines = Spec { all, runs_a_day: 1 }.lines(&Who { task: "t", principal: "p", run: "r" }, 0);
    let amounts = Amounts { usd: NanoUsd::from_nanos(3_000_000_000), calls: 1, bytes: 0 };
    let calls = (0..64).map(|n| {
        let (counters, lines) = (Arc::clone(&counters), lines.clone());
        tokio::spawn(async move {
            let ticket: Ticket = format!("c{n}").into();
            let what = Reservation { ticket: &ticket, lines: &lines, amounts: &amounts, now: 0 };
            let reserved = counters.reserve(what).await.is_ok();
            tokio::task::yield_now().await;
            if reserved {
                counters.settle(&ticket, &amounts);
                counters.settle(&ticket, &amounts);
            }
            reserved
        })
    });
    let mut through = 0;
    for call in calls.collect::<Vec<_>>() {
        through += u64::from(call.await.unwrap());
    }
    assert_eq!(through, 3);
    let key = &lines.first().unwrap().key;
    assert_eq!(counters.budgets.lock().ledger.read(key), (9_000_000_000, 0));
}
