//! The `meter` section and the variable that switches it off.

use crate::config::checked::{Meter, Placement};
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw::meter as raw;

/// Switches the meter off with `0`, whatever the file says.
const VARIABLE: &str = "TOLLGATE_COST_METER";

pub(super) fn check(raw: Option<&raw::Meter>, at: &At, context: &mut Context<'_>) -> Meter {
    let none = raw::Meter::default();
    let raw = raw.unwrap_or(&none);
    let placement = match raw.placement {
        None | Some(raw::Placement::Result) => Placement::Result,
        Some(raw::Placement::Meta) => Placement::Meta,
        Some(raw::Placement::Off) => Placement::Off,
    };
    let variable = if context.world.elsewhere { None } else { (context.world.env)(VARIABLE) };
    let placement = match variable.as_deref() {
        None | Some("" | "1") => placement,
        Some("0") => Placement::Off,
        Some(_) => {
            let what = format!("the variable {VARIABLE} is neither 0 nor 1");
            context.problem(at, what, "set it to 0 for results without a meter, or leave it out");
            placement
        }
    };
    Meter { placement, detail: raw.detail.unwrap_or(false) }
}
