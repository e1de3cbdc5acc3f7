//! Secrets and personal data taken out of results, arguments and errors. A redaction is marked where it was made and
//! counted by rule, never silent; a clean text is given back as it came. No I/O, and linear time whatever the text.
//!
//! Formats come from their issuers' documentation; where they carry a checksum it is checked. Found under encodings:
//! base64 in any alignment, also over lines of forty characters or more, among other text and up to three times over,
//! hexadecimal, and percent-encoding, also of itself. Not found: deeper ones, mixtures with other encodings, and secrets
//! without a format outside members with a telling name. What would take too long to look through is taken out whole.
//! Invisible characters inside a secret hide it: where [`crate::controls`] are stripped, strip them first. A redacted
//! value may break the tool's output schema: check it after this.

mod anchors;
mod check;
mod document;
mod joint;
mod keys;
mod layers;
mod mask;
mod own;
mod people;
mod scan;
mod shapes;
mod wrapped;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ops::Range;

pub use joint::{Chunk, Joint};
pub use mask::mask;

use crate::flaw::{Flaw, Step};
use crate::splice::Malformed;
use anchors::Anchors;
use document::Document;
use keys::Keys;
use own::Own;
use scan::Scan;

/// Built-in rules that aren't token formats, in the order of their indices after those.
const OTHERS: [&str; 4] = ["email", "card", "iban", "key"];
/// Steps per byte of a text before it is not looked at further: a byte looked at while an anchor is followed, or one of
/// a layer. Usual texts take less than one.
const MAX_STEPS_PER_BYTE: usize = 32;
/// What own rules may take for themselves, in all layers together.
const MAX_OWN_STEPS_PER_BYTE: usize = 1024;
/// What any text may cost, however short.
const FREE: usize = 4096;
/// How often percent-encoding is decoded.
const MAX_PERCENT: u8 = 3;
/// Names of groups that stand for several rules, or for another name.
const SECRETS: &str = "secrets";
const KEYS: &str = "keys";

/// What a redactor is to look for, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Built-in rules by group (`secrets`: all token formats; `keys`: members with telling names; `email`, `card`,
    /// `iban`) or by their own name (`aws`, `github`, …).
    pub groups: Vec<String>,
    /// Own patterns.
    pub rules: Vec<OwnRule>,
    /// Own names of members whose values are secrets; case, hyphens, underscores and dots don't count.
    pub keys: Vec<String>,
}

impl Default for Spec {
    /// All token formats and telling names.
    fn default() -> Spec {
        Spec { groups: vec![SECRETS.into(), KEYS.into()], rules: Vec::new(), keys: Vec::new() }
    }
}

/// A pattern of the operator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRule {
    /// What the marker and the metrics call it: `[a-z][a-z0-9-]{0,31}`, no built-in rule's name.
    pub name: String,
    /// In the syntax of the regex crate over bytes, with ASCII classes; every repetition bounded.
    pub pattern: String,
}

/// Compiled rules. Making one is slow, using one is not: share it.
#[derive(Debug)]
pub struct Redactor {
    names: Vec<String>,
    on: Vec<bool>,
    key_rule: u16,
    keys: Keys,
    own: Own,
}

/// A text after redaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted<'a> {
    /// The text; borrowed when nothing was found.
    pub text: Cow<'a, str>,
    /// What was taken out.
    pub counts: Counts,
}

/// How often each rule took something out: the index of the rule's name in [`Redactor::names`], and the number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(Vec<(u16, u32)>);

impl Counts {
    /// Rule indices and numbers; rules that found nothing are left out.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.0.iter().copied()
    }

    /// Redactions in all.
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, times)| u64::from(times)).sum()
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, rule: u16) {
        self.add_times(rule, 1);
    }

    fn add_times(&mut self, rule: u16, times: u32) {
        match self.0.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, sum)) => *sum = sum.saturating_add(times),
            None => self.0.push((rule, times)),
        }
    }

    /// Adds another text's numbers.
    pub fn merge(&mut self, other: &Counts) {
        other.iter().for_each(|(rule, times)| self.add_times(rule, times));
    }
}

/// A span to take out, in bytes, and the rule that says so.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Hit {
    span: Range<usize>,
    rule: u16,
}

/// A hit, or the piece of one, in one of several parts of a text.
#[derive(Debug)]
struct Piece {
    part: usize,
    /// Whether the hit goes on in another part.
    split: bool,
    hit: Hit,
}

/// An element of one of the specification's lists.
fn place(list: &str, at: usize) -> Vec<Step> {
    vec![list.into(), at.into()]
}

