//! How often, how large and how dear: a task's rates, caps and budgets.

use policies::budget::{Budget, Budgets, Period, Scope, Unit};
use policies::caps::{Caps, OnTooLarge};
use policies::money::NanoUsd;
use policies::rate::RateSpec;

use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw::amounts::{Budget as RawBudget, Periods};
use crate::config::raw::{self, tasks};

/// For how many runs a day a principal gets the budget of a run when the file says nothing.
const RUNS_PER_DAY: usize = 100;
/// How many times the rate of a run all runs of a principal get when the file says nothing.
const RUNS_AT_ONCE: usize = 10;
/// More of anything is a slip.
const MOST: usize = 1_000_000_000;

/// What a task may cost and how large results may be.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) caps: Option<Caps>,
    pub(super) budgets: Budgets,
    /// Runs of a principal at most.
    pub(super) runs: Option<usize>,
    /// Where each budget stands.
    pub(super) budget_places: Vec<At>,
}

/// The rates, and the rest.
pub(super) fn check(
    raw: Option<&tasks::TaskLimits>,
    at: &At,
    context: &mut Context<'_>,
) -> (RateSpec, Limits) {
    let Some(raw) = raw else { return Default::default() };
    let rates = rates(raw, at, context);
    let mut limits = Limits { caps: caps(raw, at, context), ..Limits::default() };
    let mut add = Adder { limits: &mut limits, strict: raw.budget_strict.unwrap_or(true) };
    if let Some(budget) = &raw.budget_usd {
        let read =
            |context: &mut Context<'_>, at: &At, raw: &_| context.money(at, raw).map_or(1, NanoUsd::nanos);
        add.all(Unit::Usd, budget, &at.key("budget_usd"), (&read, context));
    }
    if let Some(budget) = &raw.budget_calls {
        let read = |context: &mut Context<'_>, at: &At, raw: &u64| {
            amount(context.count(at, Some(*raw), 1, 0..=MOST))
        };
        add.all(Unit::Calls, budget, &at.key("budget_calls"), (&read, context));
    }
    if let Some(budget) = &raw.budget_bytes {
        let read = |context: &mut Context<'_>, at: &At, raw: &raw::Size| {
            amount(context.size(at, Some(raw), 1, 0..=1 << 50))
        };
        add.all(Unit::Bytes, budget, &at.key("budget_bytes"), (&read, context));
        if raw.result_bytes.is_none() {
            // What a call may take at most is set aside before it, or calls at once would share one budget.
            let fix = "set `result_bytes` too: so much is set aside before each call";
            context.problem(&at.key("budget_bytes"), "no bound on what one call takes", fix);
        }
    }
    let runs = at.key("budget_runs_per_day");
    let runs = context.count(&runs, raw.budget_runs_per_day, RUNS_PER_DAY, 1..=1_000_000);
    limits.runs = context.bound(&at.key("runs"), raw.runs, 1..=1_000_000);
    limits.budgets.runs_a_day = u32::try_from(runs).unwrap_or(u32::MAX);
    (rates, limits)
}

