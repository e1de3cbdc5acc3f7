//! A call's cost with 1 and with 200 servers configured.

use crate::bench::{Plan, Tally};
use crate::child::Child;
use crate::contenders::{Stage, Through, tollgate_place};
use crate::lists::ready;
use crate::load::{Sample, median};
use crate::matrix::{SCALE, sample, scale_row};
use crate::mcp::Era;
use crate::noise::Ours;
use crate::row::{Row, ScaleRow};
use crate::tools::{ECHO_TOOLS, MANY_SERVERS, TOOLS_PER_SERVER};
use crate::{Error, config};

/// Alternates two gateways with one server and one with 200. The second with one server shows what noise alone does.
pub(crate) async fn run(stage: &Stage, plan: &Plan, tally: &mut Tally) -> Result<(), Error> {
    let one = config::one_server(stage.echo.address, Era::Modern);
    let many = config::one_among_many(stage.echo.address);
    let gateways =
        [stage.tollgate("one", &one)?, stage.tollgate("many", &many)?, stage.tollgate("twin", &one)?];
    let places = gateways.each_ref().map(|child| tollgate_place(child, Era::Modern, true));
    let others = (MANY_SERVERS - 1) * TOOLS_PER_SERVER;
    for (place, more) in places.iter().zip([0, others, 0]) {
        ready(Through::Tollgate, &place.target, ECHO_TOOLS + more).await?;
    }
    let ours = Ours::new(gateways.iter().map(Child::pid).chain([stage.echo.pid()]));
    let mut rounds: Vec<[Sample; 3]> = Vec::new();
    for round in 0..plan.rounds * 3 {
        let mut samples = [Sample::default(), Sample::default(), Sample::default()];
        for turn in 0..3 {
            let at = (turn + round) % 3;
            if let (Some(place), Some(sample)) = (places.get(at), samples.get_mut(at)) {
                *sample = sample(SCALE, place, plan, &ours, tally).await?;
            }
        }
        rounds.push(samples);
        gateways.iter().for_each(Child::trim_log);
    }
    let [one, many, _] = &places;
    let picked = |pick: fn(&[Sample; 3]) -> &Sample| -> Vec<Sample> {
        rounds.iter().map(|round| pick(round).clone()).collect()
    };
    tally.rows.push(scale_row(one, 1, &picked(|[one, _, _]| one)));
    tally.rows.push(scale_row(many, MANY_SERVERS, &picked(|[_, many, _]| many)));
    tally.rows.push(Row::Scale(ratios(&rounds)));
    tally.progress("1 and 200 servers done");
    Ok(())
}

/// Medians of the ratios of each round.
fn ratios(rounds: &[[Sample; 3]]) -> ScaleRow {
    let of = |ratio: fn(&[Sample; 3]) -> f64| median(rounds.iter().map(ratio));
    ScaleRow {
        measure: "servers",
        through: Through::Tollgate,
        servers: MANY_SERVERS,
        cpu_ratio: of(|[one, many, _]| many.cpu_us_per_call / one.cpu_us_per_call),
        p50_ratio: of(|[one, many, _]| many.p50_us / one.p50_us),
        twin_cpu_ratio: of(|[one, _, twin]| twin.cpu_us_per_call / one.cpu_us_per_call),
        twin_p50_ratio: of(|[one, _, twin]| twin.p50_us / one.p50_us),
    }
}
