//! How far the budgets of one call are spent once it is settled: what the meter tells a caller.

use super::ledger::is_low;
use super::{Amounts, Line, Period, Scope, Unit, period};

/// A counter that a call has reserved on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// The counter.
    pub line: Line,
    /// Whose budget it is.
    pub scope: Scope,
    /// What was left when all that was reserved then is spent.
    pub left: u64,
}

/// The budgets of a call after it was settled, as far as this call knows: others may have drawn meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The least that is left of a budget in dollars, in nano-dollars; none without such a budget.
    pub usd_left: Option<u64>,
    /// The budget of which most is spent, once that is four fifths.
    pub notice: Option<Notice>,
}

/// A budget that will soon be spent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// `run.usd`, `runs.day.usd` (all runs of the principal), `task.day.calls`, `principal.month.bytes`, and the like.
    pub name: String,
    /// How much of it is spent, in thousandths.
    pub spent: u64,
    /// When it renews, RFC 3339 in UTC; a run's budget does not.
    pub renews: Option<String>,
}

impl Standing {
    /// What is left after a reservation was turned into what was spent.
    pub fn after(drawn: &[Drawn], reserved: &Amounts, spent: &Amounts) -> Standing {
        let mut standing = Standing::default();
        let mut most: Option<(u64, &Drawn)> = None;
        for one in drawn {
            let (unit, limit) = (one.line.unit, one.line.limit);
            let left = one.left.saturating_add(reserved.of(unit)).saturating_sub(spent.of(unit)).min(limit);
            if unit == Unit::Usd {
                standing.usd_left = Some(standing.usd_left.map_or(left, |least| least.min(left)));
            }
            let used = limit - left;
            let share = u128::from(used) * 1000 / u128::from(limit.max(1));
            let share = u64::try_from(share).unwrap_or(1000);
            if is_low(used, limit) && most.is_none_or(|(before, _)| share > before) {
                most = Some((share, one));
            }
        }
        standing.notice = most.map(|(spent, one)| Notice {
            name: name(one),
            spent,
            renews: one.line.renews(one.scope).map(period::rfc3339),
        });
        standing
    }
}

fn name(drawn: &Drawn) -> String {
    let scope = match drawn.scope {
        Scope::Run if drawn.line.over_runs => "runs.day",
        Scope::Run => "run",
        Scope::Task(Period::Day) => "task.day",
        Scope::Task(Period::Month) => "task.month",
        Scope::Principal(Period::Day) => "principal.day",
        Scope::Principal(Period::Month) => "principal.month",
    };
    format!("{scope}.{}", drawn.line.unit.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::NanoUsd;

    fn drawn(scope: Scope, unit: Unit, limit: u64, left: u64) -> Drawn {
        let line = Line {
            key: "k".into(),
            unit,
            limit,
            strict: true,
            ends: 1_796_083_200,
            budget: 0,
            over_runs: false,
        };
        Drawn { line, scope, left }
    }

    fn amounts(usd: u64, calls: u64) -> Amounts {
        Amounts { usd: NanoUsd::from_nanos(usd), calls, bytes: 0 }
    }

    #[test]
    fn what_was_reserved_and_not_spent_is_left_again() {
        let run = drawn(Scope::Run, Unit::Usd, 100, 10);
        let standing = Standing::after(&[run], &amounts(40, 1), &amounts(5, 1));
        assert_eq!(standing, Standing { usd_left: Some(45), notice: None });
    }

    #[test]
    fn at_four_fifths_the_budget_with_least_left_is_named() {
        let all = [
            drawn(Scope::Run, Unit::Usd, 100, 20),
            drawn(Scope::Task(Period::Day), Unit::Calls, 1000, 49),
            drawn(Scope::Principal(Period::Month), Unit::Usd, 1000, 900),
        ];
        let standing = Standing::after(&all, &amounts(1, 1), &amounts(1, 1));
        let notice = standing.notice.unwrap();
        assert_eq!((notice.name.as_str(), notice.spent), ("task.day.calls", 951));
        assert_eq!(notice.renews.as_deref(), Some("2026-12-01T00:00:00Z"));
        assert_eq!(standing.usd_left, Some(20));
        let run = Standing::after(&all[..1], &amounts(1, 1), &amounts(1, 1)).notice.unwrap();
        assert_eq!((run.name.as_str(), run.spent, run.renews), ("run.usd", 800, None));
        let under = drawn(Scope::Run, Unit::Usd, 1000, 201);
        assert_eq!(Standing::after(&[under], &amounts(1, 1), &amounts(1, 1)).notice, None);
    }
}
