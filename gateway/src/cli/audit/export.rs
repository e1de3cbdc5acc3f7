//! `tollgate audit export`: records for other programs, as the stored JSON or as a table for spreadsheets. Proves
//! nothing.

use std::borrow::Cow;
use std::io::{self, Write};

use audit::entry::{Entry, Text};
use audit::hash::Digest;
use audit::read::Record;
use clap::{Args, ValueEnum};

use super::Outcome;
use super::order::{Merged, say_damaged};
use super::select::{Where, Which};
use super::show::stored;
use super::text::usd;

/// Export records.
#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    dirs: Where,
    #[command(flatten)]
    which: Which,
    /// jsonl: the stored bytes of each record, a line each. csv: RFC 4180 with a header line; a text that a
    /// spreadsheet would take for a formula is preceded by an apostrophe.
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Jsonl,
    Csv,
}

/// Runs the command.
pub(super) fn run(args: &ExportArgs, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    let logs = args.dirs.logs()?;
    let mut records = Merged::new(&logs, args.which.filter());
    if matches!(args.format, Format::Csv) {
        write!(out, "{}\r\n", COLUMNS.join(","))?;
    }
    while let Some(record) = records.next()? {
        match args.format {
            Format::Jsonl => stored(&record, out)?,
            Format::Csv => row(&record, out)?,
        }
    }
    say_damaged(records.damaged(), err);
    Ok(0)
}

const COLUMNS: [&str; 31] = [
    "log",
    "seq",
    "leaf",
    "ts",
    "kind",
    "call",
    "iss",
    "sub",
    "client",
    "tenant",
    "task",
    "run",
    "index",
    "method",
    "server",
    "tool",
    "decision",
    "rule",
    "outcome",
    "reason",
    "status",
    "cost_usd",
    "ms",
    "args_bytes",
    "result_bytes",
    "redactions",
    "args_mac",
    "result_mac",
    "trace",
    "span",
    "count",
];

fn row(record: &Record, out: &mut dyn Write) -> io::Result<()> {
    for (at, cell) in cells(record).into_iter().enumerate() {
        if at > 0 {
            out.write_all(b",")?;
        }
        out.write_all(field(&cell).as_bytes())?;
    }
    out.write_all(b"\r\n")
}

fn cells(record: &Record) -> [Cow<'_, str>; COLUMNS.len()] {
    let e: &Entry = &record.entry;
    let text = |field: &'_ Option<Text>| Cow::Owned(field.as_deref().unwrap_or_default().to_owned());
    let digest = |field: Option<Digest>| Cow::Owned(field.map(|d| d.hex()).unwrap_or_default());
    let number =
        |field: Option<audit::entry::Int>| Cow::Owned(field.map(|n| n.0.to_string()).unwrap_or_default());
    [
        Cow::Borrowed(&e.log),
        number(Some(e.seq)),
        Cow::Owned(record.leaf.hex()),
        Cow::Borrowed(&e.ts),
        Cow::Borrowed(e.kind.name()),
        text(&e.call),
        text(&e.iss),
        text(&e.sub),
        text(&e.client),
        text(&e.tenant),
        text(&e.task),
        text(&e.run),
        number(e.index),
        text(&e.method),
        text(&e.server),
        text(&e.tool),
        text(&e.decision),
        text(&e.rule),
        text(&e.outcome),
        text(&e.reason),
        Cow::Owned(e.status.map(|s| s.to_string()).unwrap_or_default()),
        Cow::Owned(e.cost_nanousd.map(|c| usd(c.0)).unwrap_or_default()),
        number(e.ms),
        number(e.args_bytes),
        number(e.result_bytes),
        number(e.redactions),
        digest(e.args_mac),
        digest(e.result_mac),
        text(&e.trace),
        text(&e.span),
        number(e.count),
    ]
}

/// One field by RFC 4180, defused for spreadsheets.
pub(super) fn field(text: &str) -> Cow<'_, str> {
    // A status below zero is a number, not a formula.
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']) && text.parse::<i64>().is_err();
    if !formula && !text.contains([',', '"', '\r', '\n']) {
        return Cow::Borrowed(text);
    }
    let defused = if formula { "'" } else { "" };
    Cow::Owned(format!("\"{defused}{}\"", text.replace('"', "\"\"")))
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn fields_are_quoted_and_formulas_defused() {
        assert_eq!(field("plain"), "plain");
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"x\"\n"), "\"say \"\"x\"\"\n\"");
        assert_eq!(field("=cmd|' /C calc'!A0"), "\"'=cmd|' /C calc'!A0\"");
        assert_eq!(field("@SUM(1)"), "\"'@SUM(1)\"");
        assert_eq!(field("-32000"), "-32000");
    }
}
