//! Writers for single objects and arrays, and edits that keep every other byte. Never reorders and never
//! respells what it copies.

use bytes::Bytes;

use super::Raw;
use super::text::write_string;
use super::walk::{Elements, Key, Member, View};

/// Writes one object on one line. The caller keeps keys unique.
#[derive(Debug)]
pub struct ObjectWriter {
    out: Vec<u8>,
}

impl Default for ObjectWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl ObjectWriter {
    /// An empty object.
    pub fn new() -> Self {
        Self::with_capacity(128)
    }

    /// An empty object with room for about this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes.saturating_add(2));
        out.push(b'{');
        Self { out }
    }

    fn key(&mut self, key: &str) {
        self.comma();
        write_string(&mut self.out, key);
        self.out.push(b':');
    }

    fn comma(&mut self) {
        // What ends in an opening brace is an object without members so far: this one, or the one inside it.
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
    }

    /// Adds an object whose members `fill` adds, without a buffer of its own.
    pub fn object(&mut self, key: &str, fill: impl FnOnce(&mut Self)) -> &mut Self {
        self.key(key);
        self.out.push(b'{');
        fill(self);
        self.out.push(b'}');
        self
    }

    /// Adds a member whose value is copied byte for byte.
    pub fn raw(&mut self, key: &str, value: &Raw) -> &mut Self {
        self.key(key);
        self.out.extend_from_slice(value.bytes());
        self
    }

    /// Adds a member whose key and value are copied byte for byte.
    pub fn raw_key(&mut self, key: &Key, value: &Raw) -> &mut Self {
        self.comma();
        self.out.extend_from_slice(key.raw());
        self.out.push(b':');
        self.out.extend_from_slice(value.bytes());
        self
    }

    /// Adds a string.
    pub fn string(&mut self, key: &str, value: &str) -> &mut Self {
        self.key(key);
        write_string(&mut self.out, value);
        self
    }

    /// Adds an integer.
    pub fn integer(&mut self, key: &str, value: i64) -> &mut Self {
        self.key(key);
        self.out.extend_from_slice(value.to_string().as_bytes());
        self
    }

    /// Adds `units` of 10^-`digits` as an exact decimal without an exponent: `0`, `2`, `0.002`.
    pub fn decimal(&mut self, key: &str, units: u64, digits: u8) -> &mut Self {
        self.key(key);
        let text = units.to_string();
        let digits = usize::from(digits);
        let (whole, rest) = text.split_at(text.len().saturating_sub(digits));
        self.out.extend_from_slice(if whole.is_empty() { b"0" } else { whole.as_bytes() });
        let fraction = rest.trim_end_matches('0');
        if !fraction.is_empty() {
            self.out.push(b'.');
            self.out.extend(std::iter::repeat_n(b'0', digits.saturating_sub(text.len())));
            self.out.extend_from_slice(fraction.as_bytes());
        }
        self
    }

    /// Adds `true` or `false`.
    pub fn boolean(&mut self, key: &str, value: bool) -> &mut Self {
        self.key(key);
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        self
    }

    /// The object.
    pub fn finish(mut self) -> Raw {
        self.out.push(b'}');
        Raw::from_checked(Bytes::from(self.out))
    }
}

/// Writes one array on one line.
#[derive(Debug)]
pub struct ArrayWriter {
    out: Vec<u8>,
}

impl Default for ArrayWriter {
    fn default() -> Self {
        Self::new()
    }
}

impl ArrayWriter {
    /// An empty array.
    pub fn new() -> Self {
        Self::with_capacity(128)
    }

    /// An empty array with room for about this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes.saturating_add(2));
        out.push(b'[');
        Self { out }
    }

    fn comma(&mut self) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
    }

    /// Adds a value, copied byte for byte.
    pub fn push(&mut self, value: &Raw) -> &mut Self {
        self.comma();
        self.out.extend_from_slice(value.bytes());
        self
    }

    /// Adds a string.
    pub fn push_str(&mut self, value: &str) -> &mut Self {
        self.comma();
        write_string(&mut self.out, value);
        self
    }

    /// The array.
    pub fn finish(mut self) -> Raw {
        self.out.push(b']');
        Raw::from_checked(Bytes::from(self.out))
    }
}

/// What becomes of one member or element.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Its bytes stay.
    Keep,
    /// It goes, with one separator.
    Drop,
    /// Its value is replaced; a member's key stays as it is spelled.
    Replace(Raw),
}

/// Copies the pieces of a container that stay, with the separators that the original had.
struct Splice<'a> {
    text: &'a [u8],
    out: Vec<u8>,
    /// Bytes of `text` that are dealt with.
    done: usize,
    /// The separator to write before the next piece, once there is one.
    pending: Option<&'a [u8]>,
}

