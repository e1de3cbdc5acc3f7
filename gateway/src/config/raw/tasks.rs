//! The `tasks` section as it is written: who may use a task, what it allows, asks for, costs and lets through. Types
//! and names alone.

use schemars::JsonSchema;
use serde::Deserialize;

use super::amounts::{Budget, Money, Rate, Words};
use super::{Ordered, Size, Time, ToolTimeouts};

/// A task: a named policy profile. It allows nothing but what it lists.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Task {
    /// Who may use the task. Absent: everybody with a credential, and on a loopback address those without.
    pub(crate) principals: Option<Principals>,
    /// Globs (`*`, `?`, `{a,b}`) over the names of tools as clients of /mcp see them, such as `files__read_*`.
    pub(crate) allow: Option<Vec<String>>,
    /// Globs over tools; they win over `allow`.
    pub(crate) deny: Option<Vec<String>>,
    /// Globs over prompts.
    pub(crate) allow_prompts: Option<Vec<String>>,
    /// Globs over URIs of resources as clients of /mcp see them, such as `docs+file:///*`.
    pub(crate) allow_resources: Option<Vec<String>>,
    /// Conditions on calls. Each that names the tool must hold.
    pub(crate) rules: Option<Vec<Rule>>,
    /// When a person is asked before a call: never, destructive (the tool may destroy something), always, or for the
    /// tools that any of a list of globs names. Default never.
    pub(crate) confirm: Option<Confirm>,
    /// What happens to a call that must be confirmed when the client can't ask. Default refuse.
    pub(crate) confirm_fallback: Option<Fallback>,
    /// How long a question for confirmation is good for. Default 10m.
    pub(crate) confirm_within: Option<Time>,
    /// Scopes that calls need, by glob over tools: all scopes of all globs that match.
    pub(crate) scopes: Option<Ordered<Words>>,
    /// Rates, budgets and sizes.
    pub(crate) limits: Option<TaskLimits>,
    /// What is taken out of results: `true` for credentials and members with telling names, or rules. Default false.
    pub(crate) redact: Option<Redact>,
    /// Invisible characters that are taken out of results: `true` for all kinds but variation_selectors, or a list of
    /// kinds. Default false.
    pub(crate) strip: Option<Strip>,
    /// What servers may ask of clients. Nothing unless it is listed.
    pub(crate) capabilities: Option<Capabilities>,
    /// Deadlines of tool calls where they are shorter than the server's.
    pub(crate) timeouts: Option<ToolTimeouts>,
}

/// Who may use a task. A caller with an issuer's token must meet everything that is said of issuers, groups, claims,
/// scopes and clients; tokens, certificates and callers without a credential are admitted by what names them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Principals {
    /// Issuers, any of them.
    pub(crate) issuers: Option<Vec<String>>,
    /// Groups, any of them.
    pub(crate) groups: Option<Vec<String>>,
    /// Claims by name, or by JSON Pointer (`/realm_access/roles`); each must hold any of its values.
    pub(crate) claims: Option<Ordered<Words>>,
    /// Scopes, all of them.
    pub(crate) scopes: Option<Vec<String>>,
    /// Names of static tokens, any of them.
    pub(crate) tokens: Option<Vec<String>>,
    /// Client ids, any of them.
    pub(crate) clients: Option<Vec<String>>,
    /// Globs over the names in client certificates, any of them.
    pub(crate) certificates: Option<Vec<String>>,
    /// Callers without a credential, on a loopback address. Default false.
    pub(crate) anonymous: Option<bool>,
}

/// A condition on calls of some tools.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// A glob over tools.
    pub(crate) tool: String,
    /// The condition in CEL over `principal`, `task`, `run`, `tool`, `args` and `time`, such as `args.q.size() <= 200`.
    pub(crate) when: String,
    /// What the caller is told when it does not hold.
    pub(crate) message: Option<String>,
}

/// When a person is asked before a call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("examples" = ["never", "destructive", "always", ["files__write_*"]]))]
pub(crate) enum Confirm {
    /// A word.
    Word(ConfirmWord),
    /// Globs over tools.
    Patterns(Vec<String>),
}

/// When a person is asked before a call, in a word.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ConfirmWord {
    Never,
    Destructive,
    Always,
}

