//! What crosses the gateway besides messages: nothing of a client's head reaches a server (A18), redirects are not
//! followed (A20), and an unknown tool tells nothing (A21).

use std::collections::HashSet;

use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::Start;
use tollgate_tests::http::Answer;
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};

use crate::support::{Bench, http, yaml};

#[test]
fn a18_no_header_of_a_client_reaches_a_server() {
    let secret = "s3cr3t-t0ken-0123456789abcdef";
    let headers = [
        "Authorization",
        "Cookie",
        "Proxy-Authorization",
        "DPoP",
        "X-Api-Key",
        "X-Forwarded-For",
        "Forwarded",
        "X-Real-Ip",
        "X-Forwarded-Host",
        "Via",
        "X-Custom",
        "User-Agent",
        "Referer",
        "Accept-Language",
        "TE",
        "Trailer",
        "Expect-CT",
        "X-Amzn-Trace-Id",
        "Last-Event-ID",
        "Mcp-Session-Id",
        "Proxy-Connection",
        "Keep-Alive",
    ];
    for peer in [Peer::modern("up"), Peer::legacy("up")] {
        let up = Scripted::json(peer);
        let config = yaml("", &[http("up", &up, ", headers: { Authorization: \"Bearer env:UP_TOKEN\" }")]);
        let gateway = Start::new(&config).env("UP_TOKEN", "ours-only").start();
        let client = gateway.modern().server("up");
        let mut request = client.request("tools/call", r#"{"name":"whoami","arguments":{}}"#);
        for name in headers {
            request = request.header(name, &format!("Bearer {secret}"));
        }
        let answer = request.send(gateway.addr);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let windows: HashSet<&str> = (0..secret.len() - 8).map(|at| &secret[at..at + 8]).collect();
        for seen in up.seen() {
            let text = seen.text();
            assert!(!windows.iter().any(|w| text.contains(w)), "the client's secret: {text}");
        }
        let call = up.seen_of("tools/call").pop().expect("the call");
        assert_eq!(call.header("authorization"), Some("Bearer ours-only"));
        for name in
            ["cookie", "x-forwarded-for", "forwarded", "via", "x-custom", "referer", "dpop", "x-api-key"]
        {
            assert!(call.header(name).is_none(), "{name}: {:?}", call.headers);
        }
        assert!(
            !gateway.log().contains(secret) && !gateway.log().contains("ours-only"),
            "a secret in the log"
        );
        assert!(!gateway.status().to_string().contains("ours-only"), "a secret in /status");
    }
}

#[test]
fn a20_redirects_are_not_followed() {
    let elsewhere = Scripted::json(Peer::modern("elsewhere"));
    for status in [301, 302, 303, 307, 308] {
        let target = elsewhere.url();
        let up = Scripted::carried(Peer::modern("up"), Carrier::Json, move |seen, out| {
            let mine = seen.is("tools/call");
            if mine {
                out.reply(status, &[("Location", &target)], "");
            }
            mine
        });
        let bench = Bench::of(up, "", "");
        let answer = bench.client().call("echo", "{}");
        assert!(answer.code().is_some_and(|c| (7001..=7006).contains(&c)), "{status}: {}", answer.text());
        assert!(!answer.text().contains(&elsewhere.addr.to_string()), "{}", answer.text());
    }
    assert!(elsewhere.seen().is_empty(), "followed: {:?}", elsewhere.seen());
}

#[test]
fn a20_a_server_that_refuses_our_credential_is_not_believed_further() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            out.reply(
                401,
                &[("WWW-Authenticate", "Bearer resource_metadata=\"http://evil.example/LEAK\"")],
                "LEAK",
            );
        }
        mine
    });
    let bench = Bench::of(up, "", "");
    let answer = bench.client().call("echo", "{}");
    assert_eq!((answer.status, answer.code()), (200, Some(7006)), "{}", answer.text());
    assert!(
        answer.header("www-authenticate").is_none() && !answer.text().contains("LEAK"),
        "{}",
        answer.text()
    );
}

#[test]
fn a21_all_unknown_tools_read_the_same() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = Start::new(&yaml("", &[http("up", &up, "")])).start();
    gateway.modern().names("tools/list");
    let nowhere = ["down__echo", "nothing", "__echo", "tools", "__", "down__", "up__"];
    let missing = ["up__nothing", "up__ECHO", "up__echo__x"];
    for (names, reason) in [(&nowhere[..], "unknown"), (&missing[..], "capability_missing")] {
        let mut texts = HashSet::new();
        for name in names {
            let answer = gateway.modern().call(name, "{}");
            assert_eq!((answer.status, answer.code()), (200, Some(-32602)), "{name}: {}", answer.text());
            let error = answer.error();
            assert_eq!(
                error["message"],
                format!("Unknown tool: {name}"),
                "forbidden and unknown read the same"
            );
            assert_eq!(error["data"]["reason"], reason, "{name}: {error}");
            texts.insert(anonymous(&answer, name));
        }
        assert_eq!(texts.len(), 1, "{texts:#?}");
    }
    assert_eq!(up.calls(), 0, "an unknown tool reached the server");
    let legacy = Legacy::connect(gateway.addr, "/mcp").call("up__nothing", "{}");
    assert_eq!((legacy.status, legacy.code()), (200, Some(-32602)), "{}", legacy.text());
}

/// The answer's text without the name, the id, the call's id and the meter's figures.
fn anonymous(answer: &Answer, name: &str) -> String {
    let id = json::raw(&answer.raw_response(), &["id"]).unwrap_or_default();
    let call_id = answer.error()["data"]["call_id"].as_str().unwrap_or("?").to_owned();
    let response = answer.raw_response();
    let mut text = answer.text();
    if let Some(meter) = json::raw(&response, &["error", "data", "_meter"]) {
        // It holds the name that was called, and the time.
        let members: Vec<String> = json::members(&meter).into_iter().map(|(key, _)| key).collect();
        text = text.replace(&meter, &format!("{members:?} {:?}", json::raw(&meter, &["server"])));
    }
    let text = text.replacen(&format!("\"id\":{id}"), "\"id\":0", 1);
    text.replace(&format!(": {name}\""), ": NAME\"").replace(&call_id, "CALL")
}

#[test]
fn a21_all_unknown_servers_read_the_same() {
    let bench = Bench::modern();
    let mut answers = HashSet::new();
    for server in ["down", "upstream-x", "zz9"] {
        let answer = bench.gateway.modern().server(server).send("tools/list", "{}");
        assert_eq!(answer.status, 404, "{server}: {}", answer.text());
        answers.insert(anonymous(&answer, server));
    }
    assert_eq!(answers.len(), 1, "{answers:#?}");
}
