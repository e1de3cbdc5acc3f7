//! JSON text as a run of tokens with their places, so that single values can be replaced and everything else stays
//! byte for byte. Builds no tree, and never checks more of the grammar than it needs: texts are checked before.

use std::borrow::Cow;
use std::ops::Range;

use memchr::{memchr, memchr2};

/// Containers inside each other that are walked into; the wire layer accepts 64.
const MAX_DEPTH: usize = 256;

/// The text is no JSON, or nested too deeply. Nothing can be said of what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the text is no JSON that can be walked through")
    }
}

impl std::error::Error for Malformed {}

/// One token and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    /// In bytes; a string's quotes are inside.
    pub(crate) span: Range<usize>,
}

/// Kinds of tokens. Commas and colons are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `{` or `[`.
    Open {
        /// `{`.
        object: bool,
    },
    /// `}` or `]`.
    Close,
    /// The key of a member.
    Key,
    /// A string that is a value.
    Text,
    Number,
    /// `true`, `false` or `null`.
    Word,
}

/// Reads the tokens of one text.
#[derive(Debug)]
pub(crate) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// Per open container: whether it is an object.
    open: Vec<bool>,
    key_next: bool,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(text: &'a str) -> Tokens<'a> {
        Tokens { text, at: 0, open: Vec::new(), key_next: false }
    }

    /// Open containers after the last token.
    pub(crate) fn depth(&self) -> usize {
        self.open.len()
    }

    /// The next token; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Token>, Malformed> {
        let bytes = self.text.as_bytes();
        loop {
            let Some(byte) = bytes.get(self.at) else {
                return if self.open.is_empty() { Ok(None) } else { Err(Malformed) };
            };
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                b',' => {
                    self.key_next = self.open.last().copied().ok_or(Malformed)?;
                    self.at += 1;
                }
                b':' => {
                    self.key_next = false;
                    self.at += 1;
                }
                _ => return self.token(*byte).map(Some),
            }
        }
    }

    fn token(&mut self, first: u8) -> Result<Token, Malformed> {
        let start = self.at;
        let kind = match first {
            b'{' | b'[' => {
                if self.open.len() >= MAX_DEPTH {
                    return Err(Malformed);
                }
                self.open.push(first == b'{');
                self.key_next = first == b'{';
                self.at += 1;
                Kind::Open { object: first == b'{' }
            }
            b'}' | b']' => {
                if self.open.pop() != Some(first == b'}') {
                    return Err(Malformed);
                }
                self.at += 1;
                Kind::Close
            }
            b'"' => {
                self.at = end_of_string(self.text.as_bytes(), start).ok_or(Malformed)?;
                if self.key_next { Kind::Key } else { Kind::Text }
            }
            b't' | b'f' | b'n' => {
                let kind = self.run(Kind::Word, |b| b.is_ascii_lowercase());
                match self.text.get(start..self.at) {
                    Some("true" | "false" | "null") => kind,
                    _ => return Err(Malformed),
                }
            }
            b'-' | b'0'..=b'9' => {
                self.run(Kind::Number, |b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'))
            }
            _ => return Err(Malformed),
        };
        Ok(Token { kind, span: start..self.at })
    }

    fn run(&mut self, kind: Kind, of: impl Fn(u8) -> bool) -> Kind {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        self.at += rest.iter().position(|b| !of(*b)).unwrap_or(rest.len());
        kind
    }

    /// Goes past the container that was opened last; gives where it ends.
    pub(crate) fn skip(&mut self) -> Result<usize, Malformed> {
        let outside = self.open.len().checked_sub(1).ok_or(Malformed)?;
        while self.open.len() > outside {
            self.next()?.ok_or(Malformed)?;
        }
        Ok(self.at)
    }
}

