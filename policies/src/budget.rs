//! Budgets: how much may be spent by whom in which period, under which keys that is counted, and what is said when it is
//! spent. The counting itself is a [`ledger`]; time is passed in.

pub mod ledger;
mod notice;
pub mod past;
mod period;

pub use notice::{Drawn, Notice, Standing};
pub use period::{Period, Steady, day};

use std::fmt;

use smallvec::SmallVec;

use crate::flaw::{Flaw, steps};
use crate::money::NanoUsd;
use crate::rate::{Who, key};

/// Seconds that a run's counters are kept after it was last seen: longer than a run may last.
const RUN_KEPT: i64 = 2 * 86_400;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Nano-dollars.
    Usd,
    /// Calls that were sent.
    Calls,
    /// Bytes of results.
    Bytes,
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Usd => "usd",
            Unit::Calls => "calls",
            Unit::Bytes => "bytes",
        }
    }

    /// An amount as it is shown to people.
    pub fn show(self, amount: u64) -> String {
        match self {
            Unit::Usd => format!("{} USD", NanoUsd::from_nanos(amount)),
            Unit::Calls => format!("{amount} calls"),
            Unit::Bytes => format!("{amount} bytes of results"),
        }
    }
}

/// Who shares a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Each run of a principal under the task.
    Run,
    /// Everybody under the task.
    Task(Period),
    /// Each principal under the task.
    Principal(Period),
}

/// One budget of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Who shares it.
    pub scope: Scope,
    /// What is counted.
    pub unit: Unit,
    /// How much there is: nano-dollars, calls or bytes.
    pub limit: u64,
    /// Whether a call is refused when its reservation doesn't fit any more. Otherwise the last call may begin with
    /// anything left, and overspends by no more than its reservation.
    pub strict: bool,
}

/// The budgets of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Budgets {
    /// All of them. The index is the budget's name.
    pub all: Vec<Budget>,
    /// For how many runs a day a principal may spend a run's budget: with new run ids alone, no more than that is got.
    pub runs_a_day: u32,
}

/// How much of each unit a call reserves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// The price, or its reservation.
    pub usd: NanoUsd,
    /// 1 for a call.
    pub calls: u64,
    /// Bytes of its result; before the call, the cap on them or 0.
    pub bytes: u64,
}

impl Amounts {
    /// The amount of one unit.
    pub fn of(&self, unit: Unit) -> u64 {
        match unit {
            Unit::Usd => self.usd.nanos(),
            Unit::Calls => self.calls,
            Unit::Bytes => self.bytes,
        }
    }
}

/// One counter that a call draws on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The counter's name: stable, and the same for the same caller on every replica.
    pub key: Box<str>,
    /// What is counted.
    pub unit: Unit,
    /// The most that the counter may reach.
    pub limit: u64,
    /// See [`Budget::strict`].
    pub strict: bool,
    /// The Unix second from which the counter is of no use.
    pub ends: i64,
    /// The budget's index in [`Budgets::all`].
    pub budget: usize,
    /// Whether this is the bound on a run's budget over all runs of a principal.
    pub over_runs: bool,
}

impl Line {
    /// The Unix second at which a budget of this scope renews; a run's has none.
    fn renews(&self, scope: Scope) -> Option<i64> {
        match scope {
            Scope::Run if !self.over_runs => None,
            _ => Some(self.ends),
        }
    }
}

/// The first part of a counter's key.
fn name(kind: &str, unit: Unit) -> String {
    format!("{kind}.{}", unit.name())
}

impl Budgets {
    /// What is wrong with the budgets, below `limits.budgets`: two of one kind would count under one key.
    pub fn flaws(&self) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        for (n, one) in self.all.iter().enumerate() {
            let at = || steps!["limits", "budgets", n];
            if one.limit == 0 {
                flaws.push(Flaw::new(
                    at(),
                    "no call could ever be made",
                    "leave it out for no budget, or deny the tools",
                ));
            }
            if self.all.iter().take(n).any(|other| (other.scope, other.unit) == (one.scope, one.unit)) {
                flaws.push(Flaw::new(at(), "there is a budget of this kind already", "keep the smaller one"));
            }
        }
        flaws
    }

    /// The counters that a call at this Unix second draws on.
    pub fn lines(&self, who: &Who<'_>, now: i64) -> SmallVec<[Line; 8]> {
        let mut lines = SmallVec::new();
        for (budget, spec) in self.all.iter().enumerate() {
            let mut add = |kind: &str, parts: &[&str], limit, ends, over_runs| {
                let (unit, strict) = (spec.unit, spec.strict);
                let key = key(&name(kind, unit), parts);
                lines.push(Line { key, unit, limit, strict, ends, budget, over_runs });
            };
            match spec.scope {
                Scope::Run => {
                    let ends = now.saturating_add(RUN_KEPT);
                    add("run", &[who.task, who.principal, who.run], spec.limit, ends, false);
                    let day = Period::Day.span(now);
                    let all = spec.limit.saturating_mul(u64::from(self.runs_a_day.max(1)));
                    add("runs", &[who.task, who.principal, &day.name], all, day.ends, true);
                }
                Scope::Task(period) => {
                    let span = period.span(now);
                    add("task", &[who.task, &span.name], spec.limit, span.ends, false);
                }
                Scope::Principal(period) => {
                    let span = period.span(now);
                    add("principal", &[who.task, who.principal, &span.name], spec.limit, span.ends, false);
                }
            }
        }
        lines
    }
}

/// A budget that is spent, as it is told to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spent {
    /// The line that had too little left.
    pub line: Line,
    /// Whose budget it is.
    pub scope: Scope,
}

impl Spent {
    /// The Unix second of renewal; a run's budget has none.
    pub fn renews(&self) -> Option<i64> {
        self.line.renews(self.scope)
    }
}

impl fmt::Display for Spent {
    /// Names the budget and says when it renews: for a model to act on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self.scope {
            Scope::Run if self.line.over_runs => "your runs under this task, per day",
            Scope::Run => "this run",
            Scope::Task(Period::Day) => "this task, per day",
            Scope::Task(Period::Month) => "this task, per month",
            Scope::Principal(Period::Day) => "you under this task, per day",
            Scope::Principal(Period::Month) => "you under this task, per month",
        };
        write!(f, "The budget of {} for {whose} is spent.", self.line.unit.show(self.line.limit))?;
        match self.renews() {
            Some(at) => write!(f, " It renews at {}.", period::rfc3339(at)),
            None => f.write_str(" It does not renew; begin another run."),
        }
    }
}

#[cfg(test)]
mod tests;
