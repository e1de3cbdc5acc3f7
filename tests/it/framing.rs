//! Cases H1 to H9: how a request is framed. What is ambiguous or malformed is refused, and nothing of it reaches a
//! server.

use std::time::{Duration, Instant};

use tollgate_tests::http::{Answer, Conn, Request};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

use crate::support::Bench;

const SOON: Duration = Duration::from_secs(10);

/// Writes raw bytes and reads what comes: an answer, or a connection closed without one.
fn raw(bench: &Bench, bytes: &[u8]) -> Option<Answer> {
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(bytes);
    match conn.try_answer(SOON) {
        Ok(answer) => Some(answer),
        Err(e) if e.starts_with("closed") => None,
        Err(e) => panic!("hung: {e} after {:?}", String::from_utf8_lossy(bytes)),
    }
}

/// The request as bytes with one header line written by hand.
fn with_line(bench: &Bench, line: &str) -> Vec<u8> {
    let request = bench.good();
    let head = String::from_utf8(request.head(&bench.gateway.addr.to_string())).expect("ascii");
    let head = head.strip_suffix("\r\n").expect("a head");
    let mut bytes = format!("{head}{line}\r\n\r\n").into_bytes();
    bytes.extend_from_slice(&request.body);
    bytes
}

fn must_be_400(bench: &Bench, what: &str, bytes: &[u8]) {
    let before = bench.up.calls();
    if let Some(answer) = raw(bench, bytes) {
        assert!([400, 431].contains(&answer.status), "{what}: {} {}", answer.status, answer.text());
    }
    assert_eq!(bench.up.calls(), before, "{what}: the server was asked");
    bench.gateway.assert_alive();
}

#[test]
fn h1_length_and_chunked_together_reach_the_server_once_at_most() {
    let bench = Bench::modern();
    let good = bench.good();
    let smuggled =
        String::from_utf8(bench.good().wire("127.0.0.1")).expect("ascii").replace("hi", "smuggled");
    for (what, lines) in [
        ("length first", "Content-Length: 5\r\nTransfer-Encoding: chunked"),
        ("chunked first", "Transfer-Encoding: chunked\r\nContent-Length: 5"),
        ("mixed case", "cOnTent-lENgth: 5\r\ntRANSFER-encoding: cHUNKED"),
    ] {
        let before = bench.up.calls();
        let head = good.clone().without("content-length").header("X-Cut", "here");
        let head = String::from_utf8(head.head(&bench.gateway.addr.to_string())).expect("ascii");
        let line = head.lines().find(|l| l.starts_with("Content-Length")).expect("a length");
        let head = head.replace(&format!("{line}\r\n"), "").replace("X-Cut: here", lines);
        let body = String::from_utf8(good.body.clone()).expect("ascii");
        let bytes = format!("{head}{:x}\r\n{body}\r\n0\r\n\r\n{smuggled}", body.len());
        let mut conn = Conn::open(bench.gateway.addr);
        conn.write(bytes.as_bytes());
        let closed = conn.closes(SOON);
        let text = String::from_utf8_lossy(conn.unread()).into_owned();
        assert!(closed, "{what}: the connection stays open: {text}");
        assert!(bench.up.calls() <= before + 1, "{what}: two requests came through: {text}");
        assert!(!bench.up.seen().iter().any(|s| s.body.contains("smuggled")), "{what}: smuggled");
    }
    bench.still_works();
}

#[test]
fn h2_odd_transfer_encodings_are_refused() {
    let bench = Bench::modern();
    for line in [
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: \u{b}chunked",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: gzip, chunked",
    ] {
        let bytes = String::from_utf8(with_line(&bench, line)).expect("ascii");
        let length = bytes.lines().find(|l| l.starts_with("Content-Length")).expect("a length").to_owned();
        must_be_400(&bench, line, bytes.replace(&format!("{length}\r\n"), "").as_bytes());
    }
    let old = String::from_utf8(with_line(&bench, "Transfer-Encoding: chunked")).expect("ascii");
    must_be_400(&bench, "HTTP/1.0", old.replace("HTTP/1.1", "HTTP/1.0").as_bytes());
}

#[test]
fn h3_upgrade_opens_no_tunnel() {
    let bench = Bench::modern();
    let first =
        bench.good().header("Connection", "Upgrade, X-Secret").header("Upgrade", "x").header("X-Secret", "1");
    let mut bytes = first.wire(&bench.gateway.addr.to_string());
    bytes.extend_from_slice(b"GET /smuggled HTTP/1.1\r\nHost: inner\r\n\r\n");
    if let Some(answer) = raw(&bench, &bytes) {
        assert!([200, 400].contains(&answer.status), "{}", answer.status);
    }
    for seen in bench.up.seen() {
        assert!(seen.header("upgrade").is_none() && seen.header("x-secret").is_none(), "{seen:?}");
        assert!(!seen.text().contains("/smuggled"), "{seen:?}");
    }
    bench.still_works();
}

