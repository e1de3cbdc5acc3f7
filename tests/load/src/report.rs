//! The tables that people read: each contender's numbers and Tollgate's ratio to each of the others.

use std::fmt::Write as _;
use std::io::Write as _;

use crate::Error;
use crate::contenders::Through;
use crate::row::{CallRow, JournalRow, ListRow, MeterRow, PolicyRow, Row, RunRow, ScaleRow, StreamRow};

/// What the project set itself; shown beside what was measured, never asserted.
const REACH_RPS: f64 = 1.0;
const REACH_CPU: f64 = 1.8;
const REACH_P99: f64 = 1.5;
const REACH_STREAM_KIB: f64 = 48.0;
const REACH_SERVERS: f64 = 1.05;
const REACH_POLICIES: f64 = 0.85;
const REACH_BUFFERED: f64 = 0.95;
const REACH_STRICT: f64 = 0.80;
const REACH_SYNCS: f64 = 3.0;
const REACH_METER: f64 = 0.97;

/// Prints everything.
pub(crate) fn print(rows: &[Row], faults: &[String]) -> Result<(), Error> {
    let mut text = String::new();
    let calls: Vec<&CallRow> =
        rows.iter().filter_map(|row| if let Row::Calls(row) = row { Some(row) } else { None }).collect();
    let matrix: Vec<&CallRow> = calls.iter().copied().filter(|row| row.path != "/mcp").collect();
    if !matrix.is_empty() {
        table(&mut text, "requests/s", &matrix, |row| row.rps)?;
        table(&mut text, "p50, us", &matrix, |row| row.p50_us)?;
        table(&mut text, "p99, us", &matrix, |row| row.p99_us)?;
        table(&mut text, "CPU us per call", &matrix, |row| row.cpu_us_per_call)?;
        table(&mut text, "memory after it, KiB", &matrix, |row| row.rss_kib)?;
    }
    all_servers(&mut text, &calls)?;
    for row in rows {
        match row {
            Row::Calls(_) => {}
            Row::Scale(row) => scale(&mut text, row)?,
            Row::Policies(row) => policies(&mut text, row)?,
            Row::Journal(row) => journal(&mut text, row)?,
            Row::Meter(row) => meter(&mut text, row)?,
            Row::List(row) => list(&mut text, row)?,
            Row::Streams(row) => streams(&mut text, row)?,
            Row::Run(row) => run(&mut text, row)?,
        }
    }
    reach(&mut text, rows, &matrix)?;
    for fault in faults {
        writeln!(text, "WRONG {fault}")?;
    }
    Ok(std::io::stdout().write_all(text.as_bytes())?)
}

/// The kind of call that a row is about.
fn kind(row: &CallRow) -> (&'static str, &'static str, usize, usize) {
    (row.era, row.answer, row.size, row.connections)
}

fn table(text: &mut String, title: &str, rows: &[&CallRow], pick: fn(&CallRow) -> f64) -> Result<(), Error> {
    let head = format!("{:>10}{:>10}{:>10}{:>10} | Tollgate/", "direct", "pingora", "hyper", "tollgate");
    writeln!(text, "\n{title:<31}{head}{:>8}{:>9}{:>8}", "direct", "pingora", "hyper")?;
    let mut kinds: Vec<_> = rows.iter().map(|row| kind(row)).collect();
    kinds.dedup();
    for this in kinds {
        let (era, answer, size, connections) = this;
        let of = |through| {
            rows.iter().find(|row| row.through == through && kind(row) == this).map(|row| pick(row))
        };
        let name = format!("{era} {answer} {} KiB, {connections} conn", size / 1024);
        write!(text, "{name:<31}")?;
        for through in Through::ALL {
            write!(text, "{:>10}", of(through).map_or("-".into(), number))?;
        }
        let ratio = |other| match (of(Through::Tollgate), of(other)) {
            (Some(ours), Some(theirs)) if theirs > 0.0 => format!("{:.2}", ours / theirs),
            _ => "-".into(),
        };
        let [direct, pingora, hyper] = [Through::Direct, Through::Pingora, Through::Hyper].map(ratio);
        writeln!(text, " | {:>17}{pingora:>9}{hyper:>8}", direct)?;
    }
    Ok(())
}

