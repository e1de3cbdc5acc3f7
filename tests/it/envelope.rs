//! Cases J10 to J16: what a message must hold besides being JSON, versions, ids of two callers, and sizes.

use std::time::Duration;

use serde_json::json;
use tollgate_tests::client::{Client, LEGACY, Legacy, MODERN, call_params, meta, with_member};
use tollgate_tests::http::Conn;
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

use crate::json::{body, call};
use crate::support::Bench;

#[test]
fn j10_modern_messages_that_are_neither_request_nor_notification_are_refused() {
    let bench = Bench::modern();
    let meta = meta(&json!({}), &[]);
    for (what, text) in [
        ("result", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned()),
        ("error", r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}"#.to_owned()),
        (
            "call without id",
            format!(r#"{{"jsonrpc":"2.0","method":"tools/call","params":{{"name":"echo","_meta":{meta}}}}}"#),
        ),
        (
            "notification with id",
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled","params":{{"requestId":1,"_meta":{meta}}}}}"#
            ),
        ),
        ("result and method", r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#.to_owned()),
        ("nothing", r#"{"jsonrpc":"2.0","id":1}"#.to_owned()),
        ("params array", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#.to_owned()),
    ] {
        bench.refuses(what, &body(&bench, text), &[400, 404], None);
    }
}

#[test]
fn j11_modern_meta_must_be_complete() {
    let bench = Bench::modern();
    let good = call("1", "{}");
    let capabilities = r#","io.modelcontextprotocol/clientCapabilities":{}"#;
    for (what, text) in [
        ("no capabilities", good.replace(capabilities, "")),
        (
            "capabilities null",
            good.replace(capabilities, r#","io.modelcontextprotocol/clientCapabilities":null"#),
        ),
        (
            "capabilities list",
            good.replace(capabilities, r#","io.modelcontextprotocol/clientCapabilities":[]"#),
        ),
        (
            "no meta",
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}}"#,
                call_params("echo", "{}")
            ),
        ),
        ("meta list", good.replace(&meta(&json!({}), &[]), "[]")),
        (
            "version missing",
            good.replace(&format!(r#""io.modelcontextprotocol/protocolVersion":"{MODERN}","#), ""),
        ),
        ("info is text", good.replace(r#"{"name":"probe","version":"1"}"#, "\"probe\"")),
    ] {
        assert_ne!(text, good, "{what}");
        bench.refuses(what, &body(&bench, text), &[400], Some(-32602));
    }
}

#[test]
fn j12_versions_are_negotiated_and_never_guessed() {
    let bench = Bench::modern();
    let with_version = |version: &str| call("1", "{}").replace(MODERN, version);
    for version in ["1900-01-01", "2027-01-01", "banana", ""] {
        let request = body(&bench, with_version(version)).set("MCP-Protocol-Version", version);
        let answer = bench.refuses(version, &request, &[400], None);
        if !version.is_empty() {
            assert_eq!(answer.code(), Some(-32022), "{version}: {}", answer.text());
            let data = &answer.error()["data"];
            assert_eq!(data["requested"], version);
            assert!(
                data["supported"]
                    .as_array()
                    .is_some_and(|s| s.contains(&json!(MODERN)) && s.contains(&json!(LEGACY)))
            );
        }
    }
    bench.refuses("no header", &bench.good().without("MCP-Protocol-Version"), &[400], Some(-32020));
    bench.refuses(
        "older header",
        &bench.good().set("MCP-Protocol-Version", "2025-03-26"),
        &[400],
        Some(-32020),
    );
    bench.refuses("two headers", &bench.good().header("MCP-Protocol-Version", MODERN), &[400], Some(-32020));
    // The connection survives an unsupported version.
    let mut conn = Conn::open(bench.gateway.addr);
    let bad = body(&bench, with_version("1900-01-01")).set("MCP-Protocol-Version", "1900-01-01");
    assert_eq!(conn.exchange(&bad).code(), Some(-32022));
    assert_eq!(conn.exchange(&bench.good()).status, 200);
}

#[test]
fn j13_unknown_methods_by_era() {
    let bench = Bench::modern();
    let legacy = Legacy::server(bench.gateway.addr, "up");
    for method in ["no/such", "tools/Call", "initialize2", "rpc.discover", "logging/setLevel", "ping"] {
        let answer = bench.client().send(method, "{}");
        assert_eq!((answer.status, answer.code()), (404, Some(-32601)), "modern {method}: {}", answer.text());
    }
    for method in ["no/such", "tools/Call", "subscriptions/nope"] {
        let answer = legacy.send(method, "{}");
        assert_eq!((answer.status, answer.code()), (200, Some(-32601)), "legacy {method}: {}", answer.text());
    }
    assert_eq!(bench.up.calls(), 0);
}

#[test]
fn j14_claims_in_meta_are_stripped_and_decide_nothing() {
    let bench = Bench::modern();
    let client = bench
        .client()
        .meta("dev.tollgate/run", "\"someone-elses\"")
        .meta("dev.tollgate/principal", "\"root\"")
        .meta("dev.tollgate/receipt", r#"{"log":"x","seq":1}"#)
        .meta("com.example/kept", "1.50");
    assert_eq!(client.call("whoami", "{}").status, 200);
    let seen = bench.up.seen_of("tools/call").pop().expect("the call");
    assert!(!seen.body.contains("dev.tollgate/"), "{}", seen.body);
    assert_eq!(json::raw(&seen.body, &["params", "_meta", "com.example/kept"]).as_deref(), Some("1.50"));
}

#[test]
fn j15_two_callers_with_one_id_get_their_own_answers() {
    let up = Scripted::sse(Peer::modern("up"));
    let bench = Bench::of(up, "", "");
    let threads: Vec<_> = (0..24)
        .map(|n| {
            let client = bench.client();
            let addr = bench.gateway.addr;
            std::thread::spawn(move || {
                let params = with_member(
                    &call_params("echo", &format!(r#"{{"text":"caller {n}"}}"#)),
                    "_meta",
                    &meta(&json!({}), &[]),
                );
                let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
                let answer = client.head("tools/call", &params, text).send(addr);
                (n, answer.result()["structuredContent"]["arguments"]["text"].clone())
            })
        })
        .collect();
    for thread in threads {
        let (n, text) = thread.join().expect("no panic");
        assert_eq!(text, json!(format!("caller {n}")));
    }
    let ids: std::collections::HashSet<_> =
        bench.up.seen_of("tools/call").iter().filter_map(|s| json::raw(&s.body, &["id"])).collect();
    assert_eq!(ids.len(), 24, "upstream ids must be the gateway's own");
}

#[test]
fn j16_bodies_over_the_limit_are_413_in_both_eras() {
    let up = Scripted::json(Peer::legacy("up"));
    let bench = Bench::of(up, "limits: { request_bytes: 64KiB }\n", "");
    let legacy = Legacy::server(bench.gateway.addr, "up");
    let big = format!(r#"{{"text":"{}"}}"#, "x".repeat(65 << 10));
    let modern = bench.client().request("tools/call", &call_params("echo", &big));
    bench.refuses("modern", &modern, &[413], None);
    bench.refuses("legacy", &legacy.request("tools/call", &call_params("echo", &big)), &[413], None);
    let fits = format!(r#"{{"text":"{}"}}"#, "x".repeat(60 << 10));
    assert_eq!(legacy.call("echo", &fits).status, 200);
    // A length that promises too much is refused before the body comes; an endless chunked body is cut.
    let host = bench.gateway.addr.to_string();
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(&bench.good().header("Content-Length", "99999999999").body("").head(&host));
    assert_eq!(conn.try_answer(Duration::from_secs(10)).map(|a| a.status), Ok(413));
    let mut conn = Conn::open(bench.gateway.addr);
    conn.write(&bench.good().header("Transfer-Encoding", "chunked").head(&host));
    let chunk = format!("8000\r\n{}\r\n", "y".repeat(0x8000));
    let mut sent = 0;
    while sent < 2000 && conn.write(chunk.as_bytes()) {
        sent += 1;
    }
    assert!(conn.closes(Duration::from_secs(10)) || sent < 2000, "an endless body is swallowed");
    let text = String::from_utf8_lossy(conn.unread()).into_owned();
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 413"), "{text}");
    bench.gateway.assert_alive();
}
