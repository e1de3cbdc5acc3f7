//! The `servers` section: ids, exactly one way to reach each server, deadlines and bounds.

use std::time::Duration;

use auth::egress::Egress;

use super::bounds::seconds;
use super::{cost, http_server, stdio_server};
use crate::config::checked::{ByTool, Server, ServerPolicy, Timeouts, ToolRules, ToolTimeouts, Transport};
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw;

/// 24 h: a deadline beyond it is a slip of the unit.
const LONGEST: u64 = 86_400;
const ONLY_URL: [&str; 4] = ["type", "headers", "auth", "ca"];

/// What of the rest of the file a server's credential depends on: the egress rules and the public URL.
pub(super) type Around<'a> = (&'a Egress, Option<&'a str>);
const ONLY_COMMAND: [&str; 7] = ["args", "env", "inherit_env", "cwd", "isolation", "idle", "max_processes"];

/// Whether a server may be called so: `[a-z][a-z0-9-]{0,31}`.
pub(crate) fn valid_id(id: &str) -> bool {
    id.len() <= 32
        && id.starts_with(|c: char| c.is_ascii_lowercase())
        && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// All servers, in the order of the file.
pub(super) fn all(raw: &raw::File, egress: &Egress, context: &mut Context<'_>) -> Vec<Server> {
    let at = At::root().key("servers");
    let Some(servers) = &raw.servers else { return Vec::new() };
    if servers.0.is_empty() {
        context.warning(
            &at,
            "no server is configured",
            "add one: files: { command: ... } or docs: { url: ... }",
        );
    }
    let public = raw.public_url.as_deref();
    let all = servers.0.iter();
    all.filter_map(|(id, server)| one((id, server), &at.key(id), (egress, public), context)).collect()
}

fn one(
    (id, raw): (&str, &raw::Server),
    at: &At,
    around: Around<'_>,
    context: &mut Context<'_>,
) -> Option<Server> {
    if !valid_id(id) {
        let fix = "ids begin with a-z, go on with a-z, 0-9 or -, and have at most 32 characters";
        context.problem(at, "not a server id", fix);
    }
    let transport = transport(raw, at, around, context);
    let timeouts = timeouts(raw.timeouts.as_ref(), &at.key("timeouts"), context);
    let tools = tools(raw, &timeouts, &at.key("tools"), context);
    let policy = policy(raw, at, context);
    let answer = at.key("limits").key("answer_bytes");
    let answer_raw = raw.limits.as_ref().and_then(|limits| limits.answer_bytes.as_ref());
    let answer_bytes = context.size(&answer, answer_raw, 16 << 20, 1 << 10..=1 << 30);
    Some(Server {
        id: id.to_owned(),
        transport: transport?,
        required: raw.required.unwrap_or(false),
        timeouts,
        tools,
        answer_bytes,
        policy,
        line: context.places.key_spot(at).line,
    })
}

/// Presence is judged by the text: a `url` of the wrong type has been reported already and is still there.
fn transport(raw: &raw::Server, at: &At, around: Around<'_>, context: &mut Context<'_>) -> Option<Transport> {
    let has = |context: &Context<'_>, key: &str| context.places.has(&at.key(key));
    let foreign = |context: &mut Context<'_>, keys: &[&str], with: &str| {
        for key in keys.iter().filter(|key| context.places.has(&at.key(key))) {
            let fix = format!("remove it, or reach the server by `{with}`");
            context.problem(&at.key(key), format!("`{key}` belongs to servers with `{with}`"), fix);
        }
    };
    match (has(context, "url"), has(context, "command")) {
        (true, true) => {
            context.problem(at, "both `url` and `command`", "keep the one by which the server is reached");
            None
        }
        (false, false) => {
            let fix =
                "add `url: https://...` for a server over HTTP, or `command: ...` for one to be started";
            context.problem(at, "neither `url` nor `command`", fix);
            None
        }
        (true, false) => {
            foreign(context, &ONLY_COMMAND, "command");
            http_server::check(raw, at, around, context).map(Transport::Http)
        }
        (false, true) => {
            foreign(context, &ONLY_URL, "url");
            stdio_server::check(raw, at, context).map(Transport::Stdio)
        }
    }
}

