//! `tollgate audit costs`: what calls cost, added up from their outcomes in the journal. Whole numbers of 10^-9
//! dollars; nothing is rounded. Every outcome counts as one call, as in the gateway's own totals.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use audit::costs::{Principal, Total};
use audit::entry::{Entry, Kind, Text};
use audit::read::Filter;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value};

use super::Outcome;
use super::export::field;
use super::order::{Merged, say_damaged};
use super::select::{Where, Which};
use super::text::{Table, usd};

/// The model of every ledger row, so that tools that add up spending on models can tell these rows from theirs.
const LEDGER_MODEL: &str = "mcp-server";

/// Add up what calls cost.
#[derive(Debug, Args)]
pub(super) struct CostsArgs {
    #[command(flatten)]
    dirs: Where,
    #[command(flatten)]
    which: Which,
    /// What to add up by, in this order. A principal is `iss sub client tenant`, as far as they are known; a day is
    /// one of UTC.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "task,server")]
    by: Vec<By>,
    /// table; json: one object a line; csv: the same as a table for spreadsheets; ledger: rows for tools that add up spending on models, one object a line for
    /// each day, principal, task and server whatever --by says, with the model `mcp-server` and the server as tag.
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum By {
    Task,
    Server,
    Principal,
    Day,
    Run,
    Tool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
    Csv,
    Ledger,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Task => "task",
            By::Server => "server",
            By::Principal => "principal",
            By::Day => "day",
            By::Run => "run",
            By::Tool => "tool",
        }
    }

    fn of(self, entry: &Entry) -> String {
        let text = |field: &Option<Text>| field.as_deref().unwrap_or_default().to_owned();
        match self {
            By::Task => text(&entry.task),
            By::Server => text(&entry.server),
            By::Run => text(&entry.run),
            By::Tool => text(&entry.tool),
            By::Day => entry.ts.get(..10).unwrap_or_default().to_owned(),
            By::Principal => Principal::of(entry).to_string(),
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &CostsArgs, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    let logs = args.dirs.logs()?;
    let filter = Filter { kinds: vec![Kind::Outcome], ..args.which.filter() };
    let by: &[By] = match args.format {
        Format::Ledger => &[By::Day, By::Principal, By::Task, By::Server],
        _ => &args.by,
    };
    let mut records = Merged::new(&logs, filter);
    let mut groups: BTreeMap<Vec<String>, Total> = BTreeMap::new();
    let mut sum = Total::default();
    while let Some(record) = records.next()? {
        let key = by.iter().map(|by| by.of(&record.entry)).collect();
        let nanos = record.entry.cost_nanousd.map_or(0, |cost| cost.0);
        for total in [groups.entry(key).or_default(), &mut sum] {
            total.calls += 1;
            total.nanousd = total.nanousd.saturating_add(nanos);
        }
    }
    say_damaged(records.damaged(), err);
    match args.format {
        Format::Table => table(by, &groups, sum, out)?,
        Format::Json => groups.iter().try_for_each(|(key, total)| object(by, key, *total, out))?,
        Format::Csv => csv(by, &groups, out)?,
        Format::Ledger => groups.iter().try_for_each(|(key, total)| ledger(key, *total, out))?,
    }
    Ok(0)
}

fn table(
    by: &[By],
    groups: &BTreeMap<Vec<String>, Total>,
    sum: Total,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut table = Table::new(by.iter().map(|by| by.name()).chain([">calls", ">usd"]));
    let tail = |total: Total| [Cow::Owned(total.calls.to_string()), Cow::Owned(usd(total.nanousd))];
    for (key, total) in groups {
        table.row(key.iter().map(|cell| Cow::Borrowed(cell.as_str())).chain(tail(*total)));
    }
    let words = by.iter().enumerate().map(|(at, _)| Cow::Borrowed(if at == 0 { "total" } else { "" }));
    table.row(words.chain(tail(sum)));
    table.print(out)
}

fn amounts(row: &mut Map<String, Value>, total: Total) {
    row.insert("calls".into(), total.calls.into());
    row.insert("cost_nanousd".into(), total.nanousd.into());
    // As a text: a reader that makes a float of it would not be exact.
    row.insert("cost_usd".into(), usd(total.nanousd).into());
}

fn object(by: &[By], key: &[String], total: Total, out: &mut dyn Write) -> io::Result<()> {
    let mut row: Map<String, Value> =
        by.iter().zip(key).map(|(by, cell)| (by.name().to_owned(), cell.as_str().into())).collect();
    amounts(&mut row, total);
    writeln!(out, "{}", Value::Object(row))
}

fn csv(by: &[By], groups: &BTreeMap<Vec<String>, Total>, out: &mut dyn Write) -> io::Result<()> {
    let names: Vec<&str> =
        by.iter().map(|by| by.name()).chain(["calls", "cost_nanousd", "cost_usd"]).collect();
    write!(out, "{}\r\n", names.join(","))?;
    for (key, total) in groups {
        let cells: Vec<_> = key.iter().map(|cell| field(cell)).collect();
        let comma = if cells.is_empty() { "" } else { "," };
        let (calls, nanousd) = (total.calls, total.nanousd);
        write!(out, "{}{comma}{calls},{nanousd},{}\r\n", cells.join(","), usd(nanousd))?;
    }
    Ok(())
}

fn ledger(key: &[String], total: Total, out: &mut dyn Write) -> io::Result<()> {
    let [day, principal, task, server] = key else { return Ok(()) };
    let mut row = Map::new();
    row.insert("date".into(), day.as_str().into());
    row.insert("model".into(), LEDGER_MODEL.into());
    row.insert("tags".into(), vec![server.as_str()].into());
    row.insert("user".into(), principal.as_str().into());
    row.insert("task".into(), task.as_str().into());
    amounts(&mut row, total);
    writeln!(out, "{}", Value::Object(row))
}
