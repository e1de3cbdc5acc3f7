//! Secrets under encodings that leave no anchor to see: hexadecimal, base64 that is broken into lines, base64 inside
//! what base64 holds.
//! Only long runs are looked at, and of those only some bytes, unless what they decode to is text: clean text pays next
//! to nothing. What is found is redacted with the whole run.

use std::ops::Range;

use memchr::memchr_iter;

use super::check::{decode64, six_bits};
use super::scan::Scan;
use super::shapes::Alphabet;
use super::{Hit, Redactor};

/// Shortest run that is looked at, in bytes: sixteen of a secret in hexadecimal.
const LEAST: usize = 32;
/// Decoded bytes that tell whether a run holds text.
const TASTE: usize = 16;
/// Shortest line of base64 that may go on in the next, in bytes; encoders write 60, 64 or 76.
const LINE: usize = 40;
/// Lengths of lines that encoders write.
const USUAL: [usize; 3] = [60, 64, 76];
/// White space at the beginning of a line that goes on.
const INDENT: usize = 16;
/// Encodings within encodings that are looked through here, besides the one that anchors see into.
const DEPTH: u8 = 2;

/// Looks under the encodings of one text.
pub(super) fn find(scan: &mut Scan<'_>, redactor: &Redactor) {
    let mut hits = Vec::new();
    let mut spent = Spent { steps: scan.steps, limit: redactor.affordable(scan.text.len()) };
    under(scan.text, redactor, DEPTH, (&mut hits, &mut spent));
    scan.steps = spent.steps;
    scan.hits.extend(hits);
}

/// Steps, and how many there may be before it is given up: who counts them redacts the whole text then.
#[derive(Debug)]
struct Spent {
    steps: usize,
    limit: usize,
}

/// Adds the hits and the steps that they took.
fn under(text: &[u8], redactor: &Redactor, depth: u8, (hits, spent): (&mut Vec<Hit>, &mut Spent)) {
    runs(text, |span| {
        if spent.steps > spent.limit {
            return;
        }
        let run = text.get(span.clone()).unwrap_or_default();
        let rule = decoded(run).and_then(|inner| within(&inner, redactor, depth, spent));
        hits.extend(rule.map(|rule| Hit { span, rule }));
    });
    for block in blocks(text) {
        if spent.steps > spent.limit {
            return;
        }
        let mut found = scanned(&block.text, redactor, spent);
        // Lines are no encoding, and joined there are none left.
        under(&block.text, redactor, depth, (&mut found, &mut *spent));
        hits.extend(found.into_iter().map(|hit| Hit { span: block.place(&hit.span), rule: hit.rule }));
    }
}

/// The rule of what is found first.
fn within(text: &[u8], redactor: &Redactor, depth: u8, spent: &mut Spent) -> Option<u16> {
    let mut hits = scanned(text, redactor, spent);
    if hits.is_empty()
        && let Some(left) = depth.checked_sub(1)
    {
        under(text, redactor, left, (&mut hits, spent));
    }
    hits.first().map(|hit| hit.rule)
}

fn scanned(text: &[u8], redactor: &Redactor, spent: &mut Spent) -> Vec<Hit> {
    let mut inner = Scan::new(text);
    inner.encoded(redactor);
    spent.steps += inner.steps + text.len();
    inner.hits
}

/// Runs of either base64 alphabet, of which hexadecimal is a part. Looks at the last place where one that begins here
/// would have to be: of prose most bytes are never seen.
fn runs(text: &[u8], mut each: impl FnMut(Range<usize>)) {
    let mut from = 0;
    while let Some(window) = text.get(from..from + LEAST) {
        match window.iter().rposition(|b| !Alphabet::Base64.has(*b)) {
            Some(stop) => from += stop + 1,
            None => {
                let rest = text.get(from..).unwrap_or_default();
                let length = rest.iter().position(|b| !Alphabet::Base64.has(*b)).unwrap_or(rest.len());
                each(from..from + length);
                from += length + 1;
            }
        }
    }
}

