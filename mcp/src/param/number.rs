//! Exact comparison of numbers by their JSON text. Never goes through floating point, so nothing is rounded.

/// A number as sign, significant digits (none for zero) and the power of ten of the last of them.
#[derive(PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

/// Takes checked number text apart; none when its exponent is beyond reason.
fn decimal(text: &str) -> Option<Decimal> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    if exponent.len() > 10 {
        return None;
    }
    let exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let dropped = digits.len() - significant.len();
    let exponent = exponent + i64::try_from(dropped).ok()? - i64::try_from(fraction.len()).ok()?;
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Some(Decimal { negative: false, digits: String::new(), exponent: 0 });
    }
    Some(Decimal { negative, digits: significant.to_owned(), exponent })
}

/// Whether two number texts stand for the same number: `42`, `42.0` and `4.2e1` do.
pub(super) fn equal(left: &str, right: &str) -> bool {
    match (decimal(left), decimal(right)) {
        (Some(left), Some(right)) => left == right,
        _ => left == right,
    }
}

/// The plain decimal text of a number that is an integer of at most 16 digits.
pub(super) fn integer_text(text: &str) -> Option<String> {
    let Decimal { negative, digits, exponent } = decimal(text)?;
    let zeros = usize::try_from(exponent).ok().filter(|zeros| digits.len() + zeros <= 16)?;
    let sign = if negative { "-" } else { "" };
    let digits = if digits.is_empty() { "0" } else { &digits };
    Some(format!("{sign}{digits}{}", "0".repeat(zeros)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m4_numbers_are_compared_as_numbers() {
        for (left, right) in [
            ("42", "42.0"),
            ("42", "4.2e1"),
            ("42", "420E-1"),
            ("0", "-0.000"),
            ("0", "0e9"),
            ("-7", "-7.00"),
            ("100", "1e+2"),
            ("0.001", "1e-3"),
            ("9007199254740993", "9007199254740993.0"),
            ("1e99999999999999999999", "1e99999999999999999999"),
        ] {
            assert!(equal(left, right), "{left} {right}");
        }
        for (left, right) in [
            ("42", "-42"),
            ("42", "420"),
            ("42", "42.01"),
            ("9007199254740993", "9007199254740992"),
            ("1", "10"),
            ("1", "0.1"),
            ("1e99999999999999999999", "1e99999999999999999998"),
            ("101", "11"),
        ] {
            assert!(!equal(left, right), "{left} {right}");
        }
    }

    #[test]
    fn integers_are_written_plainly() {
        for (text, plain) in [
            ("42", "42"),
            ("42.0", "42"),
            ("-7e0", "-7"),
            ("1e3", "1000"),
            ("0.0", "0"),
            ("-0", "0"),
            ("9007199254740991", "9007199254740991"),
        ] {
            assert_eq!(integer_text(text).as_deref(), Some(plain), "{text}");
        }
        for text in ["4.5", "1e400", "12345678901234567", "1e-1"] {
            assert_eq!(integer_text(text), None, "{text}");
        }
    }
}
