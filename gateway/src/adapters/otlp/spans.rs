//! What a finished message is in a trace: a span of kind server, and below it one of kind client when a server was
//! called. Names and attributes follow OpenTelemetry's semantic conventions for MCP (status: development); what those do
//! not know is under `tollgate.`.

use std::time::SystemTime;

use super::Item;
use super::proto::Message;
use crate::answers::VERSION;
use crate::ports::clock::since_epoch;
use crate::ports::traces::{Finished, Leg, Subject};

const SERVER: u64 = 2;
const CLIENT: u64 = 3;
const ERROR: u64 = 2;
/// Flags of a span: sampled, and known whether its parent is elsewhere.
const FLAGS: u32 = 0x101;
/// The parent is elsewhere.
const REMOTE: u32 = 0x200;
/// Field of a span's attributes.
const ATTRIBUTES: u32 = 9;
/// Bits of a trace id that are random.
const RANDOM_BITS: u32 = 56;

/// Whether a trace is in this part of all traces, from 0 to 1: the same for everybody who asks with the same part.
pub(super) fn sampled(trace: &str, part: f64) -> bool {
    let low = trace.get(18..).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let whole = 2_f64.powi(RANDOM_BITS.cast_signed());
    #[allow(clippy::cast_precision_loss, reason = "a threshold among 2^56")]
    low.is_some_and(|low| low as f64 >= whole - part * whole)
}

/// How many spans a message makes.
pub(super) fn count(message: &Finished) -> u64 {
    1 + u64::from(message.leg.is_some())
}

/// The resource, encoded: what is configured, over what is known anyway.
pub(super) fn resource(configured: &[(String, String)], instance: &str) -> Vec<u8> {
    let own = [("service.name", "tollgate"), ("service.version", VERSION), ("service.instance.id", instance)];
    let mut message = Message::default();
    for (key, value) in own {
        if !configured.iter().any(|(other, _)| other == key) {
            message.text(1, key, value);
        }
    }
    for (key, value) in configured {
        message.text(1, key, value);
    }
    message.finish()
}

/// The request that exports a batch.
pub(super) fn request(resource: &[u8], batch: &[Item]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |of_resource| {
        of_resource.bytes(1, resource);
        of_resource.message(2, |of_scope| {
            of_scope.message(1, |scope| {
                scope.bytes(1, b"tollgate");
                scope.bytes(2, VERSION.as_bytes());
            });
            for (message, ended) in batch {
                of_scope.message(2, |span| server(span, message, *ended));
                if let Some(leg) = &message.leg {
                    of_scope.message(2, |span| client(span, (message, leg), *ended));
                }
            }
        });
    });
    request.finish()
}

fn nanos(time: SystemTime) -> u64 {
    u64::try_from(since_epoch(time).as_nanos()).unwrap_or(u64::MAX)
}

fn id(hex: &str) -> Vec<u8> {
    let pairs = (0..hex.len() / 2).filter_map(|n| hex.get(2 * n..2 * n + 2));
    pairs.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect()
}

fn name(method: &str, subject: Option<&Subject>) -> String {
    match subject {
        Some(Subject::Tool { name, listed: true } | Subject::Prompt { name, listed: true }) => {
            format!("{method} {name}")
        }
        // What somebody invents is in no span's name.
        _ => method.to_owned(),
    }
}

fn server(span: &mut Message, message: &Finished, ended: SystemTime) {
    span.bytes(1, &id(&message.trace));
    span.bytes(2, &id(&message.span));
    span.bytes(4, &id(message.parent.as_deref().unwrap_or_default()));
    span.bytes(5, name(&message.method, message.subject.as_ref()).as_bytes());
    span.varint(6, SERVER);
    span.fixed64(7, nanos(ended.checked_sub(message.took).unwrap_or(ended)));
    span.fixed64(8, nanos(ended));
    common(span, message, message.subject.as_ref(), message.revision);
    let transport = if message.pipe { "pipe" } else { "tcp" };
    span.text(ATTRIBUTES, "network.transport", transport);
    if !message.pipe {
        span.text(ATTRIBUTES, "network.protocol.name", "http");
    }
    let optional = [
        ("jsonrpc.request.id", message.id.as_deref()),
        ("mcp.session.id", message.session.as_deref()),
        ("tollgate.run", message.run.as_deref()),
        ("tollgate.reason", message.reason),
        ("error.type", message.error.as_deref()),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            span.text(ATTRIBUTES, key, value);
        }
    }
    for (key, value) in [("tollgate.task", &message.task), ("tollgate.server", &message.server)] {
        if !value.is_empty() {
            span.text(ATTRIBUTES, key, value);
        }
    }
    span.text(ATTRIBUTES, "tollgate.call_id", &message.call_id);
    span.text(ATTRIBUTES, "tollgate.outcome", message.outcome);
    if let Some(code) = message.code {
        span.text(ATTRIBUTES, "rpc.response.status_code", &code.to_string());
    }
    if let Some(cost) = message.cost_nanousd {
        span.number(ATTRIBUTES, "tollgate.cost_nanousd", cost);
    }
    if message.error.is_some() {
        span.message(15, |status| status.varint(3, ERROR));
    }
    span.fixed32(16, FLAGS | if message.parent.is_some() { REMOTE } else { 0 });
}

