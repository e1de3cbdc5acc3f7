//! Tests of tasks, prices and what depends on them: what each setting becomes, each problem with its line and column,
//! and what is surely not meant.

use policies::budget::{Period, Scope, Unit};
use policies::caller::{Caller, Proof};
use policies::caps::OnTooLarge;
use policies::flaw::Step;
use policies::money::NanoUsd;
use policies::rate::{Per, Who};
use policies::task::Fallback;
use policies::{Decision, Entry, Hints, Kind, Subject};

use super::{Options, SERVER, check, check_with, good};

/// Problems of a file with these lines after the server's, as `line:column: path: what`.
fn problems(text: &str) -> Vec<String> {
    let found = check(&format!("{SERVER}{text}\n")).err().unwrap_or_default();
    found.iter().map(|p| format!("{}:{}: {}: {}", p.line, p.column, p.path, p.what)).collect()
}

/// `text` must have exactly these problems, each given by its beginning.
fn refused(text: &str, want: &[&str]) {
    let found = problems(text);
    let same = found.len() == want.len() && found.iter().zip(want).all(|(f, w)| f.starts_with(w));
    assert!(same, "{text}\n{found:#?}\nwanted {want:#?}");
}

/// Warnings about tasks and default_task, as `line: path: what`.
fn warned(text: &str) -> Vec<String> {
    let all = good(&format!("{SERVER}keys: {{ seal: [env:KEY] }}\n{text}\n")).warnings;
    all.iter().map(|p| format!("{}: {}: {}", p.line, p.path, p.what)).collect()
}

const TASK: &str = "\
default_task: support
tasks:
  support:
    principals: { groups: [support], tokens: [ci], anonymous: true, claims: { dept: eng, /realm/roles: [a, b] } }
    allow: ['a__read_*', 'a__{get,list}_*']
    deny: [a__read_secret]
    allow_prompts: ['a__*']
    allow_resources: ['a+file:///*']
    rules:
      - { tool: 'a__get_*', when: 'args.q.size() <= 3', message: Ask for less. }
    confirm: destructive
    confirm_fallback: allow
    confirm_within: 2m
    scopes: { 'a__list_*': mcp.read, 'a__get_*': [mcp.read, mcp.get] }
    limits:
      calls: 60/min
      tools: { 'a__get_*': { rate: 5/s, burst: 2 } }
      servers: { a: 1000/h }
      run: 30/min
      runs_at_once: 3
      runs: 50
      concurrency: 8
      result_bytes: 256KiB
      result_items: 50
      on_too_large: truncate
      budget_usd: 2.00
      budget_calls: { run: 500, principal: { day: 1000 }, task: { month: 20000 } }
      budget_bytes: { principal: { month: 1GiB } }
      budget_strict: false
      budget_runs_per_day: 7
    redact: { groups: [secrets, email], rules: [{ name: ticket, pattern: 'TICK-[0-9]{4,8}' }], keys: [pin], arguments: true }
    strip: [controls, zero_width]
    capabilities: { elicitation: true, roots: [{ uri: 'file:///srv', name: Docs }] }
    timeouts: { call_idle: 5s, call_total: 10s }
  twin: { allow: ['*'], redact: { groups: [secrets, email], rules: [{ name: ticket, pattern: 'TICK-[0-9]{4,8}' }], keys: [pin] } }
";

#[test]
fn every_setting_of_a_task_becomes_its_profile() {
    let checked = good(&format!("{SERVER}{TASK}"));
    assert_eq!(checked.default_task.as_deref(), Some("support"));
    let [support, twin] = checked.tasks.as_slice() else { panic!() };
    let p = &support.profile;
    assert!(!support.implicit && !p.task.is_open());
    let caps = p.caps.unwrap();
    assert_eq!((caps.bytes, caps.items, caps.blob_bytes), (256 << 10, 50, usize::MAX));
    assert_eq!(caps.on_too_large, OnTooLarge::Truncate);
    let budgets: Vec<_> = p.budgets.all.iter().map(|b| (b.scope, b.unit, b.limit, b.strict)).collect();
    assert_eq!(
        budgets,
        [
            (Scope::Run, Unit::Usd, 2_000_000_000, false),
            (Scope::Run, Unit::Calls, 500, false),
            (Scope::Principal(Period::Day), Unit::Calls, 1000, false),
            (Scope::Task(Period::Month), Unit::Calls, 20_000, false),
            (Scope::Principal(Period::Month), Unit::Bytes, 1 << 30, false),
        ]
    );
    assert_eq!((p.budgets.runs_a_day, p.runs), (7, 50));
    let who = Who { task: "support", principal: "p", run: "r" };
    let rates: Vec<_> =
        p.rates.applying(&who, "a", "a__get_x").iter().map(|a| (a.per, a.quota.burst)).collect();
    assert_eq!(
        rates,
        [(Per::Run, 30), (Per::Runs, 90), (Per::Tool, 2), (Per::Principal, 60), (Per::Server, 1000)]
    );
    assert_eq!(p.rates.concurrency(&who).map(|(_, cap)| cap), Some(8));
    let strip = p.strip.unwrap();
    assert!(strip.controls && strip.zero_width && !strip.bidi && !strip.tags);
    assert_eq!(
        (p.call_idle, p.call_total.map(|t| t.as_secs())),
        (Some(std::time::Duration::from_secs(5)), Some(10))
    );
    assert_eq!(p.confirm_within.as_secs(), 120);
    assert_eq!(p.task.confirm_fallback(), Fallback::Allow);
    let capabilities = p.task.capabilities();
    assert!(capabilities.elicitation && !capabilities.sampling && capabilities.roots.len() == 1);
    assert!(p.redact_arguments && !twin.profile.redact_arguments);
    let redactors = [&p.redactor, &twin.profile.redactor].map(|r| r.clone().unwrap());
    assert!(std::sync::Arc::ptr_eq(&redactors[0], &redactors[1]), "equal rules are compiled once");
}

