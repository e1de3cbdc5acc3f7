//! Tests of the one decision: its order, its default, and the security cases A16, A21 and T11.

use proptest::prelude::*;

use super::*;
use crate::caller::Proof;
use crate::compile::{ConfirmSpec, RuleSpec, ScopeSpec, TaskSpec};
use crate::entry::Hints;

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|t| (*t).to_owned()).collect()
}

fn rule(tool: &str, when: &str) -> RuleSpec {
    RuleSpec { tool: tool.into(), when: when.into(), message: Some(format!("not {when}")) }
}

fn compiled(spec: TaskSpec) -> Task {
    Task::compile(spec).unwrap().task
}

fn tool(exposed: &str) -> Entry<'_> {
    let (server, own) = exposed.split_once("__").unwrap_or(("", exposed));
    Entry { server, kind: Kind::Tool, exposed, own, hints: Hints::default() }
}

fn caller(scopes: &[&str]) -> Caller {
    Caller { scopes: scopes.iter().map(|s| (*s).into()).collect(), ..Caller::new(Proof::Token("ci".into())) }
}

fn decide<'t>(task: &'t Task, caller: &Caller, entry: &Entry<'_>, arguments: Option<&str>) -> Decision<'t> {
    task.decide(&Subject { caller, run: "r", now: 0 }, entry, arguments)
}

fn by(list: List, index: usize) -> By {
    By::at(list, index)
}

#[test]
fn nothing_is_allowed_unless_it_is_said() {
    let nobody = caller(&[]);
    let empty = compiled(TaskSpec::named("t"));
    for kind in [Kind::Tool, Kind::Prompt, Kind::Resource] {
        let entry = Entry { kind, ..tool("docs__search") };
        assert_eq!(decide(&empty, &nobody, &entry, Some("{}")), Decision::Hidden);
        assert_eq!(decide(&Task::closed("t"), &nobody, &entry, None), Decision::Hidden);
        assert_eq!(decide(&Task::open("t"), &nobody, &entry, Some("{}")), Decision::Allowed { by: By::OPEN });
    }
}

#[test]
fn each_kind_has_its_own_list() {
    let task = compiled(TaskSpec {
        allow: texts(&["docs__search"]),
        allow_prompts: texts(&["x", "docs__hello"]),
        allow_resources: texts(&["docs+file:///pub/*"]),
        ..TaskSpec::named("t")
    });
    let of = |kind, exposed| decide(&task, &caller(&[]), &Entry { kind, ..tool(exposed) }, None).by();
    assert_eq!(of(Kind::Tool, "docs__search"), Some(by(List::Allow, 0)));
    assert_eq!(of(Kind::Prompt, "docs__hello"), Some(by(List::AllowPrompts, 1)));
    assert_eq!(of(Kind::Resource, "docs+file:///pub/a/b"), Some(by(List::AllowResources, 0)));
    assert_eq!(of(Kind::Prompt, "docs__search"), None);
    assert_eq!(of(Kind::Tool, "docs__hello"), None);
    assert_eq!(of(Kind::Resource, "docs+file:///private"), None);
}

