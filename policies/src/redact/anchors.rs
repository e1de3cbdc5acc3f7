//! One automaton over all texts that can start a secret, plain or inside base64. It only says where to look closer.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use super::shapes::{JWT_STARTS, SHAPES};

/// Shortest text that is looked for inside base64: shorter ones are everywhere.
const LEAST_WRAPPED: usize = 4;

/// What an anchor stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    /// The start of a token format.
    Plain { shape: u16, rule: u16 },
    /// The start of one as base64 writes it, with so many characters of its first group left out.
    Wrapped { dropped: u8 },
}

/// An anchor in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) anchor: Anchor,
}

/// The anchors of all built-in formats, or of own rules inside base64.
#[derive(Debug)]
pub(super) struct Anchors {
    automaton: AhoCorasick,
    anchors: Vec<Anchor>,
}

/// Built once for all redactors: it is the same for each, and half a megabyte large.
static BUILT_IN: LazyLock<Option<Anchors>> = LazyLock::new(|| {
    let mut list = List::default();
    for (at, shape) in SHAPES.iter().enumerate() {
        let (at, rule) = (u16::try_from(at).ok()?, rule_of(shape.rule)?);
        for text in shape.anchors {
            list.add(text.as_bytes().to_vec(), Anchor::Plain { shape: at, rule });
            if shape.wrapped {
                list.wrap(text.as_bytes());
            }
        }
    }
    for text in JWT_STARTS {
        list.wrap(text.as_bytes());
    }
    list.build()
});

#[derive(Default)]
struct List {
    texts: Vec<Vec<u8>>,
    anchors: Vec<Anchor>,
}

impl List {
    fn add(&mut self, text: Vec<u8>, anchor: Anchor) {
        self.texts.push(text);
        self.anchors.push(anchor);
    }

    fn wrap(&mut self, text: &[u8]) {
        for (dropped, text) in wrapped(text) {
            self.add(text, Anchor::Wrapped { dropped });
        }
    }

    fn build(self) -> Option<Anchors> {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .kind(Some(AhoCorasickKind::DFA))
            .build(&self.texts)
            .ok()?;
        Some(Anchors { automaton, anchors: self.anchors })
    }
}

impl Anchors {
    /// Those of all built-in formats.
    pub(super) fn built_in() -> Option<&'static Anchors> {
        BUILT_IN.as_ref()
    }

    /// Texts of own rules as base64 writes them; none for no texts.
    pub(super) fn inside_base64(texts: &[Vec<u8>]) -> Option<Anchors> {
        let mut list = List::default();
        texts.iter().for_each(|text| list.wrap(text));
        if list.texts.is_empty() { None } else { list.build() }
    }

    /// All anchors of a text, also those inside each other, by where they end.
    pub(super) fn find<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = Found> + 't {
        self.automaton.find_overlapping_iter(text).filter_map(|found| {
            let anchor = *self.anchors.get(found.pattern().as_usize())?;
            Some(Found { start: found.start(), end: found.end(), anchor })
        })
    }
}

/// The index of a built-in rule's name.
pub(super) fn rule_of(name: &str) -> Option<u16> {
    names().position(|known| known == name).and_then(|at| u16::try_from(at).ok())
}

/// The names of the built-in token rules, each once.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().enumerate().filter_map(|(at, shape)| {
        let before = SHAPES.get(..at).unwrap_or_default();
        (!before.iter().any(|earlier| earlier.rule == shape.rule)).then_some(shape.rule)
    })
}

/// A text as it reads inside base64 at each of the three places of a group, without the characters that its neighbours
/// have a part in; in both alphabets where they differ.
fn wrapped(text: &[u8]) -> Vec<(u8, Vec<u8>)> {
    const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut all = Vec::new();
    if text.len() < LEAST_WRAPPED {
        return all;
    }
    for (before, dropped) in [(0, 0_u8), (1, 2), (2, 3)] {
        let mut bits = 0_u32;
        let mut held = 0;
        let mut out = Vec::new();
        for byte in std::iter::repeat_n(&0, before).chain(text) {
            bits = bits << 8 | u32::from(*byte);
            held += 8;
            while held >= 6 {
                held -= 6;
                let six = usize::try_from(bits >> held & 63).unwrap_or_default();
                out.extend(STANDARD.get(six));
            }
        }
        let known = out.split_off(usize::from(dropped).min(out.len()));
        let other: Vec<u8> = known
            .iter()
            .map(|b| match b {
                b'+' => b'-',
                b'/' => b'_',
                same => *same,
            })
            .collect();
        if other != known {
            all.push((dropped, other));
        }
        all.push((dropped, known));
    }
    all
}
