//! Iteration over checked JSON text: members, elements, spans. Trusts that the text was checked; validates nothing.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};

use bytes::Bytes;

use super::Raw;
use super::text::{string_end, unescape, write_string};

/// The key of an object's member. Dereferences to its text (escapes undone); [`Key::raw`] is the spelling received.
#[derive(Clone)]
pub struct Key {
    /// With quotes, as received.
    raw: Bytes,
    /// The text, when the spelling has escapes.
    plain: Option<Box<str>>,
}

impl Key {
    /// A key made here, escaped as needed.
    pub fn new(text: &str) -> Key {
        let mut out = Vec::with_capacity(text.len() + 2);
        write_string(&mut out, text);
        Key::from_checked(Bytes::from(out))
    }

    pub(super) fn from_checked(raw: Bytes) -> Key {
        let plain = match unescape(body(&raw)) {
            Cow::Owned(text) => Some(text.into_boxed_str()),
            Cow::Borrowed(_) => None,
        };
        Key { raw, plain }
    }

    /// The key as received, with its quotes: can be emitted again byte for byte.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Whether the key's text is this: without a look at whether it is text.
    pub fn is(&self, text: &str) -> bool {
        match &self.plain {
            Some(plain) => **plain == *text,
            None => self.raw.get(1..self.raw.len().saturating_sub(1)) == Some(text.as_bytes()),
        }
    }

    /// The key's text.
    pub fn as_str(&self) -> &str {
        self.plain.as_deref().unwrap_or_else(|| body(&self.raw))
    }
}

/// The text between the quotes of a checked string.
pub(super) fn body(raw: &[u8]) -> &str {
    let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
    std::str::from_utf8(inner).unwrap_or_default()
}

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Key {
        Key::new(text)
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Key {}

impl PartialEq<str> for Key {
    fn eq(&self, other: &str) -> bool {
        self.is(other)
    }
}

impl PartialEq<&str> for Key {
    fn eq(&self, other: &&str) -> bool {
        self.is(other)
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// Keys come from outside and may be anything: logs get the length alone.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} B)", self.raw.len())
    }
}

/// One past the end of the checked value that starts at `at`.
pub(super) fn value_end(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b'"') => string_end(text, at + 1),
        Some(b'{' | b'[') => container_end(text, at),
        _ => {
            let rest = text.get(at..).unwrap_or_default();
            let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
            at + rest.iter().position(ends).unwrap_or(rest.len())
        }
    }
}

/// [`value_end`] of an object or array: brackets are counted, strings are jumped over.
fn container_end(text: &[u8], at: usize) -> usize {
    let mut open = 0usize;
    let mut at = at;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = string_end(text, at + 1);
                continue;
            }
            b'{' | b'[' => open += 1,
            b'}' | b']' => {
                open = open.saturating_sub(1);
                if open == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The first byte at or after `at` that is neither whitespace nor a separator.
fn next_token(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    let skipped = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',' | b':');
    at + rest.iter().position(|byte| !skipped(byte)).unwrap_or(rest.len())
}

/// A place in checked text after an opening bracket or a value; steps from value to value.
#[derive(Clone, Copy, Debug)]
struct Cursor(usize);

impl Cursor {
    /// A cursor that finds nothing, for values that are not the container asked for.
    const DONE: Cursor = Cursor(usize::MAX);

    fn step(&mut self, text: &[u8]) -> Option<Range<usize>> {
        let start = next_token(text, self.0);
        match text.get(start) {
            None | Some(b'}' | b']') => {
                *self = Cursor::DONE;
                None
            }
            Some(_) => {
                let end = value_end(text, start);
                self.0 = end;
                Some(start..end)
            }
        }
    }
}

/// A member of an object that is looked at in place.
#[derive(Clone, Debug)]
pub struct Member<'a> {
    pub(super) object: &'a Raw,
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

impl Member<'_> {
    /// The key's text.
    pub fn name(&self) -> Cow<'_, str> {
        let raw = self.object.bytes().get(self.key.clone()).unwrap_or_default();
        unescape(body(raw))
    }

    /// Whether the key's text is this.
    pub fn is(&self, key: &str) -> bool {
        let raw = self.object.bytes().get(self.key.clone()).unwrap_or_default();
        // A spelling with escapes is longer than its text, so equal bytes without a backslash decide nearly always.
        match memchr::memchr(b'\\', raw) {
            None => raw.get(1..raw.len().saturating_sub(1)) == Some(key.as_bytes()),
            Some(_) => unescape(body(raw)) == key,
        }
    }

    /// Whether the value is `null`; shares nothing.
    pub fn is_null(&self) -> bool {
        self.object.bytes().get(self.value.start) == Some(&b'n')
    }

    /// The key, to be kept.
    pub fn key(&self) -> Key {
        Key::from_checked(self.object.bytes().slice(self.key.clone()))
    }

    /// Where the value ends in the object's text, in bytes.
    pub fn end(&self) -> usize {
        self.value.end
    }

    /// The value, sharing the object's buffer.
    pub fn value(&self) -> Raw {
        Raw::from_checked(self.object.bytes().slice(self.value.clone()))
    }
}

/// Members of an object, looked at in place. Made by [`Raw::view`].
#[derive(Clone, Debug)]
pub struct View<'a> {
    object: &'a Raw,
    cursor: Cursor,
}

impl<'a> View<'a> {
    pub(super) fn new(object: &'a Raw) -> View<'a> {
        View { object, cursor: if object.is_object() { Cursor(1) } else { Cursor::DONE } }
    }
}

impl<'a> Iterator for View<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        let key = self.cursor.step(self.object.bytes())?;
        let value = self.cursor.step(self.object.bytes())?;
        Some(Member { object: self.object, key, value })
    }
}

/// Members of an object in their order. Made by [`Raw::members`].
#[derive(Clone, Debug)]
pub struct Members {
    object: Raw,
    cursor: Cursor,
}

impl Members {
    pub(super) fn new(object: &Raw) -> Members {
        Members { object: object.clone(), cursor: if object.is_object() { Cursor(1) } else { Cursor::DONE } }
    }
}

impl Iterator for Members {
    type Item = (Key, Raw);

    fn next(&mut self) -> Option<(Key, Raw)> {
        let bytes = self.object.bytes();
        let key = self.cursor.step(bytes)?;
        let value = self.cursor.step(bytes)?;
        Some((Key::from_checked(bytes.slice(key)), Raw::from_checked(bytes.slice(value))))
    }
}

/// Elements of an array in their order. Made by [`Raw::elements`].
#[derive(Clone, Debug)]
pub struct Elements {
    array: Raw,
    cursor: Cursor,
}

impl Elements {
    pub(super) fn new(array: &Raw) -> Elements {
        Elements { array: array.clone(), cursor: if array.is_array() { Cursor(1) } else { Cursor::DONE } }
    }

    /// Where the next element stands in the array's text.
    pub(super) fn step(&mut self) -> Option<Range<usize>> {
        self.cursor.step(self.array.bytes())
    }
}

impl Iterator for Elements {
    type Item = Raw;

    fn next(&mut self) -> Option<Raw> {
        let span = self.step()?;
        Some(Raw::from_checked(self.array.bytes().slice(span)))
    }
}
