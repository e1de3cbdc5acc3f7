//! `tollgate audit run`: a run's calls in order, from the records of all replicas alone. Principals and tasks that use
//! the same run id are shown apart.

use std::borrow::Cow;
use std::io::{self, Write};

use audit::entry::{Entry, Text};
use audit::read::{self, Record, Run, RunCall};
use audit::verify::Source;
use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::order::say_damaged;
use super::select::Where;
use super::text::{Table, safe, usd};
use super::{Failure, Outcome};

/// List a run's calls in order, refusals included.
///
/// The order is that of the call index, which was given at the intent; refusals have none and stand at their time.
/// This reads records and proves nothing: verify the journals first.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The run's id.
    #[arg(value_name = "RUN")]
    run: String,
    #[command(flatten)]
    dirs: Where,
    /// Only under this task.
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Only of this principal, by `sub`.
    #[arg(long, value_name = "SUB")]
    principal: Option<String>,
    /// Print one JSON object for each call, a line each.
    #[arg(long)]
    json: bool,
    /// Print no calls but one JSON object for each principal and task: status, calls, cost and the hashes that prove
    /// them, the same bytes as `/runs/{run}` of the gateway when the one log is read. FORMAT.md, section 9.1.
    #[arg(long, conflicts_with = "json")]
    receipt: bool,
}

/// Runs the command: 1 when nothing is known of the run.
pub(super) fn run(args: &RunArgs, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    let logs = args.dirs.logs()?;
    let sources: Vec<&dyn Source> = logs.iter().map(|log| &*log.source).collect();
    let (mut runs, damaged) = read::runs(&sources, &args.run)?;
    say_damaged(damaged, err);
    let is = |want: &Option<String>, is: &str| want.as_deref().is_none_or(|want| want == is);
    runs.retain(|run| is(&args.task, &run.task) && is(&args.principal, &run.principal.sub));
    if runs.is_empty() {
        return Err(Failure::new(1, format!("no record of the run {}", args.run)));
    }
    for (at, run) in runs.iter().enumerate() {
        if args.receipt {
            writeln!(out, "{}", run.projection.document())?;
        } else if args.json {
            run.calls.iter().try_for_each(|call| machine(call, out))?;
        } else {
            if at > 0 {
                writeln!(out)?;
            }
            human(&args.run, run, out)?;
        }
    }
    Ok(0)
}

fn human(id: &str, run: &Run, out: &mut dyn Write) -> io::Result<()> {
    let who = [&run.principal.iss, &run.principal.sub, &run.principal.client, &run.principal.tenant];
    let who: Vec<Cow<'_, str>> = who.into_iter().filter(|part| !part.is_empty()).map(|p| safe(p)).collect();
    writeln!(out, "run {}  task {}  principal {}", safe(id), safe(&run.task), who.join(" "))?;
    let mut table = Table::new([">#", "time", "server", "tool", "outcome", "reason", ">ms", ">usd", "call"]);
    let mut nanos: u64 = 0;
    for call in &run.calls {
        nanos = nanos.saturating_add(cost(call).unwrap_or(0));
        table.row(cells(call));
    }
    table.print(out)?;
    let (calls, head) = (run.calls.len(), run.projection.journal_head());
    let status = serde_json::to_string(&run.projection.status())?;
    writeln!(out, "{calls} calls, {} USD, {}, journal head {head}", usd(nanos), status.trim_matches('"'))
}

fn cost(call: &RunCall) -> Option<u64> {
    call.outcome.as_ref()?.entry.cost_nanousd.map(|cost| cost.0)
}

fn cells(call: &RunCall) -> [Cow<'_, str>; 9] {
    let first = &call.first.entry;
    let last = call.outcome.as_ref().map_or(first, |record| &record.entry);
    let text = |field: &'_ Option<Text>| Cow::Owned(field.as_deref().unwrap_or_default().to_owned());
    let number = |field: Option<u64>| Cow::Owned(field.map(|n| n.to_string()).unwrap_or_default());
    [
        number(first.index.map(|i| i.0)),
        Cow::Borrowed(&first.ts),
        text(&first.server),
        text(&first.tool),
        Cow::Owned(outcome(call).to_owned()),
        text(&last.reason),
        number(last.ms.map(|ms| ms.0)),
        Cow::Owned(cost(call).map(usd).unwrap_or_default()),
        text(&first.call),
    ]
}

/// How the call ended: `denied` for a refusal, `open` while there is no outcome.
fn outcome(call: &RunCall) -> &str {
    match &call.outcome {
        Some(record) => record.entry.outcome.as_deref().unwrap_or_default(),
        None if call.first.entry.kind == audit::entry::Kind::Denied => "denied",
        None => "open",
    }
}

/// A call as one JSON object. The records in it are the stored bytes.
#[derive(Serialize)]
struct Shown<'a> {
    run: Option<&'a Text>,
    index: Option<u64>,
    call: Option<&'a Text>,
    server: Option<&'a Text>,
    tool: Option<&'a Text>,
    outcome: &'a str,
    cost_nanousd: Option<u64>,
    ms: Option<u64>,
    ts: &'a Text,
    first: Stored<'a>,
    last: Option<Stored<'a>>,
}

#[derive(Serialize)]
struct Stored<'a> {
    leaf: String,
    record: &'a RawValue,
}

fn stored(record: &Record) -> io::Result<Stored<'_>> {
    Ok(Stored { leaf: record.leaf.hex(), record: serde_json::from_slice(&record.json)? })
}

fn machine(call: &RunCall, out: &mut dyn Write) -> io::Result<()> {
    let first: &Entry = &call.first.entry;
    let shown = Shown {
        run: first.run.as_ref(),
        index: first.index.map(|i| i.0),
        call: first.call.as_ref(),
        server: first.server.as_ref(),
        tool: first.tool.as_ref(),
        outcome: outcome(call),
        cost_nanousd: cost(call),
        ms: call.outcome.as_ref().and_then(|r| r.entry.ms).map(|ms| ms.0),
        ts: &first.ts,
        first: stored(&call.first)?,
        last: call.outcome.as_ref().map(stored).transpose()?,
    };
    serde_json::to_writer(&mut *out, &shown)?;
    writeln!(out)
}
