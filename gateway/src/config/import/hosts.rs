//! Reading what hosts write: JSON, with the comments and trailing commas that VS Code allows, and the servers
//! under whichever key that host uses.

use serde_json::{Map, Value};

use super::MAX_BYTES;
use crate::config::place::clip;

/// Keys beside the servers that mean nothing to a gateway; everything else is reported.
const HARMLESS: [&str; 2] = ["$schema", "inputs"];

/// What a host's file holds.
pub(super) struct Found {
    /// Name and settings of each server, in the order of the file.
    pub(super) servers: Vec<(String, Value)>,
    /// What else is in it.
    pub(super) notes: Vec<String>,
}

/// The servers of a host's file; one line saying why there are none to be had.
pub(super) fn read(bytes: &[u8]) -> Result<Found, String> {
    if bytes.len() > MAX_BYTES {
        return Err("the file is larger than 1 MiB".into());
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())?;
    let plain = without_comments(text.strip_prefix('\u{FEFF}').unwrap_or(text));
    let root: Value = serde_json::from_str(&plain)
        .map_err(|error| format!("not JSON at line {}, column {}", error.line(), error.column()))?;
    let Value::Object(root) = root else { return Err("not a JSON object".into()) };
    let mut servers = Vec::new();
    let mut notes = Vec::new();
    let mut found = false;
    for (key, value) in root {
        match (key.as_str(), value) {
            ("mcpServers" | "servers", Value::Object(members)) => {
                found = true;
                servers.extend(members);
            }
            ("mcp", Value::Object(mut settings)) if settings.contains_key("servers") => {
                found = true;
                servers.extend(settings.remove("servers").and_then(object).unwrap_or_default());
                notes.extend(
                    settings.keys().filter(|key| !harmless(key)).map(|key| ignored(&format!("mcp.{key}"))),
                );
            }
            (key, _) if harmless(key) => {}
            (key, _) => notes.push(ignored(key)),
        }
    }
    if found {
        Ok(Found { servers, notes })
    } else {
        Err("neither `mcpServers` nor `servers` in the file".into())
    }
}

fn harmless(key: &str) -> bool {
    HARMLESS.contains(&key)
}

fn ignored(key: &str) -> String {
    format!("{:?} is not carried over", clip(key, 64))
}

fn object(value: Value) -> Option<Map<String, Value>> {
    if let Value::Object(members) = value { Some(members) } else { None }
}

/// Blanks comments and trailing commas out; line numbers stay what they were.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    // Where the last comma stands in `out`, if only blanks came after it.
    let mut comma: Option<usize> = None;
    while let Some(c) = rest.next() {
        match (c, rest.peek()) {
            ('"', _) => {
                comma = None;
                out.push(c);
                string(&mut rest, &mut out);
            }
            ('/', Some('/')) => while rest.next_if(|c| *c != '\n').is_some() {},
            ('/', Some('*')) => block(&mut rest, &mut out),
            (',', _) => {
                comma = Some(out.len());
                out.push(c);
            }
            ('}' | ']', _) => {
                if let Some(at) = comma.take() {
                    out.replace_range(at..=at, " ");
                }
                out.push(c);
            }
            _ => {
                comma = comma.filter(|_| c.is_whitespace());
                out.push(c);
            }
        }
    }
    out
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// Copies the rest of a string.
fn string(rest: &mut Chars<'_>, out: &mut String) {
    while let Some(c) = rest.next() {
        out.push(c);
        match c {
            '"' => return,
            '\\' => out.extend(rest.next()),
            _ => {}
        }
    }
}

/// Drops a `/* */` comment and keeps its line ends.
fn block(rest: &mut Chars<'_>, out: &mut String) {
    rest.next();
    let mut star = false;
    for c in rest.by_ref() {
        if star && c == '/' {
            out.push(' ');
            return;
        }
        star = c == '*';
        if c == '\n' {
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas() {
        let text = "{ // one\n \"a//b\": \"/* \\\" */\", /* two\n */ \"c\": [1, 2, ], }";
        let plain = without_comments(text);
        let value: Value = serde_json::from_str(&plain).unwrap();
        assert_eq!(value, serde_json::json!({ "a//b": "/* \" */", "c": [1, 2] }));
        assert_eq!(plain.lines().count(), text.lines().count());
    }

    #[test]
    fn a_lone_comma_stays_an_error() {
        for text in ["[,1]", "[1,,2]", "{,}x"] {
            assert!(serde_json::from_str::<Value>(&without_comments(text)).is_err(), "{text}");
        }
    }

    #[test]
    fn unended_pieces_are_no_json() {
        for text in ["\"", "/*", "//", "\"\\", "/", "{\"a\": /*"] {
            assert!(serde_json::from_str::<Value>(&without_comments(text)).is_err(), "{text}");
        }
    }
}