fn end_of_string(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let found = at + memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(found) == Some(&b'"') {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

/// What a string token says. Half a surrogate pair reads as U+FFFD.
pub(crate) fn unquoted<'a>(text: &'a str, span: &Range<usize>) -> Cow<'a, str> {
    let inside = span.start + 1..span.end.saturating_sub(1);
    let raw = text.get(inside).unwrap_or_default();
    match memchr(b'\\', raw.as_bytes()) {
        None => Cow::Borrowed(raw),
        Some(first) => Cow::Owned(unescaped(raw, first)),
    }
}

fn unescaped(raw: &str, first: usize) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    let mut next = Some(first);
    while let Some(at) = next {
        let (clean, escape) = rest.split_at_checked(at).unwrap_or((rest, ""));
        out.push_str(clean);
        let (char, length) = escaped(escape);
        out.push(char);
        rest = escape.get(length..).unwrap_or_default();
        next = memchr(b'\\', rest.as_bytes());
    }
    out.push_str(rest);
    out
}

/// The character that an escape stands for, and the escape's length.
fn escaped(escape: &str) -> (char, usize) {
    let char = match escape.as_bytes().get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return by_number(escape),
        Some(other) if other.is_ascii() => char::from(*other),
        _ => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (char, 2)
}

fn by_number(escape: &str) -> (char, usize) {
    let unit = |at: usize| {
        let escape = escape.get(at..at + 6)?.strip_prefix("\\u")?;
        u32::from_str_radix(escape, 16).ok()
    };
    match (unit(0), unit(6)) {
        (Some(high @ 0xd800..=0xdbff), Some(low @ 0xdc00..=0xdfff)) => {
            let scalar = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            (char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
        }
        (Some(one), _) => (char::from_u32(one).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
        (None, _) => (char::REPLACEMENT_CHARACTER, 2),
    }
}

/// A text as a JSON string, quotes and all.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if u32::from(control) < 0x20 => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// A text with some of its spans replaced. The spans are in order and apart.
pub(crate) fn spliced(text: &str, edits: impl IntoIterator<Item = (Range<usize>, String)>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for (span, with) in edits {
        out.push_str(text.get(from..span.start).unwrap_or_default());
        out.push_str(&with);
        from = span.end;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_carry_their_places() {
        let text = r#" {"a\"b": [1, -2.5e3, "x,]\\"], "c": {"d": null}} "#;
        let mut tokens = Tokens::new(text);
        let mut seen = Vec::new();
        while let Some(token) = tokens.next().unwrap() {
            seen.push((token.kind, &text[token.span]));
        }
        let (key, string) = (Kind::Key, Kind::Text);
        assert_eq!(seen[1], (key, r#""a\"b""#));
        assert_eq!(seen[3..6], [(Kind::Number, "1"), (Kind::Number, "-2.5e3"), (string, r#""x,]\\""#)]);
        assert_eq!(seen[7], (key, r#""c""#));
        assert_eq!(seen[10], (Kind::Word, "null"));
        assert_eq!(seen.len(), 13);
    }

    #[test]
    fn what_is_no_json_is_told_and_never_walked_forever() {
        for text in ["{", "[}", "[nil]", "\"abc", "\"abc\\", "{\"a\":x}", "]", &"[".repeat(300)] {
            let mut tokens = Tokens::new(text);
            let end = loop {
                match tokens.next() {
                    Ok(Some(_)) => {}
                    other => break other,
                }
            };
            assert_eq!(end, Err(Malformed), "{text}");
        }
    }

    #[test]
    fn strings_read_as_another_parser_reads_them() {
        for text in [
            r#""plain""#,
            r#""a\u0041\n\t\r\b\f\/\\\"z""#,
            r#""\ud83d\ude00 \u00e9""#,
            r#""\\u0041""#,
            r#""é\u0000""#,
        ] {
            let said = unquoted(text, &(0..text.len()));
            assert_eq!(said, serde_json::from_str::<String>(text).unwrap());
            assert_eq!(serde_json::from_str::<String>(&quoted(&said)).unwrap(), said);
        }
        assert_eq!(unquoted(r#""\ud83dx\udc00""#, &(0..15)), "\u{fffd}x\u{fffd}");
    }
}
