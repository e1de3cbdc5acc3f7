//! Days and months in UTC, from Unix seconds that are passed in, and a clock that does not go back for a moment's error.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// How far back a wall clock may be set before that is believed, in seconds.
const TOLERATED: i64 = 86_400;

/// A period after which a budget renews.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// A day in UTC.
    Day,
    /// A calendar month in UTC.
    Month,
}

/// One period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// `2026-07-28` or `2026-07`.
    pub(super) name: String,
    /// The Unix second at which the next one begins.
    pub(super) ends: i64,
}

impl Period {
    /// The period that a Unix second falls into. Seconds that no calendar has fall into the first or the last period.
    pub(super) fn span(self, now: i64) -> Span {
        let date = date(now);
        let name = match self {
            Period::Day => date.to_string(),
            Period::Month => date.strftime("%Y-%m").to_string(),
        };
        Span { name, ends: self.ends(date) }
    }

    fn ends(self, date: Date) -> i64 {
        let next = match self {
            Period::Day => date.tomorrow(),
            Period::Month => date.last_of_month().tomorrow(),
        };
        let next = next.ok().and_then(|d| d.to_zoned(TimeZone::UTC).ok());
        next.map_or(i64::MAX, |z| z.timestamp().as_second())
    }

    /// The period that a name of one means (`2026-07-28`, `2026-07`), and the Unix second at which the next begins.
    pub(super) fn named(name: &str) -> Option<(Period, i64)> {
        let (period, date) = match name.len() {
            10 => (Period::Day, name.parse::<Date>().ok()?),
            7 => (Period::Month, format!("{name}-01").parse::<Date>().ok()?),
            _ => return None,
        };
        Some((period, period.ends(date)))
    }
}

/// The day (UTC) that a Unix second falls into: `2026-07-28`.
pub fn day(now: i64) -> String {
    date(now).to_string()
}

fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(if second < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

fn date(second: i64) -> Date {
    timestamp(second).to_zoned(TimeZone::UTC).date()
}

/// A Unix second as RFC 3339 in UTC.
pub(super) fn rfc3339(second: i64) -> String {
    timestamp(second).to_string()
}

/// The wall clock as budgets see it: a step back of up to a day is waited out, so that no period begins twice. A longer
/// one is the correction of a clock that was wrong before, and is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Steady {
    seen: Option<i64>,
}

impl Steady {
    /// The second to count under, for a wall clock's Unix second.
    pub fn now(&mut self, wall: i64) -> i64 {
        let now = match self.seen {
            Some(seen) if wall < seen && seen.saturating_sub(wall) <= TOLERATED => seen,
            _ => wall,
        };
        self.seen = Some(now);
        now
    }
}
