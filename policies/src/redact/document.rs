//! Walks one JSON text and redacts strings, keys and the values of secret names. Only strings with a hit are written
//! anew; everything else stays byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use super::keys::Named;
use super::{Counts, Hit, Piece, Redactor, apply, settle};
use crate::splice::{self, Kind, Malformed, Token, Tokens};

/// A part of the text that is written anew.
#[derive(Debug)]
struct Edit {
    span: Range<usize>,
    with: With,
}

#[derive(Debug)]
enum With {
    /// The value, whole.
    Value(String),
    /// A string without the hits.
    Hits(Vec<Hit>),
}

/// A string of the content.
#[derive(Debug)]
struct Part {
    span: Range<usize>,
    /// Walked as JSON: only what goes on in another part is new.
    json: bool,
}

/// What a member's name says of the texts below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Other,
    /// Holds the parts of a result's text.
    Content,
    /// Beside the text.
    Aside,
    /// What has names of its own below it, that say nothing of their values: properties of a schema, and questions of
    /// a server, whose answers come back under the same names.
    Names,
}

/// One walk.
#[derive(Debug)]
pub(super) struct Document<'r, 't> {
    redactor: &'r Redactor,
    text: &'t str,
    edits: Vec<Edit>,
    /// Strings that a client shows after each other.
    parts: Vec<Part>,
    /// Per open container, the place that its last key names.
    places: Vec<Place>,
    /// Whether strings that are JSON themselves are walked too.
    outermost: bool,
    renamed: u32,
    counts: Counts,
    steps: usize,
}

/// What a walk found.
#[derive(Debug)]
pub(super) struct Walked {
    /// The new text, if it changed.
    pub(super) text: Option<String>,
    pub(super) counts: Counts,
    pub(super) steps: usize,
}

impl<'r, 't> Document<'r, 't> {
    /// Redacts a whole text.
    pub(super) fn walk(redactor: &'r Redactor, text: &'t str, outermost: bool) -> Result<Walked, Malformed> {
        let mut document = Document {
            redactor,
            text,
            edits: Vec::new(),
            parts: Vec::new(),
            places: Vec::new(),
            outermost,
            renamed: 0,
            counts: Counts::default(),
            steps: 0,
        };
        document.tokens()?;
        document.seams();
        Ok(document.finish())
    }

    fn tokens(&mut self) -> Result<(), Malformed> {
        let mut tokens = Tokens::new(self.text);
        let mut named = Named::Nothing;
        let mut part = false;
        while let Some(token) = tokens.next()? {
            match token.kind {
                Kind::Key => {
                    (named, part) = self.key(&token);
                    continue;
                }
                Kind::Open { object } if named == Named::All && !self.is_named_freely() => {
                    let end = tokens.skip()?;
                    let inside = self.text.get(token.span.start + 1..end - 1).unwrap_or_default();
                    if !inside.trim().is_empty() {
                        self.whole(token.span.start..end);
                    }
                    let _ = object;
                }
                Kind::Open { .. } => self.places.push(Place::Other),
                Kind::Close => {
                    self.places.pop();
                }
                Kind::Text if named != Named::Nothing => self.secret_text(token.span),
                Kind::Text => self.string(token.span, part),
                Kind::Number if named == Named::All => self.whole(token.span),
                Kind::Number => self.number(token.span),
                Kind::Word => {}
            }
            (named, part) = (Named::Nothing, false);
        }
        Ok(())
    }

    /// What the key says of its value, and whether that is a part of the result's text.
    fn key(&mut self, token: &Token) -> (Named, bool) {
        let name = splice::unquoted(self.text, &token.span);
        let place = match name.as_ref() {
            "content" | "contents" | "messages" => Place::Content,
            "_meta" | "annotations" | "structuredContent" => Place::Aside,
            "properties" => Place::Names,
            "inputRequests" if self.outermost && self.places.len() == 1 => Place::Names,
            _ => Place::Other,
        };
        if let Some(last) = self.places.last_mut() {
            *last = place;
        }
        let part = name == "text"
            && self.outermost
            && self.places.first() == Some(&Place::Content)
            && !self.places.contains(&Place::Aside);
        let (hits, steps) = self.redactor.scan(name.as_bytes());
        self.steps += steps;
        if !hits.is_empty() {
            self.count(&hits);
            let mut renamed = apply(&name, &hits, &self.redactor.names);
            // Two keys must not become equal.
            self.renamed += 1;
            if self.renamed > 1 {
                renamed.push_str(&format!("~{}", self.renamed));
            }
            self.edits.push(Edit { span: token.span.clone(), with: With::Value(splice::quoted(&renamed)) });
        }
        (self.redactor.keys.named(&name), part)
    }

