//! Tests of amounts: exact, bounded, never negative (security case L2).

use proptest::prelude::*;

use super::*;

#[test]
fn decimals_are_exact() {
    for (text, nanos, printed) in [
        ("0", 0, "0"),
        ("-0", 0, "0"),
        ("2.00", 2_000_000_000, "2"),
        ("0.002", 2_000_000, "0.002"),
        ("0.000000001", 1, "0.000000001"),
        ("2e-06", 2_000, "0.000002"),
        ("1.5E2", 150_000_000_000, "150"),
        ("1000000000", 1_000_000_000_000_000_000, "1000000000"),
        ("0.100", 100_000_000, "0.1"),
        ("12345e-4", 1_234_500_000, "1.2345"),
        ("0e999999999", 0, "0"),
    ] {
        let amount = NanoUsd::parse(text).unwrap();
        assert_eq!((amount.nanos(), amount.to_string().as_str()), (nanos, printed), "{text}");
    }
}

#[test]
fn l2_what_is_no_amount_is_refused() {
    for (text, why) in [
        ("", NoAmount::NoNumber),
        ("NaN", NoAmount::NoNumber),
        ("inf", NoAmount::NoNumber),
        ("+1", NoAmount::NoNumber),
        ("1.", NoAmount::NoNumber),
        (".5", NoAmount::NoNumber),
        ("1e", NoAmount::NoNumber),
        ("1 ", NoAmount::NoNumber),
        ("0x10", NoAmount::NoNumber),
        ("-0.001", NoAmount::Negative),
        ("9223372036854775808", NoAmount::Absurd),
        ("1e400", NoAmount::Absurd),
        ("1e2000000000", NoAmount::Absurd),
        ("1000000000.000000001", NoAmount::Absurd),
        ("0.0000000001", NoAmount::TooFine),
        ("1e-2000000000", NoAmount::TooFine),
        ("1e-99999999999999", NoAmount::NoNumber),
    ] {
        assert_eq!(NanoUsd::parse(text), Err(why), "{text}");
    }
    assert_eq!(NanoUsd::parse(&"1".repeat(65)), Err(NoAmount::NoNumber));
}

#[test]
fn binary_fractions_are_rounded_up() {
    assert_eq!(NanoUsd::parse_up("0.30000000000000004"), Ok(NanoUsd::from_nanos(300_000_001)));
    assert_eq!(NanoUsd::parse_up("1e-30"), Ok(NanoUsd::from_nanos(1)));
    assert_eq!(NanoUsd::parse_up("-1e-30"), Err(NoAmount::Negative));
}

proptest! {
    #[test]
    fn what_is_printed_is_read_again(nanos in 0..=NanoUsd::MAX.nanos()) {
        let amount = NanoUsd::from_nanos(nanos);
        prop_assert_eq!(NanoUsd::parse(&amount.to_string()), Ok(amount));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-+0-9.eE]{0,70}") {
        if let Ok(amount) = NanoUsd::parse_up(&text) {
            prop_assert!(amount.nanos() <= NanoUsd::MAX.nanos() + 1);
        }
    }

    #[test]
    fn sums_never_wrap(a in any::<u64>(), b in any::<u64>(), q in any::<u64>(), per in any::<u64>()) {
        let (a, b) = (NanoUsd::from_nanos(a), NanoUsd::from_nanos(b));
        prop_assert!(a.plus(b) >= a && a.minus(b) <= a);
        if per > 0 && q >= per {
            prop_assert!(a.times(q, per) >= a);
        }
    }
}
