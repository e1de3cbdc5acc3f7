//! A log line for people, put together before it goes to the line's buffer: time, level, target, message, then the fields as
//! `name=value`. Always one line, whatever a value holds; spans are not shown, nothing here enters one.

use std::fmt::{self, Debug, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// `2026-11-30T12:00:00.000Z  INFO target: message name=value`.
pub(super) struct Pretty;

impl<S, N> FormatEvent<S, N> for Pretty
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        // The buffer is behind a pointer to who knows what: to go through that for every piece costs more than a copy.
        let mut line = String::with_capacity(ROOM);
        line.push_str(&super::stamp());
        let (colour, word) = level(*event.metadata().level());
        match out.has_ansi_escapes() {
            true => write!(line, "\u{1b}[{colour}m{word}\u{1b}[0m")?,
            false => line.push_str(word),
        }
        line.push_str(event.metadata().target());
        line.push(':');
        event.record(&mut Fields(&mut line));
        line.push('\n');
        out.write_str(&line)
    }
}

/// Room for the usual line, in bytes.
const ROOM: usize = 512;

/// A level's colour on a terminal, and its word.
fn level(level: Level) -> (u8, &'static str) {
    match level {
        Level::ERROR => (31, " ERROR "),
        Level::WARN => (33, "  WARN "),
        Level::INFO => (32, "  INFO "),
        Level::DEBUG => (34, " DEBUG "),
        Level::TRACE => (35, " TRACE "),
    }
}

struct Fields<'a>(&'a mut String);

impl Fields<'_> {
    fn name(&mut self, field: &Field) {
        self.0.push(' ');
        self.0.push_str(field.name());
        self.0.push('=');
    }

    fn text(&mut self, field: &Field, text: &str) {
        if field.name() == "message" {
            self.0.push(' ');
            return self.message(text);
        }
        self.name(field);
        let bare = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=');
        match !text.is_empty() && text.bytes().all(bare) {
            true => self.0.push_str(text),
            // Rust's own escapes: quotes, controls, and what can't be seen.
            false => self.put(format_args!("{text:?}")),
        }
    }

    /// A message is shown as it is, but for what could begin a line or steer a terminal.
    fn message(&mut self, text: &str) {
        if text.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
            return self.0.push_str(text);
        }
        for c in text.chars() {
            match c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
                true => self.0.extend(c.escape_unicode()),
                false => self.0.push(c),
            }
        }
    }

    /// A string takes everything: only what is written can fail, and then it is cut there.
    fn put(&mut self, text: fmt::Arguments<'_>) {
        self.0.write_fmt(text).ok();
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.name(field);
        self.put(format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;
    use super::Pretty;

    #[test]
    fn x6_a_line_is_one_line_whatever_the_fields_hold() {
        let hostile = "a\nb\r\u{1b}[31m\0\u{85}\u{2028}\u{202e} \"é";
        let line = written(Pretty, || {
            tracing::warn!(target: "some::where", text = hostile, shown = %hostile, n = 5_u64, minus = -5,
                none = "", plain = "x-1", yes = true, "said {hostile}");
        });
        let (_, line) = line.split_once("  WARN ").unwrap();
        let quoted = r#""a\nb\r\u{1b}[31m\0\u{85}\u{2028}\u{202e} \"é""#;
        let said = "said a\\u{a}b\\u{d}\\u{1b}[31m\\u{0}\\u{85}\\u{2028}\u{202e} \"é";
        let want = format!(
            "some::where: {said} text={quoted} shown={quoted} n=5 minus=-5 none=\"\" plain=x-1 yes=true\n"
        );
        assert_eq!(line, want);
    }
}