#[test]
fn a_task_decides_as_its_file_says() {
    let checked = good(&format!("{SERVER}{TASK}"));
    let task = &checked.tasks[0].profile.task;
    let mut caller = Caller::new(Proof::Token("ci".into()));
    assert!(task.admits(&caller, false) && task.admits(&Caller::new(Proof::Anonymous), true));
    assert!(!task.admits(&Caller::new(Proof::Anonymous), false));
    assert!(!task.admits(&Caller::new(Proof::Token("other".into())), true));
    caller.scopes = ["mcp.read", "mcp.get"].map(Into::into).into();
    let read_only = Hints { read_only: Some(true), ..Hints::default() };
    let decide = |name: &str, args, hints| {
        let own = name.strip_prefix("a__").unwrap();
        let entry = Entry { server: "a", kind: Kind::Tool, exposed: name, own, hints };
        let subject = Subject { caller: &caller, run: "r", now: 0 };
        let decision = task.decide(&subject, &entry, args);
        (decision.to_string(), decision.by().map(|by| by.path()))
    };
    assert_eq!(decide("a__read_x", None, read_only).0, "allowed");
    assert_eq!(decide("a__read_x", None, Hints::default()).0, "needs confirmation");
    assert_eq!(decide("a__read_secret", None, read_only).0, Decision::Hidden.to_string());
    assert_eq!(decide("a__write", None, read_only).0, "hidden");
    let (said, by) = decide("a__get_x", Some(r#"{"q":"long"}"#), read_only);
    assert_eq!(said, "refused: Ask for less.");
    assert_eq!(checked.tasks[0].place(&by.unwrap()), "t.yaml:11");
    let scopes = [Step::from("scopes"), Step::from(1)];
    assert_eq!(checked.tasks[0].place(&scopes), "t.yaml:15");
}

#[test]
fn amounts_are_exact_as_they_are_written() {
    for (text, nanos) in [
        ("2.00", 2_000_000_000),
        ("2", 2_000_000_000),
        ("0.002", 2_000_000),
        ("0.000000001", 1),
        ("'0.30'", 300_000_000),
        // As a float this is 123456789.12345679.
        ("123456789.123456789", 123_456_789_123_456_789),
        ("1e-3", 1_000_000),
    ] {
        let checked =
            good(&format!("{SERVER}tasks: {{ t: {{ allow: ['*'], limits: {{ budget_usd: {text} }} }} }}\n"));
        assert_eq!(checked.tasks[0].profile.budgets.all[0].limit, nanos, "{text}");
        let cost = format!("servers: {{ a: {{ url: 'https://a/', cost: {{ per_call_usd: {text} }} }} }}\n");
        let price = good(&cost).servers[0].policy.price("any").cloned().unwrap();
        assert_eq!(price.per_call, NanoUsd::from_nanos(nanos), "{text}");
    }
    for text in ["0.0000000001", "-1", "1e12", "many", "'1,5'", ".5"] {
        let found =
            problems(&format!("tasks: {{ t: {{ allow: ['*'], limits: {{ budget_usd: {text} }} }} }}"));
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with("2:51: tasks.t.limits.budget_usd: "), "{text}: {found:?}");
    }
}

#[test]
fn prices_of_servers_and_tools() {
    let text = "\
servers:
  a:
    url: https://a/
    trusted_hints: true
    check_arguments: false
    cost: { per_call_usd: 0.002, per_second_usd: 0.01, per_kib_usd: 0.0001, reserve_usd: 0.05 }
    limits: { calls: { rate: 600/min, burst: 20 }, concurrency: 4 }
    tools:
      'draw_*': { cost: { reported: /structuredContent/cost_usd, reserve_usd: 0.5 }, timeouts: { call_total: 20m } }
      draw_free: { cost: {} }
";
    let policy = &good(text).servers[0].policy;
    assert!(policy.trusted_hints && !policy.check_arguments);
    assert_eq!((policy.calls.map(|q| (q.calls, q.burst)), policy.concurrency), (Some((600, 20)), Some(4)));
    let shown = |tool: &str| policy.price(tool).map(|p| p.reservation().to_string());
    assert_eq!(shown("search").as_deref(), Some("0.05"));
    assert_eq!(shown("draw_big").as_deref(), Some("0.5"));
    assert_eq!(shown("draw_free").as_deref(), Some("0"), "a tool's own price replaces the server's");
    assert_eq!(good(SERVER).servers[0].policy.price("x"), None);
}

#[test]
fn l7_what_is_wrong_in_a_task_is_found_all_at_once_with_its_line_and_column() {
    refused(
        "\
tasks:
  Bad: { allow: ['*'] }
  t:
    allow: ['a__{x', ok, \"a__\\x7b\"]
    deny: 'a__*'
    rules:
      - { tool: '*', when: args.q.sise() > nobody }
      - { tool: '*', when: 'true', message: '' }
    confirm: sometimes
    scopes: { '*': ['two words'] }
    limits: { calls: 60/day, concurrency: 0, budget_usd: 0, budget_calls: { run: 1, each: 2 }, servers: { b: 1/s } }
    redact: { groups: [passwords], rules: [{ name: X, pattern: 'a+' }] }
    principals: { claims: { dept: [] }, certificates: ['{'], who: me }
    capabilities: { roots: [{ uri: /srv }] }
    typo: 1
default_task: nobody",
        &[
            "3:3: tasks.Bad: not the name of a task",
            "5:17: tasks.t.allow[0]: '{' is not closed",
            "5:26: tasks.t.allow[2]: '{' is not closed",
            "6:11: tasks.t.deny: text is not what is needed here",
            "8:",
            "8:44: tasks.t.rules[0].when: unknown variable 'nobody'",
            "9:45: tasks.t.rules[1].message: ",
            "10:14: tasks.t.confirm: text is not what is needed here",
            "11:15: tasks.t.scopes.*: these are no scopes",
            "12:22: tasks.t.limits.calls: the period is none",
            "12:43: tasks.t.limits.concurrency: 0 is out of range",
            "12:58: tasks.t.limits.budget_usd: no call could ever be made",
            "12:85: tasks.t.limits.budget_calls.each: unknown key",
            "12:107: tasks.t.limits.servers.b: there is no such server",
            "13:24: tasks.t.redact.groups[0]: there is no rule",
            "13:52: tasks.t.redact.rules[0].name: ",
            "13:64: tasks.t.redact.rules[0].pattern: ",
            "14:29: tasks.t.principals.claims.dept: no value",
            "14:57: tasks.t.principals.certificates[0]: ",
            "14:62: tasks.t.principals.who: unknown key",
            "15:36: tasks.t.capabilities.roots[0].uri: is no file: URI",
            "16:5: tasks.t.typo: unknown key",
            "17:15: default_task: there is no such task",
        ],
    );
}

#[test]
fn l7_a_rule_without_its_condition_is_refused() {
    refused(
        "tasks: { t: { allow: ['*'], rules: [{ tool: '*' }] } }",
        &["2:37: tasks.t.rules[0]: `when` is missing"],
    );
}

#[test]
fn columns_inside_conditions_and_patterns() {
    let when = |text: &str| {
        problems(&format!(
            "tasks:\n  t:\n    allow: ['*']\n    rules:\n      - tool: '*'\n        when: {text}"
        ))
    };
    for (text, at) in [
        ("nobody == 1", "7:15"),
        ("'1 == nobody'", "7:21"),
        ("\"1 == nobody\"", "7:21"),
        // Escapes: the text itself is pointed at.
        ("\"1 == \\x6eobody\"", "7:15"),
        ("|\n          1 == 1\n          && nobody", "9:14"),
        (">\n          1 == nobody", "8:11"),
    ] {
        let found = when(text);
        assert!(found.len() == 1 && found[0].starts_with(at), "{text}: {found:?}");
    }
}

#[test]
fn l7_an_address_for_others_needs_credentials_and_tasks() {
    let open = format!("listen: 0.0.0.0:8080\n{SERVER}");
    let found: Vec<_> = check(&open).unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("t.yaml:1:9: listen: listen is 0.0.0.0:8080, which is not a loopback address")
    );
    assert!(found[0].contains("`auth`") && found[1].contains("`tasks`"), "{found:?}");
    let tasked = format!("{open}tasks: {{ t: {{ allow: ['*'] }} }}\n");
    let found = check(&tasked).unwrap_err();
    assert!(found.len() == 1 && found[0].what.contains("no `auth`"), "{found:?}");
    let over = Options { listen: Some("[::]:7".into()), elsewhere: false };
    let found = check_with(SERVER, &over).unwrap_err();
    assert!(found.len() == 2 && found.iter().all(|p| p.what.starts_with("--listen is [::]:7")), "{found:?}");
    let admin = check(&format!("admin: {{ listen: 0.0.0.0:9090 }}\n{SERVER}")).unwrap_err();
    assert!(
        admin[0].to_string().contains("admin.listen is 0.0.0.0:9090, which is not a loopback"),
        "{admin:?}"
    );
}

#[test]
fn a_rule_of_the_wrong_shape_never_opens_a_task() {
    for principals in ["[everyone]", "~", "true", "{ tokens: ci }", "{ groups: ~ }"] {
        let found = problems(&format!("tasks: {{ t: {{ principals: {principals}, allow: ['*'] }} }}"));
        assert!(!found.is_empty(), "{principals}");
    }
}

#[test]
fn what_is_surely_not_meant_is_said() {
    let found = warned(
        "\
tasks:
  a:
    principals: { anonymous: true }
    allow: ['a__*', 'a__get', 'githb__*']
    deny: ['a__drop_*']
    rules:
      - { tool: a__drop_all, when: 'true' }
      - { tool: '*', when: 'true' }
    allow_resources: ['a+*', 'https:*', 'files+*']
    limits: { on_too_large: truncate }
  nobody: { principals: {}, allow: ['*'] }
  idp: { principals: { groups: [x], tokens: [ci] }, allow: ['*'] }
  empty: {}",
    );
    assert_eq!(
        found,
        [
            "12: tasks.a.limits.on_too_large: it has no effect: nothing is too large",
            "6: tasks.a.allow[1]: 'a__get' has no effect: another pattern of the list covers it",
            "9: tasks.a.rules[0].tool: 'a__drop_all' has no effect: 'deny' covers it",
            "6: tasks.a.allow[2]: 'githb__*' matches nothing: it names no configured server",
            "11: tasks.a.allow_resources[2]: 'files+*' matches nothing: it names no configured server",
            "13: tasks.nobody.principals: nobody is admitted",
            "14: tasks.idp.principals.tokens[0]: there is no such static token",
            "14: tasks.idp.principals: nobody can use the task: nothing that `auth` takes proves a caller whom it admits",
            "15: tasks.empty.allow: the task allows nothing",
            "1: : no default_task: callers who name no task are refused",
        ]
    );
}

#[test]
fn without_tasks_one_task_allows_everything_and_every_start_says_so() {
    let checked = good(SERVER);
    assert!(checked.tasks[0].profile.task.is_open());
    assert!(checked.warnings.iter().any(|w| w.what.starts_with("no tasks: the implicit task `default`")));
    refused("tasks: {}", &["2:1: tasks: no task in it"]);
    refused("tasks:", &["2:1: tasks: a key without a value"]);
}

#[test]
fn keys_for_later_are_checked_too() {
    let keys = good(&format!("{SERVER}keys: {{ digest: env:KEY }}\n")).keys;
    assert!(keys.made && keys.digest.is_some() && keys.run_token.is_none());
    refused("keys: { digest: AAAA }", &["2:17: keys.digest: a key in the file itself"]);
    refused("keys: { seal: [env:KEY], run_token: env:KEY }", &["2:1: keys: one key for two uses"]);
    refused("keys: { run_token: env:NONE }", &["2:20: keys.run_token: variable NONE is not set"]);
}

#[test]
fn prices_that_are_surely_not_meant() {
    let server =
        |cost: &str| good(&format!("servers: {{ a: {{ url: 'https://a/', cost: {cost} }} }}\n")).warnings;
    let said = |cost: &str| server(cost).iter().any(|w| w.path.starts_with("servers.a.cost"));
    assert!(said("{ reported: /x }") && said("{ per_call_usd: 1, reserve_usd: 2 }"));
    assert!(!said("{ per_call_usd: 1 }") && !said("{ per_kib_usd: 1, reserve_usd: 2 }"));
    let found = check("servers: { a: { url: 'https://a/', cost: { reported: cost } } }\n").unwrap_err();
    assert!(found[0].to_string().contains("servers.a.cost.reported: not a place in a result"), "{found:?}");
}
