//! The multiplexer over an in-memory pipe: every way in which a server can break it, and what its calls see then.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use mcp::era::Era;
use mcp::json::{Limits, Raw};
use tokio::sync::mpsc;

use super::{MuxCounts, MuxEvent, MuxOptions};
use crate::ports::upstream::{Change, FaultKind};

mod wire;

use wire::{call, done, next, pair, settled, soon, start};

#[tokio::test]
async fn j15_answers_never_cross_and_ids_are_never_reused() {
    let (mux, mut peer) = pair(true);
    let (mut a, mut b) = (call(&mux).await, call(&mux).await);
    assert!(peer.heard().await.contains(r#""id":1,"#));
    assert!(peer.heard().await.contains(r#""id":2,"#));
    peer.answer(2, "for b").await;
    peer.answer(1, "for a").await;
    assert_eq!((done(&mut a).await.as_str(), done(&mut b).await.as_str()), ("for a", "for b"));
    assert!(next(&mut a).await.is_none());
    let _c = call(&mux).await;
    assert!(peer.heard().await.contains(r#""id":3,"#));
    assert_eq!(mux.in_flight(), 1);
}

/// Says `line` to a mux with two pending calls; both must end with `kind`, and the pipe at once.
async fn breaks(line: &[u8], kind: FaultKind) {
    let (mux, mut peer) = pair(true);
    let (mut a, mut b) = (call(&mux).await, call(&mux).await);
    peer.say(line).await;
    for pending in [&mut a, &mut b] {
        let shown = String::from_utf8_lossy(line).chars().take(80).collect::<String>();
        let fault = next(pending).await.unwrap().expect_err(&shown);
        assert!(fault.kind == kind && fault.dispatched, "{shown}: {fault:?}");
        assert!(next(pending).await.is_none());
    }
    assert_eq!(peer.grace().await, Duration::ZERO);
    assert!(mux.is_closed());
    let reason = soon(mux.closed()).await.kind;
    assert!(matches!(reason, FaultKind::Protocol | FaultKind::TooLarge), "{reason:?}");
    let fault = soon(mux.request(|_, _| Bytes::new(), false)).await.err().unwrap();
    assert!(fault.kind == FaultKind::Unreachable && !fault.dispatched, "{fault:?}");
    assert!(peer.to.is_closed(), "nothing is read after the breach");
}

#[tokio::test]
async fn u1_what_is_no_message_ends_the_pipe_and_every_call() {
    let deep = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":{}{}}}}}"#, "[".repeat(70), "]".repeat(70));
    let cases: [&[u8]; 12] = [
        b"<html>502 Bad Gateway</html>",
        b"",
        b"starting server on port 3000",
        br#"{"jsonrpc":"2.0","id":1,"resu"#,
        br#"{"jsonrpc":"2.0","id":1,"result":{}} junk"#,
        br#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}"#,
        br#"{"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","id":2,"result":{}}"#,
        b"\x1f\x8b\x08\x00garbage",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"\xff\"}}",
        br#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
        br#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
        deep.as_bytes(),
    ];
    for line in cases {
        breaks(line, FaultKind::Protocol).await;
    }
}

#[tokio::test]
async fn u1_a_message_over_the_limit_ends_the_pipe() {
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":"{}"}}}}"#, "x".repeat(4096));
    breaks(line.as_bytes(), FaultKind::Protocol).await;
    let (mux, mut peer) = pair(true);
    let mut only = call(&mux).await;
    peer.say(line).await;
    let fault = next(&mut only).await.unwrap().unwrap_err();
    assert_eq!(fault.kind, FaultKind::TooLarge, "a lone call learns the reason");
    assert_eq!(peer.grace().await, Duration::ZERO);
}

#[tokio::test]
async fn u2_an_answer_with_an_id_of_nobody_ends_the_pipe() {
    for id in [r#""id":3,"#, r#""id":"1","#, r#""id":null,"#, "", r#""id":1.0,"#, r#""id":0,"#, r#""id":-1,"#]
    {
        breaks(format!(r#"{{"jsonrpc":"2.0",{id}"result":{{}}}}"#).as_bytes(), FaultKind::Protocol).await;
    }
    breaks(br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"?"}}"#, FaultKind::Protocol)
        .await;
}

#[tokio::test]
async fn u3_an_answer_of_the_wrong_form_ends_the_pipe() {
    for rest in [
        r#""result":{},"error":{"code":1,"message":"m"}"#,
        r#""x":1"#,
        r#""error":{"code":"1","message":"m"}"#,
        r#""error":{"code":1}"#,
        r#""result":[]"#,
    ] {
        breaks(format!(r#"{{"jsonrpc":"2.0","id":1,{rest}}}"#).as_bytes(), FaultKind::Protocol).await;
    }
}

#[tokio::test]
async fn u4_late_and_second_answers_are_dropped_and_counted() {
    let (mux, mut peer) = pair(true);
    let (mut a, b) = (call(&mux).await, call(&mux).await);
    drop(b);
    peer.answer(1, "first").await;
    peer.answer(1, "second").await;
    peer.answer(2, "after cancel").await;
    peer.progress("1", "1").await;
    assert_eq!(done(&mut a).await, "first");
    settled(&mut peer).await;
    let counts = MuxCounts { late_answers: 2, dropped_events: 1, ..MuxCounts::default() };
    assert_eq!(mux.counts(), counts);
    let mut c = call(&mux).await;
    peer.answer(3, "still in step").await;
    assert_eq!(done(&mut c).await, "still in step");
}

#[tokio::test]
async fn u6_a_legacy_server_is_answered_at_once() {
    let (mux, mut peer) = pair(false);
    let _call = call(&mux).await;
    peer.heard().await;
    for (id, method) in
        [("7", "sampling/createMessage"), (r#""e""#, "elicitation/create"), ("8", "roots/list")]
    {
        peer.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#)).await;
        let answer = Raw::parse(Bytes::from(peer.heard().await), &Limits::ANSWER).unwrap();
        assert_eq!(answer.get("id").unwrap().as_str(), id);
        assert_eq!(answer.get("error").unwrap().get("code").unwrap().integer(), Some(-32601));
    }
    peer.say(r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#).await;
    assert_eq!(peer.heard().await, r#"{"jsonrpc":"2.0","id":9,"result":{}}"#);
    assert_eq!(mux.counts().refused_requests, 3);
}

#[tokio::test]
async fn u6_a_modern_server_s_request_is_dropped_without_an_answer() {
    let (mux, mut peer) = pair(true);
    mux.set_era(Era::Modern);
    let mut pending = call(&mux).await;
    peer.heard().await;
    peer.say(r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#).await;
    peer.say(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#).await;
    peer.answer(1, "fine").await;
    assert_eq!(done(&mut pending).await, "fine");
    assert_eq!(mux.counts().forbidden_requests, 2);
    assert!(peer.sent.try_recv().is_err(), "modern clients send no responses");
}

#[tokio::test]
async fn u13_progress_reaches_the_call_of_its_token_alone_and_never_falls() {
    let (mux, peer) = pair(true);
    let (mut a, mut b) = (call(&mux).await, call(&mux).await);
    let mut quiet = soon(mux.request(|_, _| Bytes::new(), false)).await.unwrap();
    for (token, value) in
        [("1", "0.5"), ("9", "1"), (r#""1""#, "1"), ("3", "1"), ("1", "0.4"), ("1", r#""2""#)]
    {
        peer.progress(token, value).await;
    }
    peer.say(
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"message":"no token"}}"#,
    )
    .await;
    peer.progress("1", "2").await;
    for id in 1..=3 {
        peer.answer(id, "end").await;
    }
    for value in [r#"{"progress":0.5}"#, r#"{"progress":2}"#] {
        match next(&mut a).await {
            Some(Ok(MuxEvent::Progress(params))) => assert_eq!(params.as_str(), value),
            other => panic!("{other:?}"),
        }
    }
    for pending in [&mut a, &mut b, &mut quiet] {
        assert_eq!(done(pending).await, "end");
    }
    assert_eq!(mux.counts().dropped_events, 6);
}

#[tokio::test]
async fn u13_a_flood_to_a_slow_consumer_is_bounded_and_blocks_nobody() {
    let (mux, peer) = pair(true);
    let (mut slow, mut other) = (call(&mux).await, call(&mux).await);
    for value in 0..20_000 {
        peer.progress("1", &value.to_string()).await;
    }
    peer.answer(1, "slow").await;
    peer.answer(2, "other").await;
    assert_eq!(done(&mut other).await, "other");
    let mut told = 0;
    loop {
        match next(&mut slow).await.unwrap().unwrap() {
            MuxEvent::Progress(_) => told += 1,
            MuxEvent::Done(_) => break,
            event => panic!("{event:?}"),
        }
    }
    assert!((1..=256).contains(&told), "{told} events were kept");
    assert_eq!(mux.counts().dropped_events, 20_000 - told);
}

#[tokio::test]
async fn an_answer_without_room_ends_its_call_with_the_reason() {
    let mut options = MuxOptions::new("s", true, 4096);
    options.buffered_bytes = 100;
    let (mux, peer) = start(options, false);
    let (mut a, mut b) = (call(&mux).await, call(&mux).await);
    peer.answer(1, &"x".repeat(200)).await;
    peer.answer(2, "small").await;
    assert_eq!(next(&mut a).await.unwrap().unwrap_err().kind, FaultKind::TooLarge);
    assert_eq!(done(&mut b).await, "small");
    let mut c = call(&mux).await;
    peer.answer(3, "room again").await;
    assert_eq!(done(&mut c).await, "room again");
}

#[tokio::test]
async fn a_log_on_a_shared_pipe_is_told_only_when_one_call_can_be_meant() {
    let (mux, mut peer) = pair(true);
    let mut a = call(&mux).await;
    peer.log("for a").await;
    assert!(matches!(next(&mut a).await, Some(Ok(MuxEvent::Log(_)))));
    let b = call(&mux).await;
    peer.log("whose").await;
    settled(&mut peer).await;
    drop(b);
    peer.log("perhaps the cancelled call's").await;
    peer.answer(1, "end").await;
    assert_eq!(done(&mut a).await, "end");
    peer.log("nobody's").await;
    settled(&mut peer).await;
    assert_eq!(mux.counts().dropped_events, 3);
}

#[tokio::test]
async fn a_log_on_a_session_s_pipe_goes_to_the_newest_call() {
    let (mux, peer) = pair(false);
    let (mut a, mut b) = (call(&mux).await, call(&mux).await);
    peer.log("b's").await;
    peer.answer(1, "end").await;
    peer.answer(2, "end").await;
    assert_eq!(done(&mut a).await, "end");
    assert!(matches!(next(&mut b).await, Some(Ok(MuxEvent::Log(_)))));
}

#[tokio::test]
async fn a_call_given_up_is_cancelled_at_the_server_but_initialize_never_is() {
    let (mux, mut peer) = pair(false);
    let greeting = soon(mux.initialize(|id| id.raw().into_bytes())).await.unwrap();
    assert_eq!(peer.heard().await, "1");
    drop(greeting);
    drop(call(&mux).await);
    peer.heard().await;
    let cancelled = Raw::parse(Bytes::from(peer.heard().await), &Limits::ANSWER).unwrap();
    assert_eq!(cancelled.get("method").unwrap().string().unwrap(), "notifications/cancelled");
    assert_eq!(cancelled.get("params").unwrap().get("requestId").unwrap().as_str(), "2");
    let mut finished = call(&mux).await;
    peer.heard().await;
    peer.answer(3, "end").await;
    settled(&mut peer).await;
    drop(finished.next());
    drop(finished);
    settled(&mut peer).await;
    assert!(peer.sent.try_recv().is_err(), "an answered call is not cancelled");
}

#[tokio::test]
async fn a_caller_that_leaves_while_sending_cancels_too() {
    let (mux, mut peer) = start(MuxOptions::new("s", false, 4096), true);
    let caller = tokio::spawn({
        let mux = mux.clone();
        async move { mux.request(|id, _| id.raw().into_bytes(), false).await.map(drop) }
    });
    assert_eq!(peer.heard().await, "1");
    caller.abort();
    assert!(peer.heard().await.contains("notifications/cancelled"));
    assert_eq!(mux.in_flight(), 0);
}

#[tokio::test]
async fn changes_are_announced_and_nothing_else_is() {
    let (mux, mut peer) = pair(true);
    let mut changes = mux.changes();
    for list in ["tools", "prompts", "resources"] {
        peer.say(format!(r#"{{"jsonrpc":"2.0","method":"notifications/{list}/list_changed"}}"#)).await;
    }
    for change in [Change::Tools, Change::Prompts, Change::Resources] {
        assert_eq!(soon(changes.recv()).await.unwrap(), change);
    }
    peer.say(r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"file:///x"}}"#)
        .await;
    settled(&mut peer).await;
    assert!(changes.try_recv().is_err());
    assert_eq!(mux.counts().dropped_events, 1);
}

#[tokio::test]
async fn large_messages_are_taken_whole_and_in_order() {
    let (mux, peer) = start(MuxOptions::new("s", true, 2 << 20), false);
    let (mut a, mut b) = (call(&mux).await, call(&mux).await);
    let long = "x".repeat(1 << 20);
    peer.progress("1", "1").await;
    peer.answer(1, &long).await;
    peer.answer(2, "small").await;
    assert_eq!(done(&mut b).await, "small");
    assert!(matches!(next(&mut a).await, Some(Ok(MuxEvent::Progress(_)))));
    assert_eq!(done(&mut a).await, long);
    let mut c = call(&mux).await;
    peer.say(format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"x":"{long}"}}"#)).await;
    assert_eq!(next(&mut c).await.unwrap().unwrap_err().kind, FaultKind::Protocol);
}

#[tokio::test]
async fn a_clean_end_drops_the_calls_and_the_last_handle_closes_the_pipe() {
    let (mux, mut peer) = pair(true);
    let mut pending = call(&mux).await;
    let (to, _) = mpsc::channel(1);
    drop(std::mem::replace(&mut peer.to, to));
    let fault = next(&mut pending).await.unwrap().unwrap_err();
    assert!(fault.kind == FaultKind::Dropped && fault.dispatched);
    assert!(peer.grace().await > Duration::ZERO);

    let (mux, mut peer) = pair(true);
    let pending = call(&mux).await;
    drop(mux);
    assert!(peer.closed.borrow().is_none(), "a pending call holds the mux");
    drop(pending);
    assert!(peer.grace().await > Duration::ZERO);
}

#[tokio::test]
async fn close_ends_the_calls_and_gives_the_pipe_its_own_time() {
    let (mux, mut peer) = pair(true);
    let mut pending = call(&mux).await;
    soon(mux.close(Duration::from_secs(77))).await;
    assert_eq!(next(&mut pending).await.unwrap().unwrap_err().kind, FaultKind::Dropped);
    assert_eq!(peer.grace().await, Duration::from_secs(77));
    assert!(soon(mux.notify("notifications/initialized", None)).await.is_err());
}

#[tokio::test]
async fn calls_in_flight_are_capped() {
    let mut options = MuxOptions::new("s", true, 4096);
    options.calls = 1;
    let (mux, peer) = start(options, false);
    let mut first = call(&mux).await;
    let fault = soon(mux.request(|_, _| Bytes::new(), false)).await.err().unwrap();
    assert!(!fault.dispatched && fault.detail.contains("1 calls in flight"), "{fault}");
    peer.answer(1, "end").await;
    assert_eq!(done(&mut first).await, "end");
    call(&mux).await;
}
