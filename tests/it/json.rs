//! Cases J1 to J9: what a body may be. Each refusal is the specification's, and the server sees nothing of it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_tests::client::{Client, LEGACY, Legacy, call_params, meta, with_member};
use tollgate_tests::http::Request;
use tollgate_tests::json;

use crate::support::Bench;

/// A good modern call with another body; headers stay those of the good one.
pub(crate) fn body(bench: &Bench, body: impl Into<Vec<u8>>) -> Request {
    bench.good().body(body)
}

/// The text of a modern call with these arguments and members.
pub(crate) fn call(id: &str, arguments: &str) -> String {
    let params = with_member(&call_params("echo", arguments), "_meta", &meta(&json!({}), &[]));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#)
}

#[test]
fn j1_batches_are_refused_in_the_modern_era() {
    let bench = Bench::modern();
    let one = call("1", "{}");
    let many = vec![one.as_str(); 10_000].join(",");
    for (what, text) in [
        ("empty", "[]".to_owned()),
        ("one", format!("[{one}]")),
        ("two", format!("[{one},{one}]")),
        ("nested", format!("[[{one}]]")),
        ("ten thousand", format!("[{many}]")),
    ] {
        bench.refuses(what, &body(&bench, text), &[400, 413], Some(-32600));
    }
}

#[test]
fn j1_batches_exist_in_2025_03_26_alone() {
    let bench = Bench::legacy();
    let addr = bench.gateway.addr;
    let one = |id: u64| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{}}}"#,
            call_params("echo", "{}")
        )
    };
    let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    let note = r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#;
    for version in ["2024-11-05", "2025-06-18", LEGACY] {
        let client = Legacy::with(addr, "/servers/up/mcp", version, json!({}));
        bench.refuses(version, &client.post(format!("[{},{}]", one(1), one(2))), &[400], Some(-32600));
        bench.refuses(version, &client.post("[]"), &[400], Some(-32600));
    }
    let client = Legacy::with(addr, "/servers/up/mcp", "2025-03-26", json!({}));
    let answer = client.post(format!("[{},{ping},{note},{}]", one(1), one(2))).send(addr);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut got: Vec<Value> = Vec::new();
    for message in answer.messages() {
        match message {
            Value::Array(list) => got.extend(list),
            other => got.push(other),
        }
    }
    let mut ids: Vec<String> =
        got.iter().filter(|m| m.get("result").is_some()).map(|m| m["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["\"p\"", "1", "2"], "{got:?}");
    assert_eq!(bench.up.count("tools/call"), 2);
    let notes = client.post(format!("[{note},{note}]")).send(addr);
    assert_eq!(notes.status, 202, "{}", notes.text());
    // Each message goes through the whole pipeline: one bad one is an error of its own.
    let mixed =
        client.post(format!(r#"[{},{{"jsonrpc":"2.0","id":3,"method":"no/such"}}]"#, one(4))).send(addr);
    assert!(mixed.text().contains("-32601") && mixed.text().contains("\"result\""), "{}", mixed.text());
    bench.refuses("empty batch", &client.post("[]"), &[400], Some(-32600));
    let inside = r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}]"#;
    let answer = bench.refuses("initialize in a batch", &client.post(inside), &[200, 400], None);
    assert!(answer.header("mcp-session-id").is_none(), "a session from inside a batch");
}

