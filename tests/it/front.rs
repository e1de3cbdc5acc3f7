//! Cases H10 to H17: who may ask at all, what the endpoint is, and who leaves. Nothing refused reaches a server.

use std::time::{Duration, Instant};

use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::http::{Conn, Request};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait;

use crate::support::Bench;

const SOON: Duration = Duration::from_secs(10);

#[test]
fn h10_foreign_origins_are_forbidden() {
    let up = Scripted::json(Peer::modern("up"));
    let bench = Bench::of(up, "origins: [\"https://good.example\"]\n", "");
    for origin in [
        "https://evil.example",
        "null",
        "https://good.example.evil.tld",
        "https://good.example.",
        "HTTPS://GOOD.EXAMPLE",
        "https://good.example:8443",
        "https://xn--good-example",
        "http://good.example",
        "https://good.example/",
        "",
        "https://sub.good.example",
    ] {
        bench.refuses(&format!("Origin {origin}"), &bench.good().header("Origin", origin), &[403], None);
    }
    let twice =
        bench.good().header("Origin", "https://good.example").header("Origin", "https://evil.example");
    bench.refuses("two origins", &twice, &[400, 403], None);
    let allowed = bench.good().header("Origin", "https://good.example").send(bench.gateway.addr);
    assert_eq!(allowed.status, 200, "{}", allowed.text());
    bench.still_works();
}

#[test]
fn h11_foreign_hosts_are_refused() {
    let bench = Bench::modern();
    for host in
        ["attacker.tld", "attacker.tld:80", "localhost.attacker.tld", "127.0.0.1.nip.io", "[::2]", "0.0.0.0"]
    {
        bench.refuses(host, &bench.good().header("Host", host), &[400, 403, 421], None);
    }
    let port = bench.gateway.addr.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("LOCALHOST:{port}")] {
        let answer = bench.good().header("Host", &host).send(bench.gateway.addr);
        assert_eq!(answer.status, 200, "{host}: {}", answer.text());
    }
}

#[test]
fn h12_the_modern_era_has_no_get_no_delete_and_no_sessions() {
    let bench = Bench::modern();
    let accept = |r: Request| r.header("Accept", "text/event-stream, application/json");
    bench.refuses("GET", &accept(Request::new("GET", "/mcp")), &[405], None);
    bench.refuses("DELETE", &accept(Request::new("DELETE", "/mcp")), &[405], None);
    bench.refuses("PUT", &accept(Request::new("PUT", "/mcp")), &[405], None);
    let dressed = bench.good().header("Mcp-Session-Id", "stolen-session").header("Last-Event-ID", "event-77");
    let answer = dressed.send(bench.gateway.addr);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.header("mcp-session-id").is_none(), "minted or echoed");
    for seen in bench.up.seen() {
        assert!(!seen.text().contains("stolen-session") && !seen.text().contains("event-77"), "{seen:?}");
    }
}

#[test]
fn h13_content_type_and_accept_are_checked() {
    let bench = Bench::modern();
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=utf-16",
        "",
        "multipart/form-data",
    ] {
        bench.refuses(kind, &bench.good().set("Content-Type", kind), &[415], None);
    }
    bench.refuses("no type", &bench.good().without("Content-Type"), &[415], None);
    for accept in
        ["application/json", "text/event-stream", "text/html", "application/json, text/event-stream;q=0"]
    {
        bench.refuses(accept, &bench.good().set("Accept", accept), &[406], None);
    }
    let any = bench.good().set("Accept", "*/*").send(bench.gateway.addr);
    assert_eq!(any.status, 200, "{}", any.text());
    let utf8 = bench.good().set("Content-Type", "application/json; charset=UTF-8").send(bench.gateway.addr);
    assert_eq!(utf8.status, 200, "{}", utf8.text());
}

