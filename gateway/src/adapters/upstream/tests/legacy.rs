//! Calls of the legacy era over HTTP: sessions, their making, keeping and end.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::ports::upstream::FaultKind;
use mcp::era::{Era, Revision};

fn ok(seen: &Seen) -> Vec<Do> {
    reply(200, &seen.result(json!({"tools": []})))
}

#[tokio::test]
async fn the_gateway_shakes_hands_itself_with_the_clients_own_words() {
    let fake = legacy(ok).await;
    let client = client(&fake);
    let mut call = a_call("tools/list", &json!({}));
    call.client = who(&json!({"sampling": {}}));
    let answer = run(&client, call.clone()).await.unwrap();
    assert_eq!(answer.era, Era::Legacy);
    let hello = fake.last("initialize");
    assert_eq!(hello.body["params"]["protocolVersion"], "2025-11-25");
    assert_eq!(hello.body["params"]["capabilities"], json!({"sampling": {}}));
    assert_eq!(hello.body["params"]["clientInfo"]["name"], "host");
    assert_eq!(hello.header("mcp-session-id"), None);
    for method in ["notifications/initialized", "tools/list"] {
        let seen = fake.last(method);
        assert_eq!(seen.header("mcp-session-id"), Some("s2"), "{method}");
        assert_eq!(seen.header("mcp-protocol-version"), Some("2025-11-25"), "{method}");
        assert_eq!(seen.header("mcp-method"), None);
    }
    let body = fake.last("tools/list").body;
    assert_eq!(body["params"].get("_meta"), None, "{body}");
    run(&client, call).await.unwrap();
    assert_eq!(fake.count("initialize"), 2, "one for the probe, one for the caller");
    let facts = client.facts(&who(&json!({"sampling": {}})), &owner(1)).await.unwrap();
    assert_eq!((facts.era, facts.revision), (Era::Legacy, Revision::V2025_11_25));
    assert_eq!(fake.count("initialize"), 2);
    assert_eq!(client.status().sessions, 2);
}

#[tokio::test]
async fn an_older_revision_is_agreed_on_and_its_header_left_out() {
    for (version, header) in [("2025-06-18", Some("2025-06-18")), ("2025-03-26", None), ("2024-11-05", None)]
    {
        let fake = Fake::start(move |seen| match seen.method() {
            "server/discover" => http(405, &[], b""),
            "initialize" => reply(200, &seen.result(json!({"protocolVersion": version, "capabilities": {}}))),
            "notifications/initialized" => accepted(),
            _ => ok(seen),
        })
        .await;
        run(&client(&fake), a_call("tools/list", &json!({}))).await.unwrap();
        let seen = fake.last("tools/list");
        assert_eq!((seen.header("mcp-protocol-version"), seen.header("mcp-session-id")), (header, None));
    }
}

#[tokio::test]
async fn a_version_that_nobody_knows_is_no_session() {
    let fake = Fake::start(move |seen| match seen.method() {
        "initialize" => {
            reply(200, &seen.result(json!({"protocolVersion": "2099-01-01", "capabilities": {}})))
        }
        _ => http(400, &[], b""),
    })
    .await;
    let fault = run(&client(&fake), a_call("tools/list", &json!({}))).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Protocol);
}

#[tokio::test]
async fn two_owners_never_share_a_session_nor_do_two_sets_of_capabilities() {
    let fake = legacy(ok).await;
    let client = client(&fake);
    let mut ids = std::collections::BTreeSet::new();
    for (number, capabilities) in [(1, json!({})), (2, json!({})), (1, json!({"roots": {}}))] {
        for _ in 0..2 {
            let mut call = tool_call();
            (call.session, call.client) = (owner(number), who(&capabilities));
            run(&client, call).await.unwrap();
            ids.insert(fake.last("tools/call").header("mcp-session-id").unwrap().to_owned());
        }
    }
    assert_eq!(ids.len(), 3);
    // The same capabilities in another spelling are the same capabilities.
    let mut call = tool_call();
    let spelled = Raw::parse(Bytes::from_static(b"{ \"roots\" : {} }"), &Limits::REQUEST).unwrap();
    call.client = Client::new(spelled, None);
    run(&client, call).await.unwrap();
    assert!(ids.contains(fake.last("tools/call").header("mcp-session-id").unwrap()));
}

#[tokio::test]
async fn one_handshake_serves_all_who_wait_for_it() {
    let fake = legacy(ok).await;
    let client = client(&fake);
    let calls = (0..20).map(|_| run(&client, a_call("tools/list", &json!({}))));
    let done = futures_util::future::join_all(calls).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!((fake.count("server/discover"), fake.count("initialize")), (1, 2));
}

/// A server that forgets its sessions when told.
async fn forgetful(status: u16, error: Value) -> (Fake, Arc<AtomicUsize>) {
    let known = Arc::new(AtomicUsize::new(0));
    let first = Arc::clone(&known);
    let fake = legacy(move |seen| {
        let id: usize = seen.header("mcp-session-id").unwrap()[1..].parse().unwrap();
        if id >= first.load(Ordering::SeqCst) { ok(seen) } else { reply(status, &error) }
    })
    .await;
    (fake, known)
}

#[tokio::test]
async fn an_expired_session_is_made_again_silently_for_what_is_safe_to_repeat() {
    let lost =
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}});
    for (status, error) in [(404, json!({})), (404, lost.clone()), (400, lost)] {
        let (fake, known) = forgetful(status, error).await;
        let client = client(&fake);
        let list = || a_call("tools/list", &json!({}));
        run(&client, list()).await.unwrap();
        known.store(3, Ordering::SeqCst);
        run(&client, list()).await.unwrap();
        assert_eq!((fake.count("initialize"), fake.count("tools/list")), (3, 3), "{status}");
        assert_eq!(fake.count("DELETE"), 0, "what the server has forgotten is not closed");
    }
}

