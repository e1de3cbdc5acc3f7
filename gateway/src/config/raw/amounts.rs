//! Amounts as they are written: times, sizes, money, rates, budgets by period, one text or several. No rules beyond their forms.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// Dollars: `2.00`, or the same in quotes. Its number is never used, since it may not be what was written; the text
/// is where the document's places are kept.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Money {
    Number(serde_json::Number),
    Text(String),
}

impl JsonSchema for Money {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Dollars".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["number", "string"],
            "minimum": 0,
            "pattern": "^[0-9]+([.][0-9]{1,9})?$",
            "examples": [2, 0.002, "2.00"],
        })
    }
}

/// Calls in a time: `60/min`, or with a burst.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("examples" = ["60/min", { "rate": "60/min", "burst": 10 }]))]
pub(crate) enum Rate {
    /// Calls per s, min or h, such as 60/min; all of them may come at once.
    Text(#[schemars(regex(pattern = r"^\s*[0-9]+\s*/\s*[a-z]+\s*$"))] String),
    /// The same with a burst of its own.
    Burst(RateBurst),
}

/// Calls in a time, with a burst.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateBurst {
    /// Calls per s, min or h, such as 60/min.
    pub(crate) rate: String,
    /// How many of them may come at once. Default: all of them.
    pub(crate) burst: Option<u64>,
}

/// A budget: that of each run, or by whom and period.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("examples" = [2, { "run": 2, "principal": { "day": 10 }, "task": { "month": 300 } }]))]
pub(crate) enum Budget<T> {
    /// Of each run.
    Run(T),
    /// By whom and period.
    By(BudgetBy<T>),
}

/// Budgets by whom and period.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetBy<T> {
    /// Of each run.
    pub(crate) run: Option<T>,
    /// Of each principal under the task.
    pub(crate) principal: Option<Periods<T>>,
    /// Of all callers under the task together.
    pub(crate) task: Option<Periods<T>>,
}

/// Budgets by period.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Periods<T> {
    /// In a day (UTC).
    pub(crate) day: Option<T>,
    /// In a month (UTC).
    pub(crate) month: Option<T>,
}

/// One text, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("examples" = ["one", ["one", "two"]]))]
pub(crate) enum Words {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Words {
    /// All of them.
    pub(crate) fn all(&self) -> &[String] {
        match self {
            Words::One(one) => std::slice::from_ref(one),
            Words::Many(many) => many,
        }
    }
}

/// What calls of a server or tool cost. All that are set add up.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cost {
    /// For every call that was sent, in dollars.
    pub(crate) per_call_usd: Option<Money>,
    /// For every second that it took.
    pub(crate) per_second_usd: Option<Money>,
    /// For every KiB of its result.
    pub(crate) per_kib_usd: Option<Money>,
    /// JSON Pointer in the result at which the server reports a price in dollars, such as /structuredContent/cost_usd.
    pub(crate) reported: Option<String>,
    /// What is reserved before a call whose price is not known beforehand.
    pub(crate) reserve_usd: Option<Money>,
}

/// A duration: `10s`, `5m`, or a number of seconds.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Time {
    Number(u64),
    Text(String),
}

/// A size: `4MiB`, `256KiB`, or a number of bytes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Size {
    Number(u64),
    Text(String),
}

impl JsonSchema for Time {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "minimum": 0,
            "pattern": "^([0-9]+|([0-9]+(ms|s|m|h|d))+)$",
            "examples": ["250ms", "10s", "5m", "24h"],
        })
    }
}

impl JsonSchema for Size {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": ["string", "integer"],
            "minimum": 0,
            "pattern": "^[0-9]+(B|kB|KB|MB|GB|KiB|MiB|GiB)?$",
            "examples": ["256KiB", "4MiB", "1MB"],
        })
    }
}
