//! Cases U6 to U11: servers that ask, flood, hang, drip or talk too much in their headers.

use std::time::{Duration, Instant};

use tollgate_tests::client::{Client, Legacy, Modern};
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Out, Scripted, Seen};

use crate::support::Bench;
use crate::upstream_answers::{bench, call, must_fail};

#[test]
fn u6_requests_from_servers_never_reach_a_client_nor_hang_a_call() {
    for era in [Peer::modern("up"), Peer::legacy("up")] {
        let legacy = era.era == tollgate_tests::peer::Era::Legacy;
        let up = Scripted::carried(era, Carrier::Sse, |seen, out| {
            if !seen.is("tools/call") {
                return false;
            }
            let rpc = seen.rpc();
            out.stream(&[]);
            out.event(r#"{"jsonrpc":"2.0","id":"ask-1","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#);
            out.event(r#"{"jsonrpc":"2.0","id":"ask-2","method":"elicitation/create","params":{"message":"password?"}}"#);
            out.event(&rpc.result(r#"{"content":[{"type":"text","text":"done"}]}"#));
            out.end();
            true
        });
        let bench = Bench::of(up, "", ", timeouts: { call_idle: 3s, call_total: 6s }");
        let clients: [Box<dyn Client>; 2] = [
            Box::new(bench.client().log_level("debug").meta("progressToken", "1")),
            Box::new(Legacy::server(bench.gateway.addr, "up")),
        ];
        for client in clients {
            let answer = client.call("echo", "{}");
            assert_eq!(answer.status, 200);
            assert!(
                !answer.text().contains("createMessage") && !answer.text().contains("elicitation"),
                "{}",
                answer.text()
            );
            if legacy {
                assert_eq!(answer.result()["content"][0]["text"], "done", "{}", answer.text());
            }
        }
        if legacy {
            tollgate_tests::wait::until("the refusals", || {
                bench
                    .up
                    .seen()
                    .iter()
                    .filter(|s| s.body.contains("\"ask-") && s.body.contains("\"error\""))
                    .count()
                    >= 4
            });
        }
        bench.gateway.assert_alive();
    }
}

#[test]
fn u7_tool_errors_pass_as_they_are() {
    for bench in [Bench::modern(), Bench::legacy()] {
        let answer = bench.client().call("fail", "{}");
        assert_eq!(answer.status, 200);
        assert_eq!(answer.result()["isError"], true, "{}", answer.text());
        assert_eq!(answer.result()["content"][0]["text"], "no such row");
        assert_eq!(json::raw(&answer.raw_result(), &["futureField"]).as_deref(), Some("1.0"));
    }
}

#[test]
fn u8_answers_over_the_limit_are_an_error_not_a_cut_text() {
    let body = |n: usize| {
        format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":"LEAK{}"}}]}}"#, "x".repeat(n))
    };
    let bench = bench(move |seen, out| match seen.header("x-none") {
        Some(_) => {}
        None => out.json(200, seen.rpc().result(&body(1 << 20))),
    });
    must_fail("with a length", &call(&bench), &[7004]);
    let up = Scripted::carried(Peer::modern("up"), Carrier::Sse, |seen, out| {
        if !seen.is("tools/call") {
            return false;
        }
        out.stream(&[]);
        out.chunk("event: message\ndata: {\"LEAK\":\"");
        let block = "x".repeat(64 << 10);
        for _ in 0..4000 {
            if out.gone() {
                return true;
            }
            out.chunk(&block);
        }
        true
    });
    let endless = Bench::of(up, "", ", limits: { answer_bytes: 1MiB }");
    let before = endless.gateway.rss_kib();
    must_fail("an endless stream", &call(&endless), &[7004]);
    assert!(endless.gateway.rss_kib() < before + 64 * 1024, "memory grew");
    let many = crate::upstream_answers::bench(|seen, out| {
        let items = vec![r#"{"type":"text","text":""}"#; 20_000].join(",");
        out.json(200, seen.rpc().result(&format!(r#"{{"resultType":"complete","content":[{items}]}}"#)));
    });
    let answer = call(&many);
    assert_eq!(
        answer.result()["content"].as_array().map(Vec::len),
        Some(20_000),
        "within the limit: all of it"
    );
}

#[test]
fn u9_hanging_and_dripping_servers_meet_deadlines() {
    type Bad = fn(&Seen, &mut Out<'_>);
    let long = Duration::from_secs(30);
    let cases: &[(&str, Bad, &[i64])] = &[
        (
            "never answers",
            |_, out| {
                out.wait_gone(Duration::from_secs(30));
                out.close();
            },
            &[7002],
        ),
        (
            "hangs after the head",
            |_, out| {
                out.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n");
                out.wait_gone(Duration::from_secs(30));
                out.close();
            },
            &[7002],
        ),
        (
            "drips",
            |_, out| {
                out.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n");
                for _ in 0..300 {
                    if out.gone() {
                        break;
                    }
                    out.raw(" ");
                    std::thread::sleep(Duration::from_millis(100));
                }
                out.close();
            },
            &[7002],
        ),
        (
            "stops inside a chunk",
            |_, out| {
                out.raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{");
                out.wait_gone(Duration::from_secs(30));
                out.close();
            },
            &[7002],
        ),
        (
            "closes inside the body",
            |_, out| {
                out.raw(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"a\":",
                );
                out.close();
            },
            &[7003, 7004],
        ),
        ("closes without an answer", |_, out| out.close(), &[7001, 7003]),
        ("resets", |_, out| out.reset(), &[7001, 7003]),
        (
            "ends the stream without an answer",
            |_, out| {
                out.stream(&[]);
                out.end();
            },
            &[7003, 7004],
        ),
        (
            "cuts the stream",
            |_, out| {
                out.stream(&[]);
                out.chunk("data: {\"json");
                out.close();
            },
            &[7003, 7004],
        ),
        (
            "keeps commenting",
            |_, out| {
                out.stream(&[]);
                for _ in 0..300 {
                    if out.gone() {
                        break;
                    }
                    out.chunk(": still here\n\n");
                    std::thread::sleep(Duration::from_millis(100));
                }
                out.close();
            },
            &[7002],
        ),
        (
            "answers no HTTP",
            |_, out| {
                out.raw("SSH-2.0-OpenSSH_9.9\r\n");
                out.close();
            },
            &[7001, 7003, 7004],
        ),
    ];
    std::thread::scope(|scope| {
        for (what, bad, codes) in cases {
            scope.spawn(move || {
                let bench = bench(bad);
                let start = Instant::now();
                must_fail(what, &bench.client().call("echo", "{}"), codes);
                assert!(start.elapsed() < long, "{what}: {:?}", start.elapsed());
                assert_eq!(bench.up.count("tools/call"), 1, "{what}: a call is never repeated by itself");
            });
        }
    });
}

#[test]
fn u9_nobody_listening_and_no_tls_are_unreachable() {
    let dead =
        { std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address") };
    let mute = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let mute_addr = mute.local_addr().expect("an address");
    for (what, url, codes) in [
        ("nobody", format!("http://{dead}/mcp"), &[7001][..]),
        ("no TLS", format!("https://{mute_addr}/mcp"), &[7001, 7002][..]),
    ] {
        let gateway = tollgate_tests::gateway::Gateway::start(&format!(
            "servers:\n  up: {{ url: \"{url}\", timeouts: {{ connect: 1s, initialize: 2s, call_idle: 2s, call_total: 3s }} }}\n"
        ));
        let start = Instant::now();
        must_fail(what, &Modern::new(gateway.addr).server("up").call("echo", "{}"), codes);
        assert!(start.elapsed() < Duration::from_secs(10), "{what}: {:?}", start.elapsed());
        let status = gateway.server_status("up");
        assert!(!status["last_error"].is_null(), "{what}: {status}");
    }
}

#[test]
fn u10_compressed_answers_are_not_asked_for_and_not_taken() {
    let bench = bench(|_, out| {
        let bomb = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0x56, 0x2a];
        out.reply(200, &[("Content-Type", "application/json"), ("Content-Encoding", "gzip")], bomb);
    });
    must_fail("gzip", &call(&bench), &[7004]);
    for seen in bench.up.seen() {
        let asked = seen.header("accept-encoding").unwrap_or("identity");
        assert!(asked == "identity" || asked.is_empty(), "asked for {asked}");
    }
}

#[test]
fn u11_headers_of_servers_do_not_pass() {
    let bench = bench(|seen, out| {
        let rpc = seen.rpc();
        out.reply(
            200,
            &[
                ("Content-Type", "application/json"),
                ("Set-Cookie", "LEAK=1"),
                ("Location", "http://LEAK.example"),
                ("Access-Control-Allow-Origin", "*"),
                ("Clear-Site-Data", "\"*\""),
                ("Strict-Transport-Security", "max-age=1"),
                ("Server", "LEAK"),
                ("X-Powered-By", "LEAK"),
                ("Mcp-Session-Id", "LEAK"),
                ("WWW-Authenticate", "Bearer LEAK"),
                ("Mcp-Protocol-Version", "LEAK"),
            ],
            rpc.result(r#"{"resultType":"complete","content":[]}"#),
        );
    });
    let answer = call(&bench);
    assert_eq!(answer.status, 200);
    for name in [
        "set-cookie",
        "location",
        "access-control-allow-origin",
        "clear-site-data",
        "strict-transport-security",
        "x-powered-by",
        "mcp-session-id",
        "www-authenticate",
    ] {
        assert!(answer.header(name).is_none(), "{name}: {:?}", answer.headers);
    }
    assert!(!answer.headers.iter().any(|(_, v)| v.contains("LEAK")), "{:?}", answer.headers);
    // A line break inside a header value is no header of ours either.
    let split = crate::upstream_answers::bench(|seen, out| {
        let body = seen.rpc().result("{}");
        out.raw(format!("HTTP/1.1 200 OK\r\nX-A: b\rSet-Cookie: LEAK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    });
    let answer = call(&split);
    assert!(!format!("{:?}", answer.headers).contains("LEAK"));
}
