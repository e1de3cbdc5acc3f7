//! Tasks from the command line: `explain`, `tools --principal`, what `check` says of tasks, what keeps a gateway from
//! starting; and that a running gateway decides as they say.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use tollgate_tests::client::Client;
use tollgate_tests::gateway::{Start, run};
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

use crate::eras::Dir;
use crate::support::{Bench, http, yaml};

const TASKS: &str = "\
default_task: support
tasks:
  support:
    principals: { groups: [support], tokens: [ci], anonymous: true }
    allow: ['docs__*', 'files__read_*']
    deny: [docs__drop]
    scopes: { 'docs__write': [docs.write] }
    rules:
      - tool: 'docs__*'
        when: args.q.size() <= 3
        message: Ask for less.
    confirm: ['files__*']
    limits: { calls: 60/min, concurrency: 8, result_bytes: 256KiB, budget_usd: 2.00, budget_calls: { run: 500, task: { month: 9000 } } }
  locked:
    principals: { tokens: [ci] }
    allow: ['*']
";
const SERVERS: &str = "\
servers:
  docs: { url: 'http://127.0.0.1:1/mcp', headers: { Authorization: env:TG_TEST_NOT_SET }, cost: { per_call_usd: 0.002 } }
  files: { command: cat }
";

fn file(dir: &Dir, name: &str, text: &str) -> String {
    let path = dir.file(name);
    std::fs::write(&path, text).expect("write");
    path.to_string_lossy().into_owned()
}

fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

struct Desk {
    dir: Dir,
    config: String,
}

impl Desk {
    fn new(text: &str) -> Desk {
        let dir = Dir::new();
        let config = file(&dir, "gate.yaml", text);
        Desk { dir, config }
    }

    /// `explain` of a tool, as this caller.
    fn explain(&self, tool: &str, principal: &str, more: &[&str]) -> (i32, String) {
        let principal = file(&self.dir, "claims.json", principal);
        let mut args = vec!["explain", "--config", &self.config, "--tool", tool, "--principal", &principal];
        args.extend(more);
        let output = run(&args, Path::new("/"));
        let text = both(&output).replace(&self.config, "FILE");
        (output.status.code().unwrap_or(-1), text)
    }
}

