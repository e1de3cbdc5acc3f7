//! The one decision: may this caller see and call this entry. Lists and calls ask the same function, so that a list shows
//! what a call permits. Denied unless allowed; the time does not grow with the number of patterns.

use std::fmt;

use smallvec::SmallVec;

use crate::caller::Caller;
use crate::entry::{Entry, Kind};
use crate::rule::{Broken, Facts};
use crate::task::{By, Confirm, List, Task};

/// Bytes of a name or URI that is looked at; longer ones are hidden.
const MAX_NAME: usize = 8192;

/// Who asks, and when.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The caller, as verified.
    pub caller: &'a Caller,
    /// The run's id.
    pub run: &'a str,
    /// Unix seconds.
    pub now: i64,
}

/// What a task says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<'t> {
    /// Not for this task, whatever the reason. Lists leave it out, and a call is answered as if it did not exist.
    Hidden,
    /// The caller lacks some of the scopes that the call needs.
    NeedsScope {
        /// All scopes that the call needs, also those that are held, sorted (RFC 6750, 3.1: one challenge for all).
        scopes: Vec<&'t str>,
        /// The first entry that is not met.
        by: By,
    },
    /// A condition does not hold.
    Refused {
        /// The rule.
        by: By,
        /// What the caller is told.
        text: &'t str,
        /// Set when the condition could not be decided, for the log.
        broken: Option<Broken>,
    },
    /// A person has to agree.
    NeedsConfirm {
        /// What asks for that.
        by: By,
    },
    /// Go ahead.
    Allowed {
        /// What allows it.
        by: By,
    },
}

impl Decision<'_> {
    /// Whether a list shows the entry.
    pub fn shown(&self) -> bool {
        *self != Decision::Hidden
    }

    /// The part of the specification that decided. What is hidden tells nothing.
    pub fn by(&self) -> Option<By> {
        match self {
            Decision::Hidden => None,
            Decision::NeedsScope { by, .. }
            | Decision::Refused { by, .. }
            | Decision::NeedsConfirm { by }
            | Decision::Allowed { by } => Some(*by),
        }
    }
}

impl fmt::Display for Decision<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Decision::Hidden => f.write_str("hidden"),
            Decision::NeedsScope { scopes, .. } => write!(f, "needs scopes {}", scopes.join(" ")),
            Decision::Refused { text, .. } => write!(f, "refused: {text}"),
            Decision::NeedsConfirm { .. } => f.write_str("needs confirmation"),
            Decision::Allowed { .. } => f.write_str("allowed"),
        }
    }
}

/// Follows a decision step by step. Deciding itself needs none.
pub(crate) trait Witness {
    /// Patterns of a list that match, sorted.
    fn matched(&mut self, matched: &[By]);
    /// A condition was evaluated.
    fn evaluated(&mut self, by: By, result: Result<bool, Broken>);
    /// Scopes were compared.
    fn scopes(&mut self, by: By, held: bool);
}

/// Whether a URI has a segment `.` or `..`, spelled plainly or percent-encoded once or more, between slashes of either
/// kind: what a pattern says of its beginning is then not what a server makes of it (RFC 3986 section 5.2.4).
fn climbs(uri: &str) -> bool {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    // Most have neither, and each entry of a list is asked.
    if !path.contains(['%', '\\']) {
        return path.split('/').any(is_dots);
    }
    let plain = unescaped(path);
    plain.split('/').any(is_dots)
}

fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// Dots and slashes in one spelling, in one pass: `%25` before the digits stands for another `%`, however often.
fn unescaped(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        rest = rest.get(first.len_utf8()..).unwrap_or_default();
        if first == '\\' {
            plain.push('/');
            continue;
        }
        if first == '%' {
            while let Some(more) = rest.strip_prefix("25") {
                rest = more;
            }
            let digits = rest.get(..2).unwrap_or_default().to_ascii_lowercase();
            if let Some(meant) =
                [("2e", '.'), ("2f", '/'), ("5c", '/')].iter().find(|(code, _)| *code == digits)
            {
                plain.push(meant.1);
                rest = rest.get(2..).unwrap_or_default();
                continue;
            }
        }
        plain.push(first);
    }
    plain
}

/// Nobody looks.
pub(crate) struct Nobody;

impl Witness for Nobody {
    fn matched(&mut self, _: &[By]) {}
    fn evaluated(&mut self, _: By, _: Result<bool, Broken>) {}
    fn scopes(&mut self, _: By, _: bool) {}
}

type Matched = SmallVec<[By; 16]>;

