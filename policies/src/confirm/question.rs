//! The text of the question: what would run, where, with which arguments. Secrets are masked, nothing in it can pose as
//! something else, and what is left out is said before the rest.

use std::fmt::Write as _;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::splice::{self, Kind, Malformed, Token, Tokens};

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
    let (shown, cut) = match shown(asked.arguments, mask) {
        Ok((value, cut)) => {
            let text = serde_json::to_string_pretty(&value).unwrap_or_default();
            let text = plain(&text, true);
            let bounded = head(&text, MAX_QUESTION - FRAME);
            let short = bounded.len() < text.len();
            (if short { format!("{bounded}\n…") } else { text }, cut || short)
        }
        Err(Malformed) => ("(the arguments are no JSON)".to_owned(), true),
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

/// The arguments as they are shown.
enum Shown {
    /// Numbers keep their digits: a person agrees to what is sent, not to what a checker can hold of it.
    AsIs(Box<RawValue>),
    Text(String),
    List(Vec<Shown>),
    Members(Vec<(String, Shown)>),
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Shown::AsIs(raw) => raw.serialize(to),
            Shown::Text(text) => to.serialize_str(text),
            Shown::List(all) => to.collect_seq(all),
            Shown::Members(all) => to.collect_map(all.iter().map(|(name, value)| (name, value))),
        }
    }
}

/// The arguments, masked and with long texts cut in the middle, and whether anything was cut.
fn shown(arguments: &str, mask: &Mask<'_>) -> Result<(Shown, bool), Malformed> {
    serde_json::from_str::<&RawValue>(arguments).map_err(|_| Malformed)?;
    let mut reader = Reader { text: arguments, tokens: Tokens::new(arguments), mask, cut: false };
    let first = reader.token()?;
    let value = reader.value(&first, None, 0)?;
    Ok((value, reader.cut))
}

struct Reader<'a> {
    text: &'a str,
    tokens: Tokens<'a>,
    mask: &'a Mask<'a>,
    cut: bool,
}

impl Reader<'_> {
    fn token(&mut self) -> Result<Token, Malformed> {
        self.tokens.next()?.ok_or(Malformed)
    }

    fn value(&mut self, token: &Token, key: Option<&str>, depth: usize) -> Result<Shown, Malformed> {
        if depth > MAX_DEPTH {
            if matches!(token.kind, Kind::Open { .. }) {
                self.tokens.skip()?;
            }
            self.cut = true;
            return Ok(Shown::Text("…".to_owned()));
        }
        match token.kind {
            Kind::Open { object: true } => self.members(depth),
            Kind::Open { object: false } => self.list(key, depth),
            Kind::Text => {
                let said = splice::unquoted(self.text, &token.span);
                Ok(Shown::Text((self.mask)(key, &said).unwrap_or_else(|| self.bounded(&said))))
            }
            Kind::Number | Kind::Word => {
                let said = self.text.get(token.span.clone()).unwrap_or_default();
                let masked = if token.kind == Kind::Number { (self.mask)(key, said) } else { None };
                match masked {
                    Some(masked) => Ok(Shown::Text(masked)),
                    None if said.len() > MAX_TEXT => Ok(Shown::Text(self.bounded(said))),
                    None => RawValue::from_string(said.to_owned()).map(Shown::AsIs).map_err(|_| Malformed),
                }
            }
            Kind::Close | Kind::Key => Err(Malformed),
        }
    }

    fn list(&mut self, key: Option<&str>, depth: usize) -> Result<Shown, Malformed> {
        let mut all = Vec::new();
        loop {
            let token = self.token()?;
            if token.kind == Kind::Close {
                return Ok(Shown::List(all));
            }
            all.push(self.value(&token, key, depth + 1)?);
        }
    }

    fn members(&mut self, depth: usize) -> Result<Shown, Malformed> {
        let mut all = Vec::new();
        let mut masked = 0;
        loop {
            let token = self.token()?;
            if token.kind == Kind::Close {
                return Ok(Shown::Members(all));
            }
            let key = splice::unquoted(self.text, &token.span).into_owned();
            // A secret may be a name as well, and two of them are two members.
            let name = match (self.mask)(None, &key) {
                None => key.clone(),
                Some(name) => {
                    masked += 1;
                    if masked > 1 { format!("{name}~{masked}") } else { name }
                }
            };
            let token = self.token()?;
            all.push((name, self.value(&token, Some(&key), depth + 1)?));
        }
    }

    fn bounded(&mut self, said: &str) -> String {
        if said.len() <= MAX_TEXT {
            return said.to_owned();
        }
        self.cut = true;
        format!("{} … {}", head(said, MAX_TEXT / 2), tail(said, MAX_TEXT / 4))
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
