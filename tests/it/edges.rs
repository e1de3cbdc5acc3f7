//! What is allowed and often forgotten: chunked bodies, `Expect`, absent members, large declarations, reused ids.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_tests::client::{Client, LEGACY, Legacy, call_params};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::http::{Conn, Request};
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

use crate::support::{Bench, http, yaml};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn chunked_bodies_are_read_and_sent_on_with_a_length() {
    let bench = Bench::modern();
    let good = bench.good().header("Transfer-Encoding", "chunked");
    let host = bench.gateway.addr.to_string();
    let (one, two) = good.body.split_at(good.body.len() / 2);
    let mut bytes = good.head(&host);
    for part in [one, two] {
        bytes.extend(format!("{:X};ext=1\r\n", part.len()).into_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\nX-Trailer: 1\r\n\r\n");
    let mut conn = Conn::open(bench.gateway.addr);
    for piece in bytes.chunks(7) {
        conn.write(piece);
    }
    let answer = conn.try_answer(SOON).expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = bench.up.seen_of("tools/call").pop().expect("the call");
    assert_eq!(seen.header("content-length"), Some(seen.body.len().to_string().as_str()));
    assert!(seen.header("transfer-encoding").is_none() && seen.header("x-trailer").is_none());
    let mut endless = Conn::open(bench.gateway.addr);
    endless.write(&good.head(&host));
    endless.write(b"zz\r\n");
    assert!(endless.try_answer(SOON).map_or(true, |a| a.status == 400), "a chunk size that is no number");
    bench.still_works();
}

#[test]
fn expect_100_continue_is_honoured_before_the_body_and_not_for_a_refused_head() {
    let bench = Bench::modern();
    let host = bench.gateway.addr.to_string();
    let good = bench.good().header("Expect", "100-continue");
    let mut conn = Conn::open(bench.gateway.addr);
    let length = good.clone().header("Content-Length", &good.body.len().to_string());
    conn.write(&length.head(&host));
    let end = std::time::Instant::now() + SOON;
    while !conn.unread().starts_with(b"HTTP/1.1 100") {
        assert!(conn.fill(end).is_ok_and(|n| n > 0), "no 100: {:?}", String::from_utf8_lossy(conn.unread()));
    }
    conn.write(&good.body);
    assert_eq!(conn.try_answer(SOON).expect("an answer").status, 200);
    let mut refused = Conn::open(bench.gateway.addr);
    refused.write(&length.set("Content-Type", "text/plain").head(&host));
    assert_eq!(refused.try_answer(SOON).map(|a| a.status), Ok(415), "a refused head needs no body");
}

#[test]
fn header_bytes_that_are_no_text_are_refused() {
    let bench = Bench::modern();
    let before = bench.up.calls();
    for name in ["Mcp-Name", "Mcp-Method", "MCP-Protocol-Version", "Mcp-Session-Id", "Origin", "Host"] {
        let request = bench.good().without(name);
        let mut bytes = request.head(&bench.gateway.addr.to_string());
        bytes.truncate(bytes.len() - 2);
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(b": ec\xffho\xfe\r\n\r\n");
        bytes.extend_from_slice(&request.body);
        let mut conn = Conn::open(bench.gateway.addr);
        conn.write(&bytes);
        let answer = conn.try_answer(SOON);
        let harmless = name == "Mcp-Session-Id" && answer.as_ref().is_ok_and(|a| a.status == 200);
        assert!(harmless || answer.map_or(true, |a| [400, 403, 421].contains(&a.status)), "{name}");
    }
    assert!(bench.up.calls() <= before + 1, "a header that is no text let a call through");
    bench.gateway.assert_alive();
}

#[test]
fn absent_members_stay_absent() {
    for bench in [Bench::modern(), Bench::legacy()] {
        for client in
            [Box::new(bench.client()) as Box<dyn Client>, Box::new(Legacy::server(bench.gateway.addr, "up"))]
        {
            let answer = client.send("tools/call", r#"{"name":"whoami"}"#);
            assert_eq!(answer.code(), None, "{}", answer.text());
            let seen = bench.up.seen_of("tools/call").pop().expect("the call");
            assert!(!seen.body.contains("\"arguments\""), "{}", seen.body);
        }
        let legacy = Legacy::server(bench.gateway.addr, "up");
        let bare = legacy.post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).send(bench.gateway.addr);
        assert!(bare.result()["tools"].is_array(), "no params at all: {}", bare.text());
        bench.up.assert_clean();
    }
}

#[test]
fn calls_without_a_name_or_with_wrong_params_are_refused() {
    let bench = Bench::legacy();
    let legacy = Legacy::server(bench.gateway.addr, "up");
    for (method, params) in [
        ("tools/call", "{}"),
        ("tools/call", r#"{"name":5}"#),
        ("tools/call", r#"{"name":null,"arguments":{}}"#),
        ("tools/call", r#"{"name":"echo","arguments":[]}"#),
        ("tools/call", r#"{"name":"echo","arguments":"x"}"#),
        ("resources/read", "{}"),
        ("resources/read", r#"{"uri":7}"#),
        ("prompts/get", "{}"),
        ("completion/complete", "{}"),
        ("completion/complete", r#"{"ref":{"type":"ref/nothing"},"argument":{"name":"a","value":"b"}}"#),
    ] {
        let answer = legacy.send(method, params);
        assert_eq!(
            (answer.status, answer.code()),
            (200, Some(-32602)),
            "{method} {params}: {}",
            answer.text()
        );
    }
    assert_eq!(bench.up.calls(), 0, "{:?}", bench.up.seen().last());
}

#[test]
fn unknown_resources_by_era_on_the_merged_endpoint() {
    let up = Scripted::json(Peer::legacy("up"));
    let gateway = Gateway::start(&yaml("", &[http("up", &up, "")]));
    for uri in [
        "up+file:///nowhere",
        "nobody+file:///x",
        "file:///notes/a.txt",
        "ui://nobody/x",
        "https://example.com/none",
        "tollgate://else",
        "x",
    ] {
        let params = json!({"uri": uri}).to_string();
        let modern = gateway.modern().send("resources/read", &params);
        assert_eq!((modern.status, modern.code()), (200, Some(-32602)), "{uri}: {}", modern.text());
        let legacy = gateway.legacy().send("resources/read", &params);
        assert_eq!((legacy.status, legacy.code()), (200, Some(-32002)), "{uri}: {}", legacy.text());
    }
}

#[test]
fn large_declarations_never_make_a_session_id_too_long() {
    let bench = Bench::legacy();
    for (what, size, wild) in [("small", 100, false), ("large", 5_000, false), ("random", 5_000, true)] {
        let text: String = (0..size)
            .map(|n| if wild { char::from(b'!' + u8::try_from(n * n * 31 % 90).unwrap_or(0)) } else { 'x' })
            .collect();
        let capabilities = json!({"roots": {}, "experimental": {"x": text}});
        let answer = Legacy::initialize("/servers/up/mcp", LEGACY, &capabilities).send(bench.gateway.addr);
        match answer.header("mcp-session-id") {
            Some(id) => {
                assert!(id.len() <= 1024, "{what}: {} bytes", id.len());
                assert_eq!(answer.status, 200);
            }
            None => assert_eq!(answer.code(), Some(-32602), "{what}: {}", answer.text()),
        }
    }
}

#[test]
fn j15_one_session_may_reuse_an_id_without_mixing_answers() {
    let bench = Bench::legacy();
    let client = Legacy::server(bench.gateway.addr, "up");
    let threads: Vec<_> = (0..8)
        .map(|n| {
            let client = client.clone();
            std::thread::spawn(move || {
                let params = call_params("echo", &json!({"text": format!("call {n}")}).to_string());
                let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
                let answer = client.post(body).send(client.addr());
                let text = answer.response()["result"]["structuredContent"]["arguments"]["text"].clone();
                assert!(
                    text == json!(format!("call {n}")) || answer.code() == Some(-32600),
                    "{n}: {}",
                    answer.text()
                );
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no mix");
    }
}

#[test]
fn many_calls_at_once_all_come_back() {
    let bench = Bench::legacy();
    let threads: Vec<_> = (0..64)
        .map(|n| {
            let client = bench.client();
            std::thread::spawn(move || {
                let params = json!({"n": n}).to_string();
                let answer = client.call("echo", &params);
                let raw = json::raw(&answer.raw_response(), &["result", "structuredContent", "arguments"]);
                assert_eq!(raw, Some(params), "{}", answer.text());
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("its own answer");
    }
    bench.up.assert_clean();
}

#[test]
fn other_http_methods_are_told_what_to_use() {
    let bench = Bench::modern();
    for method in ["PUT", "PATCH", "TRACE", "CONNECT", "PROPFIND"] {
        let request = Request::new(method, "/mcp").header("Accept", "*/*");
        match request.try_send(bench.gateway.addr) {
            Ok(answer) => {
                assert!([400, 405, 501].contains(&answer.status), "{method}: {}", answer.status);
                if answer.status == 405 {
                    assert!(
                        answer.header("allow").is_some_and(|a| a.contains("POST")),
                        "{method}: {:?}",
                        answer.headers
                    );
                }
            }
            Err(e) => assert!(e.starts_with("closed"), "{method}: {e}"),
        }
    }
    let options = Request::new("OPTIONS", "/mcp").send(bench.gateway.addr);
    assert!(options.status < 500, "{}", options.status);
    let _: Value = bench.good().send(bench.gateway.addr).result();
}

#[test]
fn idle_and_half_open_connections_are_closed() {
    let up = Scripted::json(Peer::modern("up"));
    let bench = Bench::of(up, "h2c: true\nlimits: { idle_timeout: 1s, header_timeout: 1s }\n", "");
    let mut kept = Conn::open(bench.gateway.addr);
    assert_eq!(kept.exchange(&bench.good()).status, 200);
    assert!(kept.closes(SOON), "an idle kept-alive connection stays");
    for words in [&b""[..], b"POST", b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut conn = Conn::open(bench.gateway.addr);
        conn.write(words);
        assert!(conn.closes(SOON), "held open after {:?}", String::from_utf8_lossy(words));
    }
    bench.still_works();
}
