//! Characters that a reader doesn't see but a model or a terminal does: control characters, terminal sequences,
//! changes of direction, zero-width characters, tags. Stripped where asked, and counted; clean text is given back as
//! it came. Source: Unicode 16, UTR 36 and UTS 55; ECMA-48 for terminal sequences.

use std::borrow::Cow;

use crate::splice::{self, Kind, Malformed, Tokens};

#[cfg(test)]
mod tests;

/// Which kinds to strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strip {
    /// C0 and C1 controls but line feed and tab, and whole terminal sequences (CSI, OSC and the like).
    pub controls: bool,
    /// Embeddings, overrides, isolates and direction marks.
    pub bidi: bool,
    /// Zero-width characters and the like. A single joiner between letters or pictures stays: scripts need it.
    pub zero_width: bool,
    /// Tags (U+E0000 to U+E007F).
    pub tags: bool,
    /// Variation selectors. Off by default: emoji use them.
    pub variation_selectors: bool,
}

impl Strip {
    /// Everything.
    pub const ALL: Strip =
        Strip { controls: true, bidi: true, zero_width: true, tags: true, variation_selectors: true };
}

impl Default for Strip {
    /// Everything but variation selectors.
    fn default() -> Strip {
        Strip { variation_selectors: false, ..Strip::ALL }
    }
}

/// How many characters of each kind were stripped; a terminal sequence counts with all its characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stripped {
    /// Controls and terminal sequences.
    pub controls: u64,
    /// Changes of direction.
    pub bidi: u64,
    /// Zero-width characters.
    pub zero_width: u64,
    /// Tags.
    pub tags: u64,
    /// Variation selectors.
    pub variation_selectors: u64,
}

impl Stripped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.controls + self.bidi + self.zero_width + self.tags + self.variation_selectors
    }
}

/// A text without what was asked to be stripped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visible<'a> {
    /// The text; borrowed when nothing was stripped.
    pub text: Cow<'a, str>,
    /// What was.
    pub stripped: Stripped,
}

/// Strips the string values of a JSON text; keys and everything else stay byte for byte.
///
/// # Errors
/// It is no JSON.
pub fn json<'a>(json: &'a str, strip: &Strip) -> Result<Visible<'a>, Malformed> {
    let mut tokens = Tokens::new(json);
    let mut edits = Vec::new();
    let mut stripped = Stripped::default();
    while let Some(token) = tokens.next()? {
        if token.kind != Kind::Text {
            continue;
        }
        let said = splice::unquoted(json, &token.span);
        if let Some(visible) = visible(&said, strip, &mut stripped) {
            edits.push((token.span, splice::quoted(&visible)));
        }
    }
    let text = if edits.is_empty() { Cow::Borrowed(json) } else { splice::spliced(json, edits).into() };
    Ok(Visible { text, stripped })
}

/// Strips a text.
pub fn text<'a>(text: &'a str, strip: &Strip) -> Visible<'a> {
    let mut stripped = Stripped::default();
    let text = visible(text, strip, &mut stripped).map_or(Cow::Borrowed(text), Cow::Owned);
    Visible { text, stripped }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Shown,
    Control,
    Bidi,
    ZeroWidth,
    Tag,
    Selector,
}

fn class(char: char) -> Class {
    match char {
        '\n' | '\t' | ' '..='~' => Class::Shown,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => Class::Control,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Class::Bidi
        }
        '\u{ad}'
        | '\u{34f}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' => Class::ZeroWidth,
        '\u{e0000}'..='\u{e007f}' => Class::Tag,
        '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => {
            Class::Selector
        }
        _ => Class::Shown,
    }
}

