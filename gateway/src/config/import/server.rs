//! One server of a host's file as the lines of ours.

use serde_json::{Map, Value};

use super::values::{Piece, Variables, env_value, header_value, pieces, variable};
use super::yaml::{list, scalar};
use crate::config::place::clip;

/// The lines of a server, without indentation, and what is to be said about it.
#[derive(Debug, Default)]
pub(super) struct Converted {
    pub(super) lines: Vec<String>,
    pub(super) notes: Vec<String>,
    /// It is not to be started: the host had it switched off, or it can't be expressed.
    pub(super) left_out: bool,
}

impl Converted {
    fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    fn leave_out(&mut self, text: impl Into<String>) {
        self.left_out = true;
        self.notes.push(format!("left as a comment: {}", text.into()));
    }
}

/// Converts one server.
pub(super) fn convert(id: &str, value: &Value, variables: &mut Variables) -> Converted {
    let mut out = Converted::default();
    let Value::Object(server) = value else {
        out.leave_out("it is not an object in the host's file");
        return out;
    };
    if server.get("disabled").is_some_and(|v| v == true) || server.get("enabled").is_some_and(|v| v == false)
    {
        out.leave_out("the host has it switched off");
    }
    kind(server, &mut out);
    for (key, value) in server {
        field(id, (key, value), variables, &mut out);
    }
    out
}

/// The `type` of the host as ours. A program needs none.
fn kind(server: &Map<String, Value>, out: &mut Converted) {
    let given = server.get("type").or_else(|| server.get("transport"));
    let remote = ["url", "serverUrl", "httpUrl"].iter().any(|key| server.contains_key(*key));
    match given.and_then(Value::as_str) {
        Some("http" | "streamable-http" | "streamableHttp" | "streamable_http") if remote => {
            out.lines.push("type: http".into());
        }
        Some("sse") if remote => out.lines.push("type: sse".into()),
        Some("stdio") if !remote => {}
        Some("stdio") => out.note("its type is stdio but it has a URL; the URL counts"),
        Some(other) if remote => {
            out.leave_out(format!("its type {:?} is none that Tollgate has", clip(other, 32)))
        }
        _ => {}
    }
}

fn field(id: &str, (key, value): (&str, &Value), variables: &mut Variables, out: &mut Converted) {
    match (key, value) {
        ("type" | "transport", Value::String(_)) | ("disabled" | "enabled", Value::Bool(_)) => {}
        ("url" | "serverUrl" | "httpUrl", Value::String(text)) => text_field("url", text, out),
        ("command", Value::String(text)) => text_field("command", text, out),
        ("cwd", Value::String(text)) if variable(text) => {
            out.note("cwd is not carried over: it has a variable in it; write it out");
        }
        ("cwd", Value::String(text)) => out.lines.push(format!("cwd: {}", scalar(text))),
        ("args", Value::Array(items)) if !items.is_empty() => arguments(items, out),
        ("args", Value::Array(_)) => {}
        ("env", Value::Object(members)) => {
            let convert =
                |name: &str, text: &str, variables: &mut Variables| env_value(id, name, text, variables);
            mapping("env", members, (variables, &convert), out);
        }
        ("headers", Value::Object(members)) => {
            let convert =
                |name: &str, text: &str, variables: &mut Variables| header_value(id, name, text, variables);
            mapping("headers", members, (variables, &convert), out);
        }
        (key, _) => out.note(format!("{:?} is not carried over", clip(key, 64))),
    }
}

/// A text that can't hold a reference: variables with a fallback become it, others can't be expressed.
fn text_field(key: &str, text: &str, out: &mut Converted) {
    match filled(text) {
        Some(text) if text.fallback => {
            out.note(format!("{key} had a variable in it; the fallback is written in its place"));
            out.lines.push(format!("{key}: {}", scalar(&text.value)));
        }
        Some(text) => out.lines.push(format!("{key}: {}", scalar(&text.value))),
        None => {
            out.lines.push(format!("{key}: {}", scalar(text)));
            out.leave_out(format!("{key} has a variable in it, which is not resolved there; write it out"));
        }
    }
}

struct Filled {
    value: String,
    fallback: bool,
}

/// The text with fallbacks in place of variables; `None` when one has none.
fn filled(text: &str) -> Option<Filled> {
    let mut filled = Filled { value: String::new(), fallback: false };
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => filled.value.push_str(text),
            Piece::Variable { fallback, .. } => {
                filled.value.push_str(fallback?);
                filled.fallback = true;
            }
        }
    }
    Some(filled)
}

fn arguments(items: &[Value], out: &mut Converted) {
    let mut args = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Some(text) = plain(item) else {
            out.note(format!("argument {} is not carried over: it is no text", index + 1));
            continue;
        };
        match filled(&text) {
            Some(filled) => args.push(filled.value),
            None => {
                let what = "has a variable in it, which is not resolved there; write it out, or use `env`";
                out.note(format!("argument {} {what}", index + 1));
                args.push(text);
            }
        }
    }
    out.lines.push(format!("args: {}", list(&args)));
}

type Convert<'a> = &'a dyn Fn(&str, &str, &mut Variables) -> String;

fn mapping(
    key: &str,
    members: &Map<String, Value>,
    (variables, convert): (&mut Variables, Convert<'_>),
    out: &mut Converted,
) {
    let mut lines = Vec::new();
    for (name, value) in members {
        match plain(value) {
            Some(text) => {
                let text = convert(name, &text, variables);
                lines.push(format!("  {}: {}", scalar(name), scalar(&text)));
            }
            None => out.note(format!("{key}.{} is not carried over: it is no text", clip(name, 64))),
        }
    }
    if !lines.is_empty() {
        out.lines.push(format!("{key}:"));
        out.lines.extend(lines);
    }
}

/// A text, or a number or truth value as the text that it is written as.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}
