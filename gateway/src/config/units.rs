//! Durations and sizes as people write them. Whole numbers with a unit, no fractions, nothing rounded.

use std::time::Duration;

/// What a duration may look like, for messages.
pub(crate) const DURATION_FORM: &str =
    "write a duration such as 250ms, 10s, 5m, 24h or 1h30m (a bare number is seconds)";
/// What a size may look like, for messages.
pub(crate) const SIZE_FORM: &str = "write a size such as 256KiB, 4MiB or 1MB (a bare number is bytes)";
/// What an amount of money may look like, for messages.
pub(crate) const MONEY_FORM: &str =
    "write dollars such as 2, 2.00 or 0.002, with at most nine digits after the point";

/// `1h30m`, `250ms`, or a bare number of seconds. `None` when it is none, or too large to be meant.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (count, unit, after) = split(rest)?;
        let millis: u64 = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(count.checked_mul(millis)?)?;
        rest = after;
    }
    (!text.is_empty()).then_some(Duration::from_millis(total))
}

/// `4MiB`, `1MB`, `512B`, or a bare number of bytes. `None` when it is none, or too large for this machine.
pub(crate) fn size(text: &str) -> Option<usize> {
    if let Ok(bytes) = text.parse::<usize>() {
        return Some(bytes);
    }
    let (count, unit, after) = split(text)?;
    let bytes: u64 = match unit {
        "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    after.is_empty().then(|| count.checked_mul(bytes)).flatten().and_then(|n| usize::try_from(n).ok())
}

/// A number, its unit, and what follows.
fn split(text: &str) -> Option<(u64, &str, &str)> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, rest) = text.split_at_checked(digits)?;
    let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let (unit, after) = rest.split_at_checked(letters)?;
    Some((number.parse().ok()?, unit, after))
}

/// A duration in its shortest exact form.
pub(crate) fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if millis >= size && millis.is_multiple_of(size) {
            return format!("{}{unit}", millis / size);
        }
    }
    if millis == 0 { "0s".into() } else { format!("{millis}ms") }
}

/// A size in its shortest exact form.
pub(crate) fn show_size(bytes: usize) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("250ms", 250),
            ("10s", 10_000),
            ("5m", 300_000),
            ("24h", 86_400_000),
            ("1d", 86_400_000),
            ("1h30m", 5_400_000),
            ("0s", 0),
            ("10", 10_000),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in [
            "",
            "s",
            "10 s",
            "1.5s",
            "-1s",
            "10x",
            "10S",
            "99999999999999999999s",
            "18446744073709551615d",
            "1s2",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("4MiB", 4 << 20), ("256KiB", 256 << 10), ("1MB", 1_000_000), ("17B", 17), ("17", 17)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
        }
        for text in ["", "4M", "4 MiB", "4mib", "-1", "1.5MiB", "MiB", "99999999999GiB", "1KiB1KiB"] {
            assert_eq!(size(text), None, "{text}");
        }
    }

    #[test]
    fn shown_and_read_again() {
        for millis in [0, 1, 250, 1_000, 61_000, 3_600_000, 86_400_000, 90_000] {
            let value = Duration::from_millis(millis);
            assert_eq!(duration(&show_duration(value)), Some(value));
        }
        for bytes in [0, 1, 1023, 1024, 4 << 20, 1 << 30, 1_000_000] {
            assert_eq!(size(&show_size(bytes)), Some(bytes));
        }
    }
}
