//! How much of the machine something else was using while we measured.

use std::time::{Duration, Instant};

use crate::Error;
use crate::child::cpu_time;

/// The processes of this run.
#[derive(Default)]
pub(crate) struct Ours {
    pids: Vec<i32>,
}

/// One look at the machine.
pub(crate) struct Look {
    at: Instant,
    busy: Duration,
    ours: Duration,
}

impl Ours {
    pub(crate) fn new(children: impl IntoIterator<Item = i32>) -> Self {
        let own = i32::try_from(std::process::id()).ok();
        Self { pids: children.into_iter().chain(own).collect() }
    }

    pub(crate) fn look(&self) -> Result<Look, Error> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        let line = stat.lines().next().unwrap_or_default();
        let ticks = line.split_whitespace().skip(1).take(8).map(|n| n.parse::<u64>().unwrap_or_default());
        // user nice system idle iowait irq softirq steal: all but idle and iowait
        let busy: u64 = ticks.enumerate().filter(|(at, _)| *at != 3 && *at != 4).map(|(_, n)| n).sum();
        let ours = self.pids.iter().filter_map(|pid| cpu_time(*pid).ok()).sum();
        Ok(Look { at: Instant::now(), busy: Duration::from_millis(busy * 10), ours })
    }
}

impl Look {
    /// The share of the machine, 0 to 1, that others used from `earlier` until now.
    pub(crate) fn others_since(&self, earlier: &Look) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let capacity = (self.at - earlier.at).as_secs_f64() * cores as f64;
        let busy = self.busy.saturating_sub(earlier.busy).as_secs_f64();
        let ours = self.ours.saturating_sub(earlier.ours).as_secs_f64();
        ((busy - ours) / capacity).clamp(0.0, 1.0)
    }
}
