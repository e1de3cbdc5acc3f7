//! Time as the records tell it: what passed on the monotonic clock while a process wrote. No setting of the wall clock
//! moves it, so that none makes anything forgotten. Time between two processes does not count.

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Int, Nanos, Text};

/// Between two marks, in nanoseconds.
const MARK_NS: u64 = 3_600_000_000_000;
/// Most marks.
const MAX_MARKS: usize = 4_096;

/// How long was written.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Uptime {
    boot: Text,
    mono_ns: u64,
    total_ns: u64,
    /// `seq` and the time until then, about once an hour.
    marks: Vec<(u64, u64)>,
}

/// It is no sum of records: logs that add up to the same may have been written in any time.
impl PartialEq for Uptime {
    fn eq(&self, _: &Uptime) -> bool {
        true
    }
}
impl Eq for Uptime {}

impl Uptime {
    pub(super) fn add(&mut self, entry: &Entry) {
        let (Nanos(now), Int(seq)) = (entry.mono_ns, entry.seq);
        if self.boot == entry.boot {
            self.total_ns = self.total_ns.saturating_add(now.saturating_sub(self.mono_ns));
        } else {
            self.boot.clone_from(&entry.boot);
        }
        self.mono_ns = now;
        if self.marks.last().is_none_or(|(_, at)| self.total_ns - at >= MARK_NS) {
            if self.marks.len() >= MAX_MARKS {
                self.marks.remove(0);
            }
            self.marks.push((seq, self.total_ns));
        }
    }

    /// The record before which everything is older than this, in milliseconds; somewhat fewer records than there are.
    pub(super) fn before(&mut self, ms: u64) -> u64 {
        let until = self.total_ns.checked_sub(ms.saturating_mul(1_000_000));
        let old = until.map_or(0, |until| self.marks.partition_point(|(_, at)| *at <= until));
        self.marks.drain(..old.saturating_sub(1));
        if old > 0 { self.marks.first().map_or(0, |(seq, _)| *seq) } else { 0 }
    }
}
