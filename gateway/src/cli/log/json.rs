//! A log line as one JSON object, written straight into the line's buffer. Spans are not shown: nothing here
//! enters one.

use std::fmt::{self, Debug, Write};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// `{"timestamp":…,"level":…,` the event's own fields, `"target":…}`.
pub(super) struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        out.write_str("{\"timestamp\":\"")?;
        out.write_str(&super::stamp())?;
        write!(out, "\",\"level\":\"{}\"", event.metadata().level())?;
        let mut fields = Fields { out: &mut out, result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        out.write_str(",\"target\":\"")?;
        Escaped(&mut out).write_str(event.metadata().target())?;
        out.write_str("\"}\n")
    }
}

struct Fields<'a, 'w> {
    out: &'a mut Writer<'w>,
    result: fmt::Result,
}

impl Fields<'_, '_> {
    fn put(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        if self.result.is_ok() {
            self.result = self.member(field.name(), value);
        }
    }

    fn member(&mut self, name: &str, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) -> fmt::Result {
        self.out.write_str(",\"")?;
        // `r#type` is how Rust spells a field called `type`.
        Escaped(self.out).write_str(name.strip_prefix("r#").unwrap_or(name))?;
        self.out.write_str("\":")?;
        value(self.out)
    }

    fn text(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        self.put(field, |out| {
            out.write_char('"')?;
            Escaped(out).write_fmt(value)?;
            out.write_char('"')
        });
    }
}

impl Visit for Fields<'_, '_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no NaN and no infinity.
        match value.is_finite() {
            true => self.put(field, |out| write!(out, "{value}")),
            false => self.put(field, |out| out.write_str("null")),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, |out| write!(out, "{value}"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, |out| write!(out, "{value}"));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, |out| write!(out, "{value}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, format_args!("{value:?}"));
    }
}

/// Passes text on as the inside of a JSON string.
struct Escaped<'a, 'w>(&'a mut Writer<'w>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        // All that must be escaped is ASCII, so that every cut is between characters.
        while let Some(at) = rest.bytes().position(|b| b < 0x20 || matches!(b, b'"' | b'\\' | 0x7f)) {
            let (plain, special) = rest.split_at(at);
            self.0.write_str(plain)?;
            let mut chars = special.chars();
            match chars.next() {
                Some('"') => self.0.write_str("\\\"")?,
                Some('\\') => self.0.write_str("\\\\")?,
                Some('\n') => self.0.write_str("\\n")?,
                Some(other) => write!(self.0, "\\u{:04x}", u32::from(other))?,
                None => {}
            }
            rest = chars.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::written;
    use super::*;

    #[test]
    fn a_line_is_one_object_whatever_the_fields_hold() {
        let hostile = "a\"b\\c\nd\r\u{1}\u{7f}\u{85}ü€😀";
        let line = written(Json, || {
            tracing::info!(
                target: "some::where", text = hostile, shown = %hostile, debug = ?Some(1), r#type = 1_u64,
                minus = -5, yes = true, half = 0.5, none = f64::NAN, "what \"happened\""
            );
        });
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let mut value: Value = serde_json::from_str(&line).unwrap();
        let time = value.as_object_mut().unwrap().remove("timestamp").unwrap();
        assert!(time.as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "{time}");
        let want = json!({
            "level": "INFO", "message": "what \"happened\"", "text": hostile, "shown": hostile,
            "debug": "Some(1)", "type": 1, "minus": -5, "yes": true, "half": 0.5, "none": null,
            "target": "some::where"
        });
        assert_eq!(value, want);
    }
}
