//! The strict reader: one pass over a text that proves it to be one JSON value within its limits. Builds no
//! tree, changes nothing, and never recurses, so nesting costs a frame and not the thread's stack.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

use super::seen::{Seen, unescaped};
use super::text::{hex4, plain_end};
use super::{Fault, JsonError, Limits};

/// Objects with more keys than this are checked by a hash set, so that 100,000 keys stay linear.
const LINEAR_KEYS: usize = 16;

/// An open container.
struct Frame {
    object: bool,
    /// Where its keys start in the common list of keys.
    first_key: usize,
    /// The keys after unescaping, once comparing them one by one no longer does.
    seen: Option<Seen>,
}

/// Members of the outermost object whose places are noted; no message has more.
const TOP: usize = 8;

/// Where the outermost object's members stand.
#[derive(Clone, Debug, Default)]
pub(super) struct Top {
    /// Keys and values, in their order.
    pub(super) spans: SmallVec<[(Range<usize>, Range<usize>); TOP]>,
    /// Whether these are all.
    pub(super) whole: bool,
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: usize,
    nodes: u32,
    frames: SmallVec<[Frame; 16]>,
    keys: SmallVec<[&'a [u8]; 32]>,
    top: Top,
}

/// Proves `bytes` to be one JSON value; returns where it stands between surrounding whitespace, and where its members
/// stand when it is an object.
pub(super) fn check(bytes: &[u8], limits: &Limits) -> Result<(Range<usize>, Top), JsonError> {
    std::str::from_utf8(bytes).map_err(|error| JsonError { fault: Fault::Utf8, at: error.valid_up_to() })?;
    let mut scanner = Scanner {
        text: bytes,
        at: 0,
        depth: usize::from(limits.depth),
        nodes: limits.nodes,
        frames: SmallVec::new(),
        keys: SmallVec::new(),
        top: Top::default(),
    };
    scanner.space();
    let start = scanner.at;
    if start == bytes.len() {
        return Err(scanner.fault(Fault::Empty));
    }
    while scanner.value()? || !scanner.after_value()? {
        scanner.space();
    }
    let end = scanner.at;
    scanner.space();
    if scanner.at != bytes.len() {
        return Err(scanner.fault(Fault::Trailing));
    }
    Ok((start..end, scanner.top))
}

impl<'a> Scanner<'a> {
    fn fault(&self, fault: Fault) -> JsonError {
        JsonError { fault, at: self.at }
    }

