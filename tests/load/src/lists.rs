//! The time of a cached `tools/list` for 200 servers with 25 tools each, all pages.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::{Plan, Tally};
use crate::child::{Child, cpu_time, rss_kib, until};
use crate::contenders::{Stage, Through, place, tollgate_place};
use crate::load::{Target, median, open_session, quantile};
use crate::mcp::{Endpoint, Era, first_id, result_of, start_of};
use crate::row::{ListRow, Row};
use crate::tools::{MANY_SERVERS, TOOLS_PER_SERVER};
use crate::wire::Wire;
use crate::{Error, config};

/// More pages than any sane paging makes of 5,000 tools.
const PAGE_LIMIT: usize = 1000;

/// One whole list.
#[derive(Clone, Copy, Default)]
pub(crate) struct Listed {
    pub(crate) tools: usize,
    pages: usize,
    bytes: usize,
    first_page: Duration,
    /// Waiting for answers only: reading them is the client's affair.
    waited: Duration,
}

/// Tollgate merges 200 servers; for comparison the same number of tools comes ready-made from the echo server.
pub(crate) async fn run(stage: &Stage, plan: &Plan, tally: &mut Tally) -> Result<(), Error> {
    let mut children: Vec<Child> = Vec::new();
    let mut targets = Vec::new();
    for through in stage.contenders() {
        let ready_made = |address, pid| {
            let mut target = place(through, address, pid, Era::Modern).target;
            target.endpoint.path = "/list/mcp".into();
            target
        };
        match through {
            Through::Direct => targets.push((through, ready_made(stage.echo.address, stage.echo.pid()))),
            Through::Pingora | Through::Hyper => {
                let child = stage.proxy(through)?;
                targets.push((through, ready_made(child.address, child.pid())));
                children.push(child);
            }
            Through::Tollgate => {
                let child = stage.tollgate("lists", &config::many_servers(stage.echo.address))?;
                targets.push((through, tollgate_place(&child, Era::Modern, true).target));
                children.push(child);
            }
        }
    }
    let rounds = plan.rounds * 4;
    for (through, target) in targets {
        let row = measure(through, &target, rounds).await?;
        tally.rows.push(Row::List(row));
    }
    tally.progress("lists done");
    Ok(())
}

async fn measure(through: Through, target: &Target, rounds: usize) -> Result<ListRow, Error> {
    let expected = MANY_SERVERS * TOOLS_PER_SERVER;
    ready(through, target, expected).await?;
    let (mut wire, endpoint) = open_session(target).await?;
    let (mut times, mut firsts, mut last) = (Vec::new(), Vec::new(), Listed::default());
    let cpu = cpu_time(target.pid)?;
    for _ in 0..rounds {
        last = read_pages(&mut wire, &endpoint).await?;
        if last.tools != expected {
            return Err(format!("{} lists {} tools, not {expected}", through.word(), last.tools).into());
        }
        times.push(u64::try_from(last.waited.as_nanos()).unwrap_or(u64::MAX));
        firsts.push(last.first_page.as_secs_f64() * 1e6);
    }
    let cpu = cpu_time(target.pid)?.saturating_sub(cpu);
    times.sort_unstable();
    Ok(ListRow {
        measure: "list",
        through,
        era: target.endpoint.era.word(),
        servers: if through == Through::Tollgate { MANY_SERVERS } else { 1 },
        tools: last.tools,
        pages: last.pages,
        bytes: last.bytes,
        first_page_us: median(firsts),
        p50_us: quantile(&times, 0.50),
        p99_us: quantile(&times, 0.99),
        cpu_us_per_list: cpu.as_secs_f64() * 1e6 / rounds as f64,
        rss_kib: rss_kib(target.pid)?,
    })
}

/// Waits until the list is whole, that is: until a gateway has met its servers.
pub(crate) async fn ready(through: Through, target: &Target, tools: usize) -> Result<(), Error> {
    until(Duration::from_secs(60), async || match read_list(target).await?.tools {
        listed if listed == tools => Ok(()),
        listed => Err(format!("it lists {listed} tools, not {tools}").into()),
    })
    .await
    .map_err(|error| format!("{} isn't ready: {error}", through.word()).into())
}

/// Reads a whole list on a fresh connection.
async fn read_list(target: &Target) -> Result<Listed, Error> {
    let (mut wire, endpoint) = open_session(target).await?;
    read_pages(&mut wire, &endpoint).await
}

async fn read_pages(wire: &mut Wire, endpoint: &Endpoint) -> Result<Listed, Error> {
    let mut listed = Listed::default();
    let mut cursor: Option<String> = None;
    loop {
        let id = first_id(0) + listed.pages as u64;
        let mut template = endpoint.list(cursor.as_deref());
        let start = Instant::now();
        let head = wire.exchange(template.with_id(id)).await?;
        listed.waited += start.elapsed();
        if head.status != 200 {
            return Err(format!("tools/list: status {}: {}", head.status, start_of(wire.body())).into());
        }
        if listed.pages == 0 {
            listed.first_page = listed.waited;
        }
        let result = result_of(id, wire.body(), head.sse)?;
        listed.pages += 1;
        listed.bytes += wire.body().len();
        listed.tools += result.get("tools").and_then(Value::as_array).map_or(0, Vec::len);
        cursor = result.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() {
            return Ok(listed);
        }
        if listed.pages == PAGE_LIMIT {
            return Err("a list that doesn't end".into());
        }
    }
}
