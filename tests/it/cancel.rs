//! Cancellation and departure, as each era and transport wants them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_tests::client::{Client, LEGACY, Legacy, call_params, with_member};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::http::Conn;
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait;

use crate::eras::Dir;
use crate::support::{Bench, SEAL_A, child, http, read, sealed, yaml};

const SOON: Duration = Duration::from_secs(8);

/// Starts a call of 20 s on a connection of its own.
fn start(client: &dyn Client, tool: &str, token: Option<&str>) -> (Conn, Value) {
    let ms = if tool == "slow" { 20_000 } else { 400 };
    let mut params = call_params(tool, &format!(r#"{{"ms":{ms},"steps":50}}"#));
    if let Some(token) = token {
        params = with_member(&params, "_meta", &format!(r#"{{"progressToken":{token}}}"#));
    }
    let request = client.request("tools/call", &params);
    let id = json::at(&String::from_utf8_lossy(&request.body), &["id"]).expect("an id");
    let mut conn = Conn::open(client.addr());
    conn.write(&request.wire(&client.addr().to_string()));
    (conn, id)
}

fn cancel(client: &Legacy, id: &Value) {
    let answer =
        client.notify("notifications/cancelled", &json!({"requestId": id, "reason": "enough"}).to_string());
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn a_modern_client_that_closes_its_stream_cancels_at_every_kind_of_server() {
    let dir = Dir::new();
    let modern = Scripted::sse(Peer::modern("modern"));
    let legacy = Scripted::json(Peer::legacy("legacy"));
    let mut servers = vec![http("modern", &modern, ""), http("legacy", &legacy, "")];
    for era in ["modern", "legacy"] {
        let id = format!("child-{era}");
        servers.push(child(&id, &["--era", era, "--log", &dir.file(era).to_string_lossy()], ""));
    }
    let gateway = Gateway::start(&yaml("", &servers));
    let started = |server: &str| match server {
        "modern" => modern.count("tools/call") > 0,
        "legacy" => legacy.count("tools/call") > 0,
        other => read(&dir.file(other.trim_start_matches("child-"))).contains("\"tools/call\""),
    };
    for server in ["modern", "legacy", "child-modern", "child-legacy"] {
        let (conn, _) = start(&gateway.modern().server(server), "slow", None);
        wait::until("the call", || started(server));
        drop(conn);
        wait::within(SOON, &format!("{server} to be told"), || match server {
            "modern" => modern.peer().stopped() == ["slow"],
            // A legacy server over HTTP is told by a notification in its session.
            "legacy" => legacy.peer().cancelled().len() == 1,
            other => read(&dir.file(other.trim_start_matches("child-"))).contains("stopped slow"),
        });
    }
    assert_eq!(modern.count("notifications/cancelled"), 0, "the closed stream is the signal");
    let told = legacy.seen_of("notifications/cancelled").pop().expect("told");
    let call = legacy.seen_of("tools/call").pop().expect("the call");
    assert_eq!(
        json::raw(&told.body, &["params", "requestId"]),
        json::raw(&call.body, &["id"]),
        "the server's id of the call"
    );
    assert_eq!(told.header("mcp-session-id"), call.header("mcp-session-id"));
    gateway.assert_alive();
    modern.assert_clean();
    legacy.assert_clean();
}

#[test]
fn a_legacy_client_cancels_by_notification_and_gets_what_there_was() {
    for up in [Scripted::sse(Peer::modern("up")), Scripted::sse(Peer::legacy("up"))] {
        let bench = Bench::of(up, "", "");
        let client = Legacy::server(bench.gateway.addr, "up");
        let (conn, id) = start(&client, "progress", Some("\"t\""));
        let mut stream = conn.stream_after("POST", wait::LONG).expect("a stream");
        let first = stream.message(wait::LONG).expect("progress");
        assert_eq!(first["params"]["message"], "step 1", "{first}");
        cancel(&client, &id);
        let mut last = Value::Null;
        while let Some(message) = stream.message(SOON) {
            last = message;
        }
        assert_eq!(last["id"], id, "{last}");
        let result = &last["result"];
        assert_eq!(result["cancelled"], true, "{last}");
        assert!(result["content"].is_array(), "{last}");
        assert!(result.get("partial").is_some(), "{last}");
        assert!(result.get("isError").is_none(), "{last}");
        assert!(result.to_string().contains("step 1"), "the progress so far: {last}");
        wait::within(SOON, "the server to be told", || {
            bench.up.peer().stopped() == ["progress"] || !bench.up.peer().cancelled().is_empty()
        });
        bench.up.assert_clean();
    }
}

#[test]
fn a_cancelled_call_without_a_stream_is_answered_too() {
    let bench = Bench::legacy();
    let client = Legacy::server(bench.gateway.addr, "up");
    let (conn, id) = start(&client, "slow", None);
    wait::until("the call", || bench.up.count("tools/call") == 1);
    cancel(&client, &id);
    let answer = conn.try_answer(SOON).expect("an answer");
    let result = answer.result();
    assert_eq!(answer.status, 200);
    assert!(
        result["cancelled"] == true && result["content"].is_array() && result.get("isError").is_none(),
        "{result}"
    );
    wait::within(SOON, "the server to be told", || bench.up.peer().cancelled().len() == 1);
}

#[test]
fn only_the_caller_can_cancel() {
    let bench = Bench::legacy();
    let client = Legacy::server(bench.gateway.addr, "up");
    let stranger = Legacy::server(bench.gateway.addr, "up");
    let params = call_params("slow", r#"{"ms":1500}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(&client.post(body).wire(&bench.gateway.addr.to_string()));
    wait::until("the call", || bench.up.count("tools/call") == 1);
    cancel(&stranger, &json!(7));
    cancel(&client, &json!("7"));
    cancel(&client, &json!(8));
    let modern = bench.client().notification("notifications/cancelled", r#"{"requestId":7}"#);
    assert!(modern.send(bench.gateway.addr).status < 500);
    for broken in ["{}", r#"{"requestId":null}"#, r#"{"requestId":{}}"#] {
        let answer = client.notify("notifications/cancelled", broken);
        assert!([202, 400].contains(&answer.status), "{broken}: {}", answer.status);
    }
    let answer = conn.try_answer(SOON).expect("an answer");
    assert_eq!(answer.result()["content"][0]["text"], "slow but sure", "{}", answer.text());
    assert!(bench.up.peer().cancelled().is_empty() && bench.up.peer().stopped().is_empty());
}

#[test]
fn a_session_cancels_its_call_at_the_replica_that_has_it_or_harms_nothing() {
    let up = Scripted::json(Peer::legacy("up"));
    let servers = [http("up", &up, "")];
    let (one, two) = (sealed("", &servers, &[SEAL_A]), sealed("", &servers, &[SEAL_A]));
    let client = Legacy::server(one.addr, "up");
    let params = call_params("slow", r#"{"ms":1500}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
    let mut conn = Conn::open(one.addr);
    conn.write(&client.post(body).wire(&one.addr.to_string()));
    wait::until("the call", || up.count("tools/call") == 1);
    // Without a shared store the other replica doesn't know the call: 202, nothing happens.
    cancel(&client.moved(two.addr), &json!(7));
    assert_eq!(conn.try_answer(SOON).expect("an answer").status, 200);
    one.assert_alive();
    two.assert_alive();
}

#[test]
fn a_lost_legacy_connection_has_a_grace_in_which_the_call_goes_on() {
    let up = Scripted::json(Peer::legacy("up"));
    let bench = Bench::of(up, "legacy: { resume_grace: 5s }\n", "");
    let client = Legacy::server(bench.gateway.addr, "up");
    let request = client.request("tools/call", &call_params("slow", r#"{"ms":1000}"#));
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(&request.wire(&bench.gateway.addr.to_string()));
    wait::until("the call", || bench.up.count("tools/call") == 1);
    drop(conn);
    std::thread::sleep(Duration::from_millis(1800));
    assert!(
        bench.up.peer().cancelled().is_empty() && bench.up.peer().stopped().is_empty(),
        "cancelled inside the grace"
    );
    bench.gateway.assert_alive();
}

#[test]
fn delete_cancels_the_calls_of_the_session() {
    let bench = Bench::legacy();
    let client = Legacy::server(bench.gateway.addr, "up");
    let (conn, _) = start(&client, "slow", None);
    wait::until("the call", || bench.up.count("tools/call") == 1);
    let begun = Instant::now();
    assert_eq!(client.delete().status, 200);
    let ended = conn.try_answer(SOON);
    assert!(begun.elapsed() < SOON, "the call of a closed session goes on: {ended:?}");
    bench.gateway.assert_alive();
}

#[test]
fn initialize_is_never_cancelled() {
    let bench = Bench::legacy();
    let client = Legacy::with(bench.gateway.addr, "/mcp", LEGACY, json!({}));
    cancel(&client, &json!(1));
    assert_eq!(client.send("ping", "{}").status, 200);
}
