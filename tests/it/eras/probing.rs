//! How the gateway finds out a server's era, and what happens when it changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait;

use super::Dir;
use crate::support::{Bench, child, http, read, yaml};

#[test]
fn the_era_is_probed_once_and_remembered() {
    for (bench, era) in [(Bench::modern(), "modern"), (Bench::legacy(), "legacy")] {
        for _ in 0..5 {
            bench.client().call("echo", "{}").result();
        }
        let probes = bench.up.count("server/discover");
        assert!((1..=2).contains(&probes), "{era}: {probes} probes");
        let status = bench.gateway.server_status("up");
        assert_eq!(status["era"], era, "{status}");
        assert_eq!(status["state"], "connected", "{status}");
        assert_eq!(status["transport"], "http", "{status}");
    }
}

#[test]
fn http_servers_that_answer_a_probe_in_their_own_ways_are_legacy() {
    for (what, status, body) in [
        (
            "400 -32000",
            400,
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}"#,
        ),
        ("400 without body", 400, ""),
        ("400 HTML", 400, "<html>no</html>"),
        ("404", 404, ""),
        (
            "200 -32601",
            200,
            r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"Method not found"}}"#,
        ),
        (
            "200 -32602",
            200,
            r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"Invalid request parameters"}}"#,
        ),
        (
            "400 -32600 Missing session",
            400,
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: Missing session ID"}}"#,
        ),
        ("422", 422, r#"{"detail":"no"}"#),
    ] {
        let up = Scripted::carried(Peer::legacy("up"), Carrier::Sse, move |seen, out| {
            let mine = seen.is("server/discover");
            if mine {
                out.json(status, body.replace("ID", &seen.rpc().id.unwrap_or_default()));
            }
            mine
        });
        let bench = Bench::of(up, "", "");
        assert_eq!(bench.client().call("echo", "{}").result()["isError"], false, "{what}");
        assert_eq!(bench.gateway.server_status("up")["era"], "legacy", "{what}");
        bench.up.assert_clean();
    }
}

#[test]
fn a_modern_server_of_other_versions_is_not_taken_for_a_legacy_one() {
    let up = Scripted::start(|seen, out| {
        let rpc = seen.rpc();
        let id = rpc.id.unwrap_or("null".into());
        out.json(400, format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32022,"message":"Unsupported protocol version","data":{{"supported":["2031-01-01"],"requested":"2026-07-28"}}}}}}"#
        ));
    });
    let gateway = Gateway::start(&yaml("", &[http("up", &up, "")]));
    let answer = gateway.modern().server("up").call("echo", "{}");
    assert!(answer.code().is_some_and(|c| (7001..=7004).contains(&c)), "{}", answer.text());
    assert_eq!(up.count("initialize"), 0, "fell back to the handshake of a legacy server");
}

#[test]
fn stdio_servers_that_dislike_the_probe_are_legacy() {
    for bad in ["exits-on-discover", "mute-on-discover", "none"] {
        let args = ["--era", "legacy", "--name", "up", "--bad", bad];
        let gateway = Gateway::start(&yaml("", &[child("up", &args, ", timeouts: { initialize: 3s }")]));
        let start = Instant::now();
        let answer = gateway.modern().server("up").call("echo", "{}");
        assert_eq!(answer.result()["isError"], false, "{bad}: {}", answer.text());
        assert!(start.elapsed() < Duration::from_secs(15), "{bad}: {:?}", start.elapsed());
        assert_eq!(gateway.server_status("up")["era"], "legacy", "{bad}");
    }
}