/// The text without what is stripped; none when that is nothing.
fn visible(text: &str, strip: &Strip, stripped: &mut Stripped) -> Option<String> {
    let first = first_suspect(text.as_bytes())?;
    let start = text.floor_char_boundary(first);
    let mut out: Option<String> = None;
    let mut kept = 0;
    let mut at = start;
    let mut terminators = Terminators::default();
    while let Some(char) = text.get(at..).and_then(|rest| rest.chars().next()) {
        let length = match class(char) {
            Class::Control if strip.controls => {
                let length = terminators.sequence(text, at, char);
                stripped.controls += count(text, at, length);
                length
            }
            Class::Bidi if strip.bidi => one(&mut stripped.bidi, char),
            Class::ZeroWidth if strip.zero_width && !joins(text, at, char) => {
                one(&mut stripped.zero_width, char)
            }
            Class::Tag if strip.tags => one(&mut stripped.tags, char),
            Class::Selector if strip.variation_selectors => one(&mut stripped.variation_selectors, char),
            _ => {
                at += char.len_utf8();
                continue;
            }
        };
        let out = out.get_or_insert_with(|| String::with_capacity(text.len()));
        out.push_str(text.get(kept..at).unwrap_or_default());
        at += length;
        kept = at;
    }
    let mut out = out?;
    out.push_str(text.get(kept..).unwrap_or_default());
    Some(out)
}

fn one(sum: &mut u64, char: char) -> usize {
    *sum += 1;
    char.len_utf8()
}

fn count(text: &str, at: usize, length: usize) -> u64 {
    let chars = text.get(at..at + length).unwrap_or_default().chars().count();
    u64::try_from(chars).unwrap_or(u64::MAX)
}

/// The first byte that is not plain ASCII text.
fn first_suspect(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|b| !matches!(b, b' '..=b'~' | b'\n' | b'\t'))
}

/// Whether a joiner stands alone between two characters of the scripts and pictures that need one.
fn joins(text: &str, at: usize, char: char) -> bool {
    let wide = |c: char| !c.is_ascii() && class(c) == Class::Shown;
    let before =
        text.get(..at).and_then(|before| before.chars().rev().find(|c| class(*c) != Class::Selector));
    let after = text.get(at + char.len_utf8()..).and_then(|after| after.chars().next());
    matches!(char, '\u{200c}' | '\u{200d}') && before.is_some_and(wide) && after.is_some_and(wide)
}

/// Where terminal sequences end. The ends of strings are looked for once, not once for each start.
#[derive(Debug, Default)]
struct Terminators {
    none_after: Option<usize>,
}

impl Terminators {
    /// The length of what starts at a control character: it alone, or the sequence that it introduces.
    fn sequence(&mut self, text: &str, at: usize, char: char) -> usize {
        let rest = text.get(at..).unwrap_or_default();
        let (introducer, head) = match (char, rest.as_bytes().get(1)) {
            ('\u{1b}', Some(second)) if second.is_ascii() => (*second, 2),
            ('\u{9b}', _) => (b'[', 2),
            ('\u{9d}', _) => (b']', 2),
            ('\u{90}', _) => (b'P', 2),
            ('\u{98}' | '\u{9e}' | '\u{9f}', _) => (b'_', 2),
            _ => return char.len_utf8(),
        };
        let body = rest.get(head..).unwrap_or_default();
        match introducer {
            b'[' => head + csi(body.as_bytes()),
            b']' | b'P' | b'X' | b'^' | b'_' => head + self.string(text.len() - body.len(), body),
            // Those with intermediate bytes, such as the choice of a character set.
            b' '..=b'/' => {
                let more = body.bytes().take_while(|b| matches!(b, b' '..=b'/')).count();
                let last = body.as_bytes().get(more).is_some_and(|b| matches!(b, b'0'..=b'~'));
                head + more + usize::from(last)
            }
            b'0'..=b'~' => head,
            _ => 1,
        }
    }

    /// A control string up to its terminator. Without one only its introducer goes: the text behind it is shown.
    fn string(&mut self, from: usize, body: &str) -> usize {
        if self.none_after.is_some_and(|none| from >= none) {
            return 0;
        }
        let end = body.char_indices().find_map(|(at, char)| match char {
            '\u{7}' => Some(at + 1),
            '\u{9c}' => Some(at + 2),
            '\u{1b}' if body.as_bytes().get(at + 1) == Some(&b'\\') => Some(at + 2),
            _ => None,
        });
        if end.is_none() {
            self.none_after = Some(from);
        }
        end.unwrap_or(0)
    }
}

/// Parameters, intermediates and the final byte (ECMA-48 section 5.4).
fn csi(body: &[u8]) -> usize {
    let inside = body.iter().take_while(|b| matches!(b, b' '..=b'?')).count();
    inside + usize::from(body.get(inside).is_some_and(|b| matches!(b, b'@'..=b'~')))
}