/// What a run decodes to, when that is text: anchors see one layer deep, and in a text there may be the next.
fn decoded(run: &[u8]) -> Option<Vec<u8>> {
    // Past `0x`, `\\x` and the like.
    let hex = (0..4).filter_map(|skip| run.get(skip..)).find_map(|run| {
        let taste = unhex(run.get(..2 * TASTE)?);
        (taste.len() == TASTE && taste.iter().all(|b| is_text(*b))).then(|| unhex(run))
    });
    let base64 = || {
        (0..4).filter_map(|skip| run.get(skip..)).find_map(|run| {
            let taste = decode64(run.get(..TASTE / 3 * 4 + 4)?);
            (taste.len() >= TASTE && taste.iter().all(|b| is_text(*b))).then(|| decode64(run))
        })
    };
    hex.or_else(base64)
}

fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)
}

/// Bytes of hexadecimal, up to the first character that is none.
fn unhex(text: &[u8]) -> Vec<u8> {
    let digit = |b: &u8| char::from(*b).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, _) = text.as_chunks::<2>();
    pairs.iter().map_while(|[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// Lines of base64 that belong together.
#[derive(Debug, Default)]
struct Block {
    /// Without the breaks.
    text: Vec<u8>,
    /// Where each line begins: in `text`, and in what it was taken from.
    lines: Vec<(usize, usize)>,
}

impl Block {
    fn line(&mut self, text: &[u8], span: Range<usize>) {
        self.lines.push((self.text.len(), span.start));
        self.text.extend_from_slice(text.get(span).unwrap_or_default());
    }

    /// Whether its last line is as long as the one before: a shorter one is the end. What precedes base64 on its first line
    /// may be taken for a part of it.
    fn may_go_on(&self) -> bool {
        let begins: Vec<usize> = self.lines.iter().rev().take(2).map(|(joined, _)| *joined).collect();
        let [last, before] = begins.as_slice() else { return true };
        let (last, before) = (self.text.len() - last, last - before);
        last == before || (self.lines.len() == 2 && USUAL.contains(&last))
    }

    /// A span of the whole as one of what it was taken from, breaks and all.
    fn place(&self, span: &Range<usize>) -> Range<usize> {
        let at = |place: usize| {
            let line = self.lines.partition_point(|(joined, _)| *joined <= place).saturating_sub(1);
            self.lines.get(line).map_or(place, |(joined, original)| original + (place - joined))
        };
        at(span.start)..at(span.end.saturating_sub(1)) + 1
    }
}

fn blocks(text: &[u8]) -> Vec<Block> {
    let mut all: Vec<Block> = Vec::new();
    // Where the line ends that was taken last.
    let mut taken = 0;
    for at in memchr_iter(b'\n', text) {
        let end = if at.checked_sub(1).and_then(|cr| text.get(cr)) == Some(&b'\r') { at - 1 } else { at };
        let Some(tail) = end.checked_sub(LINE).and_then(|from| text.get(from..end)) else { continue };
        if !tail.iter().rev().all(|b| six_bits(*b).is_some()) {
            continue;
        }
        let rest = text.get(at + 1..).unwrap_or_default();
        let indent = rest.iter().take(INDENT).take_while(|b| matches!(b, b' ' | b'\t')).count();
        let next = at + 1 + indent;
        let rest = text.get(next..).unwrap_or_default();
        let length = rest.iter().position(|b| !Alphabet::Base64.has(*b)).unwrap_or(rest.len());
        if length == 0 {
            continue;
        }
        let known = all.last().filter(|_| taken == end);
        if known.is_some_and(|block| !block.may_go_on()) {
            continue;
        }
        if known.is_none() {
            let head = text.get(..end).unwrap_or_default();
            let run = head.iter().rev().take_while(|b| Alphabet::Base64.has(**b)).count();
            let mut block = Block::default();
            block.line(text, end - run..end);
            all.push(block);
        }
        if let Some(block) = all.last_mut() {
            block.line(text, next..next + length);
        }
        taken = next + length;
    }
    all
}
