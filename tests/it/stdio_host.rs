//! `tollgate stdio`: a host's own gateway on stdin and stdout. Era by message, nothing but protocol on stdout.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_tests::client::{LEGACY, MODERN};
use tollgate_tests::host::Host;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait::{self, LONG, QUIET, alive};

use crate::eras::Dir;
use crate::support::{child, http, numbers, read, yaml};

struct Setup {
    host: Host,
    modern: Scripted,
    legacy: Scripted,
}

fn setup() -> Setup {
    let modern = Scripted::sse(Peer::modern("m"));
    let legacy = Scripted::sse(Peer::legacy("l"));
    let host = Host::start(&yaml("", &[http("m", &modern, ""), http("l", &legacy, "")]));
    Setup { host, modern, legacy }
}

#[test]
fn a_modern_host_needs_no_handshake() {
    let mut s = setup();
    let discover = s.host.modern(1, "server/discover", json!({}));
    assert_eq!(discover["result"]["resultType"], "complete", "{discover}");
    assert!(discover["result"]["supportedVersions"].as_array().is_some_and(|v| v.contains(&json!(MODERN))));
    for server in ["m", "l"] {
        let answer =
            s.host.modern(2, "tools/call", json!({"name": format!("{server}__echo"), "arguments": {"a": 1}}));
        assert_eq!(answer["result"]["structuredContent"]["server"], server, "{answer}");
    }
    let list = s.host.modern(3, "tools/list", json!({}));
    assert_eq!(list["result"]["tools"].as_array().map(Vec::len), Some(24), "{list}");
    s.host.close();
    assert!(s.host.wait(LONG).success(), "{}", s.host.log());
    s.modern.assert_clean();
    s.legacy.assert_clean();
}

#[test]
fn a_legacy_host_shakes_hands() {
    let mut s = setup();
    let welcome = s.host.initialize(LEGACY);
    assert_eq!(welcome["result"]["protocolVersion"], LEGACY, "{welcome}");
    assert_eq!(welcome["result"]["serverInfo"]["name"], "tollgate");
    assert_eq!(s.host.request(2, "ping", json!({}))["result"], json!({}));
    for server in ["m", "l"] {
        let answer =
            s.host.request(3, "tools/call", json!({"name": format!("{server}__echo"), "arguments": {}}));
        assert_eq!(answer["result"]["structuredContent"]["server"], server, "{answer}");
        assert!(answer["result"].get("resultType").is_none(), "{answer}");
    }
    let unknown = s.host.request(4, "no/such", json!({}));
    assert_eq!(unknown["error"]["code"], -32601);
}

#[test]
fn a_host_may_probe_modern_and_go_on_legacy_and_mix() {
    let mut s = setup();
    assert!(s.host.modern(1, "server/discover", json!({}))["result"].is_object());
    s.host.initialize("2025-06-18");
    let legacy = s.host.request(2, "tools/call", json!({"name": "m__echo", "arguments": {}}));
    assert!(legacy["result"].get("resultType").is_none(), "{legacy}");
    let modern = s.host.modern(3, "tools/call", json!({"name": "m__echo", "arguments": {}}));
    assert_eq!(modern["result"]["resultType"], "complete", "{modern}");
}

#[test]
fn before_initialize_a_bare_request_is_refused() {
    let mut s = setup();
    let answer = s.host.request(1, "tools/list", json!({}));
    assert!(answer["error"]["code"].as_i64().is_some_and(|c| c == -32600 || c == -32602), "{answer}");
    let version = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "1999-01-01", "io.modelcontextprotocol/clientCapabilities": {}}});
    let answer = s.host.request(2, "tools/list", version);
    assert_eq!(answer["error"]["code"], -32022, "{answer}");
    assert!(answer["error"]["data"]["supported"].as_array().is_some_and(|v| v.len() > 1), "{answer}");
}

#[test]
fn bad_lines_are_answered_and_harm_nothing() {
    let mut s = setup();
    for (line, code) in [
        ("not json", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} {}"#, -32700),
    ] {
        s.host.send(line);
        let answer = s.host.message(LONG).unwrap_or_else(|| panic!("no answer to {line}"));
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    s.host.send_bytes(b"\xff\xfe\n");
    assert_eq!(s.host.message(LONG).expect("an answer")["error"]["code"], -32700);
    s.host.send("");
    s.host.send_bytes(b"\r\n");
    assert!(s.host.message(QUIET).is_none_or(|m| m["error"]["code"] == -32700));
    let answer = s.host.modern(9, "tools/call", json!({"name": "m__echo", "arguments": {}}));
    assert!(answer["result"].is_object(), "{answer}");
}

#[test]
fn lines_over_the_limit_are_refused() {
    let up = Scripted::json(Peer::modern("m"));
    let mut host = Host::start(&yaml("limits: { request_bytes: 64KiB }\n", &[http("m", &up, "")]));
    host.send(&format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":"{}"}}}}"#,
        "x".repeat(200_000)
    ));
    if let Some(answer) = host.message(LONG) {
        assert!(answer["error"]["code"].is_i64(), "{answer}");
        let after = host.modern(2, "tools/call", json!({"name": "m__echo", "arguments": {}}));
        assert!(after["result"].is_object(), "{after}");
    } else {
        assert!(!host.wait(LONG).success(), "a broken stream is an error");
    }
    assert_eq!(up.seen().iter().filter(|s| s.body.contains("xxxx")).count(), 0);
}