    fn is_named_freely(&self) -> bool {
        let above = self.places.len().checked_sub(2).and_then(|at| self.places.get(at));
        above == Some(&Place::Names)
    }

    fn secret_text(&mut self, span: Range<usize>) {
        let said = splice::unquoted(self.text, &span);
        if !said.is_empty() && !self.redactor.is_marker(&said) {
            self.whole(span);
        }
    }

    fn whole(&mut self, span: Range<usize>) {
        let rule = self.redactor.key_rule;
        self.counts.add(rule);
        let with = splice::quoted(&self.redactor.marker(rule));
        self.edits.push(Edit { span, with: With::Value(with) });
    }

    fn string(&mut self, span: Range<usize>, part: bool) {
        let said = splice::unquoted(self.text, &span);
        let json = self.outermost && like_json(&said) && self.embedded(&span, &said).is_ok();
        if part {
            self.parts.push(Part { span: span.clone(), json });
        }
        if json {
            return;
        }
        let (hits, steps) = self.redactor.scan(said.as_bytes());
        self.steps += steps;
        if !hits.is_empty() {
            self.edits.push(Edit { span, with: With::Hits(hits) });
        }
    }

    /// A string that is JSON, as the text form of structured content is: the same rules hold in both.
    fn embedded(&mut self, span: &Range<usize>, said: &str) -> Result<(), Malformed> {
        let walked = Document::walk(self.redactor, said, false)?;
        self.steps += walked.steps;
        self.counts.merge(&walked.counts);
        if let Some(text) = walked.text {
            self.edits.push(Edit { span: span.clone(), with: With::Value(splice::quoted(&text)) });
        }
        Ok(())
    }

    fn number(&mut self, span: Range<usize>) {
        if span.len() < self.redactor.own.shortest().map_or(13, |own| own.min(13)) {
            return;
        }
        let digits = self.text.get(span.clone()).unwrap_or_default();
        let (hits, steps) = self.redactor.scan(digits.as_bytes());
        self.steps += steps;
        if let Some(hit) = hits.first() {
            self.counts.add(hit.rule);
            let with = splice::quoted(&self.redactor.marker(hit.rule));
            self.edits.push(Edit { span, with: With::Value(with) });
        }
    }

    /// Secrets that start in one part of the text and end in another.
    fn seams(&mut self) {
        if self.parts.len() < 2 {
            return;
        }
        let said: Vec<Cow<'_, str>> =
            self.parts.iter().map(|part| splice::unquoted(self.text, &part.span)).collect();
        let (pieces, steps) = self.redactor.across(&said);
        self.steps += steps;
        for Piece { part, split, hit } in pieces {
            let Some(Part { span, json }) = self.parts.get(part) else { continue };
            if *json && !split {
                continue;
            }
            match self.edits.binary_search_by_key(&span.start, |edit| edit.span.start) {
                Ok(at) => match self.edits.get_mut(at) {
                    Some(Edit { with: With::Hits(hits), .. }) => hits.push(hit),
                    // What was rewritten as JSON can't be cut by places in what it was.
                    Some(Edit { with: with @ With::Value(_), .. }) => {
                        *with = With::Value(splice::quoted(&self.redactor.marker(hit.rule)));
                        self.counts.add(hit.rule);
                    }
                    None => {}
                },
                Err(at) => {
                    self.edits.insert(at, Edit { span: span.clone(), with: With::Hits(vec![hit]) });
                }
            }
        }
    }

    fn count(&mut self, hits: &[Hit]) {
        hits.iter().for_each(|hit| self.counts.add(hit.rule));
    }

    fn finish(mut self) -> Walked {
        let (mut counts, names, text) = (std::mem::take(&mut self.counts), &self.redactor.names, self.text);
        if self.edits.is_empty() {
            return Walked { text: None, counts, steps: self.steps };
        }
        let edits = self.edits.into_iter().map(|edit| {
            let with = match edit.with {
                With::Value(with) => with,
                With::Hits(mut hits) => {
                    settle(&mut hits);
                    hits.iter().for_each(|hit| counts.add(hit.rule));
                    splice::quoted(&apply(&splice::unquoted(text, &edit.span), &hits, names))
                }
            };
            (edit.span, with)
        });
        let text = splice::spliced(text, edits);
        Walked { text: Some(text), counts, steps: self.steps }
    }
}

/// Whether a text may be one JSON object or array: walking through it tells.
pub(super) fn like_json(text: &str) -> bool {
    let text = text.trim_ascii();
    (text.starts_with('{') && text.ends_with('}')) || (text.starts_with('[') && text.ends_with(']'))
}
