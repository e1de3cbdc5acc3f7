//! YAML text into a JSON value with the line and column of everything in it. Bounded before and while parsing:
//! size, depth, number of nodes. Never expands an alias, never resolves a tag, never lets one key hide another.

mod scalar;

use std::collections::HashSet;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use serde_json::{Map, Value};

use super::place::{At, Lead, Places, Spot, Written, clip};

/// Largest configuration file in bytes.
pub(crate) const MAX_BYTES: usize = 1 << 20;
const MAX_DEPTH: usize = 32;
const MAX_NODES: usize = 100_000;
/// Further problems of the same document add nothing.
const MAX_FAULTS: usize = 100;

/// A parsed document.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) root: Value,
    pub(crate) places: Places,
    /// What is wrong with the text although the rest of it can be read and checked too.
    pub(crate) faults: Vec<TextFault>,
}

/// Something that is wrong with the text itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TextFault {
    pub(crate) spot: Spot,
    pub(crate) at: At,
    pub(crate) what: String,
    pub(crate) fix: &'static str,
}

/// Parses one YAML document.
///
/// # Errors
/// What is wrong with the text when nothing can be made of it; never empty.
pub(crate) fn parse(bytes: &[u8]) -> Result<Document, Vec<TextFault>> {
    let text = decode(bytes).map_err(|fault| vec![fault])?;
    let mut builder = Builder::default();
    let mut parser = Parser::new(StrInput::new(text));
    while let Some(next) = parser.next_event() {
        let step = match next {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => Err(syntax(text, &error)),
        };
        if let Err(fault) = step {
            builder.faults.push(fault);
            return Err(builder.faults);
        }
    }
    builder.finish()
}

fn fault(spot: Spot, what: impl Into<String>, fix: &'static str) -> TextFault {
    TextFault { spot, at: At::root(), what: what.into(), fix }
}

/// The text, without a byte order mark; nothing that a terminal or a YAML reader could take for something else.
fn decode(bytes: &[u8]) -> Result<&str, TextFault> {
    let start = Spot { line: 1, column: 1 };
    if bytes.len() > MAX_BYTES {
        return Err(fault(
            start,
            "the file is larger than 1 MiB",
            "a configuration is far smaller: wrong file?",
        ));
    }
    if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
        return Err(fault(start, "the file is UTF-16", "save it as UTF-8"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let good = bytes.get(..error.valid_up_to()).unwrap_or_default();
        fault(end_of(&String::from_utf8_lossy(good)), "not UTF-8 here", "save the file as UTF-8")
    })?;
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let odd = |c: char| (c.is_control() && !matches!(c, '\n' | '\r' | '\t')) || c == '\u{FEFF}';
    match text.find(odd) {
        Some(at) => {
            let what = "a control character that YAML does not allow";
            let spot = end_of(text.get(..at).unwrap_or_default());
            Err(fault(spot, what, "remove it, or write it as an escape in double quotes"))
        }
        None => Ok(text),
    }
}

fn end_of(text: &str) -> Spot {
    let last = text.rsplit('\n').next().unwrap_or_default();
    Spot { line: text.matches('\n').count() + 1, column: last.chars().count() + 1 }
}

/// What stands before the text of a scalar: known when the document has as many characters as the text, and quotes.
fn lead(text: &str, style: ScalarStyle, span: Span) -> Lead {
    let written = span.end.index().saturating_sub(span.start.index());
    let quotes = match style {
        ScalarStyle::Plain => 0,
        ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => 1,
        ScalarStyle::Literal => return Lead::Block,
        ScalarStyle::Folded => return Lead::Unknown,
    };
    let same = written == text.chars().count() + 2 * quotes && !text.contains('\n');
    if same { Lead::Inline(quotes) } else { Lead::Unknown }
}

fn spot(marker: Marker) -> Spot {
    Spot { line: marker.line().max(1), column: marker.col() + 1 }
}

fn syntax(text: &str, error: &ScanError) -> TextFault {
    let spot = spot(*error.marker());
    let line = text.lines().nth(spot.line - 1).unwrap_or_default();
    let indent = line.len() - line.trim_start().len();
    if line.get(..indent).is_some_and(|space| space.contains('\t')) {
        return fault(Spot { column: 1, ..spot }, "a tab in the indentation", "indent with spaces");
    }
    let what = format!("not valid YAML: {}", clip(error.info(), 200));
    fault(spot, what, "check the indentation and quotes here and in the line before")
}

/// A mapping or sequence that is still open.
enum Frame {
    Sequence { at: At, start: Spot, items: Vec<Value> },
    Mapping { at: At, start: Spot, members: Map<String, Value>, pending: Option<Pending> },
}

/// A key whose value is awaited.
struct Pending {
    name: String,
    spot: Spot,
    /// The value is read and thrown away: the key was a duplicate or no key at all.
    dropped: bool,
}