#[test]
fn progress_and_logs_come_on_stdout_before_the_answer() {
    let mut s = setup();
    s.host.initialize(LEGACY);
    let call = |id: u64, name: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {"steps": 3, "ms": 5}, "_meta": {"progressToken": format!("t{id}")}}}).to_string()
    };
    for (id, server) in [(10, "m"), (11, "l")] {
        s.host.send(&call(id, &format!("{server}__progress")));
        let seen = s.host.until_response(&json!(id));
        let own: Vec<&Value> =
            seen.iter().filter(|m| m["params"]["progressToken"] == json!(format!("t{id}"))).collect();
        assert_eq!(own.len(), 3, "{server}: {seen:?}");
    }
    s.host.request(12, "logging/setLevel", json!({"level": "info"}));
    s.host.send(&call(13, "l__log"));
    let seen = s.host.until_response(&json!(13));
    let levels: Vec<&Value> = seen
        .iter()
        .filter(|m| m["method"] == "notifications/message")
        .map(|m| &m["params"]["level"])
        .collect();
    assert_eq!(levels, [&json!("info"), &json!("error")], "{seen:?}");
}

#[test]
fn answers_come_as_they_are_ready() {
    let mut s = setup();
    s.host.initialize(LEGACY);
    let call = |id: u64, ms: u64| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "m__slow", "arguments": {"ms": ms}}}).to_string()
    };
    s.host.send(&call(1, 1500));
    s.host.send(&call(2, 10));
    assert_eq!(s.host.message(LONG).expect("an answer")["id"], 2, "a slow call blocks a quick one");
    assert_eq!(s.host.message(LONG).expect("an answer")["id"], 1);
}

#[test]
fn a_cancelled_call_is_never_answered_on_stdio() {
    let mut s = setup();
    s.host.initialize(LEGACY);
    for (id, server) in [(1, "m"), (2, "l")] {
        let name = format!("{server}__slow");
        s.host.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": {"ms": 20000}}}).to_string());
        let up = if server == "m" { &s.modern } else { &s.legacy };
        wait::until("the call", || up.count("tools/call") == 1);
        s.host.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
                .to_string(),
        );
        wait::until("the server to be told", || {
            up.peer().stopped() == ["slow"] || up.peer().cancelled().len() == 1
        });
    }
    assert_eq!(s.host.message(QUIET), None, "something was said after the cancellation");
    assert_eq!(s.host.request(3, "ping", json!({}))["result"], json!({}));
}

#[test]
fn the_end_of_stdin_is_a_clean_end() {
    let dir = Dir::new();
    let log = dir.file("log");
    let mut host = Host::start(&yaml("", &[child("c", &["--log", &log.to_string_lossy()], "")]));
    host.initialize(LEGACY);
    assert!(host.request(1, "tools/call", json!({"name": "c__echo", "arguments": {}}))["result"].is_object());
    let pids = numbers(&read(&log), "started ");
    assert!(!pids.is_empty());
    host.close();
    assert!(host.wait(LONG).success(), "{}", host.log());
    assert!(pids.iter().all(|p| !alive(*p)), "children left: {pids:?}");
    assert_eq!(host.line(Duration::from_millis(50)), None, "words after the end");
}

#[test]
fn what_is_under_way_when_stdin_ends_is_answered() {
    let mut s = setup();
    let call = |id: u64, method: &str, params: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}"_meta":{}}}}}"#,
            tollgate_tests::client::meta(&json!({}), &[])
        )
    };
    s.host.send(&call(1, "tools/list", ""));
    // The last line need not be ended.
    s.host.send_bytes(call(2, "tools/call", r#""name":"m__slow","arguments":{"ms":500},"#).as_bytes());
    s.host.close();
    let mut ids: Vec<Value> =
        (0..2).map(|_| s.host.message(LONG).expect("an answer")["id"].clone()).collect();
    ids.sort_by_key(Value::as_u64);
    assert_eq!(ids, [json!(1), json!(2)]);
    assert!(s.host.wait(LONG).success(), "{}", s.host.log());
}

#[test]
fn what_is_under_way_at_sigterm_is_answered() {
    let mut s = setup();
    s.host.initialize(LEGACY);
    s.host.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "m__slow", "arguments": {"ms": 700}}}).to_string());
    wait::until("the call", || s.modern.count("tools/call") == 1);
    s.host.sigterm();
    assert!(s.host.message(LONG).expect("an answer")["result"].is_object());
    assert!(s.host.wait(LONG).success(), "{}", s.host.log());
}