fn amount(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn rates(raw: &tasks::TaskLimits, at: &At, context: &mut Context<'_>) -> RateSpec {
    let mut map = |key: &str, map: &Option<raw::Ordered<raw::amounts::Rate>>| {
        let at = at.key(key);
        let one = |(name, rate): &(String, _)| Some((name.clone(), context.rate(&at.key(name), rate)?));
        map.iter().flat_map(|map| &map.0).filter_map(one).collect::<Vec<_>>()
    };
    let (tools, servers) = (map("tools", &raw.tools), map("servers", &raw.servers));
    for (id, _) in &servers {
        if !context.places.has(&At::root().key("servers").key(id)) {
            let at = at.key("servers").key(id);
            context.name_problem(&at, "there is no such server", "name one of `servers`");
        }
    }
    let mut single = |key: &str, rate: &Option<_>| rate.as_ref().and_then(|r| context.rate(&at.key(key), r));
    let (calls, run) = (single("calls", &raw.calls), single("run", &raw.run));
    let at_once = at.key("runs_at_once");
    let at_once = context.count(&at_once, raw.runs_at_once, RUNS_AT_ONCE, 1..=100_000);
    let runs_at_once = u32::try_from(at_once).unwrap_or(u32::MAX);
    let concurrency = context.bound(&at.key("concurrency"), raw.concurrency, 1..=1_000_000);
    let concurrency = concurrency.and_then(|n| u32::try_from(n).ok());
    RateSpec { calls, tools, servers, run, runs_at_once, concurrency }
}

/// What is not capped is as large as it likes.
fn caps(raw: &tasks::TaskLimits, at: &At, context: &mut Context<'_>) -> Option<Caps> {
    let mut size = |key: &str, raw: Option<&raw::Size>| {
        raw.map(|raw| context.size(&at.key(key), Some(raw), usize::MAX, 64..=1 << 30))
    };
    let bytes = size("result_bytes", raw.result_bytes.as_ref());
    let image_bytes = size("image_bytes", raw.image_bytes.as_ref());
    let blob_bytes = size("blob_bytes", raw.blob_bytes.as_ref());
    let items = context.bound(&at.key("result_items"), raw.result_items, 1..=MOST);
    if [bytes, image_bytes, blob_bytes, items].iter().all(Option::is_none) {
        if raw.on_too_large.is_some() {
            let fix = "set result_bytes, result_items, image_bytes or blob_bytes, or remove it";
            context.warning(&at.key("on_too_large"), "it has no effect: nothing is too large", fix);
        }
        return None;
    }
    let free = |cap: Option<usize>| cap.unwrap_or(usize::MAX);
    Some(Caps {
        bytes: free(bytes),
        items: free(items),
        image_bytes: free(image_bytes),
        blob_bytes: free(blob_bytes),
        on_too_large: match raw.on_too_large {
            Some(tasks::OnTooLarge::Truncate) => OnTooLarge::Truncate,
            None | Some(tasks::OnTooLarge::Refuse) => OnTooLarge::Refuse,
        },
    })
}

/// Reads one amount.
type Read<'a, T> = &'a dyn Fn(&mut Context<'_>, &At, &T) -> u64;

struct Adder<'a> {
    limits: &'a mut Limits,
    strict: bool,
}

impl Adder<'_> {
    fn all<T>(
        &mut self,
        unit: Unit,
        raw: &RawBudget<T>,
        at: &At,
        (read, context): (Read<'_, T>, &mut Context<'_>),
    ) {
        let by = match raw {
            RawBudget::Run(amount) => {
                let limit = read(context, at, amount);
                return self.one(Scope::Run, unit, limit, at.clone());
            }
            RawBudget::By(by) => by,
        };
        if let Some(amount) = &by.run {
            let at = at.key("run");
            let limit = read(context, &at, amount);
            self.one(Scope::Run, unit, limit, at);
        }
        if let Some(periods) = &by.principal {
            self.periods(periods, &at.key("principal"), (unit, Scope::Principal), (read, context));
        }
        if let Some(periods) = &by.task {
            self.periods(periods, &at.key("task"), (unit, Scope::Task), (read, context));
        }
    }

    fn periods<T>(
        &mut self,
        raw: &Periods<T>,
        at: &At,
        (unit, scope): (Unit, fn(Period) -> Scope),
        (read, context): (Read<'_, T>, &mut Context<'_>),
    ) {
        let amounts = [("day", &raw.day, Period::Day), ("month", &raw.month, Period::Month)];
        for (name, amount, period) in amounts {
            let Some(amount) = amount else { continue };
            let at = at.key(name);
            let limit = read(context, &at, amount);
            self.one(scope(period), unit, limit, at);
        }
    }

    fn one(&mut self, scope: Scope, unit: Unit, limit: u64, at: At) {
        self.limits.budgets.all.push(Budget { scope, unit, limit, strict: self.strict });
        self.limits.budget_places.push(at);
    }
}
