//! What calls of a server or tool cost: exact amounts, and where a server reports its own.

use policies::money::NanoUsd;
use policies::price::{Price, is_pointer};

use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw::amounts::{Cost, Money};

/// The price that a `cost` mapping says.
pub(super) fn check(raw: &Cost, at: &At, context: &mut Context<'_>) -> Price {
    let mut money = |key: &str, raw: &Option<Money>| {
        raw.as_ref().and_then(|raw| context.money(&at.key(key), raw)).unwrap_or(NanoUsd::ZERO)
    };
    let price = Price {
        per_call: money("per_call_usd", &raw.per_call_usd),
        per_second: money("per_second_usd", &raw.per_second_usd),
        per_kib: money("per_kib_usd", &raw.per_kib_usd),
        reserve: money("reserve_usd", &raw.reserve_usd),
        reported: raw.reported.as_deref().map(Into::into),
    };
    if raw.reported.as_deref().is_some_and(|pointer| pointer.is_empty() || !is_pointer(pointer)) {
        let fix = "write a JSON Pointer such as /structuredContent/cost_usd";
        context.problem(&at.key("reported"), "not a place in a result", fix);
    }
    if price.is_fixed() && raw.reserve_usd.is_some() {
        let what = "it has no effect: the price is known before the call, and that is reserved";
        context.warning(&at.key("reserve_usd"), what, "remove it");
    } else if !price.is_fixed() && raw.reserve_usd.is_none() {
        let what = "a price that is not known before the call, and no reserve_usd";
        let fix = "set reserve_usd to what a call costs at most: without it calls at the same time overspend";
        context.warning(at, what, fix);
    }
    price
}