impl Redactor {
    /// Compiles a spec.
    ///
    /// # Errors
    /// Everything that is wrong with it: unknown groups, bad names, patterns that are no patterns, that match the empty
    /// text, have no longest match or one over 512 bytes, or compile to more than 256 KiB.
    pub fn compile(spec: &Spec) -> Result<Redactor, Vec<Flaw>> {
        let mut names: Vec<String> = anchors::names().map(str::to_owned).collect();
        let tokens = names.len();
        names.extend(OTHERS.map(str::to_owned));
        let built_in = names.len();
        let mut flaws = Vec::new();
        let mut on = vec![false; built_in];
        for (at, group) in spec.groups.iter().enumerate() {
            let known = names.iter().position(|name| name == group || (group == KEYS && name == "key"));
            match (group.as_str(), known) {
                (SECRETS, _) => on.iter_mut().take(tokens).for_each(|on| *on = true),
                (_, Some(rule)) => on.iter_mut().skip(rule).take(1).for_each(|on| *on = true),
                (_, None) => {
                    let fix = format!("one of {SECRETS}, {KEYS}, {}", names.join(", "));
                    flaws.push(Flaw::new(place("groups", at), format!("there is no rule {group:?}"), fix));
                }
            }
        }
        for (at, rule) in spec.rules.iter().enumerate() {
            if !is_name(&rule.name)
                || names.contains(&rule.name)
                || [SECRETS, KEYS].contains(&rule.name.as_str())
            {
                let fix = "an own name of a-z, 0-9 and hyphens, at most 32, that starts with a letter";
                flaws.push(Flaw::new(
                    [place("rules", at), vec!["name".into()]].concat(),
                    "the name is taken or is none",
                    fix,
                ));
            }
            names.push(rule.name.clone());
            on.push(true);
        }
        let own = Own::compile(&spec.rules, built_in, &mut flaws);
        let keys = Keys::new(on.get(built_in - 1) == Some(&true), &spec.keys).unwrap_or_else(|at| {
            let what = "the name has no letter or digit, or more than 64";
            flaws.push(Flaw::new(place("keys", at), what, "a member's name, such as pin"));
            Keys::default()
        });
        if Anchors::built_in().is_none() {
            flaws.push(Flaw::new(
                vec!["groups".into()],
                "the built-in formats could not be compiled",
                "report this",
            ));
        }
        let key_rule = u16::try_from(built_in - 1).unwrap_or(u16::MAX);
        if flaws.is_empty() { Ok(Redactor { names, on, key_rule, keys, own }) } else { Err(flaws) }
    }

