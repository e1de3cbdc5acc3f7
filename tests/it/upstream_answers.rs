//! Cases U1 to U5: whatever a server answers, the client gets one well-formed answer, never the server's bytes.

use std::time::{Duration, Instant};

use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::http::Answer;
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Out, Scripted, Seen};

use crate::support::{Bench, allowed_code};

/// A modern server whose tool calls are answered by `bad`, with short deadlines.
pub(crate) fn bench(bad: impl Fn(&Seen, &mut Out<'_>) + Send + Sync + 'static) -> Bench {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, move |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            bad(seen, out);
        }
        mine
    });
    Bench::of(
        up,
        "",
        ", timeouts: { connect: 2s, call_idle: 2s, call_total: 4s }, limits: { answer_bytes: 1MiB }",
    )
}

/// One JSON-RPC error of the gateway's own, with the shape that DESIGN section 6 gives it.
pub(crate) fn must_fail(what: &str, answer: &Answer, codes: &[i64]) {
    let text = answer.text();
    let code = answer.code().unwrap_or_else(|| panic!("{what}: not an error: {} {text}", answer.status));
    assert!(codes.contains(&code), "{what}: code {code} is not of {codes:?}: {text}");
    assert!(allowed_code(code), "{what}: {code}");
    let data = &answer.error()["data"];
    assert_eq!(data["server"], "up", "{what}: {text}");
    assert!(data["reason"].is_string() && data["retryable"].is_boolean(), "{what}: {text}");
    assert!(data["call_id"].as_str().is_some_and(|id| id.len() == 36), "{what}: {text}");
    assert!(!text.contains("LEAK"), "{what}: the server's bytes came through: {text}");
}

pub(crate) fn call(bench: &Bench) -> Answer {
    let start = Instant::now();
    let answer = bench.client().call("echo", "{}");
    assert!(start.elapsed() < Duration::from_secs(10), "took {:?}", start.elapsed());
    bench.gateway.assert_alive();
    answer
}

#[test]
fn u1_broken_bodies_become_one_error() {
    let id = |seen: &Seen| seen.rpc().id.unwrap_or_default();
    type Bad = fn(&str) -> (u16, &'static str, Vec<u8>);
    let cases: &[(&str, Bad)] = &[
        ("HTML", |_| (200, "text/html", b"<html>LEAK</html>".to_vec())),
        ("HTML as JSON", |_| (200, "application/json", b"<html>LEAK</html>".to_vec())),
        ("empty", |_| (200, "application/json", Vec::new())),
        ("truncated", |id| {
            (
                200,
                "application/json",
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"LEAK":"#).into_bytes(),
            )
        }),
        ("junk behind", |id| {
            (
                200,
                "application/json",
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}} LEAK"#).into_bytes(),
            )
        }),
        ("twice a key", |id| {
            (
                200,
                "application/json",
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"content":["LEAK"]}}}}"#)
                    .into_bytes(),
            )
        }),
        ("two documents", |id| {
            (
                200,
                "application/json",
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}{{"LEAK":1}}"#).into_bytes(),
            )
        }),
        ("garbage", |_| (200, "application/json", b"\x1f\x8bLEAK\x00\xff".to_vec())),
        ("wrong type", |id| {
            (
                200,
                "text/plain",
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"LEAK":1}}}}"#).into_bytes(),
            )
        }),
        ("no type", |id| {
            (200, "", format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"LEAK":1}}}}"#).into_bytes())
        }),
        ("array", |id| {
            (
                200,
                "application/json",
                format!(r#"[{{"jsonrpc":"2.0","id":{id},"result":{{"LEAK":1}}}}]"#).into_bytes(),
            )
        }),
        ("202", |_| (202, "application/json", Vec::new())),
        ("204", |_| (204, "application/json", Vec::new())),
        ("500 HTML", |_| (500, "text/html", b"<h1>LEAK</h1>".to_vec())),
        ("503", |_| (503, "text/plain", b"LEAK".to_vec())),
        ("deep", |id| {
            (
                200,
                "application/json",
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":{}{}}}}}"#,
                    "[".repeat(200),
                    "]".repeat(200)
                )
                .into_bytes(),
            )
        }),
        ("not UTF-8", |id| {
            (
                200,
                "application/json",
                [format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":""#).as_bytes(), b"LEAK\xff\"}}"]
                    .concat(),
            )
        }),
    ];
    let at = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let current = std::sync::Arc::clone(&at);
    let table: Vec<Bad> = cases.iter().map(|(_, bad)| *bad).collect();
    let bench = bench(move |seen, out| {
        let (status, kind, body) = table[current.load(std::sync::atomic::Ordering::SeqCst)](&id(seen));
        let headers: Vec<(&str, &str)> =
            if kind.is_empty() { Vec::new() } else { vec![("Content-Type", kind)] };
        if status == 204 {
            out.raw("HTTP/1.1 204 No Content\r\n\r\n");
        } else {
            out.reply(status, &headers, body);
        }
    });
    for (n, (what, _)) in cases.iter().enumerate() {
        at.store(n, std::sync::atomic::Ordering::SeqCst);
        must_fail(what, &call(&bench), &[7001, 7003, 7004]);
        let legacy = Legacy::server(bench.gateway.addr, "up").call("echo", "{}");
        must_fail(what, &legacy, &[7001, 7003, 7004]);
    }
}

