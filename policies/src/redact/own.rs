//! An operator's own patterns. Each has a longest match and a bounded size, or it isn't loaded; matching one costs no
//! more than a fixed number of steps per byte, and what would cost more is redacted to the end.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::Hir;
use regex_syntax::hir::literal::Extractor;

use super::anchors::Anchors;
use super::scan::Scan;
use super::{Hit, OwnRule, place};
use crate::flaw::Flaw;

/// Rules of one redactor.
const MAX_RULES: usize = 64;
/// Longest match, in bytes: for each match the engine may look so far ahead, with as many threads.
const MAX_LEN: usize = 512;
/// Compiled size of one pattern, in bytes.
const MAX_SIZE: usize = 256 * 1024;
/// Steps per byte of a text, and what any text may cost. A match counts for its pattern's longest, and for a share of
/// the square of it: that is what an engine pays that follows all of its beginnings.
const MAX_STEPS_PER_BYTE: usize = 256;
const FREE_STEPS: usize = 1024 * 1024;
/// Shortest and most literals of a pattern that are looked for inside base64.
const LEAST_LITERAL: usize = 4;
const MAX_LITERALS: usize = 8;

/// The own rules of a redactor.
#[derive(Debug, Default)]
pub(super) struct Own {
    rules: Vec<Compiled>,
    /// All patterns in one: most texts match none, and that takes one pass however many there are.
    any: Option<Regex>,
    /// The shortest match of any, in bytes.
    shortest: usize,
    anchors: Option<Anchors>,
}

#[derive(Debug)]
struct Compiled {
    regex: Regex,
    longest: usize,
    rule: u16,
}

impl Own {
    /// Compiles the rules; `first` is the index of the first one's name.
    pub(super) fn compile(rules: &[OwnRule], first: usize, flaws: &mut Vec<Flaw>) -> Own {
        let mut own = Own::default();
        let mut literals = Vec::new();
        if rules.len() > MAX_RULES {
            let what = format!("{} rules are more than {MAX_RULES}", rules.len());
            flaws.push(Flaw::new(vec!["rules".into()], what, "join patterns by | or drop some"));
            return own;
        }
        for (at, rule) in rules.iter().enumerate() {
            match compiled(&rule.pattern) {
                Ok((regex, longest, hir)) => {
                    let rule = u16::try_from(first + at).unwrap_or(u16::MAX);
                    own.rules.push(Compiled { regex, longest, rule });
                    literals.extend(starts(&hir));
                    let least = hir.properties().minimum_len().unwrap_or(1);
                    own.shortest = if at == 0 { least } else { own.shortest.min(least) };
                }
                Err((what, fix)) => {
                    flaws.push(Flaw::new([place("rules", at), vec!["pattern".into()]].concat(), what, fix))
                }
            }
        }
        own.anchors = Anchors::inside_base64(&literals);
        let all: Vec<String> = rules.iter().map(|rule| format!("(?:{})", rule.pattern)).collect();
        own.any =
            RegexBuilder::new(&all.join("|")).unicode(false).size_limit(MAX_SIZE * MAX_RULES).build().ok();
        own
    }

    /// Starts of own secrets inside base64.
    pub(super) fn anchors(&self) -> Option<&Anchors> {
        self.anchors.as_ref()
    }

    /// The shortest match of any rule, in bytes; none without rules.
    pub(super) fn shortest(&self) -> Option<usize> {
        (!self.rules.is_empty()).then_some(self.shortest)
    }

    /// Adds the hits of all rules.
    pub(super) fn find(&self, scan: &mut Scan<'_>) {
        let text = scan.text;
        let none = |any: &Regex| !any.is_match(text);
        if self.rules.is_empty() || text.len() < self.shortest || self.any.as_ref().is_some_and(none) {
            return;
        }
        for rule in &self.rules {
            let budget = text.len().saturating_mul(MAX_STEPS_PER_BYTE).saturating_add(FREE_STEPS);
            let mut spent = 0_usize;
            for found in rule.regex.find_iter(text) {
                spent += rule.longest + rule.longest * rule.longest / 16;
                let end = if spent > budget { text.len() } else { found.end() };
                scan.hits.push(Hit { span: found.start()..end, rule: rule.rule });
                if spent > budget {
                    break;
                }
            }
            scan.steps += spent;
        }
    }
}

/// The engine, the longest match and the parsed pattern; or what is wrong and how to mend it.
fn compiled(pattern: &str) -> Result<(Regex, usize, Hir), (String, &'static str)> {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).nest_limit(50).build().parse(pattern);
    let hir = parsed.map_err(|error| {
        (told(&error.to_string()), "see the syntax of the regex crate, without Unicode classes")
    })?;
    let properties = hir.properties();
    if properties.minimum_len().is_none_or(|least| least == 0) {
        return Err(("the pattern matches the empty text".into(), "ask for at least one character"));
    }
    let longest = match properties.maximum_len() {
        None => {
            let what =
                "the pattern has no longest match, so that finding all of them can take quadratic time";
            return Err((what.into(), "bound each repetition: {1,64} instead of + or *"));
        }
        Some(longest) if longest > MAX_LEN => {
            let what = format!("the longest match has {longest} bytes, more than {MAX_LEN}");
            return Err((what, "bound the repetitions more tightly"));
        }
        Some(longest) => longest,
    };
    RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(MAX_SIZE)
        .build()
        .map(|regex| (regex, longest, hir))
        .map_err(|_| {
            (format!("the compiled pattern is larger than {MAX_SIZE} bytes"), "use smaller repetitions")
        })
}

/// The last line of a parser's report: the others show the pattern.
fn told(report: &str) -> String {
    report.lines().last().unwrap_or("the pattern is not valid").trim().to_owned()
}

/// The literals that every match starts with one of, when there are such.
fn starts(hir: &Hir) -> Vec<Vec<u8>> {
    let literals = Extractor::new().limit_class(1).limit_total(MAX_LITERALS).extract(hir);
    let all: Vec<Vec<u8>> =
        literals.literals().unwrap_or_default().iter().map(|one| one.as_bytes().to_vec()).collect();
    let fit = all.len() <= MAX_LITERALS && all.iter().all(|one| one.len() >= LEAST_LITERAL);
    if fit { all } else { Vec::new() }
}