#[test]
fn h14_encoded_bodies_are_refused() {
    let bench = Bench::modern();
    let before = bench.gateway.rss_kib();
    for coding in ["gzip", "deflate", "br", "zstd", "gzip, gzip", "x-unknown"] {
        let bomb = bench.good().header("Content-Encoding", coding).body(vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
        bench.refuses(coding, &bomb, &[415], None);
    }
    assert!(bench.gateway.rss_kib() < before + 16 * 1024, "memory grew");
}

#[test]
fn h16_paths_are_taken_as_sent_and_no_header_opens_a_door() {
    let bench = Bench::modern();
    for path in [
        "/mcp/../admin",
        "//mcp",
        "/%2e%2e/mcp",
        "/mcp;x",
        "/mcp/",
        "/MCP",
        "/%6dcp",
        "/servers//mcp",
        "/servers/UP/mcp",
        "/servers/up/mcp/../../../healthz",
        "/healthz",
        "/metrics",
        "/status",
        "/",
        "/servers/up%2f/mcp",
        "*",
    ] {
        bench.refuses(path, &bench.good().path(path), &[400, 404], None);
    }
    let internal = bench
        .good()
        .header("X-Gw-Server", "admin")
        .header("X-Tollgate-Principal", "root")
        .header("Tollgate-Internal", "1")
        .header("X-Original-URL", "/status")
        .header("X-Forwarded-User", "root");
    let answer = internal.send(bench.gateway.addr);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = bench.up.seen_of("tools/call").pop().expect("the call");
    for name in
        ["x-gw-server", "x-tollgate-principal", "tollgate-internal", "x-original-url", "x-forwarded-user"]
    {
        assert!(seen.header(name).is_none(), "{name} reached the server");
    }
}

#[test]
fn h16_data_and_admin_never_share_a_port() {
    let bench = Bench::modern();
    wait::until("readiness", || bench.gateway.admin("/readyz").status == 200);
    for path in ["/healthz", "/readyz", "/metrics", "/status"] {
        assert_eq!(bench.gateway.admin(path).status, 200, "{path} on the admin listener");
        assert_eq!(
            Request::new("GET", path).send(bench.gateway.addr).status,
            404,
            "{path} on the data listener"
        );
    }
    let there = bench.good().send(bench.gateway.admin).status;
    assert!([404, 405].contains(&there), "/mcp on the admin listener: {there}");
}

#[test]
fn h17_a_modern_client_that_leaves_cancels_at_once() {
    let bench = Bench::modern();
    let slow = bench.client().request("tools/call", r#"{"name":"slow","arguments":{"ms":20000}}"#);
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(&slow.wire(&bench.gateway.addr.to_string()));
    wait::until("the call at the server", || bench.up.count("tools/call") == 1);
    drop(conn);
    wait::within(SOON, "the server to see the end", || bench.up.peer().stopped() == ["slow"]);
    bench.gateway.assert_alive();
    bench.still_works();
}

#[test]
fn h17_a_half_closed_client_still_gets_its_answer_or_is_cancelled() {
    let bench = Bench::modern();
    let request = bench.client().request("tools/call", r#"{"name":"slow","arguments":{"ms":2000}}"#);
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(&request.wire(&bench.gateway.addr.to_string()));
    conn.half_close();
    match conn.try_answer(SOON) {
        Ok(answer) => assert_eq!(answer.status, 200),
        Err(_) => wait::within(SOON, "the cancellation", || {
            bench.up.calls() == 0 || bench.up.peer().stopped() == ["slow"]
        }),
    }
    bench.still_works();
}

#[test]
fn h17_a_legacy_client_that_is_lost_is_waited_for() {
    let up = Scripted::json(Peer::legacy("up"));
    let bench = Bench::of(up, "legacy: { resume_grace: 1s }\n", "");
    let client = Legacy::server(bench.gateway.addr, "up");
    let slow = client.request("tools/call", r#"{"name":"slow","arguments":{"ms":20000}}"#);
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(&slow.wire(&bench.gateway.addr.to_string()));
    wait::until("the call at the server", || bench.up.count("tools/call") == 1);
    drop(conn);
    let start = Instant::now();
    wait::within(SOON, "the end after the grace", || {
        bench.up.count("notifications/cancelled") == 1 || bench.up.peer().stopped() == ["slow"]
    });
    assert!(start.elapsed() > Duration::from_millis(600), "no grace: {:?}", start.elapsed());
    bench.gateway.assert_alive();
}
