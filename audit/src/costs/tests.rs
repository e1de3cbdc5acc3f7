//! What is kept is bounded, what is forgotten is said, and nothing of a sum is lost.

use super::bounds::{MAX_DAYS, MAX_RUNS, MAX_SPENT};
use super::*;

fn outcome(seq: u64, sub: &str, ts: &str) -> Entry {
    Entry {
        seq: Int(seq),
        ts: Text::Owned(ts.to_owned()),
        call: Some(format!("c{seq}").into()),
        sub: Some(sub.to_owned().into()),
        task: Some("support".into()),
        server: Some("docs".into()),
        run: Some(format!("r{seq}").into()),
        method: Some("tools/call".into()),
        outcome: Some("ok".into()),
        cost_nanousd: Some(Int(3)),
        charged_bytes: Some(Int(10)),
        day: Some(ts.get(..10).unwrap_or_default().to_owned().into()),
        ..Entry::new(Kind::Outcome)
    }
}

#[test]
fn a_million_principals_and_runs_are_bounded_and_no_sum_loses_any() {
    let (mut totals, leaf) = (Totals::default(), Digest::default());
    let most = 300_000_u64;
    for seq in 0..most {
        totals.add(&outcome(seq, &format!("u{seq}"), "2026-11-30T12:00:00.000Z"), &leaf);
    }
    assert!(totals.runs.len() <= MAX_RUNS && totals.runs.len() > MAX_RUNS / 2);
    assert!(totals.days.len() <= MAX_DAYS && totals.spent.len() <= MAX_SPENT);
    let mut sum = totals.earlier;
    totals.days.values().for_each(|total| sum.plus(*total));
    assert_eq!(sum, Total { calls: most, nanousd: 3 * most });
    assert_eq!(totals.tasks.values().copied().collect::<Vec<_>>(), [sum]);
    assert_eq!(totals.earlier_until, "2026-11-30");
    assert_eq!(totals.spent_tasks["support"].days[0].1.calls, most);
    // The runs used last are all there.
    assert!((most - 1000..most).all(|seq| {
        totals.runs.contains_key(&RunKey::of(&outcome(seq, &format!("u{seq}"), "")).unwrap())
    }));
}

#[test]
fn a_call_counts_in_the_period_that_it_was_reserved_in() {
    let (mut totals, leaf) = (Totals::default(), Digest::default());
    let mut add = |seq, day: &str| {
        let late =
            Entry { day: Some(day.to_owned().into()), ..outcome(seq, "u", "2026-12-01T00:00:01.000Z") };
        totals.add(&late, &leaf);
    };
    add(0, "2026-11-30");
    add(1, "2026-12-01");
    add(2, "2026-11-30");
    let unsent = Entry { charged_bytes: None, ..outcome(3, "u", "2026-12-01T00:00:01.000Z") };
    totals.add(&unsent, &leaf);
    let counted = |list: &[(Text, Spent)]| -> Vec<(String, u64)> {
        list.iter().map(|(name, spent)| (name.to_string(), spent.calls)).collect()
    };
    let periods = totals.spent.values().next().unwrap();
    assert_eq!(counted(&periods.days), [("2026-12-01".to_owned(), 1), ("2026-11-30".to_owned(), 2)]);
    assert_eq!(counted(&periods.months), [("2026-12".to_owned(), 1), ("2026-11".to_owned(), 2)]);
}

#[test]
fn old_days_are_added_up_and_old_runs_are_forgotten() {
    let (mut totals, leaf) = (Totals::default(), Digest::default());
    totals.add(&outcome(0, "u", "2026-08-01T00:00:00.000Z"), &leaf);
    totals.add(&outcome(1, "u", "2026-12-01T00:00:00.000Z"), &leaf);
    let open = Entry { kind: Kind::Intent, ..outcome(2, "u", "2026-08-01T00:00:00.000Z") };
    totals.add(&open, &leaf);
    // 2026-12-01T00:00:00Z.
    totals.forget(1_796_083_200_000, 48 * 3_600_000);
    assert_eq!((totals.days.len(), totals.earlier.nanousd, &*totals.earlier_until), (1, 3, "2026-08-01"));
    assert_eq!(totals.runs.len(), 2, "a call is under way in the third");
    let flat: Flat = serde_json::from_slice(&serde_json::to_vec(&Flat::from(&totals)).unwrap()).unwrap();
    assert_eq!(Totals::from(flat), totals);
}

#[test]
fn l4_a_call_whose_end_nobody_knows_is_charged_its_reservation() {
    let intent = Entry {
        kind: Kind::Intent,
        cost_nanousd: None,
        charged_bytes: None,
        reserved_nanousd: Some(Int(70)),
        reserved_bytes: Some(Int(4096)),
        ..outcome(0, "u", "2026-12-01T00:00:00.000Z")
    };
    let mut totals = Totals::default();
    totals.add(&intent, &Digest::default());
    let open = totals.open.values().next().unwrap().clone();
    let end = Entry { ts: intent.ts.clone(), ..unknown(&open, "crashed") };
    assert_eq!((end.reserved_nanousd, end.reserved_bytes), (None, None));
    totals.add(&end, &Digest::default());
    assert!(totals.open.is_empty());
    let spent = totals.spent_tasks["support"].days[0].1;
    assert_eq!(spent, Spent { nanousd: 70, calls: 1, bytes: 4096 });
    assert_eq!(totals.tasks.values().next().unwrap().nanousd, 70);
}
