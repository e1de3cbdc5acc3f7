//! How the era of a server is found, remembered and found again.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::ports::upstream::{Change, FaultKind};
use mcp::era::Era;

fn list() -> Call {
    a_call("tools/list", &json!({}))
}

#[tokio::test]
async fn anything_but_a_modern_answer_means_a_handshake() {
    let answers: [fn(&Seen) -> Vec<Do>; 9] = [
        |s| reply(400, &s.error(-32601, "Method not found")),
        |s| reply(200, &s.error(-32602, "Invalid request parameters")),
        |_| {
            reply(
                400,
                &json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32600, "message": "x"}}),
            )
        },
        |s| reply(200, &s.result(json!({"unknown": true}))),
        |_| http(400, &[], b""),
        |_| http(404, &[("content-type", "text/html")], b"<html>"),
        |_| http(500, &[], b""),
        |_| accepted(),
        |_| vec![Do::Close],
    ];
    for (n, answer) in answers.into_iter().enumerate() {
        let fake = Fake::start(move |seen| match seen.method() {
            "server/discover" => answer(seen),
            "initialize" => reply(200, &seen.result(initialized())),
            "notifications/initialized" => accepted(),
            _ => reply(200, &seen.result(json!({}))),
        })
        .await;
        let answer = run(&client(&fake), list()).await.unwrap_or_else(|fault| panic!("{n}: {fault}"));
        assert_eq!(answer.era, Era::Legacy, "{n}");
    }
}

#[tokio::test]
async fn a_modern_error_means_a_modern_server() {
    let errors: [fn(&Seen) -> Value; 3] = [
        |s| s.error(-32020, "header mismatch"),
        |s| s.error(-32021, "missing capability"),
        |s| {
            json!({"jsonrpc": "2.0", "id": s.id(), "error": {"code": -32022, "message": "unsupported",
            "data": {"supported": ["2027-01-01", "2026-07-28"]}}})
        },
    ];
    for error in errors {
        let fake = Fake::start(move |seen| match seen.method() {
            "server/discover" => reply(400, &error(seen)),
            _ => reply(200, &seen.result(json!({}))),
        })
        .await;
        assert_eq!(run(&client(&fake), list()).await.unwrap().era, Era::Modern);
        assert_eq!(fake.count("initialize"), 0);
    }
}

#[tokio::test]
async fn a_server_without_a_common_revision_is_said_so() {
    let fake = Fake::start(|seen| {
        reply(
            400,
            &json!({"jsonrpc": "2.0", "id": seen.id(), "error":
            {"code": -32022, "message": "no", "data": {"supported": ["2099-01-01"]}}}),
        )
    })
    .await;
    let fault = run(&client(&fake), list()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Protocol);
    assert_eq!(fake.count("initialize"), 0);
}

/// A server whose era the test switches.
async fn switching(modern: &Arc<AtomicBool>) -> Fake {
    let modern = Arc::clone(modern);
    Fake::start(move |seen| {
        let is_modern = seen.header("mcp-method").is_some();
        match (modern.load(Ordering::SeqCst), seen.method()) {
            (true, "server/discover") => reply(200, &seen.result(discovered())),
            (true, _) if !is_modern => reply(
                400,
                &json!({"jsonrpc": "2.0", "id": seen.id(), "error":
                {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}}),
            ),
            (false, "initialize") => reply(200, &seen.result(initialized())),
            (false, "notifications/initialized") => accepted(),
            (false, _) if is_modern => reply(
                400,
                &json!({"jsonrpc": "2.0", "id": null, "error":
                {"code": -32000, "message": "Bad Request: Server not initialized"}}),
            ),
            _ => reply(200, &seen.result(json!({}))),
        }
    })
    .await
}

