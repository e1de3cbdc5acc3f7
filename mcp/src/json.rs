//! Strict JSON without a tree: a text is checked once, then handed on as slices of the buffer that it came in.
//! Never changes the spelling of what it checked, and never keeps one of two equal keys silently.

mod scan;
mod seen;
mod text;
mod walk;
mod write;

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

use std::fmt;

use bytes::Bytes;

pub use walk::{Elements, Key, Member, Members, View};
pub use write::{ArrayWriter, Edit, ObjectWriter};

/// Bounds on one JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Containers inside each other, the outermost counted.
    pub depth: u16,
    /// Values in all, containers counted.
    pub nodes: u32,
}

impl Limits {
    /// For a client's message.
    pub const REQUEST: Limits = Limits { depth: 64, nodes: 100_000 };
    /// For a server's message.
    pub const ANSWER: Limits = Limits { depth: 64, nodes: 1_000_000 };
}

/// Why a text was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Nothing but whitespace.
    #[error("empty text")]
    Empty,
    /// Not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// Against the grammar of RFC 8259; a byte order mark is.
    #[error("{0}")]
    Syntax(&'static str),
    /// A `\u` escape of half a surrogate pair.
    #[error("lone surrogate in a \\u escape")]
    Surrogate,
    /// A key twice in one object, compared after undoing escapes.
    #[error("duplicate key")]
    Duplicate,
    /// Deeper than [`Limits::depth`].
    #[error("nested too deeply")]
    Depth,
    /// More values than [`Limits::nodes`].
    #[error("too many values")]
    Nodes,
    /// Something after the value.
    #[error("text after the value")]
    Trailing,
}

/// A refused text. The message is fit for a client: it never repeats the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at byte {at}")]
pub struct JsonError {
    /// What is wrong.
    pub fault: Fault,
    /// Where, in bytes from the start.
    pub at: usize,
}

/// Kinds of JSON values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `{…}`
    Object,
    /// `[…]`
    Array,
    /// `"…"`
    String,
    /// A number in any spelling.
    Number,
    /// `true` or `false`
    Bool,
    /// `null`
    Null,
}

/// A checked JSON value: a slice of the buffer that it came in. Cloning copies no text; equality is of bytes,
/// so two spellings of one value differ.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Raw(Bytes);

impl Raw {
    /// Checks a text in one pass: UTF-8, the grammar of RFC 8259, no equal keys at any depth, no lone surrogates, no byte
    /// order mark, one value alone, within `limits`. Whitespace around the value is cut off.
    ///
    /// # Errors
    /// The first fault and where it is.
    pub fn parse(bytes: Bytes, limits: &Limits) -> Result<Raw, JsonError> {
        let (span, _) = scan::check(&bytes, limits)?;
        Ok(Raw(if span.len() == bytes.len() { bytes } else { bytes.slice(span) }))
    }

    /// For text that is known to be one checked value.
    pub(crate) fn from_checked(bytes: Bytes) -> Raw {
        Raw(bytes)
    }

