//! Legacy servers as they are met outside: stateless ones, older revisions, pings, streams that are resumed.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tollgate_tests::client::{Client, LEGACY, Legacy};
use tollgate_tests::http::Request;
use tollgate_tests::json;
use tollgate_tests::peer::{Peer, Rpc, Sink};
use tollgate_tests::scripted::{Carrier, Out, Scripted};
use tollgate_tests::wait;

use crate::support::Bench;

#[derive(Default)]
struct Kept(Vec<String>);

impl Sink for Kept {
    fn emit(&mut self, message: String) {
        self.0.push(message);
    }

    fn gone(&mut self) -> bool {
        false
    }
}

/// Answers by the peer without any session.
fn stateless(peer: &Peer, rpc: &Rpc, out: &mut Out<'_>) {
    if rpc.method == "server/discover" {
        out.json(200, rpc.error(-32601, "Method not found"));
        return;
    }
    let mut kept = Kept::default();
    peer.handle(rpc, "", &mut kept);
    match kept.0.pop() {
        Some(answer) => out.json(200, answer),
        None => out.reply(202, &[], ""),
    }
}

#[test]
fn servers_without_sessions_are_served() {
    let peer = Arc::new(Peer::legacy("up"));
    let inside = Arc::clone(&peer);
    let up = Scripted::start(move |seen, out| match seen.method.as_str() {
        "POST" => stateless(&inside, &seen.rpc(), out),
        _ => out.reply(405, &[("Allow", "POST")], ""),
    });
    let bench = Bench::of(up, "", "");
    for client in
        [Box::new(bench.client()) as Box<dyn Client>, Box::new(Legacy::server(bench.gateway.addr, "up"))]
    {
        assert_eq!(client.call("echo", "{}").result()["isError"], false);
        assert_eq!(client.names("tools/list").len(), 12);
    }
    assert!(
        bench.up.seen().iter().all(|s| s.header("mcp-session-id").is_none()),
        "a session id out of nowhere"
    );
    assert!(bench.up.seen().iter().all(|s| s.method != "DELETE"));
}

#[test]
fn older_revisions_are_agreed_to_and_kept() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY] {
        let bench = Bench::of(Scripted::json(Peer::legacy("up").revision(revision)), "", "");
        assert_eq!(bench.client().call("echo", "{}").result()["isError"], false, "{revision}");
        assert_eq!(bench.gateway.server_status("up")["revision"], revision);
        let call = bench.up.seen_of("tools/call").pop().expect("the call");
        if revision >= "2025-06-18" {
            assert_eq!(call.header("mcp-protocol-version"), Some(revision));
        }
        bench.up.assert_clean();
    }
}

#[test]
fn a_revision_that_nobody_knows_is_refused() {
    let bench = Bench::of(Scripted::json(Peer::legacy("up").revision("2099-01-01")), "", "");
    let answer = bench.client().call("echo", "{}");
    assert!(answer.code().is_some_and(|c| (7001..=7004).contains(&c)), "{}", answer.text());
    assert_eq!(bench.up.count("tools/call"), 0, "called in a revision that was not agreed");
}

#[test]
fn odd_answers_to_notifications_harm_nothing() {
    for (status, body) in [(200, ""), (200, "{}"), (204, ""), (202, "accepted")] {
        let up = Scripted::carried(Peer::legacy("up"), Carrier::Json, move |seen, out| {
            let mine = seen.is("notifications/initialized");
            if mine && status == 204 {
                out.raw("HTTP/1.1 204 No Content\r\n\r\n");
            } else if mine {
                out.json(status, body);
            }
            mine
        });
        let bench = Bench::of(up, "", "");
        assert_eq!(bench.client().call("echo", "{}").result()["isError"], false, "{status} {body:?}");
    }
}

#[test]
fn pings_of_a_server_are_answered_for_the_client() {
    let up = Scripted::carried(Peer::legacy("up"), Carrier::Sse, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            out.stream(&[]);
            out.event(r#"{"jsonrpc":"2.0","id":"ping-1","method":"ping"}"#);
            std::thread::sleep(Duration::from_millis(200));
            out.event(&seen.rpc().result(r#"{"content":[]}"#));
            out.end();
        }
        mine
    });
    let bench = Bench::of(up, "", "");
    bench.client().call("echo", "{}").result();
    wait::until("the answer to the ping", || {
        bench.up.seen().iter().any(|s| {
            json::at(&s.body, &["id"]) == Some(json!("ping-1"))
                && json::at(&s.body, &["result"]) == Some(json!({}))
        })
    });
}

#[test]
fn a_stream_that_its_server_closes_early_is_resumed() {
    let answer = Arc::new(Mutex::new(String::new()));
    let waiting = Arc::clone(&answer);
    let up = Scripted::carried(Peer::legacy("up"), Carrier::Sse, move |seen, out| {
        if seen.is("tools/call") {
            *waiting.lock() = seen.rpc().result(r#"{"content":[{"type":"text","text":"resumed"}]}"#);
            out.stream(&[]);
            out.chunk("id: event-1\nretry: 200\ndata:\n\n");
            out.end();
            return true;
        }
        if seen.method == "GET" && seen.header("last-event-id") == Some("event-1") {
            out.stream(&[]);
            out.chunk(format!("id: event-2\ndata: {}\n\n", waiting.lock()));
            out.end();
            return true;
        }
        false
    });
    let bench = Bench::of(up, "", ", timeouts: { call_idle: 8s, call_total: 15s }");
    for client in
        [Box::new(bench.client()) as Box<dyn Client>, Box::new(Legacy::server(bench.gateway.addr, "up"))]
    {
        let got = client.call("echo", "{}");
        assert_eq!(got.result()["content"][0]["text"], "resumed", "{}", got.text());
    }
    assert_eq!(bench.up.count("tools/call"), 2, "the call itself is never repeated");
    bench.up.assert_clean();
}

#[test]
fn the_clients_stream_ends_with_its_session() {
    let bench = Bench::legacy();
    let client = bench.gateway.legacy();
    let get = Request::new("GET", "/mcp").header("Accept", "text/event-stream");
    let stream = client.dress(get.clone().header("Last-Event-ID", "never-was")).open(bench.gateway.addr);
    assert_eq!(stream.status, 200);
    assert_eq!(client.delete().status, 200);
    let end = stream.try_finish(Duration::from_secs(10));
    assert!(end.is_ok(), "the stream of a closed session: {end:?}");
    assert_eq!(client.dress(get).send(bench.gateway.addr).status, 404);
}
