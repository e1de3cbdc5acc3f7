//! Tests of rates and of the keys that they are counted under (security case L5).

use proptest::prelude::*;

use super::*;

fn quota(text: &str) -> Quota {
    Quota::parse(text, None).unwrap()
}

fn who() -> Who<'static> {
    Who { task: "support", principal: "token|2:ci", run: "r1" }
}

#[test]
fn rates_are_read() {
    assert_eq!(quota("60/min"), Quota { calls: 60, per: Duration::from_secs(60), burst: 60 });
    assert_eq!(quota("5/s").interval(), Duration::from_millis(200));
    assert_eq!(Quota::parse("1000/h", Some(10)).unwrap().burst, 10);
    for bad in ["", "60", "60/day", "0/s", "-1/s", "1.5/s", "60/", "/s", "99999999999/s"] {
        assert!(Quota::parse(bad, None).is_err(), "{bad}");
    }
    assert!(Quota::parse("1/s", Some(0)).is_err());
}

#[test]
fn a_wait_is_told_in_whole_seconds_and_never_as_0() {
    for (ms, seconds) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_999, 60)] {
        assert_eq!(Quota::retry_after(Duration::from_millis(ms)), seconds);
    }
}

#[test]
fn each_kind_of_rate_applies_to_its_calls() {
    let spec = RateSpec {
        calls: Some(quota("60/min")),
        tools: vec![("github__*".into(), quota("5/s")), ("docs__*".into(), quota("1/s"))],
        servers: vec![("github".into(), quota("100/s"))],
        run: Some(quota("1000/h")),
        runs_at_once: 3,
        concurrency: Some(8),
    };
    let rates = Rates::compile(spec).unwrap();
    let kinds = |server, tool| rates.applying(&who(), server, tool).iter().map(|a| a.per).collect::<Vec<_>>();
    assert_eq!(kinds("github", "github__get"), [Per::Run, Per::Runs, Per::Tool, Per::Principal, Per::Server]);
    assert_eq!(kinds("files", "files__get"), [Per::Run, Per::Runs, Per::Principal]);
    assert_eq!(rates.concurrency(&who()).unwrap().1, 8);
}

/// Whoever names a new run for each call meets the rate of all its runs, under a key that no run id is part of.
#[test]
fn l5_l6_another_run_id_is_another_run_and_the_same_principal() {
    let spec = RateSpec { run: Some(quota("10/min")), runs_at_once: 4, ..RateSpec::default() };
    let rates = Rates::compile(spec).unwrap();
    let of = |run| rates.applying(&Who { run, ..who() }, "s", "s__t");
    let (one, other) = (of("r1"), of("r2"));
    assert_ne!(one[0].key, other[0].key);
    assert_eq!((one[1].key.clone(), one[1].per, one[1].quota.calls), (other[1].key.clone(), Per::Runs, 40));
    assert_eq!(quota("1000000000/h").times(7).calls, 1_000_000_000);
    assert_eq!(quota("5/s").times(0), quota("5/s"));
    let stranger = rates.applying(&Who { principal: "token|2:cd", ..who() }, "s", "s__t");
    assert_ne!(one[1].key, stranger[1].key);
}

#[test]
fn a_rate_of_nothing_known_is_a_flaw_with_its_place() {
    let spec =
        RateSpec { tools: vec![("a{".into(), quota("1/s"))], concurrency: Some(0), ..RateSpec::default() };
    let flaws = Rates::compile(spec).unwrap_err();
    assert_eq!(flaws.len(), 2);
    assert_eq!(
        (crate::flaw::Path(&flaws[0].at).to_string().as_str(), flaws[0].offset),
        ("limits.tools[0].tool", Some(1))
    );
}

proptest! {
    #[test]
    fn what_is_earned_back_in_a_period_is_no_more_than_the_quota(calls in 1..1_000_000_000_u32, unit in prop::sample::select(vec!["s", "min", "h"])) {
        let quota = quota(&format!("{calls}/{unit}"));
        prop_assert!(quota.interval() > Duration::ZERO);
        // To a nanosecond per call, which is how the interval is rounded.
        let earned = quota.per.as_nanos() / (quota.interval().as_nanos() + 1);
        prop_assert!(earned <= u128::from(calls));
    }

    #[test]
    fn l5_different_callers_never_share_a_counter(a in prop::collection::vec("[a:|0-9]{0,6}", 3), b in prop::collection::vec("[a:|0-9]{0,6}", 3)) {
        let of = |v: &[String]| key("rate", &v.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(a == b, of(&a) == of(&b));
    }
}
