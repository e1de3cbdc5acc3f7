//! Secrets one layer deep: inside base64, and behind percent-encoding however often it was done. What is under other
//! encodings is in [`super::layers`].

use std::ops::Range;

use memchr::memchr_iter;

use super::check::{decode64, six_bits};
use super::scan::Scan;
use super::shapes::Alphabet;
use super::{Hit, Redactor};

/// Characters of base64 that are decoded at once.
const WINDOW: usize = 16 * 1024;
/// Characters before an anchor that are decoded as well, in whole groups: what stands before a secret tells it apart.
const BEFORE: usize = 64;
/// How often percent-encoding of percent-encoding is read through.
const MAX_AGAIN: usize = 8;
/// The end of a window in which a secret may not be whole.
const TAIL: usize = 6 * 1024;

/// What was decoded of a text so far, by alignment.
#[derive(Debug, Default)]
pub(super) struct Windows {
    seen: [usize; 4],
}

impl Windows {
    /// Decodes the base64 around an anchor. What holds a secret is redacted as a whole: half of it decodes to the
    /// secret's other half.
    pub(super) fn look(
        &mut self,
        scan: &mut Scan<'_>,
        redactor: &Redactor,
        found: usize,
        dropped: u8,
    ) -> Option<Hit> {
        let group = found.checked_sub(usize::from(dropped))?;
        let seen = self.seen.get_mut(group % 4)?;
        if group < *seen {
            return None;
        }
        let text = scan.text;
        let mut from = group;
        while from >= 4 && group - from < BEFORE && in_base64(text, from - 4..from) {
            from -= 4;
        }
        if !in_base64(text, from..found) {
            return None;
        }
        let end = scan.run_end(Alphabet::Base64, found);
        let to = end.min(from + WINDOW);
        *seen = if to == end { end } else { to - TAIL };
        let decoded = decode64(text.get(from..to)?);
        scan.steps += to - from;
        let mut inner = Scan::new(&decoded);
        inner.credentials(redactor);
        scan.steps += inner.steps;
        let rule = inner.hits.first()?.rule;
        let head = text.get(..from)?;
        let start = from - head.iter().rev().take_while(|b| six_bits(**b).is_some()).count();
        Some(Hit { span: start..end, rule })
    }
}

fn in_base64(text: &[u8], span: Range<usize>) -> bool {
    text.get(span).is_some_and(|part| part.iter().all(|b| six_bits(*b).is_some()))
}

/// The text without its percent-encoding (RFC 3986 section 2.1), when some of it stands for ASCII.
pub(super) fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out: Option<Vec<u8>> = None;
    let mut from = 0;
    for at in memchr_iter(b'%', text) {
        if at < from {
            continue;
        }
        if let Some((byte, length)) = percent_byte(text, at) {
            let out = out.get_or_insert_with(|| Vec::with_capacity(text.len()));
            out.extend_from_slice(text.get(from..at).unwrap_or_default());
            out.push(byte);
            from = at + length;
        }
    }
    let mut out = out?;
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    Some(out)
}

/// The byte, and how long it is written: each `25` before its digits stands for a `%` that was encoded once more.
fn percent_byte(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let rest = text.get(at + 1..)?;
    let again = rest.chunks(2).take(MAX_AGAIN).take_while(|pair| *pair == b"25").count();
    let read = |skip: usize| {
        let digits = std::str::from_utf8(rest.get(2 * skip..2 * skip + 2)?).ok()?;
        let byte = u8::from_str_radix(digits, 16).ok()?;
        (byte.is_ascii() && !digits.starts_with('+')).then_some((byte, 3 + 2 * skip))
    };
    // `%25` before anything else is a percent sign and no more.
    read(again).or_else(|| again.checked_sub(1).and_then(read))
}

/// Spans of the decoded text as spans of the encoded one.
pub(super) fn percent_mapped(text: &[u8], hits: Vec<Hit>) -> Vec<Hit> {
    let mut places: Vec<usize> = hits.iter().flat_map(|hit| [hit.span.start, hit.span.end]).collect();
    places.sort_unstable();
    places.dedup();
    let mut encoded = Vec::with_capacity(places.len());
    let (mut at, mut decoded) = (0, 0);
    for place in &places {
        while decoded < *place {
            let byte = if text.get(at) == Some(&b'%') { percent_byte(text, at) } else { None };
            at += byte.map_or(1, |(_, length)| length);
            decoded += 1;
        }
        encoded.push(at);
    }
    let mapped = |place: usize| {
        places.binary_search(&place).ok().and_then(|slot| encoded.get(slot).copied()).unwrap_or(text.len())
    };
    hits.into_iter()
        .map(|hit| Hit { span: mapped(hit.span.start)..mapped(hit.span.end), rule: hit.rule })
        .collect()
}
