//! What is kept is bounded, what is forgotten is said, and nothing of a sum is lost.

use super::bounds::{MAX_DAYS, MAX_RUNS, MAX_SPENT};
use super::*;

fn outcome(seq: u64, sub: &str, ts: &str) -> Entry {
    Entry {
        seq: Int(seq),
        ts: Text::from(ts.to_owned()),
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

/// A call's intent, on the monotonic clock of one process.
fn intent(seq: u64, run: &str, hour: u64) -> Entry {
    Entry {
        kind: Kind::Intent,
        run: Some(run.to_owned().into()),
        index: Some(Int(seq)),
        mono_ns: crate::entry::Nanos(hour * 3_600_000_000_000),
        ..outcome(seq, "u", "2026-12-01T00:00:00.000Z")
    }
}

fn key(run: &str) -> RunKey {
    RunKey::of(&intent(0, run, 0)).unwrap()
}

#[test]
fn l4_lists_push_no_run_out_and_what_calls_push_out_stays_counted() {
    let (mut totals, leaf) = (Totals::default(), Digest::default());
    let call = |totals: &mut Totals, seq, run: &str| {
        totals.add(&intent(seq, run, 0), &leaf);
        totals.add(&Entry { kind: Kind::Outcome, index: None, ..intent(seq, run, 0) }, &leaf);
    };
    (0..5).for_each(|seq| call(&mut totals, seq, "victim"));
    let whole = totals.runs[&key("victim")].clone();
    for seq in 5..200_000 {
        let list = Entry { call: None, ..intent(seq, &format!("x{seq}"), 0) };
        totals.add(&Entry { kind: Kind::List, index: None, ..list }, &leaf);
    }
    assert!(totals.runs.len() <= MAX_RUNS);
    assert_eq!(totals.runs[&key("victim")], whole);
    assert!(totals.past.runs.is_empty(), "those made no calls");
    for seq in 200_000..280_000 {
        call(&mut totals, seq, &format!("y{seq}"));
    }
    assert!(!totals.runs.contains_key(&key("victim")));
    assert_eq!(totals.past.runs[&key("victim")].spent.calls, 5);
    assert_eq!(totals.next_index(&key("victim")), 5);
    let json = serde_json::to_vec(&totals).unwrap();
    assert_eq!(serde_json::from_slice::<Totals>(&json).unwrap(), totals);
    // Going on it is no new run, and does not pass for a whole one.
    call(&mut totals, 5, "victim");
    let again = &totals.runs[&key("victim")];
    assert_eq!((again.next_index, again.spent.calls, again.partial), (6, 6, true));
    call(&mut totals, 280_000, "x6");
    assert!(totals.runs[&key("x6")].partial && !totals.runs[&key("y279999")].partial);
}

#[test]
fn l4_no_clock_reading_makes_anything_forgotten() {
    let (mut totals, leaf) = (Totals::default(), Digest::default());
    totals.add(&intent(0, "r", 0), &leaf);
    let end = Entry { kind: Kind::Outcome, ..intent(0, "r", 0) };
    totals.add(&end, &leaf);
    let before = totals.clone();
    // The wall clock is ahead for a call and what else is written, and set right.
    let ahead: Text = "2027-03-11T00:00:00.000Z".into();
    totals.add(&Entry { ts: ahead.clone(), ..Entry::new(Kind::Rotate) }, &leaf);
    let far = Entry { day: Some("2027-03-11".into()), sub: Some("v".into()), ts: ahead, ..end.clone() };
    totals.add(&far, &leaf);
    totals.forget(48 * 3_600_000);
    assert_eq!(totals.runs[&key("r")], before.runs[&key("r")]);
    assert!(before.spent.iter().all(|(key, periods)| totals.spent[key] == *periods));
    assert!(before.days.iter().all(|(key, total)| totals.days[key] == *total));
    // What is counted in goes on.
    totals.add(&end, &leaf);
    assert_eq!(totals.spent_tasks["support"].days.last().unwrap().1.calls, 2);
    assert_eq!((totals.days.len(), totals.earlier), (2, Total::default()));
    // The last 62 days with calls are kept.
    for day in 0..70 {
        let day = crate::clock::rfc3339(1_800_000_000_000 + day * 86_400_000);
        totals.add(&outcome(9, "u", &day), &leaf);
    }
    totals.forget(48 * 3_600_000);
    let rows = totals.days.len();
    assert_eq!(totals.days.keys().map(|key| &key.day).collect::<std::collections::BTreeSet<_>>().len(), 62);
    // A day that is added up gets no row beside that.
    let earlier = totals.earlier.calls;
    totals.add(&end, &leaf);
    assert_eq!((totals.days.len(), totals.earlier.calls), (rows, earlier + 1));
}

#[test]
fn idle_runs_are_forgotten_after_two_days_of_running() {
    let (mut totals, leaf) = (Totals::default(), Digest::default());
    let end = |seq, run, hour| Entry { kind: Kind::Outcome, ..intent(seq, run, hour) };
    totals.add(&intent(0, "old", 0), &leaf);
    totals.add(&end(0, "old", 1), &leaf);
    totals.add(&intent(1, "open", 1), &leaf);
    for hour in 2..60 {
        totals.add(&end(hour, "new", hour), &leaf);
    }
    // Another process: its clock starts anew.
    totals.add(&Entry { boot: "b".into(), ..end(60, "new", 0) }, &leaf);
    totals.forget(48 * 3_600_000);
    let kept: Vec<&str> = totals.runs.keys().map(|key| &*key.run).collect();
    assert_eq!(kept, ["new", "open"]);
    let gone = &totals.past.runs[&key("old")];
    assert_eq!((gone.next_index, gone.spent), (1, Spent::default()));
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

#[test]
fn an_intent_that_is_kept_is_no_other_than_its_copy() {
    let entry = crate::entry::tests::full("a text");
    let mut kept = entry.clone();
    kept.shorten();
    assert_eq!(kept, brief(&entry));
    let (mut moved, mut copied) = (Totals::default(), Totals::default());
    copied.add(&entry, &Digest::default());
    moved.take(Box::new(entry), &Digest::default());
    assert_eq!(moved, copied);
}