fn client(span: &mut Message, (message, leg): (&Finished, &Leg), ended: SystemTime) {
    let start =
        ended.checked_sub(message.took).and_then(|start| start.checked_add(leg.after)).unwrap_or(ended);
    span.bytes(1, &id(&message.trace));
    span.bytes(2, &id(&leg.span));
    span.bytes(4, &id(&message.span));
    span.bytes(5, name(&message.method, leg.subject.as_ref()).as_bytes());
    span.varint(6, CLIENT);
    span.fixed64(7, nanos(start));
    span.fixed64(8, nanos(start.checked_add(leg.took).unwrap_or(start)));
    common(span, message, leg.subject.as_ref(), leg.revision);
    match &leg.address {
        Some((host, port)) => {
            span.text(ATTRIBUTES, "network.transport", "tcp");
            span.text(ATTRIBUTES, "network.protocol.name", "http");
            span.text(ATTRIBUTES, "server.address", host);
            if let Some(port) = port {
                span.number(ATTRIBUTES, "server.port", u64::from(*port));
            }
        }
        None => span.text(ATTRIBUTES, "network.transport", "pipe"),
    }
    span.text(ATTRIBUTES, "tollgate.server", &message.server);
    span.text(ATTRIBUTES, "tollgate.call_id", &message.call_id);
    let failed = match message.outcome {
        "tool_error" => Some("tool_error"),
        "failed" => Some(message.reason.unwrap_or("_OTHER")),
        _ => None,
    };
    if let Some(kind) = failed {
        span.text(ATTRIBUTES, "error.type", kind);
        span.message(15, |status| status.varint(3, ERROR));
    }
    span.fixed32(16, FLAGS);
}

fn common(span: &mut Message, message: &Finished, subject: Option<&Subject>, revision: Option<&str>) {
    span.text(ATTRIBUTES, "mcp.method.name", &message.method);
    match subject {
        Some(Subject::Tool { name, .. }) => {
            span.text(ATTRIBUTES, "gen_ai.operation.name", "execute_tool");
            span.text(ATTRIBUTES, "gen_ai.tool.name", name);
        }
        Some(Subject::Prompt { name, .. }) => span.text(ATTRIBUTES, "gen_ai.prompt.name", name),
        Some(Subject::Resource(uri)) => span.text(ATTRIBUTES, "mcp.resource.uri", uri),
        None => {}
    }
    if let Some(revision) = revision {
        span.text(ATTRIBUTES, "mcp.protocol.version", revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_all_traces_is_sampled_and_always_the_same() {
        let trace = |n: u64| format!("{:016x}{:016x}", n, n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let taken = |part: f64| (0..10_000).filter(|n| sampled(&trace(*n), part)).count();
        assert_eq!((taken(0.0), taken(1.0)), (0, 10_000));
        assert!((900..1100).contains(&taken(0.1)), "{}", taken(0.1));
        assert!(
            (0..1000).all(|n| !sampled(&trace(n), 0.1) || sampled(&trace(n), 0.5)),
            "a larger part holds a smaller"
        );
        assert!(!sampled("", 1.0) && !sampled("not hexadecimal, but long enough", 1.0));
    }

    #[test]
    fn what_nobody_lists_is_in_no_name() {
        let tool = |listed| Subject::Tool { name: "search".into(), listed };
        assert_eq!(name("tools/call", Some(&tool(true))), "tools/call search");
        assert_eq!(name("tools/call", Some(&tool(false))), "tools/call");
        assert_eq!(name("resources/read", Some(&Subject::Resource("file:///x".into()))), "resources/read");
    }
}