    /// The names of all rules, by index: a bounded set, fit for labels.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Redacts a JSON text: a result, arguments, an error object. Strings that are JSON themselves are redacted by the
    /// same rules, so structured content and its text form stay equal; secrets that go on from one part of the content
    /// to the next are found too.
    ///
    /// # Errors
    /// It is no JSON. Then nothing is known of it, and it must not be passed on.
    pub fn json<'a>(&self, json: &'a str) -> Result<Redacted<'a>, Malformed> {
        let walked = Document::walk(self, json, true)?;
        let text = walked.text.map_or(Cow::Borrowed(json), Cow::Owned);
        Ok(Redacted { text, counts: walked.counts })
    }

    /// Redacts a text that is no JSON, such as an error's message, a header's value or a line of a log; one that happens
    /// to be JSON is redacted as such.
    pub fn text<'a>(&self, text: &'a str) -> Redacted<'a> {
        if document::like_json(text)
            && let Ok(redacted) = self.json(text)
        {
            return redacted;
        }
        let (hits, _) = self.scan(text.as_bytes());
        let mut counts = Counts::default();
        hits.iter().for_each(|hit| counts.add(hit.rule));
        let text = if hits.is_empty() { Cow::Borrowed(text) } else { apply(text, &hits, &self.names).into() };
        Redacted { text, counts }
    }

    /// Everything to take out of one text, in order and apart, and the steps that it took.
    fn scan(&self, text: &[u8]) -> (Vec<Hit>, usize) {
        // The shortest thing that any rule of ours finds.
        if text.len() < self.own.shortest().map_or(6, |own| own.min(6)) {
            return (Vec::new(), 0);
        }
        let mut scan = Scan::new(text);
        scan.all(self);
        layers::find(&mut scan, self);
        let (inner, steps) = self.behind_percent(text, MAX_PERCENT);
        scan.steps += steps;
        scan.hits.extend(inner);
        if scan.steps > self.affordable(text.len()) {
            // As with own rules: what costs too much to look at is not passed on.
            scan.hits.push(Hit { span: 0..text.len(), rule: self.key_rule });
        }
        let (mut hits, steps) = (scan.hits, scan.steps);
        settle(&mut hits);
        (hits, steps)
    }

    /// What percent-encoding hides, as spans of the text. Once decoded it may be there again: of `%25` alone that is seen
    /// at once, but not where the digits after it are encoded too.
    fn behind_percent(&self, text: &[u8], times: u8) -> (Vec<Hit>, usize) {
        let Some(left) = times.checked_sub(1) else { return (Vec::new(), 0) };
        let Some(decoded) = wrapped::percent_decoded(text) else { return (Vec::new(), 0) };
        let mut inner = Scan::new(&decoded);
        inner.all(self);
        layers::find(&mut inner, self);
        let (deeper, steps) = self.behind_percent(&decoded, left);
        inner.hits.extend(deeper);
        (wrapped::percent_mapped(text, inner.hits), inner.steps + steps + text.len())
    }

    /// The steps that a text of so many bytes may cost.
    fn affordable(&self, bytes: usize) -> usize {
        let own = if self.own.shortest().is_some() { MAX_OWN_STEPS_PER_BYTE } else { 0 };
        bytes.saturating_mul(MAX_STEPS_PER_BYTE + own).saturating_add((1 + own) * FREE)
    }

    /// Hits in the parts as one text, cut up at the ends of parts.
    fn across(&self, parts: &[impl AsRef<str>]) -> (Vec<Piece>, usize) {
        let mut whole = String::new();
        let mut ends = Vec::with_capacity(parts.len());
        for part in parts {
            whole.push_str(part.as_ref());
            ends.push(whole.len());
        }
        let (hits, steps) = self.scan(whole.as_bytes());
        let mut pieces = Vec::new();
        for hit in hits {
            let first = ends.partition_point(|end| *end <= hit.span.start);
            let split = ends.get(first).is_some_and(|end| hit.span.end > *end);
            let mut start = hit.span.start;
            for (part, end) in ends.iter().enumerate().skip(first) {
                let before = part.checked_sub(1).and_then(|at| ends.get(at)).copied().unwrap_or(0);
                let until = hit.span.end.min(*end);
                if start < until {
                    let hit = Hit { span: start - before..until - before, rule: hit.rule };
                    pieces.push(Piece { part, split, hit });
                }
                start = until;
                if until == hit.span.end {
                    break;
                }
            }
        }
        (pieces, steps)
    }

    fn people(&self, scan: &mut Scan<'_>) {
        let first = usize::from(self.key_rule) + 1 - OTHERS.len();
        let rule = |at: usize| u16::try_from(first + at).unwrap_or(u16::MAX);
        let (email, card, iban) = (rule(0), rule(1), rule(2));
        let text = scan.text;
        if self.is_on(email) {
            people::emails(text, |span| scan.hits.push(Hit { span, rule: email }));
        }
        if self.is_on(card) || self.is_on(iban) {
            let mut found = Vec::new();
            let mut accounts = Vec::new();
            people::numbers(text, |span| found.push((span, card)), |span| accounts.push((span, iban)));
            let both = found.into_iter().chain(accounts).filter(|(_, rule)| self.is_on(*rule));
            scan.hits.extend(both.map(|(span, rule)| Hit { span, rule }));
        }
    }

    fn is_on(&self, rule: u16) -> bool {
        self.on.get(usize::from(rule)) == Some(&true)
    }

    fn marker(&self, rule: u16) -> String {
        marker(&self.names, rule)
    }

    fn is_marker(&self, text: &str) -> bool {
        let name = text.strip_prefix("[redacted:").and_then(|rest| rest.strip_suffix(']'));
        name.is_some_and(|name| self.names.iter().any(|known| known == name))
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= 32
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn marker(names: &[String], rule: u16) -> String {
    format!("[redacted:{}]", names.get(usize::from(rule)).map_or("secret", String::as_str))
}

/// Brings hits in order and makes one of those that overlap, named by the first of their rules: credentials come before
/// addresses.
fn settle(hits: &mut Vec<Hit>) {
    hits.sort_by_key(|hit| (hit.span.start, std::cmp::Reverse(hit.span.end), hit.rule));
    hits.dedup_by(|later, kept| {
        let same = later.span.start < kept.span.end;
        if same {
            kept.span.end = kept.span.end.max(later.span.end);
            kept.rule = kept.rule.min(later.rule);
        }
        same
    });
}

/// The text with markers in place of the hits, each widened to whole characters.
fn apply(text: &str, hits: &[Hit], names: &[String]) -> String {
    let mut free = 0;
    let edits = hits.iter().map(|hit| {
        let start = text.floor_char_boundary(hit.span.start).max(free);
        free = text.ceil_char_boundary(hit.span.end);
        (start..free, marker(names, hit.rule))
    });
    crate::splice::spliced(text, edits.collect::<Vec<_>>())
}