/// What happens to a call that must be confirmed when the client can't ask.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Fallback {
    Refuse,
    Allow,
}

/// Rates, budgets and sizes of a task.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskLimits {
    /// Calls of each principal, such as 60/min.
    pub(crate) calls: Option<Rate>,
    /// Calls of each principal of the tools that a glob names.
    pub(crate) tools: Option<Ordered<Rate>>,
    /// All calls of the task to a server, by its id.
    pub(crate) servers: Option<Ordered<Rate>>,
    /// Calls of each run.
    pub(crate) run: Option<Rate>,
    /// How many times the rate of a run all runs of a principal get together, whatever they are called. Default 10.
    pub(crate) runs_at_once: Option<u64>,
    /// Runs of a principal at most; one ends after an hour without a call. Default 10000.
    pub(crate) runs: Option<u64>,
    /// Calls of each principal at the same time.
    pub(crate) concurrency: Option<u64>,
    /// Largest result, as JSON.
    pub(crate) result_bytes: Option<Size>,
    /// Most items of a result.
    pub(crate) result_items: Option<u64>,
    /// Largest image or sound of a result, decoded.
    pub(crate) image_bytes: Option<Size>,
    /// Largest embedded file of a result, decoded.
    pub(crate) blob_bytes: Option<Size>,
    /// What happens to a larger result. Default refuse.
    pub(crate) on_too_large: Option<OnTooLarge>,
    /// What may be spent, in dollars: of each run, or by whom and period.
    pub(crate) budget_usd: Option<Budget<Money>>,
    /// How many calls may be made: in each run, or by whom and period.
    pub(crate) budget_calls: Option<Budget<u64>>,
    /// How many bytes of results may be had: in each run, or by whom and period.
    pub(crate) budget_bytes: Option<Budget<Size>>,
    /// Whether a call is refused that might overspend. Else the last one may begin with anything left. Default true.
    pub(crate) budget_strict: Option<bool>,
    /// For how many runs a day a principal gets the budget of a run. Default 100.
    pub(crate) budget_runs_per_day: Option<u64>,
}

/// What happens to a result over its caps.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnTooLarge {
    Refuse,
    Truncate,
}

/// What is taken out of results.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("examples" = [true, { "groups": ["secrets", "keys", "email"] }]))]
pub(crate) enum Redact {
    /// Credentials and members with telling names, or nothing.
    Switch(bool),
    /// By rules.
    Rules(RedactRules),
}

/// What is taken out of results, by rules.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedactRules {
    /// Built-in rules: secrets (all token formats), keys (members with telling names), email, card, iban, or the name
    /// of one format, such as github. Default secrets and keys.
    pub(crate) groups: Option<Vec<String>>,
    /// Own rules.
    pub(crate) rules: Option<Vec<RedactRule>>,
    /// Further names of members whose values are secrets.
    pub(crate) keys: Option<Vec<String>>,
    /// Whether it is taken out of arguments too, before the server gets them. Default false.
    pub(crate) arguments: Option<bool>,
}

/// An own rule.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedactRule {
    /// What the mark calls it: `[a-z][a-z0-9-]{0,31}`.
    pub(crate) name: String,
    /// A regular expression in which every repetition is bounded.
    pub(crate) pattern: String,
}

/// Which invisible characters are taken out of results.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("examples" = [true, ["controls", "bidi"]]))]
pub(crate) enum Strip {
    /// All kinds but variation selectors, or none.
    Switch(bool),
    /// These kinds.
    Kinds(Vec<StripKind>),
}

/// A kind of invisible characters.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StripKind {
    Controls,
    Bidi,
    ZeroWidth,
    Tags,
    VariationSelectors,
}

/// What servers may ask of clients under a task.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capabilities {
    /// To sample from the client's model. Default false.
    pub(crate) sampling: Option<bool>,
    /// To ask the user. Default false.
    pub(crate) elicitation: Option<bool>,
    /// For roots: these, in place of the client's own. Default none.
    pub(crate) roots: Option<Vec<Root>>,
}

/// A root that servers are told.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Root {
    /// A file: URI.
    pub(crate) uri: String,
    /// How it is shown.
    pub(crate) name: Option<String>,
}
