//! The journal's port to time. Nothing else in this crate reads a clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Wall and monotonic time, so that a step of the one shows against the other.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn wall_ms(&self) -> u64;
    /// Nanoseconds since some fixed point of this process; never goes back.
    fn mono_ns(&self) -> u64;
}

/// The system's clocks.
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Monotonic time starts at zero here.
    pub fn new() -> SystemClock {
        SystemClock { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    fn mono_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// RFC 3339 in UTC with milliseconds, for example `2026-11-30T12:00:00.000Z`. Years over 9999 are cut to 9999.
pub fn rfc3339(ms: u64) -> String {
    let ms = ms.min(253_402_300_799_999);
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    // Days to a civil date in the proleptic Gregorian calendar, in eras of 400 years that start on 1 March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1_000 % 60, rest % 1_000);
    // Digit by digit: it is written for every call, and a format string costs ten times as much.
    let mut text = *b"0000-00-00T00:00:00.000Z";
    for (end, mut value) in
        [(4, year), (7, month), (10, day), (13, hour), (16, minute), (19, second), (23, milli)]
    {
        for place in text.iter_mut().take(end).rev() {
            if value == 0 {
                break;
            }
            *place = b'0' + u8::try_from(value % 10).unwrap_or_default();
            value /= 10;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn z16_times_from_1970_to_9999_are_written() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_796_040_731_005), "2026-11-30T12:12:11.005Z");
        assert_eq!(rfc3339(4_294_967_296_000), "2106-02-07T06:28:16.000Z");
        assert_eq!(rfc3339(u64::MAX), "9999-12-31T23:59:59.999Z");
    }
}
