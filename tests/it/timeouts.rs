//! Deadlines of calls, by configuration. The default ones are looked at by `check` alone.

use std::time::{Duration, Instant};

use tollgate_tests::client::{Client, Legacy, call_params, with_member};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait;

use crate::eras::Dir;
use crate::support::{Bench, child, http, read, yaml};

fn took(limit: (u64, u64), call: impl FnOnce() -> Option<i64>) -> Option<i64> {
    let start = Instant::now();
    let code = call();
    let took = start.elapsed();
    let (from, to) = (Duration::from_millis(limit.0), Duration::from_millis(limit.1));
    assert!(took >= from && took < to, "took {took:?}, not {from:?}..{to:?}");
    code
}

#[test]
fn a_call_without_a_sign_of_life_ends_at_the_idle_limit() {
    for up in [Scripted::json(Peer::modern("up")), Scripted::sse(Peer::legacy("up"))] {
        let bench = Bench::of(up, "", ", timeouts: { call_idle: 1s, call_total: 30s }");
        bench.client().names("tools/list");
        let code = took((800, 6000), || bench.client().call("slow", r#"{"ms":20000}"#).code());
        assert_eq!(code, Some(7002));
        wait::until("the server to be told", || {
            !bench.up.peer().stopped().is_empty() || !bench.up.peer().cancelled().is_empty()
        });
        let legacy = Legacy::server(bench.gateway.addr, "up");
        assert_eq!(took((800, 6000), || legacy.call("slow", r#"{"ms":20000}"#).code()), Some(7002));
        bench.up.assert_clean();
    }
}

#[test]
fn progress_extends_the_idle_limit_and_never_the_total_one() {
    let up = Scripted::sse(Peer::modern("up"));
    let bench = Bench::of(up, "", ", timeouts: { call_idle: 1s, call_total: 4s }");
    bench.client().names("tools/list");
    let client = bench.client().meta("progressToken", "1");
    let fine = client.call("progress", r#"{"steps":5,"ms":500}"#);
    assert_eq!(fine.result()["content"][0]["text"], "all steps done", "{}", fine.text());
    let code = took((3500, 9000), || client.call("progress", r#"{"steps":100,"ms":300}"#).code());
    assert_eq!(code, Some(7002));
}

#[test]
fn single_tools_have_limits_of_their_own() {
    let up = Scripted::json(Peer::modern("up"));
    let bench = Bench::of(
        up,
        "",
        ", timeouts: { call_idle: 1s }, tools: { \"sl*\": { timeouts: { call_idle: 10s } } }",
    );
    bench.client().names("tools/list");
    assert_eq!(bench.client().call("slow", r#"{"ms":1800}"#).code(), None, "the tool's own limit is longer");
    let quiet = Scripted::json(Peer::modern("up"));
    let bench = Bench::of(quiet, "", ", tools: { slow: { timeouts: { call_idle: 1s, call_total: 1s } } }");
    bench.client().names("tools/list");
    assert_eq!(took((800, 6000), || bench.client().call("slow", r#"{"ms":20000}"#).code()), Some(7002));
}

#[test]
fn reads_and_lists_have_their_limits() {
    let up = Scripted::carried(Peer::modern("up"), tollgate_tests::scripted::Carrier::Json, |seen, out| {
        let mine = ["resources/read", "prompts/get", "completion/complete", "resources/templates/list"];
        let mine = mine.iter().any(|method| seen.is(method));
        if mine {
            out.wait_gone(Duration::from_secs(30));
            out.close();
        }
        mine
    });
    let bench = Bench::of(up, "", ", timeouts: { reads: 1s, lists: 1s }");
    bench.client().names("tools/list");
    let send = |method: &str, params: &str| bench.client().send(method, params).code();
    let read = || send("resources/read", r#"{"uri":"file:///notes/a.txt"}"#);
    assert_eq!(took((800, 6000), read), Some(7002));
    assert_eq!(took((800, 6000), || send("prompts/get", r#"{"name":"greet"}"#)), Some(7002));
    let params = r#"{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"x"}}"#;
    assert_eq!(took((800, 6000), || send("completion/complete", params)), Some(7002));
    let start = Instant::now();
    assert_eq!(send("resources/templates/list", "{}"), Some(7002));
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
    assert_eq!(send("tools/list", "{}"), None, "one slow list costs no other");
}

#[test]
fn children_that_say_nothing_meet_the_limits_too() {
    let dir = Dir::new();
    let log = dir.file("log");
    let args = ["--era", "legacy", "--log", &log.to_string_lossy(), "--bad", "silent-calls"];
    let gateway = Gateway::start(&yaml("", &[child("up", &args, ", timeouts: { call_idle: 1s }")]));
    let client = Legacy::server(gateway.addr, "up");
    assert_eq!(took((800, 8000), || client.call("echo", "{}").code()), Some(7002));
    wait::until("the child to be told", || read(&log).contains("notifications/cancelled"));
    let mute = Gateway::start(&yaml(
        "",
        &[child("up", &["--bad", "silent"], ", timeouts: { connect: 1s, initialize: 1s }")],
    ));
    let start = Instant::now();
    let code = mute.modern().server("up").call("echo", "{}").code();
    assert!(matches!(code, Some(7001 | 7002)), "{code:?}");
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
}

#[test]
fn idle_streams_get_comments_that_keep_them_open() {
    let up = Scripted::sse(Peer::legacy("up"));
    let gateway = Gateway::start(&yaml("", &[http("up", &up, "")]));
    let client = Legacy::server(gateway.addr, "up");
    let params =
        with_member(&call_params("progress", r#"{"steps":2,"ms":400}"#), "_meta", r#"{"progressToken":1}"#);
    let mut stream = client.request("tools/call", &params).open(gateway.addr);
    assert_eq!(stream.header("cache-control").map(|v| v.contains("no-")), Some(true), "{:?}", stream.headers);
    let first = stream.event(wait::LONG).expect("a stream").expect("an event");
    assert!(first.data.is_some() || first.comments > 0);
}