impl Task {
    /// Decides on an entry. `arguments`: a call's, as JSON text; none for a list, where conditions hide nothing. A call
    /// without arguments has `{}`.
    ///
    /// Whether the task admits the caller at all is another question: [`Task::admits`].
    pub fn decide(&self, subject: &Subject<'_>, entry: &Entry<'_>, arguments: Option<&str>) -> Decision<'_> {
        self.decide_before(subject, entry, arguments, &mut Nobody)
    }

    pub(crate) fn decide_before(
        &self,
        subject: &Subject<'_>,
        entry: &Entry<'_>,
        arguments: Option<&str>,
        witness: &mut impl Witness,
    ) -> Decision<'_> {
        if self.open {
            return Decision::Allowed { by: By::OPEN };
        }
        let Some(matched) = self.matching(entry) else { return Decision::Hidden };
        witness.matched(&matched);
        // Sorted, so that what denies comes before what allows.
        let allowed = match matched.first() {
            Some(by) if by.list != List::Deny && allows(by.list) => *by,
            _ => return Decision::Hidden,
        };
        self.lacking(subject.caller, &matched, witness)
            .or_else(|| self.refusal(subject, entry, &matched, (arguments?, witness)))
            .or_else(|| self.question(entry, &matched))
            .unwrap_or(Decision::Allowed { by: allowed })
    }

    /// All patterns that match the entry, sorted; none when that could not be told.
    fn matching(&self, entry: &Entry<'_>) -> Option<Matched> {
        if entry.exposed.len() > MAX_NAME || entry.own.len() > MAX_NAME {
            return None;
        }
        if entry.kind == Kind::Resource && climbs(entry.own) {
            return None;
        }
        let mut all = Matched::new();
        let mut search = |name: &str| match entry.kind {
            Kind::Tool => self.tools.set.each(name, |n| all.extend(self.tools.meaning.get(n).copied())),
            Kind::Prompt => self.prompts.each(name, |n| all.push(By::at(List::AllowPrompts, n))),
            Kind::Resource => self.resources.each(name, |n| all.push(By::at(List::AllowResources, n))),
        };
        if !search(entry.exposed) {
            return None;
        }
        // A long name is shown shortened; patterns are written over either.
        if let Some(name) = entry.unshortened()
            && !search(&name)
        {
            return None;
        }
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    fn lacking(&self, caller: &Caller, matched: &[By], witness: &mut impl Witness) -> Option<Decision<'_>> {
        let mut needed: Vec<&str> = Vec::new();
        let mut first = None;
        for by in of(matched, List::Scopes) {
            let Some(scopes) = self.scopes.get(by.place()) else { continue };
            let held = caller.holds(scopes);
            witness.scopes(by, held);
            if !held && first.is_none() {
                first = Some(by);
            }
            needed.extend(scopes.iter().map(|s| &**s));
        }
        needed.sort_unstable();
        needed.dedup();
        first.map(|by| Decision::NeedsScope { scopes: needed, by })
    }

    fn refusal(
        &self,
        subject: &Subject<'_>,
        entry: &Entry<'_>,
        matched: &[By],
        (arguments, witness): (&str, &mut impl Witness),
    ) -> Option<Decision<'_>> {
        let mut rules = of(matched, List::Rules).peekable();
        rules.peek()?;
        let facts = Facts::new(subject, &self.name, entry, arguments);
        for by in rules {
            let Some(rule) = self.rules.get(by.place()) else { continue };
            let result = rule.condition.holds(&facts);
            witness.evaluated(by, result);
            if result != Ok(true) {
                return Some(Decision::Refused { by, text: &rule.message, broken: result.err() });
            }
        }
        None
    }

    fn question(&self, entry: &Entry<'_>, matched: &[By]) -> Option<Decision<'_>> {
        let by = match self.confirm {
            _ if entry.kind != Kind::Tool => None,
            Confirm::Never => None,
            Confirm::Always => Some(By::CONFIRM),
            Confirm::Destructive => entry.hints.is_destructive().then_some(By::CONFIRM),
            Confirm::Patterns => of(matched, List::ConfirmPatterns).next(),
        };
        by.map(|by| Decision::NeedsConfirm { by })
    }
}

fn allows(list: List) -> bool {
    matches!(list, List::Allow | List::AllowPrompts | List::AllowResources)
}

fn of(matched: &[By], list: List) -> impl Iterator<Item = By> + '_ {
    matched.iter().copied().filter(move |by| by.list == list)
}

#[cfg(test)]
mod tests;
