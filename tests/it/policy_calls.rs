//! Cases A16, A21, T11, K1 to K5 and runs: what a task decides about a call, and in which form it says no.

use serde_json::{Value, json};
use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::http::Answer;
use tollgate_tests::peer::{Peer, simple_tool};
use tollgate_tests::scripted::Scripted;

use crate::support::{http, yaml};

/// One server `up` with these tools behind one task `t`, whose members are `task`.
fn gateway(up: &Scripted, task: &str, more: &str) -> Gateway {
    let head = format!("default_task: t\ntasks:\n  t:\n{}", indented(task));
    Gateway::start(&yaml(&head, &[http("up", up, more)]))
}

fn indented(task: &str) -> String {
    task.lines().map(|line| format!("    {line}\n")).collect()
}

/// What an error says, but for the name, the record's id and the meter's figures.
fn told(answer: &Answer, name: &str) -> String {
    let mut error = answer.error();
    if let Some(data) = error["data"].as_object_mut() {
        assert!(data.remove("call_id").is_some());
        for figure in ["call_id", "latency_ms", "ts"] {
            assert!(data["_meter"].as_object_mut().expect("a meter").remove(figure).is_some());
        }
    }
    error.to_string().replace(name, "X")
}

fn refusal(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result}");
    &result["_meta"]["dev.tollgate/refusal"]
}