#[derive(Default)]
struct Builder {
    stack: Vec<Frame>,
    places: Places,
    faults: Vec<TextFault>,
    /// Lines of faults that were reported already: a fault and its consequences are one.
    seen: HashSet<(usize, usize)>,
    nodes: usize,
    root: Option<Value>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), TextFault> {
        let here = spot(span.start);
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) if self.root.is_none() => Ok(()),
            Event::DocumentStart(_) => {
                Err(fault(here, "a second YAML document in the file", "keep one; remove `---`"))
            }
            Event::Alias(_) => {
                self.note(here, "an alias (`*name`)", "write the value out: aliases are not supported");
                if let Some(Frame::Mapping { pending: Some(pending), .. }) = self.stack.last_mut() {
                    pending.dropped = true;
                }
                self.value(Value::Null, here, true)
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.decorations(anchor, tag.as_deref(), here);
                self.scalar(&text, style, span)
            }
            Event::SequenceStart(anchor, tag) => {
                self.decorations(anchor, tag.as_deref(), here);
                self.open(here, false)
            }
            Event::MappingStart(anchor, tag) => {
                self.decorations(anchor, tag.as_deref(), here);
                self.open(here, true)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
        }
    }

    fn note(&mut self, spot: Spot, what: impl Into<String>, fix: &'static str) {
        let at = self.child();
        if self.faults.len() < MAX_FAULTS && self.seen.insert((spot.line, spot.column)) {
            self.faults.push(TextFault { spot, at, what: what.into(), fix });
        }
    }

    fn decorations(&mut self, anchor: usize, tag: Option<&Tag>, here: Spot) {
        if anchor != 0 {
            self.note(here, "an anchor (`&name`)", "remove it: anchors and aliases are not supported");
        }
        if tag.is_some() {
            self.note(
                here,
                "a tag (`!name`)",
                "remove it: tags are not supported; quotes make text of a number",
            );
        }
    }

    /// The path of the node that comes next.
    fn child(&self) -> At {
        match self.stack.last() {
            None => At::root(),
            Some(Frame::Sequence { at, items, .. }) => at.index(items.len()),
            Some(Frame::Mapping { at, pending: Some(key), .. }) => at.key(&key.name),
            Some(Frame::Mapping { at, .. }) => at.clone(),
        }
    }

    fn count(&mut self, here: Spot) -> Result<(), TextFault> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(fault(here, format!("more than {MAX_NODES} values in the file"), "make it smaller"));
        }
        Ok(())
    }

    fn open(&mut self, here: Spot, mapping: bool) -> Result<(), TextFault> {
        self.count(here)?;
        if self.stack.len() >= MAX_DEPTH {
            return Err(fault(here, format!("nested deeper than {MAX_DEPTH} levels"), "make it flatter"));
        }
        if matches!(self.stack.last(), Some(Frame::Mapping { pending: None, .. })) {
            return Err(fault(here, "a key that is itself a list or a mapping", "keys are plain text"));
        }
        let at = self.child();
        self.stack.push(if mapping {
            Frame::Mapping { at, start: here, members: Map::new(), pending: None }
        } else {
            Frame::Sequence { at, start: here, items: Vec::new() }
        });
        Ok(())
    }

    fn close(&mut self) -> Result<(), TextFault> {
        let (value, start) = match self.stack.pop() {
            Some(Frame::Sequence { items, start, .. }) => (Value::Array(items), start),
            Some(Frame::Mapping { members, start, .. }) => (Value::Object(members), start),
            None => return Ok(()),
        };
        self.value(value, start, false)
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, span: Span) -> Result<(), TextFault> {
        let here = spot(span.start);
        self.count(here)?;
        if let Some(Frame::Mapping { pending: None, .. }) = self.stack.last() {
            self.key(text, style, here);
            return Ok(());
        }
        let at = self.child();
        let value = scalar::resolve(text, style);
        // A float is not what was written, and what is wrong inside patterns and conditions has its own column.
        let keep = value.is_f64() || (value.is_string() && at.pointer().starts_with("/tasks/"));
        // A value that is not there at all is best looked for at its key.
        self.value(value, here, !text.is_empty() || style != ScalarStyle::Plain)?;
        if keep {
            self.places.keep(&at, here, Written { text: text.into(), lead: lead(text, style, span) });
        }
        Ok(())
    }

    fn key(&mut self, text: &str, style: ScalarStyle, here: Spot) {
        let plain = matches!(style, ScalarStyle::Plain);
        let twice =
            matches!(self.stack.last(), Some(Frame::Mapping { members, .. }) if members.contains_key(text));
        let merge = plain && text == "<<";
        let empty = plain && (text.is_empty() || text == "~");
        if let Some(Frame::Mapping { pending, .. }) = self.stack.last_mut() {
            *pending = Some(Pending { name: text.to_owned(), spot: here, dropped: twice || merge || empty });
        }
        if merge {
            self.note(here, "a merge key (`<<`)", "write the keys out: merge keys are not supported");
        } else if empty {
            self.note(here, "a key without a name", "give it one, or remove the line");
        } else if twice {
            self.note(here, "this key is there twice", "keep one of the two");
        }
    }

    fn value(&mut self, value: Value, start: Spot, scalar: bool) -> Result<(), TextFault> {
        let at = self.child();
        match self.stack.last_mut() {
            None => {
                self.places.insert(at, start, start, scalar);
                self.root = Some(value);
            }
            Some(Frame::Sequence { items, .. }) => {
                items.push(value);
                self.places.insert(at, start, start, scalar);
            }
            Some(Frame::Mapping { members, pending, .. }) => match pending.take() {
                Some(key) => {
                    if !key.dropped {
                        members.insert(key.name, value);
                    }
                    self.places.insert(at, key.spot, start, scalar);
                }
                None => return Err(fault(start, "a value without a key", "write `key: value`")),
            },
        }
        Ok(())
    }

    fn finish(self) -> Result<Document, Vec<TextFault>> {
        let start = Spot { line: 1, column: 1 };
        match self.root {
            None | Some(Value::Null) if self.faults.is_empty() => {
                Err(vec![fault(start, "the file is empty", "start with `servers:` and a server")])
            }
            None | Some(Value::Null) => Err(self.faults),
            Some(root) => Ok(Document { root, places: self.places, faults: self.faults }),
        }
    }
}

#[cfg(test)]
mod tests;