fn number(value: f64) -> String {
    if value < 1000.0 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// The endpoint that merges all servers.
fn all_servers(text: &mut String, rows: &[&CallRow]) -> Result<(), Error> {
    let rows: Vec<_> = rows.iter().filter(|row| row.path == "/mcp").collect();
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(text, "\nTollgate's /mcp")?;
    for row in rows {
        let (era, answer, size, connections) = kind(row);
        writeln!(
            text,
            "{era} {answer} {} KiB, {connections} conn, {} server(s): {:.0}/s, p50 {:.0} us, p99 {:.0} us, CPU {:.1} us per call",
            size / 1024,
            row.servers,
            row.rps,
            row.p50_us,
            row.p99_us,
            row.cpu_us_per_call
        )?;
    }
    Ok(())
}

fn scale(text: &mut String, row: &ScaleRow) -> Result<(), Error> {
    writeln!(
        text,
        "{} servers over 1: CPU {:.3}, p50 {:.3} (1 over 1, that is noise: CPU {:.3}, p50 {:.3})",
        row.servers, row.cpu_ratio, row.p50_ratio, row.twin_cpu_ratio, row.twin_p50_ratio
    )?;
    Ok(())
}

fn policies(text: &mut String, row: &PolicyRow) -> Result<(), Error> {
    writeln!(
        text,
        "\nall policies on, modern json 1 KiB, 64 conn: {:.0}/s, CPU {:.1} us per call; requests/s over pingora's {:.2}, over Tollgate's without policies {:.2}, CPU over that {:.2}",
        row.rps, row.cpu_us_per_call, row.rps_over_pingora, row.rps_over_plain, row.cpu_over_plain
    )?;
    Ok(())
}

fn journal(text: &mut String, row: &JournalRow) -> Result<(), Error> {
    writeln!(
        text,
        "\njournal, modern json 1 KiB, {} conn: off {:.0}/s p50 {:.0} us, buffered {:.0}/s p50 {:.0} us, strict {:.0}/s p50 {:.0} us; the disk's sync p50 {:.0} us at the pace of a call, {:.0} us back to back; CPU buffered over off {:.2}",
        row.connections,
        row.rps_off,
        row.p50_off_us,
        row.rps_buffered,
        row.p50_buffered_us,
        row.rps_strict,
        row.p50_strict_us,
        row.sync_p50_us,
        row.sync_hurried_p50_us,
        row.cpu_buffered_over_off
    )?;
    Ok(())
}

fn meter(text: &mut String, row: &MeterRow) -> Result<(), Error> {
    writeln!(
        text,
        "\nmeter, modern json 1 KiB, 64 conn: off {:.0}/s, in the result {:.0}/s; CPU with it over without {:.2}",
        row.rps_off, row.rps_result, row.cpu_result_over_off
    )?;
    Ok(())
}

/// The goals of the journal.
fn journal_goals(row: &JournalRow) -> Vec<(String, f64, f64, bool)> {
    let name = |what: &str| format!("journal, {} conn: {what}", row.connections);
    match row.connections {
        1 => vec![(name("strict - off, in syncs of the disk"), row.strict_in_syncs, REACH_SYNCS, false)],
        _ => vec![
            (name("requests/s buffered over off"), row.buffered_over_off, REACH_BUFFERED, true),
            (name("requests/s strict over off"), row.strict_over_off, REACH_STRICT, true),
        ],
    }
}

fn list(text: &mut String, row: &ListRow) -> Result<(), Error> {
    writeln!(
        text,
        "\ntools/list, {} tools of {} server(s), {}: p50 {:.0} us, p99 {:.0} us, first page {:.0} us, {} pages, {} KiB, CPU {:.0} us, {} KiB resident",
        row.tools,
        row.servers,
        row.through.word(),
        row.p50_us,
        row.p99_us,
        row.first_page_us,
        row.pages,
        row.bytes / 1024,
        row.cpu_us_per_list,
        row.rss_kib
    )?;
    Ok(())
}

fn streams(text: &mut String, row: &StreamRow) -> Result<(), Error> {
    let each = row.kib_per_stream.map_or("not measured".into(), |kib| format!("{kib:.1} KiB each"));
    writeln!(
        text,
        "\n{} idle streams, {}: {each} ({} KiB before, {} KiB after, opened in {:.0} ms)",
        row.streams,
        row.through.word(),
        row.rss_before_kib,
        row.rss_kib,
        row.open_ms
    )?;
    Ok(())
}

fn run(text: &mut String, row: &RunRow) -> Result<(), Error> {
    writeln!(
        text,
        "\n{:.0} s on {} cores, {} threads per server; other programs used {:.0} % of the machine (worst window {:.0} %); {} wrong answers",
        row.seconds, row.cores, row.threads, row.others_percent, row.others_percent_max, row.wrong_answers
    )?;
    Ok(())
}

/// What the project set itself, beside what came out.
fn reach(text: &mut String, rows: &[Row], matrix: &[&CallRow]) -> Result<(), Error> {
    let mut lines: Vec<(String, f64, f64, bool)> = Vec::new();
    for ours in matrix.iter().filter(|row| row.through == Through::Tollgate) {
        let of = |through| matrix.iter().find(|row| row.through == through && kind(row) == kind(ours));
        let (Some(pingora), Some(hyper)) = (of(Through::Pingora), of(Through::Hyper)) else { continue };
        let (era, answer, size, connections) = kind(ours);
        if size != 1024 || connections != 64 {
            continue;
        }
        let name = format!("{era} {answer} 1 KiB, 64 conn");
        lines.push((format!("{name}: requests/s over pingora's"), ours.rps / pingora.rps, REACH_RPS, true));
        lines.push((format!("{name}: p99 over pingora's"), ours.p99_us / pingora.p99_us, REACH_P99, false));
        let cpu = ours.cpu_us_per_call / hyper.cpu_us_per_call;
        lines.push((format!("{name}: CPU per call over hyper's"), cpu, REACH_CPU, false));
    }
    for row in rows {
        match row {
            Row::Streams(row) if row.through == Through::Tollgate => {
                let each = row.kib_per_stream.unwrap_or(f64::INFINITY);
                lines.push(("KiB per idle stream".into(), each, REACH_STREAM_KIB, false));
            }
            Row::Scale(row) => {
                lines.push((
                    format!("CPU per call, {} servers over 1", row.servers),
                    row.cpu_ratio,
                    REACH_SERVERS,
                    false,
                ));
            }
            Row::Policies(row) => {
                let name = "requests/s with all policies over pingora's".into();
                lines.push((name, row.rps_over_pingora, REACH_POLICIES, true));
            }
            Row::Journal(row) => lines.extend(journal_goals(row)),
            Row::Meter(row) => {
                lines.push((
                    "requests/s with a meter over without".into(),
                    row.result_over_off,
                    REACH_METER,
                    true,
                ));
            }
            _ => {}
        }
    }
    if lines.is_empty() {
        return Ok(());
    }
    writeln!(text, "\nReach")?;
    for (name, value, goal, at_least) in lines {
        let within = if at_least { value >= goal } else { value <= goal };
        let (sign, word) =
            (if at_least { ">=" } else { "<=" }, if within { "reached" } else { "NOT reached" });
        writeln!(text, "{name:<56}{value:>8.2}  ({sign} {goal:.2})  {word}")?;
    }
    Ok(())
}
