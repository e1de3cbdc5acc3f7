//! The limits, the price and the budgets that a call would meet, as text. Counts nothing: how much of them is left only a
//! running gateway knows.

use std::io::{self, Write};

use policies::budget::{Period, Scope};
use policies::caps::{Caps, OnTooLarge};
use policies::price::Price;
use policies::rate::{Per, Quota, Who};

use super::{Call, RUN};

/// Prints what applies, one line each.
pub(super) fn print(call: &Call<'_>, out: &mut dyn Write) -> io::Result<()> {
    rates(call, out)?;
    let profile = &call.task.profile;
    if let Some(caps) = &profile.caps {
        writeln!(out, "result: {}", sizes(caps))?;
    }
    if let Some(price) = call.server.policy.price(call.entry.own) {
        writeln!(out, "price: {}", told(price))?;
    }
    for budget in &profile.budgets.all {
        let amount = budget.unit.show(budget.limit);
        let strict = if budget.strict { "" } else { ", and the last call may begin with anything left" };
        writeln!(out, "budget: {amount} {}{strict}", whose(budget.scope))?;
    }
    let (idle, total) = call.server.call_timeouts(call.entry.own);
    let (idle, total) = (
        profile.call_idle.map_or(idle, |task| task.min(idle)),
        profile.call_total.map_or(total, |task| task.min(total)),
    );
    writeln!(out, "deadlines: {}s without progress, {}s in all", idle.as_secs(), total.as_secs())
}

fn rates(call: &Call<'_>, out: &mut dyn Write) -> io::Result<()> {
    let who = Who { task: &call.task.name, principal: &call.who.key, run: RUN };
    let rates = &call.task.profile.rates;
    for one in rates.applying(&who, call.entry.server, call.entry.exposed) {
        let whose = match one.per {
            Per::Principal => "of this caller",
            Per::Tool => "of this caller for tools of this pattern",
            Per::Server => "of the task to this server",
            Per::Run => "of each run",
            Per::Runs => "of all runs of this caller together",
        };
        writeln!(out, "rate: {} {whose}", rate(&one.quota))?;
    }
    if let Some((_, most)) = rates.concurrency(&who) {
        writeln!(out, "at the same time: {most} calls of this caller")?;
    }
    let policy = &call.server.policy;
    if let Some(quota) = &policy.calls {
        writeln!(out, "rate: {} of all callers to this server", rate(quota))?;
    }
    match policy.concurrency {
        Some(most) => writeln!(out, "at the same time: {most} calls of all callers to this server"),
        None => Ok(()),
    }
}

fn rate(quota: &Quota) -> String {
    let per = match quota.per.as_secs() {
        1 => "s",
        60 => "min",
        _ => "h",
    };
    format!("{}/{per}, {} at once,", quota.calls, quota.burst)
}

fn sizes(caps: &Caps) -> String {
    let all = [
        (caps.bytes, "bytes"),
        (caps.items, "items"),
        (caps.image_bytes, "bytes an image"),
        (caps.blob_bytes, "bytes a file"),
    ];
    let all: Vec<String> = all
        .iter()
        .filter(|(most, _)| *most != usize::MAX)
        .map(|(most, what)| format!("{most} {what}"))
        .collect();
    let over = match caps.on_too_large {
        OnTooLarge::Refuse => "a larger one is refused",
        OnTooLarge::Truncate => "a larger one is cut",
    };
    format!("at most {}; {over}", all.join(", "))
}

fn told(price: &Price) -> String {
    let own = [(price.per_call, "a call"), (price.per_second, "a second"), (price.per_kib, "a KiB")];
    let mut parts: Vec<String> = own
        .iter()
        .filter(|(amount, _)| amount.nanos() > 0)
        .map(|(amount, per)| format!("{amount} USD {per}"))
        .collect();
    parts.extend(price.reported.as_ref().map(|pointer| format!("what the server reports at {pointer}")));
    let price_text = if parts.is_empty() { "nothing".to_owned() } else { parts.join(" + ") };
    format!("{price_text}; {} USD reserved before the call", price.reservation())
}

fn whose(scope: Scope) -> &'static str {
    match scope {
        Scope::Run => "in each run",
        Scope::Task(Period::Day) => "a day (UTC) for the whole task",
        Scope::Task(Period::Month) => "a month (UTC) for the whole task",
        Scope::Principal(Period::Day) => "a day (UTC) for this caller",
        Scope::Principal(Period::Month) => "a month (UTC) for this caller",
    }
}