#[tokio::test]
async fn a_server_that_changes_its_era_is_noticed_and_the_call_is_repeated() {
    for start in [true, false] {
        for call in [list(), tool_call()] {
            let modern = Arc::new(AtomicBool::new(start));
            let fake = switching(&modern).await;
            let client = client(&fake);
            let mut changes = client.changes();
            let first = run(&client, call.clone()).await.unwrap();
            client.core.forget_suspicion();
            modern.store(!start, Ordering::SeqCst);
            let mut second = run(&client, call.clone()).await;
            if start && call.method == "tools/call" {
                // A 400 proves nothing: the tool is not called again by itself.
                assert_eq!((second.is_err(), fake.count("tools/call")), (true, 2));
                second = run(&client, call).await;
            }
            let second = second.unwrap();
            assert_ne!(first.era, second.era, "{start}");
            assert_eq!(changes.try_recv().unwrap(), Change::Restarted);
            assert_eq!(client.status().era, Some(second.era));
        }
    }
}

#[tokio::test]
async fn odd_answers_do_not_make_a_server_be_asked_each_time() {
    let fake = modern(|seen| reply(404, &seen.error(-32601, "Method not found"))).await;
    let client = client(&fake);
    for _ in 0..10 {
        assert!(run(&client, list()).await.unwrap().outcome.is_err());
    }
    assert_eq!(fake.count("server/discover"), 1);
    client.core.forget_suspicion();
    for _ in 0..10 {
        assert!(run(&client, list()).await.unwrap().outcome.is_err());
    }
    assert_eq!(fake.count("server/discover"), 2);
}

#[tokio::test]
async fn a_400_with_invalid_params_is_reason_to_ask_for_the_era_again_and_repeats_nothing_unsafe() {
    for start in [true, false] {
        for call in [list(), tool_call()] {
            let modern = Arc::new(AtomicBool::new(start));
            let now = Arc::clone(&modern);
            // It says of a request of the other era that its params are wrong, and nothing more.
            let fake = Fake::start(move |seen| {
                match (now.load(Ordering::SeqCst), seen.header("mcp-method").is_some(), seen.method()) {
                    (true, true, "server/discover") => reply(200, &seen.result(discovered())),
                    (false, false, "initialize") => {
                        let headers = [("content-type", "application/json"), ("mcp-session-id", "s")];
                        http(200, &headers, seen.result(initialized()).to_string().as_bytes())
                    }
                    (false, false, "notifications/initialized") => accepted(),
                    (now, as_modern, _) if now == as_modern => reply(200, &seen.result(json!({}))),
                    _ => reply(400, &seen.error(-32602, "Invalid params")),
                }
            })
            .await;
            let client = client(&fake);
            let before = run(&client, call.clone()).await.unwrap().era;
            client.core.forget_suspicion();
            modern.store(!start, Ordering::SeqCst);
            let first = run(&client, call.clone()).await.unwrap();
            let sent = fake.count(&call.method);
            if call.method == "tools/call" {
                assert_eq!((first.outcome.is_err(), sent), (true, 2), "a 400 proves nothing");
            } else {
                assert_eq!((first.outcome.is_ok(), sent), (true, 3));
            }
            let second = run(&client, call).await.unwrap();
            assert!(second.outcome.is_ok() && second.era != before, "{start}: {second:?}");
        }
    }
}

#[tokio::test]
async fn a_legacy_tool_that_answers_400_with_invalid_params_does_not_have_its_server_asked_each_time() {
    let fake = legacy(|seen| reply(400, &seen.error(-32602, "no such city"))).await;
    let client = client(&fake);
    for _ in 0..10 {
        let error = run(&client, tool_call()).await.unwrap().outcome.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (-32602, "no such city"));
    }
    assert_eq!((fake.count("server/discover"), fake.count("tools/call")), (1, 10));
    client.core.forget_suspicion();
    run(&client, tool_call()).await.unwrap().outcome.unwrap_err();
    assert_eq!((fake.count("server/discover"), fake.count("tools/call")), (2, 11));
}