#[test]
fn explain_names_the_rule_with_its_line_and_what_would_apply() {
    let desk = Desk::new(&format!("{TASKS}{SERVERS}"));
    let (code, text) = desk.explain("docs__search", "{}", &["--args", r#"{"q":"abc"}"#]);
    assert_eq!(code, 0, "{text}");
    for line in [
        "caller: without a credential",
        "task: support (FILE:3)",
        "FILE:5: allow[0] matches the name",
        "FILE:9: rules[0] holds",
        "decision: allowed, by FILE:5: allow[0]",
        "rate: 60/min, 60 at once, of this caller",
        "at the same time: 8 calls of this caller",
        "result: at most 262144 bytes; a larger one is refused",
        "price: 0.002 USD a call; 0.002 USD reserved before the call",
        "budget: 2 USD in each run",
        "budget: 500 calls in each run",
        "budget: 9000 calls a month (UTC) for the whole task",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}:\n{text}");
    }
    let (code, text) = desk.explain("docs__search", "{}", &["--args", r#"{"q":"abcd"}"#]);
    assert!(code == 1 && text.contains("decision: refused: Ask for less., by FILE:9: rules[0]"), "{text}");
    let (code, text) = desk.explain("docs__drop", "{}", &[]);
    assert!(code == 1 && text.contains("decision: hidden, by FILE:6: deny[0]"), "{text}");
    let (code, text) = desk.explain("files__write", "{}", &[]);
    assert!(code == 1 && text.contains("decision: hidden: nothing allows it"), "{text}");
    let (code, text) = desk.explain("files__read_x", "{}", &[]);
    assert!(code == 0 && text.contains("decision: needs confirmation, by FILE:12: confirm[0]"), "{text}");
    let (code, text) = desk.explain("mail__send", "{}", &[]);
    assert!(code == 1 && text.contains("decision: unknown tool"), "{text}");
}

#[test]
fn explain_takes_each_kind_of_caller() {
    let desk = Desk::new(&format!("{TASKS}{SERVERS}"));
    let claims =
        |more: &str| format!(r#"{{"iss":"https://i.example","sub":"alice","client_id":"cli"{more}}}"#);
    let write = |claims: &str| desk.explain("docs__write", claims, &[]);
    let (code, text) = write(&claims(r#","groups":["support"],"scope":"docs.read""#));
    assert!(code == 1 && text.contains("decision: needs scopes docs.write, by FILE:7: scopes[0]"), "{text}");
    let (code, text) = write(&claims(r#","groups":["support"],"scope":"a docs.write""#));
    assert!(code == 0 && text.contains("caller: alice of https://i.example by client cli"), "{text}");
    let (code, text) = write(&claims(r#","groups":["other"]"#));
    assert!(code == 1 && text.contains("`principals` do not admit this caller"), "{text}");
    let as_ci = |task: &str| desk.explain("docs__x", r#"{"token":"ci"}"#, &["--task", task]);
    assert_eq!((as_ci("locked").0, as_ci("support").0), (0, 0));
    assert_eq!(desk.explain("docs__x", "{}", &["--task", "locked"]).0, 1);
    let spiffe = r#"{"certificate":["spiffe://example.com/agent"]}"#;
    let (code, text) = desk.explain("docs__x", spiffe, &[]);
    assert!(code == 1 && text.contains("spiffe://example.com/agent"), "{text}");
    for bad in ["", "[]", "{\"sub\":\"x\"}", r#"{"token":1}"#, r#"{"token":"a","iss":"b"}"#, r#"{"iss":"x"}"#]
    {
        let (code, text) = desk.explain("docs__x", bad, &[]);
        assert!(code == 2 && text.contains("claims.json"), "{bad}: {text}");
    }
    assert_eq!(desk.explain("docs__x", "{}", &["--task", "nobody"]).0, 2);
    for bad in ["[]", "{", "1"] {
        assert_eq!(desk.explain("docs__x", "{}", &["--args", bad]).0, 2, "{bad}");
    }
    assert_eq!(run(&["explain", "--config", &desk.config], Path::new("/")).status.code(), Some(2));
    let help = run(&["explain", "--help"], Path::new("/"));
    assert!(help.status.success() && said(&help).contains("\"iss\"") && said(&help).contains("\"token\""));
}

#[test]
fn explain_and_tools_ask_the_server_where_they_are_told_to() {
    let up = Scripted::json(Peer::modern("up"));
    let tasks = "\
default_task: t
tasks:
  t: { allow: ['up__{echo,slow}', 'up__ecko'], confirm: destructive }
  theirs: { principals: { tokens: [ci] }, allow: [up__count] }
";
    let desk = Desk::new(&yaml(tasks, &[http("up", &up, ", trusted_hints: true")]));
    let (code, text) = desk.explain("up__echo", "{}", &[]);
    assert!(code == 0 && text.contains("needs confirmation") && text.contains("--connect"), "{text}");
    let (code, text) = desk.explain("up__echo", "{}", &["--connect"]);
    assert!(code == 0 && text.contains("decision: allowed"), "its readOnlyHint is trusted:\n{text}");
    let (code, text) = desk.explain("up__slow", "{}", &["--connect"]);
    assert!(code == 0 && text.contains("needs confirmation"), "{text}");
    let (code, text) = desk.explain("up__ecko", "{}", &["--connect"]);
    assert!(code == 1 && text.contains("unknown tool: server up does not have 'up__ecko'"), "{text}");

    let tools = run(&["tools", "--config", &desk.config, "--json"], Path::new("/"));
    let shown = |output: &Output| -> Vec<String> {
        let value: Value = json::parse(&said(output));
        let tools = value["servers"][0]["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().filter_map(|t| t["name"].as_str().map(str::to_owned)).collect()
    };
    assert_eq!(shown(&tools), ["up__echo", "up__slow"], "{}", both(&tools));
    let warned = "t.allow[1]: the pattern matches nothing that is known";
    assert!(String::from_utf8_lossy(&tools.stderr).contains(warned), "{}", both(&tools));
    let ci = file(&desk.dir, "ci.json", r#"{"token":"ci"}"#);
    let args = ["tools", "--config", &desk.config, "--json", "--task", "theirs"];
    let theirs = run(&[&args[..], &["--principal", &ci]].concat(), Path::new("/"));
    assert_eq!(shown(&theirs), ["up__count"], "{}", both(&theirs));
    let refused = run(&args, Path::new("/"));
    assert_eq!(refused.status.code(), Some(1), "{}", both(&refused));

    let plain = run(&["check", &desk.config], Path::new("/"));
    assert!(
        plain.status.success() && !both(&plain).contains("matches nothing that is known"),
        "{}",
        both(&plain)
    );
    let connected = run(&["check", "--connect", &desk.config], Path::new("/"));
    assert!(
        connected.status.success() && said(&connected).contains(&format!("gate.yaml:3:35: tasks.{warned}")),
        "{}",
        both(&connected)
    );
}

/// It says what the gateway does, with the exit code: no credential where there are some, one that nobody has, arguments
/// that break the tool's schema.
#[test]
fn explain_refuses_what_the_gateway_refuses() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let tool = format!(r#"{{"name":"echo","inputSchema":{schema}}}"#);
    let up = Scripted::json(Peer::modern("up").tools(vec![tool]));
    let head = "\
auth: { tokens: [{ name: ci, sha256: \"9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0\" }] }
default_task: t
tasks:
  t: { allow: ['*'] }
  all: { principals: { tokens: [ci], anonymous: true }, allow: ['*'] }
";
    let text = yaml(head, &[http("up", &up, "")]);
    let (desk, gateway) = (Desk::new(&text), Start::new(&text).start());
    let (ci, nobody) = (r#"{"token":"ci"}"#, "{}");
    let (good, bad) = (r#"{"n":1}"#, r#"{"n":"x"}"#);
    for (principal, task, args, goes) in [
        (nobody, "t", good, false),
        (nobody, "all", good, true),
        (nobody, "all", bad, false),
        (ci, "t", good, true),
        (ci, "t", bad, false),
    ] {
        let (code, said) =
            desk.explain("up__echo", principal, &["--connect", "--task", task, "--args", args]);
        assert_eq!(code, i32::from(!goes), "{principal} {task} {args}\n{said}");
        assert_eq!(said.contains("decision: refused"), !goes, "{said}");
        let call =
            gateway.modern().request("tools/call", &format!(r#"{{"name":"up__echo","arguments":{args}}}"#));
        let call = call.header("Tollgate-Task", task);
        let call = if principal == ci {
            call.header("Authorization", &format!("Bearer {}", "a".repeat(3)))
        } else {
            call
        };
        let answer = call.send(gateway.addr);
        assert_eq!(
            answer.text().contains("isError\":false"),
            goes,
            "{principal} {task} {args}: {}",
            answer.text()
        );
    }
    let (code, said) = desk.explain("up__echo", nobody, &[]);
    assert!(
        code == 1 && said.contains("refused: a credential is needed") && said.contains("--principal"),
        "{said}"
    );
    let (code, said) = desk.explain("up__echo", ci, &["--args", bad]);
    assert!(code == 0 && said.contains("not held against the tool's input schema: see --connect"), "{said}");
    for unknown in [
        r#"{"token":"cj"}"#,
        r#"{"certificate":"spiffe://example.com/a"}"#,
        r#"{"iss":"https://i.example","sub":"a"}"#,
    ] {
        let (code, said) = desk.explain("up__echo", unknown, &[]);
        assert!(code == 2 && said.contains("would answer 401"), "{unknown}: {said}");
    }
    let tools = run(&["tools", "--config", &desk.config], Path::new("/"));
    assert!(both(&tools).contains("over HTTP this task needs a credential"), "{}", both(&tools));
}

#[test]
fn check_says_what_is_surely_not_meant_about_tasks() {
    let text = "\
tasks:
  a:
    allow: ['docs__*', 'dosc__*']
    deny: ['docs__drop_*']
    rules: [{ tool: docs__drop_all, when: 'true' }]
  b: { principals: { groups: [x] }, allow: ['docs__*'] }
";
    let desk = Desk::new(&format!("{text}{SERVERS}"));
    let output = run(&["check", "--elsewhere", &desk.config], Path::new("/"));
    assert_eq!(output.status.code(), Some(0), "{}", both(&output));
    for warning in [
        "gate.yaml:3:24: tasks.a.allow[1]: 'dosc__*' matches nothing: it names no configured server",
        "gate.yaml:5:21: tasks.a.rules[0].tool: 'docs__drop_all' has no effect: 'deny' covers it",
        "gate.yaml:6:8: tasks.b.principals: nobody can use the task",
        "no default_task: callers who name no task are refused",
    ] {
        assert!(said(&output).contains(warning), "{warning}:\n{}", said(&output));
    }
    let typo = Desk::new(&format!("tasks: {{ a: {{ alow: ['*'] }} }}\n{SERVERS}"));
    let output = run(&["check", "--elsewhere", &typo.config], Path::new("/"));
    assert!(
        output.status.code() == Some(1)
            && said(&output)
                .contains("gate.yaml:1:15: tasks.a.alow: unknown key `alow`; did you mean `allow`?"),
        "{}",
        said(&output)
    );
}

#[test]
fn l7_a_wrong_policy_or_an_open_address_starts_nothing_and_says_why() {
    let server = "servers:\n  a: { url: 'http://127.0.0.1:1/' }\n";
    for (text, want) in [
        (format!("listen: 0.0.0.0:0\n{server}"), "no `auth` proves who calls"),
        (
            format!("listen: 0.0.0.0:0\ntasks: {{ t: {{ allow: ['*'] }} }}\n{server}"),
            "no `auth` proves who calls",
        ),
        (format!("tasks: {{ t: {{ allow: ['a__{{'] }} }}\n{server}"), "tasks.t.allow[0]"),
        (
            format!("tasks: {{ t: {{ allow: ['*'], rules: [{{ tool: '*', when: nobody }}] }} }}\n{server}"),
            "tasks.t.rules[0].when",
        ),
        (
            format!("tasks: {{ t: {{ allow: ['*'], limits: {{ calls: often }} }} }}\n{server}"),
            "tasks.t.limits.calls",
        ),
    ] {
        let said = Start::new(&text).attempt().err().expect("it must not start");
        assert!(said.contains(want) && said.contains("tollgate.yaml:"), "{text}\n{said}");
    }
}

#[test]
fn a_running_gateway_decides_as_its_tasks_say() {
    let tasks = "default_task: t\ntasks: { t: { allow: ['up__echo', 'up__slow'], deny: ['up__slow'] } }\n";
    let bench = Bench::of(Scripted::json(Peer::modern("up")), tasks, "");
    let listed = bench.client().request("tools/list", "{}").send(bench.gateway.addr);
    let value = json::parse(&listed.text());
    let names: Vec<&str> = value["result"]["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .filter_map(|t| t["name"].as_str())
        .collect();
    assert_eq!(names, ["echo"], "{}", listed.text());
    assert_eq!(bench.good().send(bench.gateway.addr).status, 200);
    let call = |name: &str| {
        bench.client().request("tools/call", &format!(r#"{{"name":"{name}","arguments":{{}}}}"#))
    };
    let denied = bench.refuses("denied", &call("slow"), &[200, 400, 404], Some(-32602)).text();
    let unknown = bench.refuses("unknown", &call("nosuch"), &[200, 400, 404], Some(-32602)).text();
    let message =
        |text: &str| json::parse(text)["error"]["message"].as_str().map(|m| m.replace("slow", "nosuch"));
    assert_eq!(message(&denied), message(&unknown), "forbidden and unknown read the same");
}

#[test]
fn without_a_default_task_a_caller_must_name_one() {
    let bench = Bench::of(Scripted::json(Peer::modern("up")), "tasks: { t: { allow: ['up__*'] } }\n", "");
    bench.refuses("no task", &bench.good(), &[403], None);
    let named = bench.good().header("Tollgate-Task", "t").send(bench.gateway.addr);
    assert_eq!(named.status, 200, "{}", named.text());
    bench.refuses("another", &bench.good().header("Tollgate-Task", "x"), &[403], None);
}
