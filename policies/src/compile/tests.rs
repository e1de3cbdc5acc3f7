//! Tests of specifications: all problems at once, each with its place.

use super::*;
use crate::flaw::Path;
use crate::task::Root;

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|t| (*t).to_owned()).collect()
}

#[test]
fn all_problems_are_told_at_once_with_their_places() {
    let rule = |tool: &str, when: &str| RuleSpec { tool: tool.into(), when: when.into(), message: None };
    let spec = TaskSpec {
        principals: Some(PrincipalSpec { certificates: texts(&["{"]), ..PrincipalSpec::default() }),
        allow: texts(&["ok", "a{b"]),
        deny: texts(&[""]),
        allow_prompts: texts(&["}"]),
        allow_resources: texts(&["ok", "ok", "\\"]),
        scopes: vec![
            ScopeSpec { tool: "x".into(), scopes: vec![] },
            ScopeSpec { tool: "{".into(), scopes: texts(&["a b"]) },
        ],
        rules: vec![rule("ok", "true"), rule("ok{", "arg.x == 1 && foo(1)")],
        confirm: ConfirmSpec::Patterns(texts(&["ok", "{"])),
        capabilities: Capabilities {
            roots: vec![Root { uri: "/srv".into(), name: None }],
            ..Capabilities::default()
        },
        ..TaskSpec::named("t")
    };
    let flaws = Task::compile(spec).unwrap_err();
    let mut at: Vec<String> = flaws.iter().map(|f| format!("{}+{:?}", Path(&f.at), f.offset)).collect();
    at.sort_unstable();
    let want = [
        "allow[1]+Some(1)",
        "allow_prompts[0]+Some(0)",
        "allow_resources[2]+Some(0)",
        "capabilities.roots[0].uri+None",
        "confirm[1]+Some(0)",
        "deny[0]+Some(0)",
        "principals.certificates[0]+Some(0)",
        "rules[1].tool+Some(2)",
        "rules[1].when+Some(0)",
        "rules[1].when+Some(17)",
        "scopes[0].scopes+None",
        "scopes[1].scopes+None",
        "scopes[1].tool+Some(0)",
    ];
    assert_eq!(at, want);
}

#[test]
fn tasks_of_one_configuration_are_compiled_each_for_itself() {
    let bad = TaskSpec { allow: texts(&["{"]), ..TaskSpec::named("bad") };
    let good = TaskSpec { allow: texts(&["*"]), ..TaskSpec::named("good") };
    let all = Task::compile_all([bad, good]);
    assert!(
        all[0].is_err() && all[1].as_ref().is_ok_and(|c| c.task.name() == "good" && c.warnings.is_empty())
    );
}

#[test]
fn what_servers_may_ask_is_nothing_unless_it_is_listed() {
    let task = Task::compile(TaskSpec { allow: texts(&["*"]), ..TaskSpec::named("t") }).unwrap().task;
    assert_eq!(task.capabilities(), &Capabilities { sampling: false, elicitation: false, roots: vec![] });
    assert_eq!(task.confirm_fallback(), Fallback::Refuse);
}
