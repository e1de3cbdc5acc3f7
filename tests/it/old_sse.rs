//! Servers of the oldest transport: a GET stream that names an endpoint, and answers on that stream.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::peer::{Peer, Rpc, Sink};
use tollgate_tests::scripted::{Out, Scripted, Seen};
use tollgate_tests::wait;

use crate::support::{http, yaml};

struct ToStream(Sender<String>);

impl Sink for ToStream {
    fn emit(&mut self, message: String) {
        let _ = self.0.send(message);
    }

    fn gone(&mut self) -> bool {
        false
    }
}

#[derive(Default)]
struct Streams {
    open: Mutex<HashMap<String, Sender<String>>>,
}

impl Streams {
    fn get(&self, out: &mut Out<'_>, endpoint: &str) {
        let (sender, messages) = channel();
        let id = format!("s{}", self.open.lock().len());
        self.open.lock().insert(id.clone(), sender);
        out.stream(&[]);
        out.chunk(format!("event: endpoint\ndata: {}\n\n", endpoint.replace("ID", &id)));
        while !out.gone() {
            match messages.recv_timeout(Duration::from_millis(20)) {
                Ok(message) => out.event(&message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }

    fn post(&self, seen: &Seen, peer: &Arc<Peer>, out: &mut Out<'_>) {
        let id = seen.path.split("s=").nth(1).unwrap_or_default().to_owned();
        let Some(sender) = self.open.lock().get(&id).cloned() else {
            out.reply(404, &[], "");
            return;
        };
        let (peer, rpc) = (Arc::clone(peer), Rpc::parse(&seen.body));
        let slow = rpc.method == "tools/call";
        let work = std::thread::spawn(move || peer.handle(&rpc, &id, &mut ToStream(sender)));
        if !slow {
            let _ = work.join();
        }
        out.reply(202, &[], "");
    }
}

/// An old server whose stream names `endpoint` (`ID` becomes the session).
fn old(endpoint: &'static str) -> (Scripted, Arc<Peer>) {
    let peer = Arc::new(Peer::legacy("old").revision("2024-11-05"));
    let (inside, streams) = (Arc::clone(&peer), Streams::default());
    let server = Scripted::start(move |seen, out| match seen.method.as_str() {
        "GET" => streams.get(out, endpoint),
        "POST" if seen.path.starts_with("/messages") => streams.post(seen, &inside, out),
        _ => out.reply(405, &[("Allow", "GET")], ""),
    });
    (server, peer)
}

#[test]
fn old_servers_are_found_and_served_to_both_eras() {
    for kind in ["", ", type: sse"] {
        let (up, peer) = old("/messages?s=ID");
        let gateway = Gateway::start(&yaml("", &[http("up", &up, kind)]));
        let modern = gateway.modern().server("up").call("echo", r#"{"a":1.0}"#);
        assert_eq!(modern.result()["structuredContent"]["server"], "old", "{}", modern.text());
        let legacy = Legacy::server(gateway.addr, "up");
        assert_eq!(legacy.call("count", "{}").result()["content"][0]["text"], "1");
        assert_eq!(legacy.call("count", "{}").result()["content"][0]["text"], "2");
        assert_eq!(legacy.names("tools/list").len(), 12);
        let status = gateway.server_status("up");
        assert_eq!(status["transport"], "sse", "{status}");
        assert_eq!(status["revision"], "2024-11-05", "{status}");
        assert!(peer.violations().is_empty(), "{:?}", peer.violations());
        assert!(
            up.seen()
                .iter()
                .filter(|s| s.method == "POST" && s.path.starts_with("/messages"))
                .all(|s| s.header("mcp-session-id").is_none())
        );
    }
}

#[test]
fn progress_comes_through_an_old_stream() {
    let (up, _peer) = old("/messages?s=ID");
    let gateway = Gateway::start(&yaml("", &[http("up", &up, ", type: sse")]));
    let answer =
        gateway.modern().server("up").meta("progressToken", "9").call("progress", r#"{"steps":3,"ms":5}"#);
    assert_eq!(answer.notifications().len(), 3, "{}", answer.text());
    assert!(answer.notifications().iter().all(|n| n["params"]["progressToken"] == 9));
}

#[test]
fn an_endpoint_elsewhere_is_never_posted_to() {
    let elsewhere = Scripted::json(Peer::modern("elsewhere"));
    let target: &'static str = Box::leak(format!("http://{}/messages?s=ID", elsewhere.addr).into_boxed_str());
    for endpoint in
        [target, "//evil.example/messages?s=ID", "file:///etc/passwd", "", "http://user@127.0.0.1:1/m"]
    {
        let (up, _peer) = old(endpoint);
        let entry = http("up", &up, ", type: sse, timeouts: { connect: 1s, initialize: 2s }");
        let gateway = Gateway::start(&yaml("", &[entry]));
        let answer = gateway.modern().server("up").call("echo", "{}");
        assert!(answer.code().is_some_and(|c| (7001..=7006).contains(&c)), "{endpoint}: {}", answer.text());
    }
    assert!(elsewhere.seen().is_empty(), "posted to another origin");
}

#[test]
fn a_cut_stream_is_made_again() {
    let (up, _peer) = old("/messages?s=ID");
    let gateway = Gateway::start(&yaml("", &[http("up", &up, ", type: sse")]));
    let client = gateway.modern().server("up");
    client.call("echo", "{}").result();
    up.cut();
    wait::until("a new stream", || client.call("echo", "{}").code().is_none());
}