#[test]
fn a_stdio_server_that_changes_era_after_a_restart_is_noticed() {
    let dir = Dir::new();
    let (flip, log) = (dir.file("flip"), dir.file("log"));
    let args = ["--name", "up", "--log", &log.to_string_lossy(), "--flip", &flip.to_string_lossy()];
    let gateway = Gateway::start(&yaml("", &[child("up", &args, ", isolation: shared")]));
    let client = gateway.modern().server("up");
    client.call("echo", "{}").result();
    assert_eq!(gateway.server_status("up")["era"], "legacy");
    std::fs::write(&flip, "").expect("write");
    let _ = client.call("crash", "{}");
    wait::until("the modern era", || {
        client.call("echo", "{}").code().is_none() && gateway.server_status("up")["era"] == "modern"
    });
    let log = read(&log);
    let calls: Vec<&str> = log.lines().filter(|l| l.contains("tools/call")).collect();
    assert!(calls.last().is_some_and(|l| l.contains("io.modelcontextprotocol/protocolVersion")), "{calls:?}");
}

fn era_change(first: Peer, second: Peer, era: &str) {
    let up = Scripted::json(first);
    let addr = up.addr;
    let gateway = Gateway::start(&yaml("lists: { ttl: 1s }\n", &[http("up", &up, "")]));
    let client = gateway.modern().server("up");
    client.call("echo", "{}").result();
    up.die();
    drop(up);
    let again = Scripted::at(addr, second, Carrier::Json, |_, _| false);
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = client.call("echo", "{}");
        if answer.code().is_none() {
            break;
        }
        assert!(
            Instant::now() < end,
            "still not noticed: {}; the server saw {:?}",
            answer.text(),
            again.seen().last()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    wait::until("the status", || gateway.server_status("up")["era"] == era);
    assert!(again.count("tools/call") > 0);
    assert_eq!(Legacy::server(gateway.addr, "up").call("echo", "{}").result()["isError"], false);
}

#[test]
fn an_http_server_that_becomes_modern_is_noticed() {
    era_change(Peer::legacy("up"), Peer::modern("up"), "modern");
}

#[test]
fn an_http_server_that_becomes_legacy_is_noticed() {
    era_change(Peer::modern("up"), Peer::legacy("up"), "legacy");
}

#[test]
fn a_probe_has_a_deadline_and_runs_once_for_many() {
    let up = Scripted::start(|_, out| {
        out.wait_gone(Duration::from_secs(60));
        out.close();
    });
    let gateway = Gateway::start(&yaml(
        "",
        &[http("up", &up, ", timeouts: { connect: 1s, initialize: 2s, lists: 2s }")],
    ));
    let start = Instant::now();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let client = gateway.modern().server("up");
            std::thread::spawn(move || client.call("echo", "{}").code())
        })
        .collect();
    for thread in threads {
        let code = thread.join().expect("no panic");
        assert!(code == Some(7002) || code == Some(7001), "{code:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    assert!(up.seen().len() <= 8, "{} probes for eight calls", up.seen().len());
}

#[test]
fn an_unused_flag_never_makes_a_session() {
    // The old HTTP+SSE transport: GET gives the endpoint, answers come on that stream.
    let ready = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ready);
    let up = Scripted::start(move |seen, out| match seen.method.as_str() {
        "GET" => {
            flag.store(true, Ordering::SeqCst);
            out.stream(&[]);
            out.chunk("event: endpoint\ndata: /messages?s=1\n\n");
            out.park();
        }
        _ if seen.path.starts_with("/messages") => out.reply(202, &[], ""),
        _ => out.reply(405, &[("Allow", "GET")], ""),
    });
    let gateway =
        Gateway::start(&yaml("", &[http("up", &up, ", timeouts: { connect: 1s, initialize: 2s }")]));
    let answer = gateway.modern().server("up").call("echo", "{}");
    assert!(answer.code().is_some_and(|c| (7001..=7004).contains(&c)), "{}", answer.text());
    assert!(ready.load(Ordering::SeqCst), "the old transport was never tried");
    assert!(
        up.seen().iter().any(|s| s.path.starts_with("/messages") && s.is("initialize")),
        "{:?}",
        up.seen()
    );
}