#[test]
fn j2_duplicate_keys_are_refused() {
    let bench = Bench::modern();
    let good = call("1", r#"{"x":{"y":[{"z":1}]}}"#);
    for (what, from, to) in [
        ("method", r#""method":"#, r#""method":"ping","method":"#),
        ("id", r#""id":1"#, r#""id":2,"id":1"#),
        ("params", r#""params":"#, r#""params":{},"params":"#),
        ("name", r#""name":"echo""#, r#""name":"danger","name":"echo""#),
        ("argument", r#"{"x":"#, r#"{"x":1,"x":"#),
        ("deep", r#"{"z":1"#, r#"{"z":1,"z":2"#),
        ("_meta", r#""_meta":"#, r#""_meta":{},"_meta":"#),
        (
            "version",
            r#"{"io.modelcontextprotocol/protocolVersion":"#,
            r#"{"io.modelcontextprotocol/protocolVersion":"2025-11-25","io.modelcontextprotocol/protocolVersion":"#,
        ),
        ("escaped", r#""name":"echo""#, r#""na\u006de":"danger","name":"echo""#),
        ("jsonrpc", r#""jsonrpc":"2.0""#, r#""jsonrpc":"2.0","jsonrpc":"2.0""#),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{what}");
        bench.refuses(what, &body(&bench, text), &[400], Some(-32600));
    }
}

#[test]
fn j2_duplicate_keys_are_refused_in_the_legacy_era_too() {
    let bench = Bench::legacy();
    let client = Legacy::server(bench.gateway.addr, "up");
    for text in [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"danger","name":"echo","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":{"b":1,"b":2}}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"echo","arguments":{}}}"#,
    ] {
        bench.refuses(text, &client.post(text), &[400], Some(-32600));
    }
}

#[test]
fn j3_keys_that_only_look_like_ours_are_refused() {
    let bench = Bench::modern();
    let good = call("1", "{}");
    for extra in [
        "\"Method\":\"ping\"",
        "\"PARAMS\":{}",
        "\"param\u{17f}\":{}",
        "\"\u{212a}\":1",
        "\"method\\u0000\":\"ping\"",
        "\"ID\":2",
        "\"extra\":null",
    ] {
        let beside = good.replacen("{", &format!("{{{extra},"), 1);
        bench.refuses(extra, &body(&bench, beside), &[400], Some(-32600));
    }
    for (from, to) in [
        ("\"method\"", "\"Method\""),
        ("\"params\"", "\"PARAMS\""),
        ("\"id\"", "\"Id\""),
        ("\"jsonrpc\"", "\"JSONRPC\""),
    ] {
        let instead = good.replacen(from, to, 1);
        bench.refuses(to, &body(&bench, instead), &[400], None);
    }
    for version in ["\"1.0\"", "2.0", "2", "null", "\"2.0 \""] {
        let odd = good.replacen(r#""jsonrpc":"2.0""#, &format!(r#""jsonrpc":{version}"#), 1);
        bench.refuses(version, &body(&bench, odd), &[400], Some(-32600));
    }
}

#[test]
fn j4_odd_ids_are_refused_and_good_ones_come_back_as_they_were() {
    let bench = Bench::modern();
    let long = format!("\"{}\"", "i".repeat(257));
    let huge = format!("\"{}\"", "i".repeat(1 << 20));
    for id in [
        "null",
        "true",
        "1.5",
        "{}",
        "[]",
        "\"\"",
        &long,
        &huge,
        "9007199254740993",
        "18446744073709551616",
        "1e400",
        "1e2",
        "1.0",
    ] {
        bench.refuses(&format!("id {:.40}", id), &body(&bench, call(id, "{}")), &[400], Some(-32600));
    }
    let longest = format!("\"{}\"", "i".repeat(256));
    for id in
        ["0", "1", "-5", "9007199254740991", "-9007199254740991", "\"a b\"", "\"\\u00e9\"", "\"1\"", &longest]
    {
        let answer = body(&bench, call(id, "{}")).send(bench.gateway.addr);
        assert_eq!(answer.status, 200, "{id}: {}", answer.text());
        assert_eq!(json::raw(&answer.raw_response(), &["id"]).as_deref(), Some(id));
    }
    bench.gateway.assert_alive();
}

#[test]
fn j5_depth_and_nodes_are_bounded_in_linear_time() {
    let bench = Bench::modern();
    let nest = |n: usize| format!("{{\"x\":{}{}}}", "[".repeat(n), "]".repeat(n));
    // The envelope is three objects deep already: 60 more stay below 64.
    let fine = body(&bench, call("1", &nest(58))).send(bench.gateway.addr);
    assert_eq!(fine.status, 200, "{}", fine.text());
    let arrays = format!("{{\"x\":[{}]}}", vec!["[]"; 1_000_000].join(","));
    let keys: Vec<String> = (0..300_000).map(|n| format!("\"k{n}\":0")).collect();
    for (what, arguments) in [
        ("64 deep", nest(64)),
        ("128 deep", nest(128)),
        ("100,000 deep", nest(100_000)),
        ("a million arrays", arrays),
        ("300,000 keys", format!("{{{}}}", keys.join(","))),
    ] {
        let start = Instant::now();
        bench.refuses(what, &body(&bench, call("1", &arguments)), &[400, 413], None);
        assert!(start.elapsed() < Duration::from_secs(8), "{what}: {:?}", start.elapsed());
    }
    assert!(bench.gateway.rss_kib() < 300 * 1024, "memory: {} KiB", bench.gateway.rss_kib());
}

#[test]
fn j6_what_is_no_json_is_a_parse_error() {
    let bench = Bench::modern();
    let good = call("1", r#"{"x":"MARK"}"#);
    let marked = |bytes: &[u8]| {
        let at = good.find("MARK").expect("the mark");
        [&good.as_bytes()[..at], bytes, &good.as_bytes()[at + 4..]].concat()
    };
    for (what, bytes) in [
        ("empty", Vec::new()),
        ("white", b"  \n ".to_vec()),
        ("invalid UTF-8", marked(b"\xff\xfe")),
        ("overlong", marked(b"\xc0\xaf")),
        ("UTF-8 surrogate", marked(b"\xed\xa0\x80")),
        ("lone surrogate", marked(b"\\ud800")),
        ("lone low surrogate", marked(b"\\udc00x")),
        ("raw control", marked(b"a\x01b")),
        ("raw line feed", marked(b"a\nb")),
        ("bad escape", marked(b"\\x41")),
        ("BOM", [b"\xef\xbb\xbf", good.as_bytes()].concat()),
        ("trailing", format!("{good} x").into_bytes()),
        ("two documents", format!("{good}{good}").into_bytes()),
        ("truncated", good.as_bytes()[..good.len() - 1].to_vec()),
        ("comment", good.replacen("{", "{/* x */", 1).into_bytes()),
        ("single quotes", good.replace('"', "'").into_bytes()),
        ("trailing comma", good.replacen("}}", "},}", 1).into_bytes()),
        ("NaN", marked(b"\",\"y\":NaN,\"z\":\"")),
        ("leading zero", marked(b"\",\"y\":012,\"z\":\"")),
        ("plus", marked(b"\",\"y\":+1,\"z\":\"")),
        ("UTF-16", good.encode_utf16().flat_map(u16::to_le_bytes).collect()),
    ] {
        bench.refuses(what, &body(&bench, bytes), &[400], Some(-32700));
    }
    for text in ["1", "\"x\"", "null", "true"] {
        bench.refuses(text, &body(&bench, text), &[400], Some(-32600));
    }
}

#[test]
fn j7_arguments_reach_the_server_byte_for_byte() {
    let odd = r#"{"a":1e400,"b":-0,"c":123456789012345678901234567890,"d":0.1000,"e":1E+2,"f":"\u00e9\/é","g":[ 1 , 2 ],"h":{"z":1,"a":2},"i":-0.0}"#;
    for bench in [Bench::modern(), Bench::legacy()] {
        let request = bench.client().request("tools/call", &call_params("echo", odd));
        let answer = request.send(bench.gateway.addr);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let seen = bench.up.seen_of("tools/call").pop().expect("the call");
        assert_eq!(json::raw(&seen.body, &["params", "arguments"]).as_deref(), Some(odd));
        let back = json::raw(&answer.raw_response(), &["result", "structuredContent", "arguments"]);
        assert_eq!(back.as_deref(), Some(odd));
    }
}

#[test]
fn j8_null_characters_pass_in_values_and_nowhere_else() {
    let bench = Bench::modern();
    let answer = bench.client().call("echo", r#"{"text":"a\u0000b"}"#);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = bench.up.seen_of("tools/call").pop().expect("the call");
    assert_eq!(json::raw(&seen.body, &["params", "arguments", "text"]).as_deref(), Some("\"a\\u0000b\""));
    for name in ["echo\\u0000", "ec\\u0001ho", "ec\\u000aho"] {
        let params =
            with_member(&format!(r#"{{"name":"{name}","arguments":{{}}}}"#), "_meta", &meta(&json!({}), &[]));
        let request = bench.client().head(
            "tools/call",
            &params,
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#),
        );
        bench.refuses(name, &request, &[200, 400], None);
    }
    let method = call("1", "{}").replace("tools/call", "tools/call\\u0000");
    bench.refuses("method", &body(&bench, method), &[400], None);
    assert!(!bench.gateway.log().contains('\0'), "a raw NUL in the log");
}

#[test]
fn j9_prototype_keys_pass_untouched_and_change_nothing() {
    let bench = Bench::modern();
    let odd = r#"{"__proto__":{"admin":true},"constructor":{"prototype":1},"prototype":null}"#;
    let answer = bench.client().call("echo", odd);
    assert_eq!(answer.status, 200);
    let seen = bench.up.seen_of("tools/call").pop().expect("the call");
    assert_eq!(json::raw(&seen.body, &["params", "arguments"]).as_deref(), Some(odd));
    for name in ["__proto__", "constructor", "prototype", "toString"] {
        let answer = bench.client().call(name, "{}");
        assert_eq!(answer.code(), Some(-32602), "{name}: {}", answer.text());
    }
}
