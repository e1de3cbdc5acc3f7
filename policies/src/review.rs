//! What is no error in a task and still surely not meant: patterns that match nothing, rules that nothing reaches, tasks
//! that nobody can use. For `tollgate check`; decides nothing.

use crate::compile::Globs;
use crate::flaw::{Flaw, Step};
use crate::glob::relate::{covers, overlap};
use crate::glob::{Glob, GlobSet};
use crate::task::{By, List, Task};

/// Pairs of patterns that are compared at most: a report is not worth minutes.
const MAX_PAIRS: usize = 200_000;

/// The names that are known of the servers' manifests.
#[derive(Clone, Debug, Default)]
pub struct Known<'a> {
    /// Tools, as exposed.
    pub tools: Vec<&'a str>,
    /// Prompts, as exposed.
    pub prompts: Vec<&'a str>,
    /// URIs of resources and templates.
    pub resources: Vec<&'a str>,
}

/// What can be said of a task without knowing any server.
pub(crate) fn within(task: &Task, globs: &Globs) -> Vec<Flaw> {
    let mut found = Vec::new();
    if !task.principals.admits_somebody() {
        let at = vec![Step::from("principals")];
        found.push(Flaw::new(
            at,
            "nobody is admitted",
            "name somebody, or leave the rule out for everybody with a credential",
        ));
    }
    let list = |list| globs.tools.iter().filter(move |(by, _)| by.list == list).map(|(_, glob)| glob);
    let (allow, deny): (Vec<&Glob>, Vec<&Glob>) = (list(List::Allow).collect(), list(List::Deny).collect());
    if allow.is_empty() && globs.prompts.is_empty() && globs.resources.is_empty() {
        found.push(Flaw::new(vec![Step::from("allow")], "the task allows nothing", "allow something"));
    }
    if globs.tools.len().saturating_mul(allow.len() + deny.len()) > MAX_PAIRS {
        return found;
    }
    for (by, glob) in &globs.tools {
        if deny.iter().any(|d| by.list != List::Deny && covers(d, glob)) {
            found.push(Flaw::new(
                place(*by),
                format!("'{glob}' has no effect: 'deny' covers it"),
                "remove it, or deny less",
            ));
        } else if matches!(by.list, List::Allow | List::Deny) && shadowed(*by, glob, &globs.tools) {
            let what = format!("'{glob}' has no effect: another pattern of the list covers it");
            found.push(Flaw::new(place(*by), what, "remove it"));
        } else if by.list != List::Allow && !allow.iter().any(|a| overlap(a, glob)) {
            let fix = "remove it, or allow what it matches";
            found.push(Flaw::new(
                place(*by),
                format!("'{glob}' has no effect: 'allow' never reaches it"),
                fix,
            ));
        }
    }
    found
}

/// Whether another pattern of the same list matches all that this one does; of two equal ones the later is said.
fn shadowed(by: By, glob: &Glob, all: &[(By, Glob)]) -> bool {
    let wins =
        |other: By, same: bool| other.list == by.list && other != by && (!same || other.index < by.index);
    all.iter().any(|(other, wide)| covers(wide, glob) && wins(*other, covers(glob, wide)))
}

/// Where the pattern itself stands.
fn place(by: By) -> Vec<Step> {
    let mut at = by.path();
    if matches!(by.list, List::Scopes | List::Rules) {
        at.push(Step::from("tool"));
    }
    at
}

impl Task {
    /// Patterns that match none of the known names.
    pub fn unmatched(&self, known: &Known<'_>) -> Vec<Flaw> {
        let mut flaws = Vec::new();
        let mut unused = |set: &GlobSet, names: &[&str], by: &dyn Fn(usize) -> Option<By>| {
            let mut used = vec![false; set.len()];
            for name in names {
                let told = set.each(name, |n| {
                    if let Some(used) = used.get_mut(n) {
                        *used = true;
                    }
                });
                if !told {
                    return;
                }
            }
            for by in used.iter().enumerate().filter(|(_, used)| !**used).filter_map(|(n, _)| by(n)) {
                flaws.push(Flaw::new(
                    place(by),
                    "the pattern matches nothing that is known",
                    "correct it, or start the server",
                ));
            }
        };
        unused(&self.tools.set, &known.tools, &|n| self.tools.meaning.get(n).copied());
        unused(&self.prompts, &known.prompts, &|n| Some(By::at(List::AllowPrompts, n)));
        unused(&self.resources, &known.resources, &|n| Some(By::at(List::AllowResources, n)));
        flaws
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::PrincipalSpec;
    use crate::compile::{RuleSpec, ScopeSpec, TaskSpec};
    use crate::flaw::Path;

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|t| (*t).to_owned()).collect()
    }

    fn places(flaws: &[Flaw]) -> Vec<String> {
        flaws.iter().map(|f| Path(&f.at).to_string()).collect()
    }

    #[test]
    fn what_has_no_effect_is_reported() {
        let rule = |tool: &str| RuleSpec { tool: tool.into(), when: "true".into(), message: None };
        let spec = TaskSpec {
            principals: Some(PrincipalSpec::default()),
            allow: texts(&["docs__*", "github__delete_repo"]),
            deny: texts(&["github__delete_*", "files__*"]),
            rules: vec![rule("docs__search"), rule("mail__*"), rule("github__delete_{a,b}")],
            scopes: vec![ScopeSpec { tool: "mail__send".into(), scopes: texts(&["mail"]) }],
            ..TaskSpec::named("t")
        };
        let warnings = Task::compile(spec).unwrap().warnings;
        let mut at = places(&warnings);
        at.sort_unstable();
        assert_eq!(
            at,
            ["allow[1]", "deny[1]", "principals", "rules[1].tool", "rules[2].tool", "scopes[0].tool"]
        );
    }

    #[test]
    fn a_task_that_allows_nothing_is_reported() {
        assert_eq!(places(&Task::compile(TaskSpec::named("t")).unwrap().warnings), ["allow"]);
        let spec = TaskSpec { allow_prompts: texts(&["*"]), ..TaskSpec::named("t") };
        assert!(Task::compile(spec).unwrap().warnings.is_empty());
    }

    #[test]
    fn patterns_that_match_nothing_known_are_reported() {
        let spec = TaskSpec {
            allow: texts(&["docs__*", "dcos__*"]),
            allow_prompts: texts(&["docs__hello"]),
            allow_resources: texts(&["docs+file:///*", "mail+*"]),
            ..TaskSpec::named("t")
        };
        let known = Known {
            tools: vec!["docs__search"],
            prompts: vec!["docs__hi"],
            resources: vec!["docs+file:///a"],
        };
        let task = Task::compile(spec).unwrap().task;
        assert_eq!(places(&task.unmatched(&known)), ["allow[1]", "allow_prompts[0]", "allow_resources[1]"]);
    }
}
