//! The sections of plain numbers: limits, lists, names, legacy, log, drain. Each value has a range, so that a slip
//! (a ttl of 60 days, a header limit of 3 bytes) is found at start and not in operation.

use std::ops::RangeInclusive;
use std::time::Duration;

use jiff::civil::Date;

use crate::config::checked::{FrontLimits, Legacy, Lists, Log, LogFormat, SessionIds};
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw;

const DAY: u64 = 86_400;
const LEVELS: [&str; 6] = ["trace", "debug", "info", "warn", "error", "off"];

pub(super) fn seconds(from: u64, to: u64) -> RangeInclusive<Duration> {
    Duration::from_secs(from)..=Duration::from_secs(to)
}

fn millis(from: u64, to: u64) -> RangeInclusive<Duration> {
    Duration::from_millis(from)..=Duration::from_millis(to)
}

pub(super) fn front(raw: Option<&raw::Limits>, at: &At, context: &mut Context<'_>) -> FrontLimits {
    let d = FrontLimits::default();
    let Some(raw) = raw else { return d };
    let depth = context.count(&at.key("depth"), raw.depth, d.depth.into(), 8..=128);
    let h2_streams = context.count(&at.key("h2_streams"), raw.h2_streams, 128, 1..=10_000);
    let mut time = |key: &str, raw, default| context.time(&at.key(key), raw, default, millis(100, 600_000));
    let header_timeout = time("header_timeout", raw.header_timeout.as_ref(), d.header_timeout);
    let body_timeout = time("body_timeout", raw.body_timeout.as_ref(), d.body_timeout);
    let idle_timeout = time("idle_timeout", raw.idle_timeout.as_ref(), d.idle_timeout);
    let mut count = |key: &str, raw, default| context.count(&at.key(key), raw, default, 1..=1_000_000);
    let connections = count("connections", raw.connections, d.connections);
    let streams = count("streams", raw.streams, d.streams);
    let requests = count("requests", raw.requests, d.requests);
    let request = at.key("request_bytes");
    let header = at.key("header_bytes");
    FrontLimits {
        request_bytes: context.size(
            &request,
            raw.request_bytes.as_ref(),
            d.request_bytes,
            1 << 10..=256 << 20,
        ),
        header_bytes: context.size(&header, raw.header_bytes.as_ref(), d.header_bytes, 1 << 10..=256 << 10),
        depth: u16::try_from(depth).unwrap_or(d.depth),
        header_timeout,
        body_timeout,
        idle_timeout,
        connections,
        streams,
        requests,
        h2_streams: u32::try_from(h2_streams).unwrap_or(d.h2_streams),
    }
}

/// 48 leaves room for the longest server id, the separator and a hash.
pub(super) fn names(raw: Option<&raw::Names>, at: &At, context: &mut Context<'_>) -> usize {
    context.count(&at.key("max"), raw.and_then(|names| names.max), 64, 48..=256)
}

pub(super) fn lists(raw: Option<&raw::Lists>, at: &At, context: &mut Context<'_>) -> Lists {
    let d = Lists::default();
    let Some(raw) = raw else { return d };
    let bytes = 64 << 10..=256 << 20;
    Lists {
        ttl: context.time(&at.key("ttl"), raw.ttl.as_ref(), d.ttl, seconds(1, DAY)),
        grace: context.time(&at.key("grace"), raw.grace.as_ref(), d.grace, seconds(0, 7 * DAY)),
        page_size: context.count(&at.key("page_size"), raw.page_size, d.page_size, 1..=100_000),
        max_pages: context.count(&at.key("max_pages"), raw.max_pages, d.max_pages, 1..=10_000),
        max_entries: context.count(&at.key("max_entries"), raw.max_entries, d.max_entries, 1..=100_000),
        max_bytes: context.size(&at.key("max_bytes"), raw.max_bytes.as_ref(), d.max_bytes, bytes),
    }
}

/// The day after which the specification's own compatibility window is over for us.
fn window() -> Date {
    jiff::civil::date(2027, 7, 28)
}

pub(super) fn legacy(raw: Option<&raw::Legacy>, at: &At, context: &mut Context<'_>) -> Legacy {
    let none = raw::Legacy::default();
    let raw = raw.unwrap_or(&none);
    let until = match raw.until.as_deref() {
        None => Some(window()),
        Some("never") => None,
        Some(text) => date(text).or_else(|| {
            context.problem(&at.key("until"), "not a date", "write a day such as 2027-07-28, or never");
            None
        }),
    };
    let ttl = at.key("session_ttl");
    let grace = at.key("resume_grace");
    Legacy {
        until,
        session_ttl: context.time(
            &ttl,
            raw.session_ttl.as_ref(),
            Duration::from_secs(DAY),
            seconds(1, 30 * DAY),
        ),
        session_ids: match raw.session_ids {
            Some(raw::SessionIds::None) => SessionIds::None,
            _ => SessionIds::Sealed,
        },
        resume_grace: context.time(
            &grace,
            raw.resume_grace.as_ref(),
            Duration::from_secs(10),
            seconds(0, 600),
        ),
    }
}

/// Only the full form: `2027-7-28` or a time of day would be read differently elsewhere.
fn date(text: &str) -> Option<Date> {
    (text.len() == 10).then(|| text.parse().ok()).flatten()
}

pub(super) fn log(raw: Option<&raw::Log>, at: &At, context: &mut Context<'_>) -> Log {
    let format = match raw.and_then(|log| log.format) {
        Some(raw::LogFormat::Json) => LogFormat::Json,
        _ => LogFormat::Pretty,
    };
    let level = raw.and_then(|log| log.level.as_deref()).unwrap_or("info");
    if !level.split(',').all(directive) {
        let fix = "write trace, debug, info, warn, error or off, or targets too: info,tollgate=debug";
        context.problem(&at.key("level"), "not a log level", fix);
    }
    Log { format, level: level.to_owned() }
}

/// `level` or `target=level`. The filter itself would take any other word for the name of a target.
fn directive(text: &str) -> bool {
    let (target, level) = text.split_once('=').unwrap_or(("a", text));
    let named =
        !target.is_empty() && target.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:-".contains(&b));
    named && LEVELS.contains(&level.to_ascii_lowercase().as_str())
}

pub(super) fn drain(raw: Option<&raw::Time>, at: &At, context: &mut Context<'_>) -> Duration {
    context.time(at, raw, Duration::from_secs(30), seconds(0, 3_600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_levels() {
        for level in ["info", "WARN", "off", "info,tollgate=debug", "tollgate::edge=trace,error"] {
            assert!(level.split(',').all(directive), "{level}");
        }
        for level in ["", "prety", "info,", "=debug", "a b=info", "tollgate=", "info;debug"] {
            assert!(!level.split(',').all(directive), "{level}");
        }
    }

    #[test]
    fn dates() {
        assert_eq!(date("2027-07-28"), Some(window()));
        for text in ["", "2027-7-28", "2027-02-30", "28.07.2027", "2027-07-28T00:00:00", "20270728"] {
            assert_eq!(date(text), None, "{text}");
        }
    }
}
