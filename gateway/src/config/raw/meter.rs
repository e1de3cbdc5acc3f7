//! The `meter` section as it is written. Types and names alone, no rules.

use schemars::JsonSchema;
use serde::Deserialize;

/// The cost meter beside the answers to tool calls.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Meter {
    /// `result`: as `_meter` beside the result's own members. `meta`: in the result's `_meta`, as `dev.tollgate/meter`.
    /// `off`: results leave as the server gave them, without receipt and span as well; TOLLGATE_COST_METER=0 in the
    /// environment means the same. Default result.
    pub(crate) placement: Option<Placement>,
    /// Whether it also tells the result's size, an estimate of its tokens and what is left of the budget. Default false.
    pub(crate) detail: Option<bool>,
}

/// Where the meter stands.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Placement {
    Result,
    Meta,
    Off,
}
