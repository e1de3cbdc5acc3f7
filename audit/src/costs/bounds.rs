//! What of the totals is forgotten, and when. Sums by task and server, and of budgets by task, are never forgotten: their
//! number is that of the configuration's names.

use super::{DayKey, Totals};
use crate::entry::Text;

/// Runs; those idle longest are forgotten first, save those with calls under way.
pub(super) const MAX_RUNS: usize = 65_536;
/// Sums by day, task, server and principal; the oldest are added up without these.
pub(super) const MAX_DAYS: usize = 65_536;
/// Principals whose budgets are counted, for each task.
pub(super) const MAX_SPENT: usize = 131_072;
/// Days (each 86,400 s) that costs are kept by day.
const KEEP_DAYS_MS: u64 = 62 * 86_400_000;

/// The eighth of these numbers, and more when some are equal, that is lowest: it is below what is given.
fn eighth(mut seqs: Vec<u64>) -> u64 {
    let at = seqs.len() / 8;
    if at >= seqs.len() {
        return 0;
    }
    *seqs.select_nth_unstable(at).1
}

impl Totals {
    /// Once for an eighth of all runs, so that it costs nothing in the mean.
    pub(super) fn bound_runs(&mut self) {
        if self.runs.len() > MAX_RUNS {
            let from = eighth(self.runs.values().map(|run| run.seq).collect());
            self.runs.retain(|_, run| run.open > 0 || run.seq >= from);
        }
    }

    pub(super) fn bound_spent(&mut self) {
        if self.spent.len() > MAX_SPENT {
            let from = eighth(self.spent.values().map(|periods| periods.seq).collect());
            self.spent.retain(|_, periods| periods.seq >= from);
        }
    }

    pub(super) fn bound_days(&mut self) {
        while self.days.len() > MAX_DAYS {
            self.fold_first();
        }
    }

    fn fold_first(&mut self) {
        let Some((DayKey { day, .. }, total)) = self.days.pop_first() else { return };
        self.earlier.plus(total);
        if self.earlier_until < day {
            self.earlier_until = day;
        }
    }

    /// Forgets runs whose last record is older than this, in milliseconds, and adds up days that are older than 62; what
    /// budgets count is forgotten after two months.
    pub fn forget(&mut self, now_ms: u64, keep_runs_ms: u64) {
        let before = crate::clock::rfc3339(now_ms.saturating_sub(keep_runs_ms));
        self.runs.retain(|_, run| run.open > 0 || *run.last >= *before);
        let oldest = crate::clock::rfc3339(now_ms.saturating_sub(KEEP_DAYS_MS));
        let (day, month) = (oldest.get(..10).unwrap_or_default(), oldest.get(..7).unwrap_or_default());
        while self.days.first_key_value().is_some_and(|(key, _)| *key.day < *day) {
            self.fold_first();
        }
        let old = |(name, _): &(Text, super::Spent)| **name < *month;
        self.spent.retain(|_, periods| !periods.months.iter().all(old));
    }
}