    /// The text.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// The text, to be sent.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The text as a string slice.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Length of the text in bytes; at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The kind of the value, told by its first byte.
    pub fn kind(&self) -> Kind {
        match self.0.first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'n') | None => Kind::Null,
            Some(_) => Kind::Number,
        }
    }

    /// Whether it is an object.
    pub fn is_object(&self) -> bool {
        self.kind() == Kind::Object
    }

    /// Whether it is an array.
    pub fn is_array(&self) -> bool {
        self.kind() == Kind::Array
    }

    /// Whether it is a string.
    pub fn is_string(&self) -> bool {
        self.kind() == Kind::String
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    /// The members in their order; none unless an object.
    pub fn members(&self) -> Members {
        Members::new(self)
    }

    /// The members looked at in place: cheaper than [`Raw::members`] where few of them are kept.
    pub fn view(&self) -> View<'_> {
        View::new(self)
    }

    /// The elements in their order; none unless an array.
    pub fn elements(&self) -> Elements {
        Elements::new(self)
    }

    /// The value of a member of this object (not of objects inside it).
    pub fn get(&self, key: &str) -> Option<Raw> {
        self.view().find(|member| member.is(key)).map(|member| member.value())
    }

    /// The value at the end of a chain of member names.
    pub fn at(&self, path: &[&str]) -> Option<Raw> {
        path.iter().try_fold(self.clone(), |value, key| value.get(key))
    }

    /// The text of a string, escapes undone.
    pub fn string(&self) -> Option<String> {
        self.is_string().then(|| text::unescape(walk::body(&self.0)).into_owned())
    }

    /// Whether it is the string `text`; saves the copy of [`Raw::string`].
    pub fn is_text(&self, text: &str) -> bool {
        self.is_string() && text::unescape(walk::body(&self.0)) == text
    }

    /// A number that is spelled as an integer (no fraction, no exponent) and fits; `-0` is 0.
    pub fn integer(&self) -> Option<i64> {
        if self.kind() == Kind::Number { self.as_str().parse().ok() } else { None }
    }

    /// `true` or `false`.
    pub fn boolean(&self) -> Option<bool> {
        match self.0.first() {
            Some(b't') => Some(true),
            Some(b'f') => Some(false),
            _ => None,
        }
    }

    /// `{}`
    pub fn empty_object() -> Raw {
        Raw(Bytes::from_static(b"{}"))
    }

    /// A JSON string with this text.
    pub fn from_str_value(text: &str) -> Raw {
        let mut out = Vec::with_capacity(text.len() + 2);
        text::write_string(&mut out, text);
        Raw(Bytes::from(out))
    }

    /// An integer.
    pub fn from_integer(number: i64) -> Raw {
        Raw(Bytes::from(number.to_string()))
    }

    /// `true` or `false`.
    pub fn from_bool(value: bool) -> Raw {
        Raw(Bytes::from_static(if value { b"true" } else { b"false" }))
    }

    /// `null`
    pub fn null() -> Raw {
        Raw(Bytes::from_static(b"null"))
    }

    /// The value without line breaks, for framings by line (SSE, stdio). In checked text CR and LF stand only
    /// between tokens, where they mean nothing. Shares the buffer when there are none.
    pub fn single_line(&self) -> Raw {
        match memchr::memchr2(b'\r', b'\n', &self.0) {
            None => self.clone(),
            Some(_) => {
                let kept = self.0.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n'));
                Raw(Bytes::from(kept.collect::<Vec<u8>>()))
            }
        }
    }

    /// Edits members one by one and adds `appended` at the end; all other bytes stay, separators and whitespace
    /// included. Shares the buffer when nothing changes. The caller keeps keys unique. Anything but an object
    /// comes back as it is.
    pub fn edit(&self, appended: &[(&str, Raw)], choose: impl FnMut(&Member<'_>) -> Edit) -> Raw {
        write::edit_object(self, appended, choose)
    }

    /// Edits elements one by one; all other bytes stay. Shares the buffer when nothing changes. Anything but an
    /// array comes back as it is.
    pub fn edit_elements(&self, choose: impl FnMut(&Raw) -> Edit) -> Raw {
        write::edit_array(self, choose)
    }

    /// This object with one member set: replaced where it stands, else added at the end.
    pub fn with(&self, key: &str, value: &Raw) -> Raw {
        if self.view().any(|member| member.is(key)) {
            return self.edit(&[], |m| if m.is(key) { Edit::Replace(value.clone()) } else { Edit::Keep });
        }
        self.edit(&[(key, value.clone())], |_| Edit::Keep)
    }

    /// This object without one member.
    pub fn without(&self, key: &str) -> Raw {
        self.edit(&[], |member| if member.is(key) { Edit::Drop } else { Edit::Keep })
    }
}

/// A checked value with the places of its members, which the check has passed anyway.
#[derive(Clone, Debug)]
pub struct Outer {
    raw: Raw,
    top: scan::Top,
}

impl Outer {
    /// [`Raw::parse`] that keeps the places.
    ///
    /// # Errors
    /// As [`Raw::parse`].
    pub fn parse(bytes: Bytes, limits: &Limits) -> Result<Outer, JsonError> {
        let (span, top) = scan::check(&bytes, limits)?;
        // Places are counted from the first byte of the buffer, so the buffer must begin with the value.
        let top = if span.start == 0 { top } else { scan::Top::default() };
        let raw = Raw(if span.len() == bytes.len() { bytes } else { bytes.slice(span) });
        Ok(Outer { raw, top })
    }

    /// The value.
    pub fn raw(&self) -> &Raw {
        &self.raw
    }

    /// As [`Raw::view`], without another walk where the object has few members.
    pub fn members(&self) -> impl Iterator<Item = Member<'_>> {
        let known = self.top.spans.iter().filter(|_| self.top.whole).map(|(key, value)| Member {
            object: &self.raw,
            key: key.clone(),
            value: value.clone(),
        });
        known.chain((!self.top.whole).then(|| self.raw.view()).into_iter().flatten())
    }
}

/// Values may hold secrets, so that logs get the kind and the length alone.
impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({:?}, {} B)", self.kind(), self.0.len())
    }
}