#[test]
fn u2_answers_with_another_id_are_never_taken() {
    for wrong in ["999", "\"1\"", "null", "1.0", "true", "{}"] {
        let wrong_id = wrong.to_owned();
        let bench = bench(move |_, out| {
            out.json(200, format!(r#"{{"jsonrpc":"2.0","id":{wrong_id},"result":{{"content":[{{"type":"text","text":"LEAK"}}]}}}}"#));
        });
        must_fail(wrong, &call(&bench), &[7003, 7004]);
    }
    let bench = bench(|seen, out| {
        let id = seen.rpc().id.unwrap_or_default();
        let as_text = if id.starts_with('"') { id.trim_matches('"').to_owned() } else { format!("\"{id}\"") };
        out.json(200, format!(r#"{{"jsonrpc":"2.0","id":{as_text},"result":{{"content":["LEAK"]}}}}"#));
    });
    must_fail("the id in another type", &call(&bench), &[7003, 7004]);
    let none = crate::upstream_answers::bench(|_, out| {
        out.json(200, r#"{"jsonrpc":"2.0","result":{"content":["LEAK"]}}"#)
    });
    must_fail("no id", &call(&none), &[7003, 7004]);
}

#[test]
fn u3_malformed_envelopes_are_refused_and_messages_are_cleaned() {
    for (what, members) in [
        ("both", r#""result":{"LEAK":1},"error":{"code":1,"message":"LEAK"}"#),
        ("neither", r#""LEAK":1"#),
        ("code is text", r#""error":{"code":"LEAK","message":"LEAK"}"#),
        ("code is a fraction", r#""error":{"code":1.5,"message":"LEAK"}"#),
        ("no message", r#""error":{"code":5}"#),
        ("message is a list", r#""error":{"code":5,"message":["LEAK"]}"#),
        ("result is text", r#""result":"LEAK""#),
        ("result is a list", r#""result":["LEAK"]"#),
        ("error is null", r#""error":null"#),
        ("version 1", r#""jsonrpc":"1.0","result":{"LEAK":1}"#),
    ] {
        let members = members.to_owned();
        let bench = bench(move |seen, out| {
            let version = if members.contains("jsonrpc") { "" } else { r#""jsonrpc":"2.0","# };
            out.json(200, format!(r#"{{{version}"id":{},{members}}}"#, seen.rpc().id.unwrap_or_default()));
        });
        must_fail(what, &call(&bench), &[7003, 7004]);
    }
    let bench = bench(|seen, out| {
        let text = format!("\\u001b[31mred\\u0007\\r\\n{}", "m".repeat(500_000));
        let id = seen.rpc().id.unwrap_or_default();
        out.json(200, format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1234,"message":"{text}","data":{{"kept":1.0}}}}}}"#));
    });
    let answer = call(&bench);
    assert_eq!(answer.code(), Some(1234), "a server's own code passes");
    let message = answer.error()["message"].as_str().expect("a message").to_owned();
    assert!(message.len() <= 5_000, "{} bytes of message", message.len());
    assert!(!message.chars().any(char::is_control), "{:?}", &message[..40]);
    assert_eq!(json::raw(&answer.raw_response(), &["error", "data", "kept"]).as_deref(), Some("1.0"));
}

#[test]
fn u3_reserved_codes_of_servers_do_not_confuse_clients() {
    for code in [-32020, -32022, -32042, -32000] {
        let bench = bench(move |seen, out| out.json(400, seen.rpc().error(code, "odd")));
        let answer = call(&bench);
        assert_eq!(answer.status, 200, "{code}: the client's own request was right: {}", answer.text());
        let shown = answer.code().expect("an error");
        assert_ne!(shown, -32022, "{code}: a modern client would renegotiate");
        assert_ne!(shown, -32020, "{code}: the client's headers were right");
    }
}

#[test]
fn u4_what_comes_after_the_answer_is_dropped() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Sse, |seen, out| {
        if !seen.is("tools/call") {
            return false;
        }
        let rpc = seen.rpc();
        out.stream(&[]);
        out.event(&rpc.result(r#"{"resultType":"complete","content":[{"type":"text","text":"first"}]}"#));
        out.event(&rpc.result(r#"{"resultType":"complete","content":[{"type":"text","text":"second"}]}"#));
        out.event(
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"late"}}"#,
        );
        out.end();
        true
    });
    let bench = Bench::of(up, "", "");
    for client in [bench.client(), bench.client().log_level("debug").meta("progressToken", "1")] {
        let answer = client.call("echo", "{}");
        assert_eq!(answer.result()["content"][0]["text"], "first", "{}", answer.text());
        assert!(
            !answer.text().contains("second") && !answer.text().contains("\"late\""),
            "{}",
            answer.text()
        );
        assert_eq!(answer.messages().iter().filter(|m| m.get("id").is_some()).count(), 1);
    }
    bench.gateway.assert_alive();
}

#[test]
fn u5_result_types() {
    let cases = [
        ("unknown", r#"{"resultType":"LEAK","content":[]}"#, false),
        ("a number", r#"{"resultType":1,"content":[]}"#, false),
        ("input_required without fields", r#"{"resultType":"input_required"}"#, false),
        ("absent", r#"{"content":[{"type":"text","text":"fine"}]}"#, true),
        ("complete", r#"{"resultType":"complete","content":[{"type":"text","text":"fine"}]}"#, true),
    ];
    for (what, result, fine) in cases {
        let bench = bench(move |seen, out| out.json(200, seen.rpc().result(result)));
        let answer = call(&bench);
        if fine {
            assert_eq!(answer.result()["resultType"], "complete", "{what}: {}", answer.text());
            let legacy = Legacy::server(bench.gateway.addr, "up").call("echo", "{}").result();
            assert!(legacy.get("resultType").is_none(), "{what}: {legacy}");
        } else {
            must_fail(what, &answer, &[7004]);
        }
    }
    // On a method that may not have it.
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        let mine = seen.is("completion/complete");
        if mine {
            out.json(200, seen.rpc().result(r#"{"resultType":"input_required","requestState":"LEAK"}"#));
        }
        mine
    });
    let bench = Bench::of(up, "", "");
    let params = r#"{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"who","value":"x"}}"#;
    must_fail("completion", &bench.client().send("completion/complete", params), &[7004]);
}
