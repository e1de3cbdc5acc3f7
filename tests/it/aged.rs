//! Tests that have to let time pass, up to a minute. They stand first, so that the others run beside them.

use std::time::Duration;

use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::http::Request;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait;

use crate::support::{Bench, SEAL_A, http, sealed};

#[test]
fn a24_expired_session_ids_are_404() {
    let up = Scripted::json(Peer::legacy("up"));
    let gateway = sealed("legacy: { session_ttl: 1m }\n", &[http("up", &up, "")], &[SEAL_A]);
    let client = Legacy::server(gateway.addr, "up");
    assert_eq!(client.send("ping", "{}").status, 200);
    std::thread::sleep(Duration::from_secs(50));
    assert_eq!(client.send("ping", "{}").status, 200, "ten seconds too early");
    wait::within(Duration::from_secs(30), "the id to expire", || client.send("ping", "{}").status == 404);
    assert_eq!(Legacy::server(gateway.addr, "up").call("echo", "{}").status, 200);
}

#[test]
fn peer_15_idle_streams_are_kept_alive() {
    let up = Scripted::sse(Peer::legacy("up"));
    let bench = Bench::of(up, "", "");
    let client = Legacy::server(bench.gateway.addr, "up");
    let get = client.dress(Request::new("GET", "/servers/up/mcp").header("Accept", "text/event-stream"));
    let mut stream = get.open(bench.gateway.addr);
    assert_eq!(stream.status, 200);
    let seen = stream.event(Duration::from_secs(32)).expect("a comment in time").expect("an open stream");
    assert!(seen.comments > 0 || seen.data.is_some(), "{seen:?}");
}