#[test]
fn a_call_that_does_not_end_is_cut_when_the_host_insists() {
    let mut s = setup();
    s.host.initialize(LEGACY);
    s.host.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "m__slow", "arguments": {"ms": 60000}}}).to_string());
    wait::until("the call", || s.modern.count("tools/call") == 1);
    s.host.close();
    std::thread::sleep(Duration::from_millis(200));
    s.host.sigterm();
    assert!(s.host.wait(Duration::from_secs(5)).success(), "{}", s.host.log());
    assert_eq!(s.host.message(Duration::from_millis(50)), None);
}

#[test]
fn batches_are_served_in_sessions_of_the_revision_that_has_them() {
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"m__echo","arguments":{}}},{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}]"#;
    let mut s = setup();
    s.host.initialize("2025-03-26");
    s.host.send(batch);
    let lines = std::iter::from_fn(|| s.host.line(LONG));
    let line = lines.into_iter().find(|line| line.starts_with('[')).expect("a batch");
    let answers = tollgate_tests::json::parse(&line);
    let ids: Vec<&Value> = answers.as_array().expect("a batch").iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, [1, 2, 3], "{line}");
    assert_eq!(answers[1]["result"]["structuredContent"]["server"], "m", "{line}");
    assert_eq!(answers[2]["error"]["code"], -32600, "{line}");
    let mut other = setup();
    other.host.initialize(LEGACY);
    other.host.send(batch);
    let refused = other.host.message(LONG).expect("an answer");
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
}

#[test]
fn sigterm_ends_it_too() {
    let mut s = setup();
    s.host.initialize(LEGACY);
    s.host.sigterm();
    let status = s.host.wait(LONG);
    assert!(status.code().is_some(), "killed by the signal instead of ending: {status}");
}

#[test]
fn logs_go_to_stderr_alone() {
    let up = Scripted::json(Peer::modern("m"));
    let noisy = child("c", &["--bad", "floods-stderr"], "");
    let mut host = Host::start(&yaml("log: { level: debug }\n", &[http("m", &up, ""), noisy]));
    host.initialize(LEGACY);
    // Every line is parsed as a message: anything else fails the test.
    assert!(host.request(1, "tools/call", json!({"name": "c__echo", "arguments": {}}))["result"].is_object());
    assert!(host.request(2, "tools/call", json!({"name": "m__echo", "arguments": {}}))["result"].is_object());
    wait::until("log lines", || !host.log().is_empty());
}

#[test]
fn a_host_that_never_reads_stderr_gets_all_its_answers() {
    let up = Scripted::json(Peer::modern("m"));
    let mut host = Host::start_deaf(&yaml("", &[http("m", &up, "")]));
    // A call logs some 300 bytes, so that the pipe is full after about 200.
    for id in 1..=1000 {
        let answer = host.modern(id, "tools/call", json!({"name": "m__echo", "arguments": {}}));
        assert!(answer["result"].is_object(), "{id}: {answer}");
    }
    host.close();
    assert!(host.wait(LONG).success());
}

#[test]
fn a_wrong_configuration_says_so_on_stderr_and_exits_with_1() {
    let mut host = Host::start("servers:\n  up: { url: \"http://127.0.0.1:1/mcp\", command: x }\n");
    let status = host.wait(LONG);
    assert_eq!(status.code(), Some(1), "{}", host.log());
    assert_eq!(host.line(Duration::from_millis(100)), None, "words on stdout");
    wait::until("the reason", || host.log().contains("tollgate.yaml:2"));
}

#[test]
fn an_unknown_task_is_a_refused_start() {
    let mut host =
        Host::start_with("servers:\n  up: { url: \"http://127.0.0.1:1/mcp\" }\n", &["--task", "nope"]);
    assert_eq!(host.wait(LONG).code(), Some(1), "{}", host.log());
    wait::until("the reason", || host.log().contains("nope"));
    let mut known =
        Host::start_with("servers:\n  up: { url: \"http://127.0.0.1:1/mcp\" }\n", &["--task", "default"]);
    assert_eq!(known.initialize(LEGACY)["result"]["protocolVersion"], LEGACY);
}
