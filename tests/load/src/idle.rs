//! Memory per idle open stream: legacy GET streams, one session each, on which nothing comes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::Error;
use crate::bench::{Plan, Tally};
use crate::child::{Child, rss_kib};
use crate::config;
use crate::contenders::{Place, Stage, Through, place, tollgate_place};
use crate::lists::ready;
use crate::load::{Target, open_session};
use crate::mcp::{Era, start_of};
use crate::row::{Row, StreamRow};
use crate::tools::ECHO_TOOLS;
use crate::wire::Wire;

/// Streams that are being opened at one time.
const OPENERS: usize = 32;
/// Streams opened and closed before memory is first read.
const REHEARSAL: usize = 64;
/// How long one stream may take to open.
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures each contender in a fresh process.
pub(crate) async fn run(stage: &Stage, plan: &Plan, tally: &mut Tally) -> Result<(), Error> {
    for through in stage.contenders() {
        let (child, place) = fresh(stage, through)?;
        let row = measure(&place, plan.streams, tally).await?;
        tally.rows.push(Row::Streams(row));
        drop(child);
    }
    tally.progress("idle streams done");
    Ok(())
}

fn fresh(stage: &Stage, through: Through) -> Result<(Child, Place), Error> {
    let child = match through {
        Through::Direct => stage.another_echo()?,
        Through::Pingora | Through::Hyper => stage.proxy(through)?,
        Through::Tollgate => {
            let yaml = config::one_server(stage.echo.address, Era::Legacy);
            stage.tollgate("streams", &yaml)?
        }
    };
    let place = match through {
        Through::Tollgate => tollgate_place(&child, Era::Legacy, false),
        _ => place(through, child.address, child.pid(), Era::Legacy),
    };
    Ok((child, place))
}

async fn measure(place: &Place, count: usize, tally: &mut Tally) -> Result<StreamRow, Error> {
    let target = &place.target;
    let name = place.through.word();
    ready(place.through, target, ECHO_TOOLS).await?;
    drop(open_many(target, REHEARSAL).await);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let before = rss_kib(target.pid)?;
    let start = Instant::now();
    let (open, refused) = open_many(target, count).await;
    let open_ms = start.elapsed().as_secs_f64() * 1e3;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = rss_kib(target.pid)?;
    if let Some(why) = refused {
        tally.faults.add(name, format!("only {} of {count} idle streams opened: {why}", open.len()));
    }
    let closed = open.iter().filter(|wire| wire.closed()).count();
    if closed > 0 {
        tally.faults.add(name, format!("{closed} of {count} idle streams were closed at once"));
    }
    let whole = open.len() == count && closed == 0;
    Ok(StreamRow {
        measure: "idle_stream",
        through: place.through,
        era: target.endpoint.era.word(),
        streams: open.len(),
        kib_per_stream: whole.then(|| after.saturating_sub(before) as f64 / count as f64),
        rss_before_kib: before,
        rss_kib: after,
        open_ms,
    })
}

/// Opens streams; stops at the first that fails and says why.
async fn open_many(target: &Target, count: usize) -> (Vec<Wire>, Option<String>) {
    let target = Arc::new(target.clone());
    let mut opening = JoinSet::new();
    let (mut open, mut started, mut refused) = (Vec::with_capacity(count), 0, None);
    while refused.is_none() {
        while started < count && opening.len() < OPENERS {
            let target = Arc::clone(&target);
            opening.spawn(async move { tokio::time::timeout(PATIENCE, open_stream(&target)).await });
            started += 1;
        }
        match opening.join_next().await {
            None => break,
            Some(Ok(Ok(Ok(wire)))) => open.push(wire),
            Some(Ok(Ok(Err(error)))) => refused = Some(error.to_string()),
            Some(_) => refused = Some("no answer".into()),
        }
    }
    (open, refused)
}

async fn open_stream(target: &Target) -> Result<Wire, Error> {
    let (mut wire, endpoint) = open_session(target).await?;
    let head = wire.open(&endpoint.get()).await?;
    if head.status != 200 || !head.sse {
        return Err(format!("GET: status {}: {}", head.status, start_of(wire.body())).into());
    }
    Ok(wire)
}
