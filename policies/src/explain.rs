//! The trace of one decision, for people: each step and the part of the specification behind it. The decision is made by
//! the same function that decides calls.

use std::fmt::Write as _;

use crate::decide::{Decision, Subject, Witness};
use crate::entry::Entry;
use crate::flaw::Path;
use crate::rule::Broken;
use crate::task::{By, List, Task};

/// A decision, and how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation<'t> {
    /// Whether the task admits the caller at all. If not, the decision is what an admitted caller would get.
    pub admitted: bool,
    /// What is decided.
    pub decision: Decision<'t>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One step of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The part of the specification.
    pub by: By,
    /// What it did.
    pub did: Did,
}

/// What a part of a specification did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// Its pattern matches the name.
    Match,
    /// Its scopes are held, or not.
    Scopes(bool),
    /// Its condition holds, or not, or could not be decided.
    Condition(Result<bool, Broken>),
}

impl Witness for Vec<Step> {
    fn matched(&mut self, matched: &[By]) {
        self.extend(matched.iter().map(|by| Step { by: *by, did: Did::Match }));
    }

    fn evaluated(&mut self, by: By, result: Result<bool, Broken>) {
        self.push(Step { by, did: Did::Condition(result) });
    }

    fn scopes(&mut self, by: By, held: bool) {
        self.push(Step { by, did: Did::Scopes(held) });
    }
}

impl Task {
    /// Decides like [`Task::decide`], and tells how. `loopback` as in [`Task::admits`].
    pub fn explain(
        &self,
        subject: &Subject<'_>,
        loopback: bool,
        entry: &Entry<'_>,
        arguments: Option<&str>,
    ) -> Explanation<'_> {
        let mut steps = Vec::new();
        let decision = self.decide_before(subject, entry, arguments, &mut steps);
        Explanation { admitted: self.admits(subject.caller, loopback), decision, steps }
    }
}

impl Explanation<'_> {
    /// The part of the specification that made the decision, also of a hidden entry: nothing when no pattern matched.
    pub fn by(&self) -> Option<By> {
        let denied = || self.steps.iter().map(|s| s.by).find(|by| by.list == List::Deny);
        self.decision.by().or_else(denied)
    }

    /// The steps as lines of text. `place` says where a part stands, for example as `FILE:LINE`.
    pub fn lines(&self, place: impl Fn(By) -> String) -> String {
        let mut out = String::new();
        if !self.admitted {
            out.push_str("the task does not admit this caller\n");
        }
        for step in &self.steps {
            let path = step.by.path();
            let (path, place) = (Path(&path), place(step.by));
            let did = match step.did {
                Did::Match => "matches the name".to_owned(),
                Did::Scopes(true) => "has all its scopes held".to_owned(),
                Did::Scopes(false) => "has scopes that are not held".to_owned(),
                Did::Condition(Ok(true)) => "holds".to_owned(),
                Did::Condition(Ok(false)) => "does not hold".to_owned(),
                Did::Condition(Err(broken)) => format!("could not be decided: {broken}"),
            };
            // Writing to a string can't fail.
            let _ = writeln!(out, "{place}: {path} {did}");
        }
        let _ = writeln!(out, "decision: {}", self.decision);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::{Caller, Proof};
    use crate::compile::{RuleSpec, TaskSpec};
    use crate::entry::{Hints, Kind};

    #[test]
    fn each_step_is_told_with_its_place() {
        let spec = TaskSpec {
            allow: vec!["docs__*".into()],
            deny: vec!["*__drop_*".into()],
            rules: vec![RuleSpec { tool: "*".into(), when: "size(args.q) < 3".into(), message: None }],
            ..TaskSpec::named("t")
        };
        let task = Task::compile(spec).unwrap().task;
        let caller = Caller::new(Proof::Anonymous);
        let subject = Subject { caller: &caller, run: "r", now: 0 };
        let entry =
            |exposed, own| Entry { server: "docs", kind: Kind::Tool, exposed, own, hints: Hints::default() };
        let found = task.explain(&subject, false, &entry("docs__search", "search"), Some(r#"{"q":"long"}"#));
        assert_eq!(
            found.lines(|by| format!("f:{}", by.index + 1)),
            "the task does not admit this caller\nf:1: allow[0] matches the name\nf:1: rules[0] matches the name\n\
             f:1: rules[0] does not hold\ndecision: refused: A rule of this task does not allow this call.\n"
        );
        let found = task.explain(&subject, true, &entry("docs__drop_all", "drop_all"), None);
        assert_eq!((found.decision.clone(), found.by()), (Decision::Hidden, Some(By::at(List::Deny, 0))));
    }
}