    fn syntax<T>(&self, what: &'static str) -> Result<T, JsonError> {
        Err(self.fault(Fault::Syntax(what)))
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Reads a value from its first byte. True: it opened a container and the next value starts; false: the
    /// value is complete.
    #[inline]
    fn value(&mut self) -> Result<bool, JsonError> {
        self.nodes = self.nodes.checked_sub(1).ok_or(self.fault(Fault::Nodes))?;
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                self.string()?;
            }
            Some(b'{') => return self.open(true),
            Some(b'[') => return self.open(false),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't') => self.word("true")?,
            Some(b'f') => self.word("false")?,
            Some(b'n') => self.word("null")?,
            Some(_) => return self.syntax("expected a value"),
            None => return self.syntax("unexpected end"),
        }
        Ok(false)
    }

    fn open(&mut self, object: bool) -> Result<bool, JsonError> {
        if self.frames.len() >= self.depth {
            return Err(self.fault(Fault::Depth));
        }
        self.at += 1;
        self.space();
        if self.peek() == Some(if object { b'}' } else { b']' }) {
            self.at += 1;
            return Ok(false);
        }
        self.top.whole |= object && self.frames.is_empty();
        self.frames.push(Frame { object, first_key: self.keys.len(), seen: None });
        if object {
            self.key()?;
        }
        Ok(true)
    }

    /// Goes on after a complete value: to the next value (false), or to the end of the text's value (true).
    #[inline]
    fn after_value(&mut self) -> Result<bool, JsonError> {
        loop {
            let Some(frame) = self.frames.last() else { return Ok(true) };
            let (object, first_key) = (frame.object, frame.first_key);
            if self.frames.len() == 1
                && let Some((_, value)) = self.top.spans.last_mut()
                && self.top.whole
            {
                value.end = self.at;
            }
            self.space();
            match (self.peek(), object) {
                (Some(b','), _) => {
                    self.at += 1;
                    if object {
                        self.space();
                        self.key()?;
                    }
                    return Ok(false);
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    self.at += 1;
                    self.keys.truncate(first_key);
                    self.frames.pop();
                }
                (Some(_), true) => return self.syntax("expected ',' or '}'"),
                (Some(_), false) => return self.syntax("expected ',' or ']'"),
                (None, _) => return self.syntax("unexpected end"),
            }
        }
    }

    /// Reads a key and its colon, and refuses it when its object has it already.
    #[inline]
    fn key(&mut self) -> Result<(), JsonError> {
        if self.peek() != Some(b'"') {
            return self.syntax("expected a key");
        }
        let quote = self.at;
        self.at += 1;
        let escaped = self.string()?;
        let body = self.text.get(quote + 1..self.at - 1).unwrap_or_default();
        if self.is_duplicate(body, escaped) {
            return Err(JsonError { fault: Fault::Duplicate, at: quote });
        }
        self.space();
        if self.peek() != Some(b':') {
            return self.syntax("expected ':'");
        }
        self.at += 1;
        if self.frames.len() == 1 && self.top.whole {
            self.space();
            match self.top.spans.len() < TOP {
                true => self.top.spans.push((quote..quote + body.len() + 2, self.at..self.at)),
                false => self.top.whole = false,
            }
        }
        Ok(())
    }

    /// Remembers a key; true when the innermost object has it already.
    fn is_duplicate(&mut self, body: &'a [u8], escaped: bool) -> bool {
        let Some(frame) = self.frames.last_mut() else { return false };
        let known = self.keys.get(frame.first_key..).unwrap_or_default();
        // Escapes have more than one spelling for a key: from the first one on, unescaped text is compared.
        let twice = if frame.seen.is_none() && !escaped && known.len() < LINEAR_KEYS {
            known.contains(&body)
        } else {
            let key = if escaped { unescaped(body) } else { Cow::Borrowed(body) };
            // Equal hashes are nearly always equal keys, which ends the parse: this search runs once.
            let seen = frame.seen.get_or_insert_with(|| Seen::new(known));
            !seen.insert(&key) && known.iter().any(|known| unescaped(known) == key)
        };
        self.keys.push(body);
        twice
    }

    /// Reads a string's body and closing quote; true when it has escapes.
    #[inline]
    fn string(&mut self) -> Result<bool, JsonError> {
        let bytes = self.text;
        let mut escaped = false;
        loop {
            self.at = plain_end(bytes, self.at);
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.syntax("control character in a string"),
                None => return self.syntax("unterminated string"),
            }
        }
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        let bytes = self.text;
        match bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let Some(unit) = hex4(bytes, self.at + 2) else { return self.syntax("bad \\u escape") };
                match unit {
                    0xD800..0xDC00 if bytes.get(self.at + 6..self.at + 8) == Some(b"\\u".as_slice()) => {
                        match hex4(bytes, self.at + 8) {
                            Some(0xDC00..0xE000) => self.at += 12,
                            _ => return Err(self.fault(Fault::Surrogate)),
                        }
                    }
                    0xD800..0xE000 => return Err(self.fault(Fault::Surrogate)),
                    _ => self.at += 6,
                }
            }
            _ => return self.syntax("bad escape"),
        }
        Ok(())
    }

    fn word(&mut self, word: &'static str) -> Result<(), JsonError> {
        let end = self.at + word.len();
        if self.text.get(self.at..end) != Some(word.as_bytes()) {
            return self.syntax("expected a value");
        }
        self.at = end;
        Ok(())
    }

    /// Skips digits; false when there is none.
    #[inline]
    fn digits(&mut self) -> bool {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        self.at > start
    }

    fn number(&mut self) -> Result<(), JsonError> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => {
                self.at += 1;
                if let Some(b'0'..=b'9') = self.peek() {
                    return self.syntax("number with a leading zero");
                }
            }
            _ if self.digits() => {}
            _ => return self.syntax("bad number"),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.digits() {
                return self.syntax("bad number");
            }
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            if !self.digits() {
                return self.syntax("bad number");
            }
        }
        Ok(())
    }
}