impl<'a> Splice<'a> {
    fn new(raw: &'a Raw, extra: usize) -> Splice<'a> {
        let text = raw.bytes().as_ref();
        Splice { text, out: Vec::with_capacity(text.len() + extra), done: 0, pending: None }
    }

    fn slice(&self, from: usize, to: usize) -> &'a [u8] {
        self.text.get(from..to).unwrap_or_default()
    }

    /// Goes to a piece that starts at `start`: what lies before it is its separator (or the opening bracket).
    fn reach(&mut self, start: usize) {
        let before = self.slice(self.done, start);
        // The opening bracket is written at once; a separator only when a piece follows.
        if self.done == 0 { self.out.extend_from_slice(before) } else { self.pending = Some(before) }
    }

    /// Writes the bytes from `start` up to `until`, then `value` when given in place of the rest up to `end`.
    fn keep(&mut self, piece: (usize, usize, usize), value: Option<&Raw>, first: &mut bool) {
        let (start, until, end) = piece;
        if !*first {
            self.out.extend_from_slice(self.pending.take().unwrap_or(b","));
        }
        *first = false;
        match value {
            Some(value) => {
                self.out.extend_from_slice(self.slice(start, until));
                self.out.extend_from_slice(value.bytes());
            }
            None => self.out.extend_from_slice(self.slice(start, end)),
        }
    }
}

/// Edits an object; see [`Raw::edit`].
pub(super) fn edit_object(
    raw: &Raw,
    appended: &[(&str, Raw)],
    mut choose: impl FnMut(&Member<'_>) -> Edit,
) -> Raw {
    if !raw.is_object() {
        return raw.clone();
    }
    let mut edits: smallvec::SmallVec<[(Member<'_>, Edit); 16]> = smallvec::SmallVec::new();
    edits.extend(View::new(raw).map(|member| {
        let edit = choose(&member);
        (member, edit)
    }));
    if appended.is_empty() && edits.iter().all(|(_, edit)| matches!(edit, Edit::Keep)) {
        return raw.clone();
    }
    let extra = appended.iter().map(|(key, value)| key.len() + value.len() + 4).sum::<usize>();
    let replaced =
        edits.iter().map(|(_, edit)| if let Edit::Replace(value) = edit { value.len() } else { 0 });
    let mut splice = Splice::new(raw, extra + replaced.sum::<usize>());
    let mut first = true;
    for (member, edit) in &edits {
        splice.reach(member.key.start);
        splice.done = member.value.end;
        let piece = (member.key.start, member.value.start, member.value.end);
        match edit {
            Edit::Keep => splice.keep(piece, None, &mut first),
            Edit::Replace(value) => splice.keep(piece, Some(value), &mut first),
            Edit::Drop => {}
        }
    }
    if splice.done == 0 {
        splice.out.push(b'{');
        splice.done = 1;
    }
    for (key, value) in appended {
        if !first {
            splice.out.push(b',');
        }
        first = false;
        write_string(&mut splice.out, key);
        splice.out.push(b':');
        splice.out.extend_from_slice(value.bytes());
    }
    let tail = splice.slice(splice.done, splice.text.len());
    splice.out.extend_from_slice(tail);
    Raw::from_checked(Bytes::from(splice.out))
}

/// Edits an array; see [`Raw::edit_elements`].
pub(super) fn edit_array(raw: &Raw, mut choose: impl FnMut(&Raw) -> Edit) -> Raw {
    if !raw.is_array() {
        return raw.clone();
    }
    let mut edits = Vec::new();
    let mut walk = Elements::new(raw);
    while let Some(span) = walk.step() {
        let edit = choose(&Raw::from_checked(raw.bytes().slice(span.clone())));
        edits.push((span, edit));
    }
    if edits.iter().all(|(_, edit)| matches!(edit, Edit::Keep)) {
        return raw.clone();
    }
    let replaced =
        edits.iter().map(|(_, edit)| if let Edit::Replace(value) = edit { value.len() } else { 0 });
    let mut splice = Splice::new(raw, replaced.sum());
    let mut first = true;
    for (span, edit) in &edits {
        splice.reach(span.start);
        splice.done = span.end;
        match edit {
            Edit::Keep => splice.keep((span.start, span.start, span.end), None, &mut first),
            Edit::Replace(value) => splice.keep((span.start, span.start, span.end), Some(value), &mut first),
            Edit::Drop => {}
        }
    }
    let tail = splice.slice(splice.done, splice.text.len());
    splice.out.extend_from_slice(tail);
    Raw::from_checked(Bytes::from(splice.out))
}