#[test]
fn a21_what_a_task_hides_reads_like_what_does_not_exist() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "allow: [\"up__echo\"]\ndeny: [\"up__slow\"]", "");
    for client in [Box::new(gateway.modern()) as Box<dyn Client>, Box::new(gateway.legacy())] {
        assert_eq!(client.names("tools/list"), ["up__echo"]);
        assert!(client.names("prompts/list").is_empty());
        let hidden = client.call("up__slow", "{}");
        let unknown = client.call("up__none", "{}");
        assert_eq!(hidden.status, unknown.status);
        assert_eq!(told(&hidden, "up__slow"), told(&unknown, "up__none"));
        assert_eq!(told(&hidden, "up__slow"), told(&client.call("no__none", "{}"), "no__none"));
        let resource = client.send("resources/read", r#"{"uri":"up+file:///notes/a.txt"}"#);
        assert!(resource.code().is_some_and(|code| code == -32602 || code == -32002), "{}", resource.text());
        assert_eq!(client.call("up__echo", r#"{"text":"hi"}"#).result()["isError"], false);
    }
    // The same names decide on the server's own endpoint.
    let alone = gateway.modern().server("up");
    assert_eq!(alone.names("tools/list"), ["echo"]);
    assert_eq!(alone.call("slow", "{}").code(), Some(-32602));
    assert!(up.seen().iter().all(|seen| !seen.text().contains("\"slow\"") || !seen.is("tools/call")));
}

#[test]
fn a16_missing_scopes_are_named_all_at_once_and_the_tool_stays_listed() {
    let up = Scripted::json(Peer::modern("up"));
    let task = "allow: [\"up__*\"]\nscopes: { \"up__echo\": [mcp.write], \"up__e*\": [mcp.read] }";
    let gateway = gateway(&up, task, "");
    let client = gateway.modern();
    assert!(client.names("tools/list").contains(&"up__echo".to_owned()));
    let answer = client.call("up__echo", "{}");
    assert_eq!(answer.status, 403, "{}", answer.text());
    let error = answer.error();
    assert_eq!(error["data"]["reason"], "insufficient_scope", "{error}");
    assert!(error["message"].as_str().unwrap().ends_with("mcp.read mcp.write"), "{error}");
    assert_eq!(client.call("up__count", "{}").status, 200);
}

#[test]
fn a_condition_that_does_not_hold_or_cannot_be_decided_refuses_the_call() {
    let up = Scripted::json(Peer::modern("up"));
    let task = "allow: [\"up__*\"]\nrules:\n  - { tool: \"up__echo\", when: \"args.text.size() <= 3\", message: \"Send at most three letters.\" }";
    let gateway = gateway(&up, task, "");
    for client in [Box::new(gateway.modern()) as Box<dyn Client>, Box::new(gateway.legacy())] {
        assert_eq!(client.call("up__echo", r#"{"text":"abc"}"#).result()["isError"], false);
        for arguments in [r#"{"text":"abcd"}"#, "{}"] {
            let answer = client.call("up__echo", arguments);
            assert_eq!(answer.status, 200, "{}", answer.text());
            let result = answer.result();
            assert_eq!(result["content"][0]["text"], "Send at most three letters.");
            assert_eq!(refusal(&result)["reason"], "rule", "{result}");
            assert_eq!(refusal(&result)["retryable"], false, "{result}");
        }
    }
    assert!(up.seen().iter().all(|seen| !seen.text().contains("abcd")));
}

#[test]
fn arguments_that_break_the_schema_are_told_by_their_place_and_not_sent() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway =
        Gateway::start(&yaml("", &[http("up", &up, ""), http("un", &up, ", check_arguments: false")]));
    let client = gateway.modern();
    let result = client.call("up__echo", r#"{"text":"hi","n":"SECRET"}"#).result();
    assert_eq!(refusal(&result)["reason"], "arguments", "{result}");
    assert_eq!(result["resultType"], "complete");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("/n") && !text.contains("SECRET"), "{text}");
    assert!(up.seen().iter().all(|seen| !seen.body.contains("SECRET")));
    let passed = client.call("un__echo", r#"{"text":"hi","n":"SECRET"}"#).result();
    assert_eq!(passed["isError"], false, "{passed}");
}

#[test]
fn k1_k4_a_schema_that_cannot_be_checked_makes_its_tool_unusable_under_a_task() {
    let canary = Scripted::json(Peer::modern("canary"));
    let bad = [
        ("outside", format!(r#"{{"type":"object","properties":{{"a":{{"$ref":"{}"}}}}}}"#, canary.url())),
        ("file", r#"{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}"#.to_owned()),
        (
            "slow_pattern",
            r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^(a|a)*\\1?$"}}}"#.to_owned(),
        ),
        ("dialect", r#"{"$schema":"https://example.com/unknown","type":"object"}"#.to_owned()),
    ];
    let entry = |(name, schema): &(&str, String)| format!(r#"{{"name":"{name}","inputSchema":{schema}}}"#);
    let mut tools: Vec<String> = bad.iter().map(entry).collect();
    tools.push(simple_tool("count"));
    let up = Scripted::json(Peer::modern("up").tools(tools));
    let gateway = gateway(&up, "allow: [\"up__*\"]", "");
    let client = gateway.modern();
    for (name, _) in &bad {
        let answer = client.call(&format!("up__{name}"), r#"{"a":"aaaa"}"#);
        let result = answer.result();
        assert_eq!(refusal(&result)["reason"], "arguments", "{name}: {result}");
    }
    assert!(client.call("up__count", "{}").result().get("isError").is_none());
    assert!(canary.seen().is_empty(), "the schema's address was asked");
}

#[test]
fn k2_doubling_references_cost_nothing() {
    let defs: Vec<String> = (1..=30)
        .map(|n| {
            format!(
                r##""a{n}":{{"allOf":[{{"$ref":"#/$defs/a{}"}},{{"$ref":"#/$defs/a{}"}}]}}"##,
                n - 1,
                n - 1
            )
        })
        .collect();
    let schema = format!(
        r##"{{"type":"object","$defs":{{"a0":{{"type":"string"}},{}}},"properties":{{"x":{{"$ref":"#/$defs/a30"}}}}}}"##,
        defs.join(",")
    );
    let up = Scripted::json(
        Peer::modern("up").tools(vec![format!(r#"{{"name":"echo","inputSchema":{schema}}}"#)]),
    );
    let gateway = gateway(&up, "allow: [\"up__*\"]", "");
    let start = std::time::Instant::now();
    let result = gateway.modern().call("up__echo", r#"{"x":"y"}"#).result();
    assert_eq!(refusal(&result)["reason"], "arguments", "{result}");
    assert!(start.elapsed().as_secs() < 5);
    gateway.assert_alive();
}

#[test]
fn t11_hints_of_a_server_that_is_not_trusted_do_not_spare_the_question() {
    let tool = r#"{"name":"echo","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true,"destructiveHint":false}}"#;
    let up = Scripted::json(Peer::modern("up").tools(vec![tool.into()]));
    let task = "allow: [\"up__*\"]\nconfirm: destructive";
    let client = |gateway: &Gateway| gateway.modern().capabilities(json!({"elicitation": {}}));
    let wary = gateway(&up, task, "");
    assert_eq!(client(&wary).call("up__echo", "{}").result()["resultType"], "input_required");
    let trusting = gateway(&up, task, ", trusted_hints: true");
    assert_eq!(client(&trusting).call("up__echo", "{}").result()["isError"], false);
}

#[test]
fn a_run_id_that_is_none_is_refused_wherever_it_stands() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = Gateway::start(&yaml("", &[http("up", &up, "")]));
    let client = gateway.modern();
    let call = |run: &str| {
        client
            .request("tools/call", r#"{"name":"up__echo","arguments":{"text":"x"}}"#)
            .header("Tollgate-Run", run)
    };
    assert_eq!(call("release-1.2:a_b").send(gateway.addr).status, 200);
    for bad in ["a b", &"x".repeat(129), "a/b"] {
        let answer = call(bad).send(gateway.addr);
        assert_eq!(answer.status, 400, "{bad}: {}", answer.text());
        assert_eq!(answer.error()["data"]["reason"], "run", "{bad}");
    }
    assert_eq!(call("a").header("Tollgate-Run", "b").send(gateway.addr).status, 400);
    for (run, status) in [("\"a-1\"", 200), ("\"a 1\"", 400), ("7", 400)] {
        let answer = gateway.modern().meta("dev.tollgate/run", run).call("up__echo", "{}");
        assert_eq!(answer.status, status, "{run}: {}", answer.text());
    }
    // A good weaker id never stands in for a bad stronger one.
    let both = gateway.modern().meta("dev.tollgate/run", "\"good\"");
    let both =
        both.request("tools/call", r#"{"name":"up__echo","arguments":{}}"#).header("Tollgate-Run", "a b");
    assert_eq!(both.send(gateway.addr).status, 400);
    assert!(
        up.seen()
            .iter()
            .all(|seen| !seen.text().contains("tollgate/run") && seen.header("tollgate-run").is_none())
    );
}

#[test]
fn servers_are_told_of_no_capability_that_the_task_does_not_list() {
    let up = Scripted::json(Peer::modern("up"));
    let declared = json!({"sampling": {}, "elicitation": {"form": {}}, "roots": {"listChanged": true}, "experimental": {"x": 1}});
    for (capabilities, told) in [
        ("", json!({"experimental": {"x": 1}})),
        (
            "\ncapabilities: { elicitation: true }",
            json!({"elicitation": {"form": {}}, "experimental": {"x": 1}}),
        ),
    ] {
        let gateway = gateway(&up, &format!("allow: [\"up__*\"]{capabilities}"), "");
        let result = gateway.modern().capabilities(declared.clone()).call("up__whoami", "{}").result();
        let seen = &result["structuredContent"]["meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*seen, told, "{result}");
    }
    let old = Scripted::json(Peer::legacy("up"));
    let gateway = gateway(&old, "allow: [\"up__*\"]", "");
    let client = Legacy::with(gateway.addr, "/mcp", "2025-06-18", declared);
    assert!(client.call("up__whoami", "{}").result().is_object());
    let greetings: Vec<_> = old.seen().into_iter().filter(|seen| seen.is("initialize")).collect();
    assert!(!greetings.is_empty());
    for seen in greetings {
        assert!(!seen.body.contains("sampling") && !seen.body.contains("\"roots\""), "{}", seen.body);
    }
}
