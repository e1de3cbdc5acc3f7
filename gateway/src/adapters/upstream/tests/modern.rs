//! Calls of the modern era over HTTP.

use super::*;
use crate::ports::upstream::FaultKind;
use mcp::era::{Era, Revision};

#[tokio::test]
async fn a_json_answer_arrives_and_the_request_is_built_from_nothing() {
    let fake = modern(|seen| reply(200, &seen.result(json!({"content": [], "x": 1.0})))).await;
    let client = client(&fake);
    let mut call = tool_call();
    call.mirrored.params = vec![("Mcp-Param-Region".into(), "eu".into())];
    call.progress = true;
    call.log_level = Some(raw(&json!("info")));
    let answer = run(&client, call).await.unwrap();
    assert_eq!(answer.era, Era::Modern);
    assert_eq!(text(&answer), r#"{"content":[],"x":1.0}"#);
    let seen = fake.last("tools/call");
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "echo"),
        ("mcp-param-region", "eu"),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("accept-encoding", "identity"),
        ("user-agent", concat!("tollgate/", env!("CARGO_PKG_VERSION"))),
    ] {
        assert_eq!(seen.header(name), Some(value), "{name}");
    }
    assert_eq!(seen.header("mcp-session-id"), None);
    let meta = &seen.body["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "host");
    assert_eq!(meta["io.modelcontextprotocol/logLevel"], "info");
    assert_eq!(meta["progressToken"], seen.body["id"]);
    assert_eq!(fake.methods(), ["server/discover", "tools/call"]);
}

#[tokio::test]
async fn facts_and_status_tell_what_discovery_said() {
    let fake = modern(|seen| reply(200, &seen.result(json!({})))).await;
    let client = client(&fake);
    assert_eq!(client.status().era, None);
    assert_eq!(client.status().connected, None);
    let facts = client.facts(&who(&json!({})), &SessionKey::Catalog).await.unwrap();
    assert_eq!((facts.era, facts.revision), (Era::Modern, Revision::V2026_07_28));
    assert_eq!(facts.capabilities.as_str(), r#"{"tools":{},"logging":{}}"#);
    assert_eq!(facts.info.as_ref().unwrap().as_str(), r#"{"name":"fake","version":"1"}"#);
    let status = client.status();
    assert_eq!((status.era, status.connected, status.transport), (Some(Era::Modern), Some(true), "http"));
}

fn streamed(seen: &Seen) -> Vec<Value> {
    let note = |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": method, "params": params});
    vec![
        note("notifications/progress", json!({"progressToken": seen.id(), "progress": 1, "total": 2})),
        note("notifications/progress", json!({"progressToken": 999_999, "progress": 1})),
        note("notifications/progress", json!({"progressToken": seen.id().to_string(), "progress": 1})),
        note("notifications/message", json!({"level": "debug", "data": "too little"})),
        note("notifications/message", json!({"level": "error", "data": "grüße"})),
        note("notifications/other", json!({})),
        seen.result(json!({"content": []})),
    ]
}

fn wanting_all() -> Call {
    let mut call = tool_call();
    call.progress = true;
    call.log_level = Some(raw(&json!("warning")));
    call
}

#[tokio::test]
async fn u13_a_stream_brings_this_calls_notifications_and_no_others() {
    let fake = modern(|seen| sse(&streamed(seen))).await;
    let client = client(&fake);
    let (heard, end) = finish(begin(&client, wanting_all()).await.unwrap()).await;
    assert!(end.is_ok());
    let [Event::Progress(progress), Event::Log(log)] = heard.as_slice() else { panic!("{heard:?}") };
    assert_eq!(progress.as_str(), r#"{"progress":1,"total":2}"#);
    assert_eq!(log.as_str(), r#"{"level":"error","data":"grüße"}"#);
    let (heard, end) = finish(begin(&client, tool_call()).await.unwrap()).await;
    assert!(end.is_ok() && heard.is_empty(), "nothing was asked for: {heard:?}");
}

#[tokio::test]
async fn s3_a_stream_split_anywhere_is_the_same_stream() {
    let fake = modern(|seen| {
        let text: String = streamed(seen).iter().map(|m| format!("id: 1\r\ndata: {m}\r\n\r\n")).collect();
        // Cuts in different places each time: the request's id moves them.
        let step = 1 + usize::try_from(seen.id().as_u64().unwrap()).unwrap() % 7;
        let mut steps = vec![sse_head()];
        for part in text.as_bytes().chunks(step) {
            let mut bytes = format!("{:x}\r\n", part.len()).into_bytes();
            bytes.extend_from_slice(part);
            bytes.extend_from_slice(b"\r\n");
            steps.push(Do::Send(bytes));
        }
        steps.push(last_chunk());
        steps
    })
    .await;
    let client = client(&fake);
    for _ in 0..7 {
        let (heard, end) = finish(begin(&client, wanting_all()).await.unwrap()).await;
        assert!(end.is_ok());
        assert_eq!(heard.len(), 2);
    }
}

#[tokio::test]
async fn u4_what_follows_the_answer_is_dropped_and_the_connection_is_used_again() {
    let fake = modern(|seen| {
        let answer = seen.result(json!({"n": 1}));
        sse(&[
            answer,
            seen.result(json!({"n": 2})),
            json!({"jsonrpc": "2.0", "method": "notifications/late"}),
        ])
    })
    .await;
    let client = client(&fake);
    for _ in 0..3 {
        let answer = run(&client, tool_call()).await.unwrap();
        assert_eq!(text(&answer), r#"{"n":1}"#);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn u6_a_request_of_a_modern_server_goes_nowhere() {
    let fake = modern(|seen| {
        let ask = json!({"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage", "params": {}});
        sse(&[ask, seen.result(json!({}))])
    })
    .await;
    let client = client(&fake);
    let (heard, end) = finish(begin(&client, wanting_all()).await.unwrap()).await;
    assert!(end.is_ok() && heard.is_empty());
    assert_eq!(fake.methods(), ["server/discover", "tools/call"]);
}

#[tokio::test]
async fn leaving_a_modern_call_closes_its_stream() {
    let fake = modern(|seen| {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": seen.id(), "progress": 1}});
        vec![sse_head(), event(&note), Do::Hang]
    })
    .await;
    let client = client(&fake);
    let mut events = begin(&client, wanting_all()).await.unwrap();
    assert!(matches!(events.next().await, Some(Ok(Event::Progress(_)))));
    drop(events);
    fake.wait_left(1).await;
    assert_eq!(fake.count("notifications/cancelled"), 0);
}

#[tokio::test]
async fn errors_of_the_server_pass_whatever_the_status() {
    for (status, code) in [(200, -32602), (400, -32020), (400, -32021), (404, -32601), (500, -32603)] {
        let fake = modern(move |seen| reply(status, &seen.error(code, "no"))).await;
        let answer = run(&client(&fake), tool_call()).await.unwrap();
        assert_eq!(answer.outcome.unwrap_err().code, code, "{status}");
    }
}

#[tokio::test]
async fn http_errors_without_an_answer_are_faults() {
    for (status, kind) in [
        (401, FaultKind::Auth),
        (403, FaultKind::Auth),
        (404, FaultKind::Unreachable),
        (502, FaultKind::Unreachable),
        (503, FaultKind::Unreachable),
        (422, FaultKind::Protocol),
    ] {
        let fake = modern(move |_| http(status, &[("content-type", "text/html")], b"<html>")).await;
        let fault = run(&client(&fake), tool_call()).await.unwrap_err();
        assert_eq!(fault.kind, kind, "{status}: {fault}");
    }
}