fn timeouts(raw: Option<&raw::Timeouts>, at: &At, context: &mut Context<'_>) -> Timeouts {
    let d = Timeouts::default();
    let Some(raw) = raw else { return d };
    let mut time = |key: &str, raw: Option<&raw::Time>, default| {
        context.time(&at.key(key), raw, default, Duration::from_millis(10)..=Duration::from_secs(LONGEST))
    };
    let timeouts = Timeouts {
        connect: time("connect", raw.connect.as_ref(), d.connect),
        initialize: time("initialize", raw.initialize.as_ref(), d.initialize),
        lists: time("lists", raw.lists.as_ref(), d.lists),
        reads: time("reads", raw.reads.as_ref(), d.reads),
        call_idle: time("call_idle", raw.call_idle.as_ref(), d.call_idle),
        call_total: time("call_total", raw.call_total.as_ref(), d.call_total),
    };
    order(timeouts.call_idle, timeouts.call_total, at, context);
    timeouts
}

/// An idle deadline beyond the total one would never come.
fn order(idle: Duration, total: Duration, at: &At, context: &mut Context<'_>) {
    if idle > total && (context.places.has(&at.key("call_idle")) || context.places.has(&at.key("call_total")))
    {
        let at = ["call_idle", "call_total"].map(|key| at.key(key));
        let at = at.iter().find(|at| context.places.has(at)).cloned().unwrap_or_default();
        context.problem(
            &at,
            "call_idle is longer than call_total",
            "make call_total the longer one; set both",
        );
    }
}

fn tools(raw: &raw::Server, server: &Timeouts, at: &At, context: &mut Context<'_>) -> ToolRules {
    let mut tools = Vec::new();
    for (pattern, tool) in raw.tools.iter().flat_map(|tools| &tools.0) {
        let at = at.key(pattern);
        if pattern.len() > 128 || pattern.chars().any(char::is_control) {
            let fix = "write the server's own tool name, or a glob with * and ?";
            context.problem(&at, "not the name of a tool", fix);
            continue;
        }
        let Some(raw) = &tool.timeouts else { continue };
        let at = at.key("timeouts");
        let timeouts = tool_timeouts(Some(raw), &at, context);
        let idle = timeouts.call_idle.unwrap_or(server.call_idle);
        order(idle, timeouts.call_total.unwrap_or(server.call_total), &at, context);
        tools.push((pattern.clone(), timeouts));
    }
    tools.into_iter().collect()
}

/// Deadlines that stand in for a server's.
pub(super) fn tool_timeouts(
    raw: Option<&raw::ToolTimeouts>,
    at: &At,
    context: &mut Context<'_>,
) -> ToolTimeouts {
    let mut time = |key: &str, raw: Option<&raw::Time>| {
        raw.map(|raw| context.time(&at.key(key), Some(raw), Duration::from_secs(1), seconds(1, LONGEST)))
    };
    ToolTimeouts {
        call_idle: time("call_idle", raw.and_then(|raw| raw.call_idle.as_ref())),
        call_total: time("call_total", raw.and_then(|raw| raw.call_total.as_ref())),
    }
}

fn policy(raw: &raw::Server, at: &At, context: &mut Context<'_>) -> ServerPolicy {
    let d = ServerPolicy::default();
    let mut prices = Vec::new();
    for (pattern, tool) in raw.tools.iter().flat_map(|tools| &tools.0) {
        let Some(raw) = &tool.cost else { continue };
        prices.push((pattern.clone(), cost::check(raw, &at.key("tools").key(pattern).key("cost"), context)));
    }
    let limits = at.key("limits");
    let calls = raw.limits.as_ref().and_then(|limits| limits.calls.as_ref());
    let calls = calls.and_then(|rate| context.rate(&limits.key("calls"), rate));
    let concurrency = raw.limits.as_ref().and_then(|limits| limits.concurrency);
    let concurrency = context.bound(&limits.key("concurrency"), concurrency, 1..=1_000_000);
    ServerPolicy {
        trusted_hints: raw.trusted_hints.unwrap_or(d.trusted_hints),
        check_arguments: raw.check_arguments.unwrap_or(d.check_arguments),
        calls,
        concurrency: concurrency.and_then(|most| u32::try_from(most).ok()),
        price: raw.cost.as_ref().map(|raw| cost::check(raw, &at.key("cost"), context)),
        prices: prices.into_iter().collect::<ByTool<_>>(),
    }
}

#[cfg(test)]
mod tests {
    use super::valid_id;

    #[test]
    fn ids() {
        assert!(valid_id("a") && valid_id("git-hub2") && valid_id(&"a".repeat(32)));
        for id in ["", "A", "2a", "-a", "a_b", "a.b", "ä", "a b", &"a".repeat(33)] {
            assert!(!valid_id(id), "{id}");
        }
    }
}
