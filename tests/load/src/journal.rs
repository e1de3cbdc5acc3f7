//! What the journal costs: the same call through Tollgate without a journal, with a buffered and with a strict one, and
//! beside it how long the disk itself takes for a sync.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::bench::{Plan, Tally};
use crate::child::Child;
use crate::contenders::{Place, Stage, Through, tollgate_place};
use crate::lists::ready;
use crate::load::{Sample, median, quantile};
use crate::matrix::{JOURNAL_MANY, JOURNAL_ONE, sample};
use crate::mcp::Era;
use crate::noise::Ours;
use crate::row::{JournalRow, Row};
use crate::tools::ECHO_TOOLS;
use crate::{Error, config};

/// Syncs of the disk in each round, each of a record's length.
const SYNCS: usize = 40;
const RECORD: [u8; 700] = [b'.'; 700];

/// Off, buffered, strict.
const DURABILITIES: [&str; 3] = ["\"off\"", "buffered", "strict"];
type Round = [Sample; 3];

/// Lets the three take turns, with one connection and with many.
pub(crate) async fn run(stage: &Stage, plan: &Plan, tally: &mut Tally) -> Result<(), Error> {
    let start = |durability: &str| {
        let name = format!("journal-{}", durability.trim_matches('"'));
        stage.tollgate(&name, &config::journalled(stage.echo.address, durability))
    };
    let children: [Child; 3] = [start(DURABILITIES[0])?, start(DURABILITIES[1])?, start(DURABILITIES[2])?];
    let places: Vec<Place> = children.iter().map(|child| tollgate_place(child, Era::Modern, true)).collect();
    for place in &places {
        ready(place.through, &place.target, ECHO_TOOLS).await?;
    }
    let ours = Ours::new(children.iter().map(Child::pid).chain([stage.echo.pid()]));
    for (cell, connections) in [(JOURNAL_ONE, 1), (JOURNAL_MANY, 64)] {
        let (mut rounds, mut paced, mut hurried) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..plan.rounds * 2 {
            let mut samples = Round::default();
            for turn in 0..places.len() {
                let at = (turn + round) % places.len();
                if let (Some(place), Some(taken)) = (places.get(at), samples.get_mut(at)) {
                    *taken = sample(cell, place, plan, &ours, tally).await?;
                }
            }
            // Twice a call, as in `strict`.
            let pause = Duration::try_from_secs_f64(samples[0].p50_us / 2e6).unwrap_or_default();
            paced.extend(disk(&stage.file("sync", "")?, pause)?);
            rounds.push(samples);
            hurried.extend(disk(&stage.file("sync", "")?, Duration::ZERO)?);
            children.iter().for_each(Child::trim_log);
        }
        paced.sort_unstable();
        hurried.sort_unstable();
        let syncs = [quantile(&paced, 0.5), quantile(&hurried, 0.5)];
        tally.rows.push(Row::Journal(row(connections, &rounds, syncs)));
    }
    tally.progress("journal done");
    Ok(())
}

/// How long syncs of one record each take, in nanoseconds, with a pause before each: a disk that is asked again at once
/// is quicker than one caller after another ever finds it.
fn disk(path: &Path, pause: Duration) -> Result<Vec<u64>, Error> {
    let mut file = File::create(path)?;
    let mut took = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
        file.write_all(&RECORD)?;
        let start = Instant::now();
        file.sync_data()?;
        took.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(took)
}

/// Medians; ratios are taken within each round.
fn row(connections: usize, rounds: &[Round], [sync_p50_us, sync_hurried_p50_us]: [f64; 2]) -> JournalRow {
    let of = |pick: fn(&Round) -> f64| median(rounds.iter().map(pick));
    let p50 = [of(|r| r[0].p50_us), of(|r| r[1].p50_us), of(|r| r[2].p50_us)];
    JournalRow {
        measure: "journal",
        through: Through::Tollgate,
        connections,
        rps_off: of(|r| r[0].rps),
        rps_buffered: of(|r| r[1].rps),
        rps_strict: of(|r| r[2].rps),
        buffered_over_off: of(|r| r[1].rps / r[0].rps),
        strict_over_off: of(|r| r[2].rps / r[0].rps),
        cpu_buffered_over_off: of(|r| r[1].cpu_us_per_call / r[0].cpu_us_per_call),
        p50_off_us: p50[0],
        p50_buffered_us: p50[1],
        p50_strict_us: p50[2],
        sync_p50_us,
        sync_hurried_p50_us,
        strict_in_syncs: (p50[2] - p50[0]) / sync_p50_us.max(1.0),
    }
}
