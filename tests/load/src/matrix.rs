//! The calls: every era, answer, size and number of connections, the contenders taking turns.

use std::time::Duration;

use crate::Error;
use crate::bench::{Plan, Tally};
use crate::contenders::{Place, Stage, Team};
use crate::lists::ready;
use crate::load::{Job, Sample, measure, median};
use crate::mcp::{Era, tool_name};
use crate::noise::Ours;
use crate::row::{CallRow, Row};
use crate::tools::{ECHO_TOOLS, KIB, SIZES};

/// One kind of call.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    era: Era,
    sse: bool,
    size: usize,
    connections: usize,
}

fn cells(quick: bool) -> Vec<Cell> {
    let cell = |era, sse, size, connections| Cell { era, sse, size, connections };
    if quick {
        return vec![
            cell(Era::Modern, false, KIB, 1),
            cell(Era::Modern, false, KIB, 64),
            cell(Era::Modern, true, KIB, 16),
            cell(Era::Modern, false, 100 * KIB, 16),
            cell(Era::Legacy, false, KIB, 64),
        ];
    }
    let mut all = Vec::new();
    for era in [Era::Modern, Era::Legacy] {
        for sse in [false, true] {
            for size in SIZES {
                all.extend([1, 16, 64].map(|connections| cell(era, sse, size, connections)));
            }
        }
    }
    all
}

/// Measures all cells.
pub(crate) async fn run(stage: &Stage, plan: &Plan, tally: &mut Tally) -> Result<(), Error> {
    let team = Team::gather(stage)?;
    for place in &team.places {
        ready(place.through, &place.target, ECHO_TOOLS).await?;
    }
    for (number, cell) in cells(plan.quick).into_iter().enumerate() {
        let places: Vec<&Place> = team.places.iter().filter(|place| belongs(place, cell)).collect();
        let mut samples = vec![Vec::new(); places.len()];
        for round in 0..plan.rounds {
            for turn in 0..places.len() {
                let at = (turn + round) % places.len();
                let (Some(place), Some(taken)) = (places.get(at), samples.get_mut(at)) else { continue };
                let job = job(cell, place.prefixed, plan);
                let sample = measure(&place.target, &job, &team.ours, &tally.faults).await?;
                tally.others.push(sample.others);
                taken.push(sample);
            }
            team.trim_logs();
        }
        for (place, taken) in places.iter().zip(&samples) {
            tally.rows.push(Row::Calls(row(cell, place, 1, taken)));
        }
        tally.progress(&format!("{} of {} kinds of call done", number + 1, cells(plan.quick).len()));
    }
    Ok(())
}

/// The endpoint for all servers is measured in one kind of cell only.
fn belongs(place: &Place, cell: Cell) -> bool {
    let representative = !cell.sse && cell.size == KIB && cell.connections == 64;
    place.target.endpoint.era == cell.era && (!place.prefixed || representative)
}

fn job(cell: Cell, prefixed: bool, plan: &Plan) -> Job {
    Job {
        tool: tool_name(cell.sse, cell.size, prefixed),
        size: cell.size,
        connections: cell.connections,
        warm: Duration::from_millis(150),
        window: plan.window,
    }
}

fn row(cell: Cell, place: &Place, servers: usize, samples: &[Sample]) -> CallRow {
    let of = |pick: fn(&Sample) -> f64| median(samples.iter().map(pick));
    let rps = || samples.iter().map(|sample| sample.rps);
    CallRow {
        through: place.through,
        era: cell.era.word(),
        answer: if cell.sse { "sse" } else { "json" },
        size: cell.size,
        connections: cell.connections,
        servers,
        rps: of(|sample| sample.rps),
        p50_us: of(|sample| sample.p50_us),
        p99_us: of(|sample| sample.p99_us),
        cpu_us_per_call: of(|sample| sample.cpu_us_per_call),
        rss_kib: of(|sample| sample.rss_kib),
        path: place.target.endpoint.path.clone(),
        rounds: samples.len(),
        rps_min: rps().fold(f64::INFINITY, f64::min),
        rps_max: rps().fold(0.0, f64::max),
    }
}

/// The cell in which gateways with different numbers of servers are compared.
pub(crate) const SCALE: Cell = Cell { era: Era::Modern, sse: false, size: KIB, connections: 16 };

/// The cell in which the cost of policies is measured.
pub(crate) const POLICIES: Cell = Cell { era: Era::Modern, sse: false, size: KIB, connections: 64 };

/// The cells in which the cost of the journal is measured.
pub(crate) const JOURNAL_ONE: Cell = Cell { era: Era::Modern, sse: false, size: KIB, connections: 1 };
pub(crate) const JOURNAL_MANY: Cell = POLICIES;

/// The cell in which the cost of the meter is measured.
pub(crate) const METER: Cell = POLICIES;

/// One window of a cell.
pub(crate) async fn sample(
    cell: Cell,
    place: &Place,
    plan: &Plan,
    ours: &Ours,
    tally: &mut Tally,
) -> Result<Sample, Error> {
    let sample = measure(&place.target, &job(cell, place.prefixed, plan), ours, &tally.faults).await?;
    tally.others.push(sample.others);
    Ok(sample)
}

/// The row of the comparison cell for one number of servers.
pub(crate) fn scale_row(place: &Place, servers: usize, samples: &[Sample]) -> Row {
    Row::Calls(row(SCALE, place, servers, samples))
}
