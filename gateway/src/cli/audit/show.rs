//! `tollgate audit show`: records as they were written, filtered, of several logs in one order; followed while they are
//! written. Proves nothing.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use audit::entry::Entry;
use audit::read::Record;
use clap::Args;
use serde_json::Value;

use super::order::{Merged, say_damaged};
use super::select::{Log, Where, Which};
use super::text::safe;
use super::{Failure, Outcome};

/// How often the logs are looked at again.
const AGAIN: Duration = Duration::from_millis(200);

/// Members that every record has, or that say where it is.
const COMMON: [&str; 8] = ["boot", "kind", "log", "mono_ns", "prev", "seq", "ts", "v"];

/// Show records: one line each, by time.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    dirs: Where,
    #[command(flatten)]
    which: Which,
    /// Go on with new records as they are written, until interrupted.
    #[arg(short, long)]
    follow: bool,
    /// Print the records' own JSON, a line each.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(args: &ShowArgs, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    let logs = args.dirs.logs()?;
    if args.follow && logs.iter().any(Log::archived) {
        return Err(Failure::new(2, "an archive is not followed: name the journal's folder"));
    }
    let mut records = Merged::new(&logs, args.which.filter());
    let mut said = 0;
    loop {
        while let Some(record) = records.next()? {
            if args.json { stored(&record, out)? } else { line(&record, logs.len() > 1, out)? }
        }
        out.flush()?;
        say_damaged(records.damaged() - said, err);
        said = records.damaged();
        if !args.follow {
            return Ok(0);
        }
        std::thread::sleep(AGAIN);
        records.resume();
    }
}

/// The record's own bytes.
pub(super) fn stored(record: &Record, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&record.json)?;
    out.write_all(b"\n")
}

fn line(record: &Record, several: bool, out: &mut dyn Write) -> io::Result<()> {
    let entry: &Entry = &record.entry;
    // The name of a kind of a later version is in the JSON alone.
    let value: Value = serde_json::from_slice(&record.json)?;
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
    let mut line = format!("{}  {:>6}  {:<13}", safe(&entry.ts), entry.seq.0, safe(kind));
    if several {
        let _ = write!(line, " log={}", safe(&entry.log));
    }
    for (name, value) in value.as_object().into_iter().flatten() {
        if COMMON.contains(&name.as_str()) {
            continue;
        }
        let text = match value {
            Value::String(text) if text.contains([' ', '"']) || text.is_empty() => value.to_string(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let _ = write!(line, " {}={}", safe(name), safe(&text));
    }
    writeln!(out, "{line}")
}
