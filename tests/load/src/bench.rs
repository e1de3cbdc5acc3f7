//! The run: starts the echo server, measures part after part, prints the tables and writes the JSON.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

use crate::contenders::Stage;
use crate::load::{Faults, median};
use crate::row::{Row, RunRow};
use crate::{Error, Options, Part, child, idle, journal, lists, matrix, meter, policies, report, scale};

/// How long and how often.
pub(crate) struct Plan {
    pub(crate) quick: bool,
    pub(crate) rounds: usize,
    pub(crate) window: Duration,
    pub(crate) streams: usize,
}

/// What has been found so far.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) rows: Vec<Row>,
    pub(crate) faults: Arc<Faults>,
    pub(crate) others: Vec<f64>,
}

impl Tally {
    /// Progress goes to stderr; stdout has the tables.
    pub(crate) fn progress(&self, what: &str) {
        let wrong = self.faults.count();
        let note = if wrong == 0 { String::new() } else { format!(", {wrong} wrong answers") };
        drop(writeln!(std::io::stderr(), "  {what}{note}"));
    }
}

/// Runs the benchmark. `false` when an answer was wrong.
pub(crate) fn run(options: &Options) -> Result<bool, Error> {
    // One thread: the client must not take more of the machine than it needs, and children are started by the
    // main thread, whose end is what their parent-death signal watches.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        tokio::select! {
            done = measure_all(options) => done,
            _ = interrupt.recv() => Err("interrupted".into()),
            _ = terminate.recv() => Err("terminated".into()),
            _ = hangup.recv() => Err("hung up".into()),
        }
    })
}

async fn measure_all(options: &Options) -> Result<bool, Error> {
    let start = Instant::now();
    if let Some(file) = &options.json {
        write_json(file, &[])?;
    }
    let files = child::raise_file_limit()?;
    let plan = plan(options, files);
    let stage = Stage::set(options)?;
    let mut tally = Tally::default();
    let outcome = measure_parts(options, &stage, &plan, &mut tally).await;
    if let Err(error) = outcome {
        tally.faults.examples().iter().for_each(|fault| tally.progress(fault));
        return Err(error);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    tally.rows.push(Row::Run(RunRow {
        measure: "run",
        quick: plan.quick,
        cores,
        threads: options.threads.unwrap_or(cores),
        seconds: start.elapsed().as_secs_f64(),
        others_percent: 100.0 * median(tally.others.iter().copied()),
        others_percent_max: 100.0 * tally.others.iter().copied().fold(0.0, f64::max),
        wrong_answers: tally.faults.count(),
    }));
    report::print(&tally.rows, &tally.faults.examples())?;
    if let Some(file) = &options.json {
        write_json(file, &tally.rows)?;
    }
    Ok(tally.faults.count() == 0)
}

async fn measure_parts(
    options: &Options,
    stage: &Stage,
    plan: &Plan,
    tally: &mut Tally,
) -> Result<(), Error> {
    let wanted = |part| options.only.is_empty() || options.only.contains(&part);
    if wanted(Part::Calls) {
        matrix::run(stage, plan, tally).await?;
    }
    if wanted(Part::Servers) && !options.without_tollgate {
        scale::run(stage, plan, tally).await?;
    }
    if wanted(Part::Policies) && !options.without_tollgate {
        policies::run(stage, plan, tally).await?;
    }
    if wanted(Part::Journal) && !options.without_tollgate {
        journal::run(stage, plan, tally).await?;
    }
    if wanted(Part::Meter) && !options.without_tollgate {
        meter::run(stage, plan, tally).await?;
    }
    if wanted(Part::Lists) {
        lists::run(stage, plan, tally).await?;
    }
    if wanted(Part::Streams) {
        idle::run(stage, plan, tally).await?;
    }
    Ok(())
}

fn plan(options: &Options, files: u64) -> Plan {
    let quick = options.quick;
    // A proxy holds two connections per stream.
    let possible = usize::try_from(files.saturating_sub(200) / 2).unwrap_or(usize::MAX);
    let wanted = options.streams.unwrap_or(if quick { 1000 } else { 5000 });
    if wanted > possible {
        let text = format!("tollgate-load: the limit of open files allows {possible} streams, not {wanted}");
        drop(writeln!(std::io::stderr(), "{text}"));
    }
    Plan {
        quick,
        rounds: options.rounds.unwrap_or(if quick { 3 } else { 5 }).max(1),
        window: Duration::from_millis(options.window.unwrap_or(if quick { 350 } else { 1000 }).max(10)),
        streams: wanted.min(possible),
    }
}

fn write_json(file: &Path, rows: &[Row]) -> Result<(), Error> {
    let lines: Vec<String> = rows.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    std::fs::write(file, format!("[\n{}\n]\n", lines.join(",\n")))
        .map_err(|error| format!("{}: {error}", file.display()).into())
}