#[test]
fn h4_an_early_refusal_leaves_no_body_on_the_connection() {
    let bench = Bench::modern();
    let inner = String::from_utf8(bench.good().wire("127.0.0.1")).expect("ascii").replace("hi", "smuggled");
    let padded = format!("{inner}{}", "z".repeat(200_000));
    let refused = bench.good().set("Content-Type", "text/plain").body(padded);
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(&refused.wire(&bench.gateway.addr.to_string()));
    let answer = conn.answer();
    assert_eq!(answer.status, 415);
    conn.write(&bench.good().wire(&bench.gateway.addr.to_string()));
    match conn.try_answer(SOON) {
        Ok(second) => assert_eq!(second.status, 200, "{}", second.text()),
        Err(e) => assert!(e.starts_with("closed"), "{e}"),
    }
    assert!(!bench.up.seen().iter().any(|s| s.body.contains("smuggled")));
    bench.still_works();
}

#[test]
fn h5_bad_lengths_are_refused() {
    let bench = Bench::modern();
    let n = bench.good().body.len();
    for line in [
        format!("Content-Length: {n}\r\nContent-Length: {}", n + 1),
        format!("Content-Length: +{n}"),
        "Content-Length: 0x5".into(),
        format!("Content-Length: {n},{}", n + 1),
        format!("Content-Length: {n}, {n}"),
        format!("Content-Length: {n}\r\nContent-Length: {n}"),
        "Content-Length: 18446744073709551616".into(),
        "Content-Length: -1".into(),
        "Content-Length: ".into(),
    ] {
        let bytes = String::from_utf8(with_line(&bench, &line)).expect("ascii");
        let own = format!("Content-Length: {n}\r\n");
        must_be_400(&bench, &line, bytes.replacen(&own, "", 1).as_bytes());
    }
}

#[test]
fn h6_pipelined_requests_get_their_own_answers() {
    let bench = Bench::modern();
    let (one, two) = (bench.good(), bench.good());
    let host = bench.gateway.addr.to_string();
    let id = |r: &Request| tollgate_tests::json::at(&String::from_utf8_lossy(&r.body), &["id"]);
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(&[one.wire(&host), two.wire(&host)].concat());
    assert_eq!(conn.answer().response().get("id").cloned(), id(&one));
    match conn.try_answer(SOON) {
        Ok(answer) => assert_eq!(answer.response().get("id").cloned(), id(&two)),
        Err(e) => assert!(e.starts_with("closed"), "{e}"),
    }
}

#[test]
fn h7_malformed_heads_are_refused() {
    let bench = Bench::modern();
    let good = String::from_utf8(bench.good().wire(&bench.gateway.addr.to_string())).expect("ascii");
    must_be_400(&bench, "bare LF", good.replace("\r\n", "\n").as_bytes());
    must_be_400(&bench, "obs-fold", &with_line(&bench, "X-Fold: a\r\n b"));
    must_be_400(&bench, "NUL", &with_line(&bench, "X-Nul: a\0b"));
    must_be_400(&bench, "space before colon", &with_line(&bench, "X-Space : a"));
    must_be_400(&bench, "bare CR", &with_line(&bench, "X-Cr: a\rb"));
    let many: Vec<String> = (0..300).map(|n| format!("X-N{n}: 1")).collect();
    must_be_400(&bench, "300 headers", &with_line(&bench, &many.join("\r\n")));
    must_be_400(&bench, "1 MiB of headers", &with_line(&bench, &format!("X-Big: {}", "a".repeat(1 << 20))));
    must_be_400(&bench, "40 KiB of headers", &with_line(&bench, &format!("X-Big: {}", "a".repeat(40 << 10))));
    bench.still_works();
}

#[test]
fn h8_dripping_heads_and_bodies_meet_a_total_deadline() {
    let up = Scripted::json(Peer::modern("up"));
    let bench = Bench::of(up, "limits: { header_timeout: 1s, body_timeout: 1s }\n", "");
    let wire = bench.good().wire(&bench.gateway.addr.to_string());
    let body_at = wire.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    for (what, ready) in [("head", 0), ("body", body_at)] {
        let mut conn = Conn::open(bench.gateway.addr);
        conn.write(&wire[..ready]);
        let start = Instant::now();
        for byte in &wire[ready..] {
            if !conn.write(&[*byte]) || start.elapsed() > SOON {
                break;
            }
            if conn.closes(Duration::from_millis(100)) {
                break;
            }
        }
        assert!(start.elapsed() < SOON, "{what}: dripped on for {:?}", start.elapsed());
        assert!(start.elapsed() > Duration::from_millis(500), "{what}: cut too early");
        let text = String::from_utf8_lossy(conn.unread()).into_owned();
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{what}: {text}");
    }
    assert_eq!(bench.up.calls(), 0);
    bench.gateway.assert_alive();
}

#[test]
fn h9_contradicting_authorities_are_refused() {
    let bench = Bench::modern();
    let addr = bench.gateway.addr;
    let text = String::from_utf8(bench.good().wire(&addr.to_string())).expect("ascii");
    must_be_400(&bench, "two hosts", text.replace("Host: ", "Host: localhost\r\nHost: ").as_bytes());
    let absolute = text.replace("POST /", "POST http://evil.example/");
    assert!(raw(&bench, absolute.as_bytes()).is_none_or(|a| [400, 403, 421].contains(&a.status)));
    let user = text.replace("POST /", &format!("POST http://user@{addr}/"));
    assert!(raw(&bench, user.as_bytes()).is_none_or(|a| [400, 403, 421].contains(&a.status)));
    must_be_400(&bench, "no host", text.replace(&format!("Host: {addr}\r\n"), "").as_bytes());
    assert_eq!(bench.up.calls(), 0);
}