#[tokio::test]
async fn a_tool_is_not_called_again_in_another_session() {
    let (fake, known) = forgetful(404, json!({})).await;
    let client = client(&fake);
    run(&client, tool_call()).await.unwrap();
    known.store(3, Ordering::SeqCst);
    let fault = run(&client, tool_call()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Dropped);
    assert_eq!(fake.count("tools/call"), 2);
    run(&client, tool_call()).await.unwrap();
    assert_eq!(fake.count("initialize"), 3);
}

#[tokio::test]
async fn a_session_that_is_gone_twice_is_not_asked_for_ever() {
    let (fake, known) = forgetful(404, json!({})).await;
    known.store(usize::MAX, Ordering::SeqCst);
    let fault = run(&client(&fake), a_call("tools/list", &json!({}))).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Dropped);
    assert_eq!(fake.count("tools/list"), 2);
}

#[tokio::test]
async fn a_servers_own_requests_are_answered_and_reach_nobody() {
    let fake = legacy(|seen| {
        let method = seen.method();
        if method == "POST" {
            return accepted();
        }
        let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
        let ask = json!({"jsonrpc": "2.0", "id": 5, "method": "elicitation/create", "params": {}});
        sse(&[ping, ask, seen.result(json!({}))])
    })
    .await;
    let client = client(&fake);
    let (heard, end) = finish(begin(&client, tool_call()).await.unwrap()).await;
    assert!(end.is_ok() && heard.is_empty());
    fake.wait_for("POST", 2).await;
    let answers: Vec<Seen> = fake.seen().into_iter().filter(|seen| seen.method() == "POST").collect();
    let of = |id: Value| answers.iter().find(|seen| *seen.id() == id).unwrap();
    assert_eq!(of(json!("p")).body["result"], json!({}));
    assert_eq!(of(json!(5)).body["error"]["code"], -32601);
    assert_eq!(of(json!(5)).header("mcp-session-id"), Some("s2"));
}

#[tokio::test]
async fn leaving_a_legacy_call_cancels_it_by_name() {
    // In the middle of a stream, and before any answer has come.
    for streaming in [true, false] {
        let fake = legacy(move |_| if streaming { vec![sse_head(), Do::Hang] } else { vec![Do::Hang] }).await;
        let client = client(&fake);
        let call = begin(&client, tool_call());
        let left = tokio::select! {
            events = call => events.ok(),
            () = fake.wait_for("tools/call", 1), if !streaming => None,
        };
        let id = fake.last("tools/call").id().clone();
        drop(left);
        fake.wait_for("notifications/cancelled", 1).await;
        let told = fake.last("notifications/cancelled");
        assert_eq!(told.body["params"]["requestId"], id);
        assert_eq!(told.header("mcp-session-id"), Some("s2"));
    }
}

#[tokio::test]
async fn a_call_that_ended_is_not_cancelled() {
    let fake = legacy(|seen| sse(&[seen.result(json!({}))])).await;
    let client = client(&fake);
    run(&client, tool_call()).await.unwrap();
    client.shutdown(Duration::from_secs(5)).await;
    assert_eq!(fake.count("notifications/cancelled"), 0);
}

#[tokio::test]
async fn the_least_severe_log_level_that_was_wanted_is_told() {
    let fake = legacy(ok).await;
    let client = client(&fake);
    for level in [None, Some("error"), Some("info"), Some("info"), Some("error"), None, Some("debug")] {
        let mut call = tool_call();
        call.log_level = level.map(|level| raw(&json!(level)));
        run(&client, call).await.unwrap();
    }
    let told: Vec<Value> = fake
        .seen()
        .into_iter()
        .filter(|seen| seen.method() == "logging/setLevel")
        .map(|seen| seen.body["params"]["level"].clone())
        .collect();
    assert_eq!(told, [json!("error"), json!("info"), json!("debug")]);
}

#[tokio::test]
async fn a_broken_stream_goes_on_where_it_broke() {
    let fake = Fake::start({
        let wanted = Mutex::new(Value::Null);
        move |seen| match seen.method() {
            "server/discover" => http(404, &[], b""),
            "initialize" => reply(200, &seen.result(initialized())),
            "notifications/initialized" => accepted(),
            "GET" => sse(&[json!({"jsonrpc": "2.0", "id": wanted.lock().clone(), "result": {"late": true}})]),
            _ => {
                *wanted.lock() = seen.id().clone();
                vec![sse_head(), chunk("id: e1\nretry: 20\ndata:\n\n"), chunk("data: {\"half"), last_chunk()]
            }
        }
    })
    .await;
    let answer = run(&client(&fake), tool_call()).await.unwrap();
    assert_eq!(text(&answer), r#"{"late":true}"#);
    let again = fake.last("GET");
    assert_eq!(again.header("last-event-id"), Some("e1"));
    assert_eq!(again.header("accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn sessions_are_closed_at_the_server() {
    let fake = legacy(ok).await;
    let client = client(&fake);
    run(&client, tool_call()).await.unwrap();
    client.end_session(&owner(1)).await;
    assert_eq!(fake.last("DELETE").header("mcp-session-id"), Some("s2"));
    run(&client, tool_call()).await.unwrap();
    client.shutdown(Duration::from_secs(5)).await;
    let mut closed: Vec<String> = fake
        .seen()
        .into_iter()
        .filter(|seen| seen.method() == "DELETE")
        .map(|seen| seen.header("mcp-session-id").unwrap().to_owned())
        .collect();
    closed.sort();
    assert_eq!(closed, ["s1", "s2", "s3"], "each once");
    let fault = run(&client, tool_call()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable);
}
