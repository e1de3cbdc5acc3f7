//! Where the parts of a result stand and how large its base64 is once decoded. Keeps places alone, and of the items no
//! more than the cap allows.

use std::ops::Range;

use memchr::memchr_iter;

use super::{Caps, TooLarge};
use crate::splice::{self, Kind, Malformed, Tokens};

/// One member of the result.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) key: Range<usize>,
    pub(super) value: Range<usize>,
}

/// One item of the content.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) span: Range<usize>,
    /// The string under `text`, of an item whose type is `text`.
    pub(super) text: Option<Range<usize>>,
    /// Over the cap of an image or a blob.
    pub(super) over: bool,
}

/// The parts of a result.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) members: Vec<Member>,
    pub(super) content: Option<Range<usize>>,
    pub(super) structured: Option<Range<usize>>,
    pub(super) meta: Option<Range<usize>>,
    pub(super) is_error: bool,
    /// Items in all.
    pub(super) items: usize,
    /// The first ones, as many as the cap allows.
    pub(super) kept: Vec<Item>,
    /// Decoded bytes of the largest image or sound, and blob.
    pub(super) image: usize,
    pub(super) blob: usize,
    /// Lists without a place for a mark.
    other_lists: bool,
}

impl Layout {
    pub(super) fn read(result: &str, caps: &Caps) -> Result<Layout, TooLarge> {
        let mut layout = Layout { members: members(result)?, ..Layout::default() };
        for Member { key, value } in layout.members.clone() {
            let text = result.get(value.clone()).unwrap_or_default();
            match splice::unquoted(result, &key).as_ref() {
                "content" if text.starts_with('[') => {
                    layout.content = Some(value.clone());
                    layout.list(result, value, caps)?;
                }
                "contents" | "messages" if text.starts_with('[') => {
                    layout.other_lists = true;
                    layout.list(result, value, caps)?;
                }
                "structuredContent" => layout.structured = Some(value),
                "_meta" if text.starts_with('{') => layout.meta = Some(value),
                "isError" => layout.is_error = text == "true",
                _ => {}
            }
        }
        Ok(layout)
    }

    /// Whether there is a place for a mark.
    pub(super) fn can_be_cut(&self) -> bool {
        !self.other_lists && (self.content.is_some() || self.structured.is_some())
    }

    fn list(&mut self, result: &str, list: Range<usize>, caps: &Caps) -> Result<(), Malformed> {
        let base = list.start;
        let text = result.get(list).unwrap_or_default();
        let mut tokens = Tokens::new(text);
        tokens.next()?;
        while let Some(first) = tokens.next()? {
            let end = match first.kind {
                Kind::Close => break,
                Kind::Open { .. } => tokens.skip()?,
                _ => first.span.end,
            };
            self.items += 1;
            let item = self.item(text, first.span.start..end, caps)?;
            if self.kept.len() < caps.items {
                let at = |span: &Range<usize>| base + span.start..base + span.end;
                self.kept.push(Item {
                    span: at(&item.span),
                    text: item.text.as_ref().map(at),
                    over: item.over,
                });
            }
        }
        Ok(())
    }

    fn item(&mut self, list: &str, span: Range<usize>, caps: &Caps) -> Result<Item, Malformed> {
        let inside = list.get(span.clone()).unwrap_or_default();
        let mut tokens = Tokens::new(inside);
        let (mut key, mut is_text, mut text, mut over) = (String::new(), false, None, false);
        while let Some(token) = tokens.next()? {
            match token.kind {
                Kind::Key => splice::unquoted(inside, &token.span).as_ref().clone_into(&mut key),
                Kind::Text if key == "data" => {
                    let bytes = decoded_bytes(inside.get(token.span).unwrap_or_default());
                    self.image = self.image.max(bytes);
                    over |= bytes > caps.image_bytes;
                }
                Kind::Text if key == "blob" => {
                    let bytes = decoded_bytes(inside.get(token.span).unwrap_or_default());
                    self.blob = self.blob.max(bytes);
                    over |= bytes > caps.blob_bytes;
                }
                Kind::Text if tokens.depth() == 1 && key == "type" => {
                    is_text = splice::unquoted(inside, &token.span) == "text";
                }
                Kind::Text if tokens.depth() == 1 && key == "text" => {
                    text = Some(span.start + token.span.start..span.start + token.span.end);
                }
                _ => {}
            }
        }
        Ok(Item { span, text: text.filter(|_| is_text), over })
    }
}

/// Bytes that a JSON string of base64 decodes to, give or take its last group's: nothing is decoded.
fn decoded_bytes(quoted: &str) -> usize {
    let inside = quoted.trim_matches('"');
    let escapes = memchr_iter(b'\\', inside.as_bytes()).count();
    (inside.trim_end_matches('=').len() - escapes) / 4 * 3
        + (inside.trim_end_matches('=').len() - escapes) % 4 * 3 / 4
}

/// The members of an object.
pub(super) fn members(object: &str) -> Result<Vec<Member>, Malformed> {
    let mut tokens = Tokens::new(object);
    let first = tokens.next()?.ok_or(Malformed)?;
    if first.kind != (Kind::Open { object: true }) {
        return Err(Malformed);
    }
    let mut members = Vec::new();
    loop {
        let key = tokens.next()?.ok_or(Malformed)?;
        match key.kind {
            Kind::Key => {}
            Kind::Close => break,
            _ => return Err(Malformed),
        }
        let value = tokens.next()?.ok_or(Malformed)?;
        let end = match value.kind {
            Kind::Open { .. } => tokens.skip()?,
            Kind::Close | Kind::Key => return Err(Malformed),
            _ => value.span.end,
        };
        members.push(Member { key: key.span, value: value.span.start..end });
    }
    if tokens.next()?.is_some() { Err(Malformed) } else { Ok(members) }
}
