//! One measured window: a number of connections that each call, wait for the answer, check it and call again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::Error;
use crate::child::{cpu_time, rss_kib};
use crate::mcp::{Checker, Endpoint, Era, first_id, start_of};
use crate::noise::Ours;
use crate::wire::Wire;

/// A connection gives up after this many wrong answers.
const PATIENCE: u32 = 20;
/// How long connections may take to open, and to end after the window.
const SETTLE: Duration = Duration::from_secs(30);

const WARMING: u8 = 0;
const MEASURING: u8 = 1;
const STOPPING: u8 = 2;

/// Whom to call, and the process to account for.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: Endpoint,
    pub(crate) pid: i32,
}

/// What to call, and for how long.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) tool: String,
    pub(crate) size: usize,
    pub(crate) connections: usize,
    pub(crate) warm: Duration,
    pub(crate) window: Duration,
}

/// What one window showed.
#[derive(Clone, Default)]
pub(crate) struct Sample {
    pub(crate) rps: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us_per_call: f64,
    pub(crate) rss_kib: f64,
    /// Share of the machine that other programs used.
    pub(crate) others: f64,
}

/// Wrong answers of the whole run: their number, and the first few of each place.
#[derive(Default)]
pub(crate) struct Faults {
    count: AtomicU64,
    first: Mutex<Vec<String>>,
}

impl Faults {
    pub(crate) fn add(&self, place: &str, what: impl std::fmt::Display) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut first = self.first.lock();
        let alike = first.iter().filter(|fault| fault.starts_with(place)).count();
        if alike < 2 && first.len() < 20 {
            first.push(format!("{place}: {what}"));
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn examples(&self) -> Vec<String> {
        self.first.lock().clone()
    }
}

/// Connects and, in the legacy era, opens a session.
pub(crate) async fn open_session(target: &Target) -> Result<(Wire, Endpoint), Error> {
    let mut wire = Wire::connect(target.address).await?;
    let mut endpoint = target.endpoint.clone();
    if endpoint.era == Era::Legacy {
        let head = wire.exchange(endpoint.initialize().with_id(first_id(0))).await?;
        if head.status != 200 {
            return Err(format!("initialize: status {}: {}", head.status, start_of(wire.body())).into());
        }
        endpoint.session = head.session;
        let head = wire.exchange(&endpoint.initialized()).await?;
        if head.status != 202 {
            return Err(format!("initialized: status {}: {}", head.status, start_of(wire.body())).into());
        }
    }
    Ok((wire, endpoint))
}

/// Runs one window and takes its numbers.
pub(crate) async fn measure(
    target: &Target,
    job: &Job,
    ours: &Ours,
    faults: &Arc<Faults>,
) -> Result<Sample, Error> {
    let phase = Arc::new(AtomicU8::new(WARMING));
    let ready = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for number in 0..job.connections {
        let worker = Worker {
            target: target.clone(),
            job: job.clone(),
            number,
            phase: Arc::clone(&phase),
            ready: Arc::clone(&ready),
            faults: Arc::clone(faults),
        };
        workers.spawn(worker.run());
    }
    let opening = Instant::now();
    while ready.load(Ordering::Relaxed) < job.connections as u64 && opening.elapsed() < SETTLE {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(job.warm).await;
    let (look, cpu, start) = (ours.look()?, cpu_time(target.pid)?, Instant::now());
    phase.store(MEASURING, Ordering::Relaxed);
    tokio::time::sleep(job.window).await;
    phase.store(STOPPING, Ordering::Relaxed);
    let (elapsed, cpu) = (start.elapsed(), cpu_time(target.pid)?.saturating_sub(cpu));
    let others = ours.look()?.others_since(&look);
    let rss = rss_kib(target.pid)?;
    let mut latencies = Vec::new();
    let ended = tokio::time::timeout(SETTLE, async {
        while let Some(done) = workers.join_next().await {
            latencies.extend(done.unwrap_or_default());
        }
    });
    if ended.await.is_err() {
        faults.add(&target.endpoint.path, format!("{} calls never answered", workers.len()));
    }
    latencies.sort_unstable();
    let calls = latencies.len().max(1) as f64;
    Ok(Sample {
        rps: latencies.len() as f64 / elapsed.as_secs_f64(),
        p50_us: quantile(&latencies, 0.50),
        p99_us: quantile(&latencies, 0.99),
        cpu_us_per_call: cpu.as_secs_f64() * 1e6 / calls,
        rss_kib: rss as f64,
        others,
    })
}

/// The value at a share of sorted nanoseconds, in microseconds.
pub(crate) fn quantile(sorted: &[u64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).map_or(0.0, |nanos| *nanos as f64 / 1e3)
}

/// The middle value.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let upper = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let lower = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default();
    f64::midpoint(lower, upper)
}

struct Worker {
    target: Target,
    job: Job,
    number: usize,
    phase: Arc<AtomicU8>,
    ready: Arc<AtomicU64>,
    faults: Arc<Faults>,
}

impl Worker {
    /// Nanoseconds of the calls that ended inside the window.
    async fn run(self) -> Vec<u64> {
        let place = format!("{} {}", self.target.endpoint.path, self.job.tool);
        let opened = open_session(&self.target).await;
        self.ready.fetch_add(1, Ordering::Relaxed);
        let (wire, endpoint) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                self.faults.add(&place, error);
                return Vec::new();
            }
        };
        match self.call_until_stopped(wire, &endpoint, &place).await {
            Ok(latencies) => latencies,
            Err(error) => {
                self.faults.add(&place, error);
                Vec::new()
            }
        }
    }

    async fn call_until_stopped(
        &self,
        mut wire: Wire,
        endpoint: &Endpoint,
        place: &str,
    ) -> Result<Vec<u64>, Error> {
        let mut template = endpoint.call(&self.job.tool);
        let mut checker = Checker::new(self.job.size);
        let mut latencies = Vec::with_capacity(1 << 14);
        let (mut id, mut wrong, mut last) = (first_id(self.number), 0, Instant::now());
        while self.phase.load(Ordering::Relaxed) != STOPPING && wrong < PATIENCE {
            id += 1;
            let head = wire.exchange(template.with_id(id)).await?;
            let now = Instant::now();
            let fault = match head.status {
                200 => checker.fault(id, wire.body(), head.sse),
                status => Some(format!("status {status}: {}", start_of(wire.body()))),
            };
            if let Some(fault) = fault {
                wrong += 1;
                self.faults.add(place, fault);
            } else if self.phase.load(Ordering::Relaxed) == MEASURING {
                latencies.push(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
            }
            if head.close {
                wire = Wire::connect(self.target.address).await?;
            }
            last = Instant::now();
        }
        if endpoint.session.is_some() && wire.exchange(&endpoint.delete()).await?.status >= 500 {
            self.faults.add(place, "DELETE failed");
        }
        Ok(latencies)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_nearest_rank_and_medians_of_even_counts_lie_between() {
        let nanos: Vec<u64> = (1..=100).map(|n| n * 1000).collect();
        assert_eq!((quantile(&nanos, 0.50), quantile(&nanos, 0.99), quantile(&[], 0.5)), (50.0, 99.0, 0.0));
        assert_eq!((median([3.0, 1.0, 2.0]), median([4.0, 1.0, 2.0, 3.0]), median([])), (2.0, 2.5, 0.0));
    }
}