#[test]
fn the_order_is_deny_allow_scopes_rules_confirm() {
    let task = compiled(TaskSpec {
        allow: texts(&["docs__*"]),
        deny: texts(&["docs__drop_*"]),
        scopes: vec![ScopeSpec { tool: "docs__{write,drop}*".into(), scopes: texts(&["mcp.write"]) }],
        rules: vec![rule("docs__write", "args.ok"), rule("docs__drop*", "false")],
        confirm: ConfirmSpec::Always,
        ..TaskSpec::named("t")
    });
    let of = |name, scopes: &[&str], arguments| decide(&task, &caller(scopes), &tool(name), Some(arguments));
    assert_eq!(of("docs__drop_all", &[], "{}"), Decision::Hidden);
    assert_eq!(
        of("docs__write", &[], "{}"),
        Decision::NeedsScope { scopes: vec!["mcp.write"], by: by(List::Scopes, 0) }
    );
    assert!(
        matches!(of("docs__write", &["mcp.write"], r#"{"ok":false}"#), Decision::Refused { by, broken: None, .. } if by.list == List::Rules)
    );
    assert_eq!(
        of("docs__write", &["mcp.write"], r#"{"ok":true}"#),
        Decision::NeedsConfirm { by: By::CONFIRM }
    );
    assert_eq!(of("docs__read", &[], "{}"), Decision::NeedsConfirm { by: By::CONFIRM });
}

#[test]
fn a16_all_scopes_of_a_call_are_asked_for_at_once() {
    let task = compiled(TaskSpec {
        allow: texts(&["*"]),
        scopes: vec![
            ScopeSpec { tool: "*".into(), scopes: texts(&["mcp.read"]) },
            ScopeSpec { tool: "docs__*".into(), scopes: texts(&["docs", "mcp.write"]) },
        ],
        ..TaskSpec::named("t")
    });
    let all = vec!["docs", "mcp.read", "mcp.write"];
    let needs = decide(&task, &caller(&["mcp.read", "docs"]), &tool("docs__x"), Some("{}"));
    assert_eq!(needs, Decision::NeedsScope { scopes: all.clone(), by: by(List::Scopes, 1) });
    assert_eq!(decide(&task, &caller(&all), &tool("docs__x"), Some("{}")).by(), Some(by(List::Allow, 0)));
}

#[test]
fn a_list_shows_what_a_call_permits() {
    let task = compiled(TaskSpec {
        allow: texts(&["docs__*", "mail__send"]),
        deny: texts(&["docs__drop"]),
        scopes: vec![ScopeSpec { tool: "mail__*".into(), scopes: texts(&["mail"]) }],
        rules: vec![rule("docs__search", "size(args.q) < 3")],
        ..TaskSpec::named("t")
    });
    for name in ["docs__search", "docs__read", "docs__drop", "mail__send", "mail__read", "x"] {
        let listed = decide(&task, &caller(&[]), &tool(name), None);
        for arguments in [r#"{"q":"a"}"#, r#"{"q":"long"}"#, "{}", "no JSON"] {
            let called = decide(&task, &caller(&[]), &tool(name), Some(arguments));
            assert_eq!(listed.shown(), called.shown(), "{name} {arguments}");
        }
    }
}

#[test]
fn a21_what_is_hidden_tells_nothing() {
    let task = compiled(TaskSpec {
        allow: texts(&["docs__*"]),
        deny: texts(&["docs__drop"]),
        ..TaskSpec::named("t")
    });
    let [denied, unknown] =
        ["docs__drop", "nothing"].map(|name| decide(&task, &caller(&[]), &tool(name), Some("{}")));
    assert_eq!((&denied, denied.by()), (&unknown, None));
}

#[test]
fn a_condition_that_can_not_be_decided_refuses() {
    let task = compiled(TaskSpec {
        allow: texts(&["*"]),
        rules: vec![rule("*", "args.n < 5")],
        ..TaskSpec::named("t")
    });
    let of = |arguments| decide(&task, &caller(&[]), &tool("a__b"), Some(arguments));
    for bad in ["{}", r#"{"n":"x"}"#, "[]", "", "{"] {
        assert!(
            matches!(of(bad), Decision::Refused { broken: Some(_), text: "not args.n < 5", .. }),
            "{bad}"
        );
    }
    assert_eq!(of(r#"{"n":4}"#), Decision::Allowed { by: by(List::Allow, 0) });
}

#[test]
fn t11_hints_never_relax_a_confirmation() {
    let task = compiled(TaskSpec {
        allow: texts(&["*"]),
        confirm: ConfirmSpec::Destructive,
        ..TaskSpec::named("t")
    });
    let lie = Hints {
        read_only: Some(true),
        destructive: Some(false),
        idempotent: Some(true),
        open_world: Some(false),
    };
    let of = |hints| decide(&task, &caller(&[]), &Entry { hints, ..tool("files__delete") }, Some("{}"));
    assert_eq!(of(lie.believed(false)), Decision::NeedsConfirm { by: By::CONFIRM });
    assert_eq!(of(Hints::default()), Decision::NeedsConfirm { by: By::CONFIRM });
    assert_eq!(of(lie.believed(true)), Decision::Allowed { by: by(List::Allow, 0) });
    let conditions = compiled(TaskSpec {
        allow: texts(&["*"]),
        rules: vec![rule("*", "tool.annotations.readOnlyHint")],
        ..TaskSpec::named("t")
    });
    let entry = Entry { hints: lie.believed(false), ..tool("files__delete") };
    assert!(matches!(decide(&conditions, &caller(&[]), &entry, Some("{}")), Decision::Refused { .. }));
}

#[test]
fn confirmation_by_pattern_is_for_tools_alone() {
    let confirm = ConfirmSpec::Patterns(texts(&["mail__*", "docs__write"]));
    let spec =
        TaskSpec { allow: texts(&["*"]), allow_prompts: texts(&["*"]), confirm, ..TaskSpec::named("t") };
    let task = compiled(spec);
    let of = |entry| decide(&task, &caller(&[]), &entry, Some("{}"));
    assert_eq!(of(tool("docs__write")), Decision::NeedsConfirm { by: by(List::ConfirmPatterns, 1) });
    assert!(matches!(of(tool("docs__read")), Decision::Allowed { .. }));
    assert!(matches!(of(Entry { kind: Kind::Prompt, ..tool("mail__x") }), Decision::Allowed { .. }));
}

#[test]
fn a_shortened_name_does_not_slip_through_a_deny() {
    let task =
        compiled(TaskSpec { allow: texts(&["docs__*"]), deny: texts(&["*_delete"]), ..TaskSpec::named("t") });
    let own = format!("{}_delete", "a".repeat(80));
    let entry = Entry { own: &own, exposed: "docs__aaaaaaaa-5f3e", ..tool("docs__x") };
    assert_eq!(decide(&task, &caller(&[]), &entry, Some("{}")), Decision::Hidden);
    let harmless = Entry { own: "aaaaaaaaaaa_read", ..entry };
    assert!(matches!(decide(&task, &caller(&[]), &harmless, Some("{}")), Decision::Allowed { .. }));
}

#[test]
fn names_of_absurd_length_are_hidden() {
    let task = compiled(TaskSpec { allow: texts(&["*"]), ..TaskSpec::named("t") });
    assert_eq!(decide(&task, &caller(&[]), &tool(&"a".repeat(MAX_NAME + 1)), Some("{}")), Decision::Hidden);
}

/// Peers' rules saw bare tool names, and could not tell servers apart.
#[test]
fn rules_see_the_exposed_name_and_the_server() {
    let when = "tool.name == 'docs__search' && tool.server == 'docs'";
    let task =
        compiled(TaskSpec { allow: texts(&["*"]), rules: vec![rule("*", when)], ..TaskSpec::named("t") });
    assert!(matches!(
        decide(&task, &caller(&[]), &tool("docs__search"), Some("{}")),
        Decision::Allowed { .. }
    ));
    assert!(matches!(
        decide(&task, &caller(&[]), &tool("mail__search"), Some("{}")),
        Decision::Refused { .. }
    ));
}

/// Peers cut what policies read; here what is too large to be read is refused.
#[test]
fn arguments_too_large_for_a_rule_are_refused_not_cut() {
    let task = compiled(TaskSpec {
        allow: texts(&["*"]),
        rules: vec![rule("*", "!has(args.evil)")],
        ..TaskSpec::named("t")
    });
    let padded = format!(r#"{{"pad":"{}","evil":1}}"#, "x".repeat(2 * 1024 * 1024));
    let decision = decide(&task, &caller(&[]), &tool("a__b"), Some(&padded));
    assert!(matches!(decision, Decision::Refused { broken: Some(Broken::TooLarge), .. }));
}

#[test]
fn tasks_are_shared_among_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&compiled(TaskSpec { rules: vec![rule("*", "args.q.matches('a')")], ..TaskSpec::named("t") }));
}

#[test]
fn r8_an_answer_is_no_permission_under_another_policy() {
    use crate::confirm::{Call, Stage, State};
    let spec = TaskSpec { allow: texts(&["*"]), confirm: ConfirmSpec::Always, ..TaskSpec::named("t") };
    let entry = tool("docs__write");
    assert!(matches!(
        decide(&compiled(spec.clone()), &caller(&[]), &entry, Some("{}")),
        Decision::NeedsConfirm { .. }
    ));
    let call = Call {
        principal: "p",
        task: "t",
        run: "r",
        server: "docs",
        tool: "write",
        method: "m",
        arguments: "d",
    };
    let text = |text: &str| text.to_owned();
    let (principal, task, run, server) = (text("p"), text("t"), text("r"), text("docs"));
    let (tool, arguments, nonce) = (text("write"), text("d"), text("n"));
    let state = State {
        principal,
        task,
        run,
        server,
        tool,
        arguments,
        nonce,
        expires: 9,
        replica: None,
        method: text("m"),
        stage: Stage::Agreed,
        asked: Vec::new(),
        round: 1,
        inner: None,
    };
    assert_eq!(state.goes_with(&call, 0, None), Ok(()));
    // The state is good, and the decision is made anew all the same.
    let denied = compiled(TaskSpec { deny: texts(&["docs__*"]), ..spec });
    assert_eq!(decide(&denied, &caller(&[]), &entry, Some("{}")), Decision::Hidden);
}

fn patterns() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[ab*?]{1,4}", 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_is_shown_is_allowed_and_not_denied(allow in patterns(), deny in patterns(), name in "[ab]{1,5}") {
        let name = format!("s__{name}");
        let by_hand = |all: &[String]| all.iter().position(|p| crate::glob::tests::by_hand(p, &name));
        let (allow, deny): (Vec<String>, Vec<String>) =
            (allow.iter().map(|p| format!("s__{p}")).collect(), deny.iter().map(|p| format!("*{p}")).collect());
        let want = match (by_hand(&deny), by_hand(&allow)) {
            (None, Some(first)) => Decision::Allowed { by: by(List::Allow, first) },
            _ => Decision::Hidden,
        };
        let task = compiled(TaskSpec { allow, deny, ..TaskSpec::named("t") });
        prop_assert_eq!(decide(&task, &caller(&[]), &tool(&name), Some("{}")), want);
    }
}

#[test]
fn a_uri_that_climbs_is_no_resource_of_a_pattern() {
    for uri in [
        "file:///srv/docs/../../etc/passwd",
        "file:///srv/docs/..%2f..%2fetc/passwd",
        "file:///srv/docs/%2e%2e/%2E%2e/etc",
        "file:///srv/docs/%252e%252e/etc",
        "file:///srv/docs/%2525252E.%25255Cetc",
        "file:///srv/docs/..\\..\\etc",
        "file:///srv/./docs",
        "file:///srv/docs/..",
    ] {
        assert!(climbs(uri), "{uri}");
    }
    for uri in ["file:///srv/docs/a..b/.c", "docs://x?path=../y", "ui://a/b.html#..", "file:///...", "x"] {
        assert!(!climbs(uri), "{uri}");
    }
}
