//! What the meter costs: the same call through Tollgate with results that leave as they are, and with a `_meter` in each.

use crate::bench::{Plan, Tally};
use crate::child::Child;
use crate::contenders::{Place, Stage, Through, tollgate_place};
use crate::lists::ready;
use crate::load::{Sample, median};
use crate::matrix::{METER, sample};
use crate::mcp::Era;
use crate::noise::Ours;
use crate::row::{MeterRow, Row};
use crate::tools::ECHO_TOOLS;
use crate::{Error, config};

/// Off, in the result.
const PLACEMENTS: [&str; 2] = ["off", "result"];
type Round = [Sample; 2];

/// Lets the two take turns.
pub(crate) async fn run(stage: &Stage, plan: &Plan, tally: &mut Tally) -> Result<(), Error> {
    let start = |placement: &str| {
        stage.tollgate(&format!("meter-{placement}"), &config::metered(stage.echo.address, placement))
    };
    let children: [Child; 2] = [start(PLACEMENTS[0])?, start(PLACEMENTS[1])?];
    let places: Vec<Place> = children.iter().map(|child| tollgate_place(child, Era::Modern, true)).collect();
    for place in &places {
        ready(place.through, &place.target, ECHO_TOOLS).await?;
    }
    let ours = Ours::new(children.iter().map(Child::pid).chain([stage.echo.pid()]));
    let mut rounds = Vec::new();
    for round in 0..plan.rounds * 2 {
        let mut samples = Round::default();
        for turn in 0..places.len() {
            let at = (turn + round) % places.len();
            if let (Some(place), Some(taken)) = (places.get(at), samples.get_mut(at)) {
                *taken = sample(METER, place, plan, &ours, tally).await?;
            }
        }
        rounds.push(samples);
        children.iter().for_each(Child::trim_log);
    }
    tally.rows.push(Row::Meter(row(&rounds)));
    tally.progress("meter done");
    Ok(())
}

/// Medians; ratios are taken within each round.
fn row(rounds: &[Round]) -> MeterRow {
    let of = |pick: fn(&Round) -> f64| median(rounds.iter().map(pick));
    MeterRow {
        measure: "meter",
        through: Through::Tollgate,
        rps_off: of(|[off, _]| off.rps),
        rps_result: of(|[_, result]| result.rps),
        result_over_off: of(|[off, result]| result.rps / off.rps),
        cpu_result_over_off: of(|[off, result]| result.cpu_us_per_call / off.cpu_us_per_call),
    }
}
