//! What is left of budgets, as metrics: the part that was left when a call last drew on each.

use metrics::Metrics;
use policies::budget::ledger::Level;
use policies::budget::{Budget, Line, Period, Scope, Unit};

use crate::profiles::Profile;

/// Shows what these reservations have left of their budgets.
pub(super) fn show(metrics: &Metrics, profile: &Profile, lines: &[Line], levels: &[Level]) {
    let gauges = profile.meters.budgets(|| {
        let gauge = |budget: &Budget| {
            let (scope, period) = match budget.scope {
                Scope::Run => ("run", ""),
                Scope::Task(period) => ("task", word(period)),
                Scope::Principal(period) => ("principal", word(period)),
            };
            let unit = match budget.unit {
                Unit::Usd => "usd",
                Unit::Calls => "calls",
                Unit::Bytes => "bytes",
            };
            metrics.budget(profile.task.name(), scope, unit, period)
        };
        profile.budgets.all.iter().map(gauge).collect()
    });
    for level in levels {
        let line = lines.get(level.line).filter(|line| !line.over_runs && line.limit > 0);
        let Some((line, gauge)) = line.and_then(|line| Some((line, gauges.get(line.budget)?))) else {
            continue;
        };
        #[allow(clippy::cast_precision_loss, reason = "a ratio that is shown")]
        gauge.set(level.left as f64 / line.limit as f64);
    }
}

fn word(period: Period) -> &'static str {
    match period {
        Period::Day => "day",
        Period::Month => "month",
    }
}
