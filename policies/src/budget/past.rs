//! What was spent before the start, under the keys that budgets count by: for counters that are made again from records.

use smallvec::SmallVec;

use super::{Amounts, Budgets, Period, RUN_KEPT, Scope, name};
use crate::rate::{Who, key};

/// A sum that is known from before the start.
#[derive(Clone, Copy, Debug)]
pub enum Past<'a> {
    /// Of a run.
    Run {
        /// Whose and which.
        who: Who<'a>,
        /// The Unix second of its last call.
        last: i64,
        /// What it spent.
        spent: Amounts,
    },
    /// Of a principal under a task, in a period.
    Principal {
        /// Whose; the run means nothing.
        who: Who<'a>,
        /// The day (`2026-07-28`) or month (`2026-07`), in UTC.
        period: &'a str,
        /// What was spent in it.
        spent: Amounts,
    },
    /// Of a task, in a period.
    Task {
        /// The task.
        task: &'a str,
        /// The day or month, in UTC.
        period: &'a str,
        /// What was spent in it.
        spent: Amounts,
    },
}

impl<'a> Past<'a> {
    /// Under which task it was spent.
    pub fn task(&self) -> &'a str {
        match self {
            Past::Run { who, .. } | Past::Principal { who, .. } => who.task,
            Past::Task { task, .. } => task,
        }
    }
}

/// A counter as it stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its name, as in [`super::Line::key`].
    pub key: Box<str>,
    /// What was spent.
    pub spent: u64,
    /// The Unix second from which it is of no use.
    pub ends: i64,
}

impl Budgets {
    /// The counters that a sum of before the start belongs to. They are those of [`Budgets::lines`].
    pub fn counted(&self, past: &Past<'_>) -> SmallVec<[Counted; 4]> {
        let mut all = SmallVec::new();
        for budget in &self.all {
            let mut add = |kind, parts: &[&str], spent: &Amounts, ends| {
                let spent = spent.of(budget.unit);
                if spent > 0 {
                    all.push(Counted { key: key(&name(kind, budget.unit), parts), spent, ends });
                }
            };
            match (budget.scope, past) {
                (Scope::Run, Past::Run { who, last, spent }) => {
                    add("run", &[who.task, who.principal, who.run], spent, last.saturating_add(RUN_KEPT));
                }
                (Scope::Run, Past::Principal { who, period, spent }) => {
                    if let Some((Period::Day, ends)) = Period::named(period) {
                        add("runs", &[who.task, who.principal, period], spent, ends);
                    }
                }
                (Scope::Principal(of), Past::Principal { who, period, spent }) => {
                    if let Some((_, ends)) = Period::named(period).filter(|(named, _)| *named == of) {
                        add("principal", &[who.task, who.principal, period], spent, ends);
                    }
                }
                (Scope::Task(of), Past::Task { task, period, spent }) => {
                    if let Some((_, ends)) = Period::named(period).filter(|(named, _)| *named == of) {
                        add("task", &[task, period], spent, ends);
                    }
                }
                _ => {}
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::Ledger;
    use super::super::{Budget, Unit};
    use super::*;
    use crate::money::NanoUsd;

    /// 2026-07-28T12:00:00Z.
    const NOON: i64 = 1_785_240_000;

    #[test]
    fn l4_the_counters_of_the_past_are_those_that_calls_draw_on() {
        let who = Who { task: "support", principal: "token|2:ci", run: "r1" };
        let scopes = [
            Scope::Run,
            Scope::Task(Period::Day),
            Scope::Task(Period::Month),
            Scope::Principal(Period::Day),
            Scope::Principal(Period::Month),
        ];
        let units = [Unit::Usd, Unit::Calls, Unit::Bytes];
        let budget = |(scope, unit)| Budget { scope, unit, limit: 1000, strict: true };
        let pairs = scopes.into_iter().flat_map(|scope| units.map(|unit| (scope, unit)));
        let budgets = Budgets { all: pairs.map(budget).collect(), runs_a_day: 3 };
        let spent = Amounts { usd: NanoUsd::from_nanos(7), calls: 8, bytes: 9 };
        let (day, month) = ("2026-07-28", "2026-07");
        let past = [
            Past::Run { who, last: NOON, spent },
            Past::Principal { who, period: day, spent },
            Past::Principal { who, period: month, spent },
            Past::Task { task: "support", period: day, spent },
            Past::Task { task: "support", period: month, spent },
        ];
        let mut ledger = Ledger::default();
        for counted in past.iter().flat_map(|past| budgets.counted(past)) {
            ledger.restore(&counted.key, counted.spent, counted.ends);
        }
        let lines = budgets.lines(&who, NOON);
        assert_eq!(ledger.size().0, lines.len(), "no counter that nothing draws on");
        for line in &lines {
            assert_eq!(ledger.read(&line.key), (spent.of(line.unit), 0), "{}", line.key);
        }
        // They end when those of a call end.
        ledger.sweep(NOON + 86_400, 0);
        assert!(ledger.size().0 < lines.len() && ledger.size().0 > 0);
        assert_eq!(super::super::day(NOON), day);
        for wrong in ["", "2026", "2026-13", "2026-07-32", "yesterday", "2026-07-2", "+2026-7"] {
            assert_eq!(Period::named(wrong), None, "{wrong}");
        }
    }
}
