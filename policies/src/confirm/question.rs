//! The text of the question: what would run, where, with which arguments. Secrets are masked, nothing in it can pose as
//! something else, and what is left out is said before the rest.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Bytes of a question.
pub const MAX_QUESTION: usize = 4096;
/// Bytes of one text among the arguments, from which its middle is left out.
const MAX_TEXT: usize = 400;
/// Bytes that the sentences around the arguments take at most.
const FRAME: usize = 1024;
/// Nesting of the arguments that is shown.
const MAX_DEPTH: usize = 16;

/// What the question is about.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The server's configured id.
    pub server: &'a str,
    /// The tool's name.
    pub tool: &'a str,
    /// The task.
    pub task: &'a str,
    /// The arguments, as JSON text.
    pub arguments: &'a str,
}

/// Masks a text or number among the arguments: gets the member's name, where it has one, and the text; gives what is
/// shown instead, or nothing when it may be shown.
pub type Mask<'a> = dyn Fn(Option<&str>, &str) -> Option<String> + 'a;

/// The question.
pub fn question(asked: &Asked<'_>, mask: &Mask<'_>) -> String {
    let (shown, cut) = match serde_json::from_str::<Value>(asked.arguments) {
        Ok(value) => {
            let mut cut = false;
            let value = prepared(&value, None, mask, (0, &mut cut));
            let text = serde_json::to_string_pretty(&value).unwrap_or_default();
            let text = plain(&text, true);
            let bounded = head(&text, MAX_QUESTION - FRAME);
            let short = bounded.len() < text.len();
            (if short { format!("{bounded}\n…") } else { text }, cut || short)
        }
        Err(_) => ("(the arguments are no JSON)".to_owned(), true),
    };
    let mut out = String::new();
    let (tool, server, task) = (name(asked.tool), name(asked.server), name(asked.task));
    // Writing to a string can't fail.
    let _ = writeln!(out, "Run the tool '{tool}' of the server '{server}' (task '{task}')?");
    if cut {
        let size = asked.arguments.len();
        let _ = writeln!(
            out,
            "The arguments ({size} bytes) are NOT shown in full; decline if you can't tell what they do."
        );
    }
    if shown == "{}" {
        out.push_str("It has no arguments.");
    } else {
        let _ = write!(out, "Arguments:\n{shown}");
    }
    out
}

fn name(text: &str) -> String {
    head(&plain(text, false), 200).to_owned()
}

/// The value as it is shown: masked, with long texts cut in the middle.
fn prepared(value: &Value, key: Option<&str>, mask: &Mask<'_>, (depth, cut): (usize, &mut bool)) -> Value {
    if depth > MAX_DEPTH {
        *cut = true;
        return Value::from("…");
    }
    match value {
        Value::String(text) => match mask(key, text) {
            Some(masked) => Value::from(masked),
            None if text.len() > MAX_TEXT => {
                *cut = true;
                Value::from(format!("{} … {}", head(text, MAX_TEXT / 2), tail(text, MAX_TEXT / 4)))
            }
            None => value.clone(),
        },
        Value::Number(number) => mask(key, &number.to_string()).map_or_else(|| value.clone(), Value::from),
        Value::Array(all) => all.iter().map(|one| prepared(one, key, mask, (depth + 1, &mut *cut))).collect(),
        Value::Object(members) => {
            let mut shown = Map::new();
            for (key, value) in members {
                // A secret may be a name as well.
                let name = mask(None, key).unwrap_or_else(|| key.clone());
                shown.insert(name, prepared(value, Some(key), mask, (depth + 1, &mut *cut)));
            }
            Value::Object(shown)
        }
        Value::Null | Value::Bool(_) => value.clone(),
    }
}

/// The text with everything escaped that is not seen, or that changes what is seen around it.
fn plain(text: &str, lines: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if (c == '\n' && lines) || !is_hidden(c) {
            out.push(c);
        } else {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
    }
    out
}

/// Controls, format and bidirectional marks, separators, fillers, variation selectors and tags (Unicode general categories
/// Cc, Cf, Zl, Zp and what is rendered as nothing).
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(u32::from(c),
            0xad | 0x34f | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x890..=0x891 | 0x8e2 | 0x115f..=0x1160
            | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x2800
            | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0x110bd | 0x110cd | 0x13430..=0x1345f
            | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff)
}

/// As much of the beginning as fits, whole characters.
fn head(text: &str, bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(bytes)).unwrap_or_default()
}

/// As much of the end as fits, whole characters.
fn tail(text: &str, bytes: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(bytes));
    text.get(from..).unwrap_or_default()
}
