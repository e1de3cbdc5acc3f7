//! What of the totals is forgotten, and when. Sums by task and server, and of budgets by task, are never forgotten: their
//! number is that of the configuration's names. Nothing is forgotten because a clock says that it is late: a clock may
//! be ahead for a moment, and what is forgotten does not come back.

use super::{DayKey, Periods, Spent, Text, Totals};
use crate::runs::RunTotals;

/// Runs. Those that made no call are forgotten first, then those idle longest, save those with calls under way.
pub(super) const MAX_RUNS: usize = 65_536;
/// Sums by day, task, server and principal; the oldest are added up without these.
pub(super) const MAX_DAYS: usize = 65_536;
/// Principals whose budgets are counted, for each task.
pub(super) const MAX_SPENT: usize = 131_072;
/// Days with calls that costs are kept by.
pub(super) const KEEP_DAYS: usize = 62;

/// The eighth of these, and more when some are equal, that is lowest: it is below what is given.
pub(super) fn eighth<T: Ord + Default>(mut all: Vec<T>) -> T {
    let at = all.len() / 8;
    if at >= all.len() {
        return T::default();
    }
    all.select_nth_unstable(at);
    all.swap_remove(at)
}

impl Totals {
    /// Once for an eighth of all runs, so that it costs nothing in the mean.
    pub(super) fn bound_runs(&mut self) {
        if self.runs.len() > MAX_RUNS {
            let rank = |run: &RunTotals| (run.next_index > 0, run.seq);
            let from = eighth(self.runs.values().map(rank).collect());
            self.drop_runs(|run| rank(run) >= from, true);
        }
    }

    /// Keeps these runs and those with calls under way; of the others it stays known what must be.
    fn drop_runs(&mut self, keep: impl Fn(&RunTotals) -> bool, counts: bool) {
        let past = &mut self.past;
        self.runs.retain(|key, run| {
            let kept = run.open > 0 || keep(run);
            if !kept {
                past.put(key.clone(), run, counts);
            }
            kept
        });
        past.bound();
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

    /// The first day of the last 62 that had calls.
    fn first_kept(&self) -> Option<Text> {
        let mut day = self.days.last_key_value()?.0.day.clone();
        for _ in 1..KEEP_DAYS {
            let before = DayKey { day: day.clone(), ..DayKey::default() };
            day = self.days.range(..before).next_back()?.0.day.clone();
        }
        Some(day)
    }

    /// Forgets runs whose last record was written this long ago, in milliseconds of a running process; adds up days
    /// but the last 62 that had calls; and what principals spent in months that their task has three later ones of.
    pub fn forget(&mut self, keep_runs_ms: u64) {
        let before = self.uptime.before(keep_runs_ms);
        self.drop_runs(|run| run.seq >= before, false);
        self.past.expire(before);
        if let Some(first) = self.first_kept() {
            while self.days.first_key_value().is_some_and(|(key, _)| key.day < first) {
                self.fold_first();
            }
        }
        let tasks = &self.spent_tasks;
        self.spent.retain(|(task, _), periods| {
            let first = tasks.get(task).and_then(Periods::first_month);
            first.is_none_or(|first| periods.months.iter().any(|(name, _): &(Text, Spent)| name >= first))
        });
    }
}
