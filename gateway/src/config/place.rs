//! Places in a configuration document: a path of keys and indexes, and the line and column where each one stands.

use std::collections::HashMap;
use std::fmt::Write as _;

/// A path from the root of the document, kept in the two forms that are needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct At {
    /// JSON pointer (RFC 6901), the key into [`Places`].
    pointer: String,
    /// As people write it: `servers.github.args[1]`.
    shown: String,
}

impl At {
    /// The document itself.
    pub(crate) fn root() -> Self {
        Self::default()
    }

    /// The member of a mapping.
    pub(crate) fn key(&self, key: &str) -> Self {
        let mut next = self.clone();
        next.pointer.push('/');
        next.pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        let plain = !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "-_*".contains(c));
        let dot = if next.shown.is_empty() { "" } else { "." };
        // A key may be anything: it is bounded and escaped before it reaches a terminal.
        let _ = if plain && key.len() <= 64 {
            write!(next.shown, "{dot}{key}")
        } else {
            write!(next.shown, "[{:?}]", clip(key, 64))
        };
        next
    }

    /// The element of a sequence, from 0.
    pub(crate) fn index(&self, index: usize) -> Self {
        Self { pointer: format!("{}/{index}", self.pointer), shown: format!("{}[{index}]", self.shown) }
    }

    /// As people write it.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// As a JSON pointer.
    pub(crate) fn pointer(&self) -> &str {
        &self.pointer
    }
}

/// At most `max` characters of `text`, with a mark where it was cut.
pub(crate) fn clip(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Line and column, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spot {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    at: At,
    /// Where the key stands; for elements of sequences like `value`.
    key: Spot,
    value: Spot,
    scalar: bool,
    written: Option<Written>,
}

/// A scalar as it was written.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) text: Box<str>,
    pub(crate) lead: Lead,
}

/// What stands before a scalar's text in the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// So many characters; then the text, character by character.
    Inline(usize),
    /// Nothing, and the same before each of its lines.
    Block,
    /// Not known: escapes, or lines that were folded.
    Unknown,
}

/// Where everything of one document stands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(HashMap<String, Entry>);

impl Places {
    pub(crate) fn insert(&mut self, at: At, key: Spot, value: Spot, scalar: bool) {
        // The first of two equal keys counts, so its place does too.
        self.0.entry(at.pointer.clone()).or_insert(Entry { at, key, value, scalar, written: None });
    }

    /// Keeps how the scalar at `spot` was written; of two equal keys that of the first.
    pub(crate) fn keep(&mut self, at: &At, spot: Spot, written: Written) {
        if let Some(entry) = self.0.get_mut(&at.pointer).filter(|entry| entry.value == spot) {
            entry.written = Some(written);
        }
    }

    /// A scalar's text, where it was kept.
    pub(crate) fn text(&self, at: &At) -> Option<&str> {
        self.0.get(&at.pointer)?.written.as_ref().map(|written| &*written.text)
    }

    /// Where a byte of a scalar's text stands; the scalar itself when that can't be told.
    pub(crate) fn spot_in(&self, at: &At, offset: usize) -> Spot {
        let start = self.spot(at);
        let written = self.0.get(&at.pointer).and_then(|entry| entry.written.as_ref());
        let Some(Written { text, lead }) = written else { return start };
        let before = text.get(..offset.min(text.len())).unwrap_or_default();
        match lead {
            Lead::Inline(lead) => Spot { column: start.column + lead + before.chars().count(), ..start },
            Lead::Block => {
                let last = before.rsplit('\n').next().unwrap_or_default();
                let line = start.line + before.matches('\n').count();
                Spot { line, column: start.column + last.chars().count() }
            }
            Lead::Unknown => start,
        }
    }

    /// Whether the document has something there, right or wrong.
    pub(crate) fn has(&self, at: &At) -> bool {
        self.0.contains_key(&at.pointer)
    }

    /// The path that belongs to a JSON pointer, if the document has it.
    pub(crate) fn by_pointer(&self, pointer: &str) -> Option<At> {
        self.0.get(pointer).map(|entry| entry.at.clone())
    }

    /// Where to look: a scalar itself, the key of a mapping or sequence, or the nearest that contains it.
    pub(crate) fn spot(&self, at: &At) -> Spot {
        self.nearest(at).map_or(Spot { line: 1, column: 1 }, |e| if e.scalar { e.value } else { e.key })
    }

    /// Where the key stands.
    pub(crate) fn key_spot(&self, at: &At) -> Spot {
        self.nearest(at).map_or(Spot { line: 1, column: 1 }, |e| e.key)
    }

    fn nearest(&self, at: &At) -> Option<&Entry> {
        let mut pointer = at.pointer.as_str();
        loop {
            match (self.0.get(pointer), pointer.rfind('/')) {
                (Some(entry), _) => return Some(entry),
                (None, Some(end)) => pointer = pointer.get(..end)?,
                (None, None) => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_both_forms() {
        let at = At::root().key("servers").key("a").key("args").index(3);
        assert_eq!((at.pointer(), at.shown()), ("/servers/a/args/3", "servers.a.args[3]"));
        let odd = At::root().key("a/b~c");
        assert_eq!((odd.pointer(), odd.shown()), ("/a~1b~0c", "[\"a/b~c\"]"));
        assert_eq!(At::root().key("\u{1b}[31m").shown(), "[\"\\u{1b}[31m\"]");
    }

    #[test]
    fn what_is_not_there_is_reported_at_what_contains_it() {
        let mut places = Places::default();
        let (key, value) = (Spot { line: 3, column: 1 }, Spot { line: 4, column: 3 });
        places.insert(At::root(), Spot { line: 1, column: 1 }, Spot { line: 1, column: 1 }, false);
        places.insert(At::root().key("tls"), key, value, false);
        assert_eq!(places.spot(&At::root().key("tls").key("cert")), key);
        assert_eq!(places.spot(&At::root().key("other")), Spot { line: 1, column: 1 });
        assert!(!places.has(&At::root().key("other")));
    }
}
