//! Cases L1, L2, L5, S6, U8, X3, X4 and M7: what a task's calls may cost, and what is taken out of their results.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_tests::client::{Client, mirrored};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait;

use crate::support::{http, yaml};

fn gateway(up: &Scripted, task: &str, more: &str) -> Gateway {
    let head = format!("default_task: t\ntasks:\n  t: {{ allow: [\"up__*\"], {task} }}\n");
    Gateway::start(&yaml(&head, &[http("up", up, more)]))
}

fn reason(result: &Value) -> &Value {
    assert_eq!(result["isError"], true, "{result}");
    &result["_meta"]["dev.tollgate/refusal"]["reason"]
}

/// In the form of a GitHub token, with its checksum.
fn secret() -> String {
    format!("ghp_{}a13tNSQc", "a1B2".repeat(7))
}

#[test]
fn a_rate_is_429_with_retry_after_on_both_eras_and_spent_by_permitted_calls_alone() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "deny: [\"up__slow\"], limits: { calls: 3/h }", "");
    let client = gateway.modern();
    for _ in 0..5 {
        assert_eq!(client.call("up__slow", "{}").code(), Some(-32602), "not permitted");
    }
    for _ in 0..3 {
        assert_eq!(client.call("up__echo", "{}").status, 200);
    }
    for client in [Box::new(client) as Box<dyn Client>, Box::new(gateway.legacy())] {
        // What a client says of itself makes it nobody else.
        let request = client.request("tools/call", r#"{"name":"up__echo","arguments":{}}"#);
        let answer = request.header("X-Forwarded-For", "10.1.2.3").send(gateway.addr);
        assert_eq!(answer.status, 429, "{}", answer.text());
        assert_eq!(answer.code(), Some(7007));
        let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=1200).contains(&seconds), "{seconds}");
        assert!(answer.error()["data"]["retry_after_ms"].as_u64().unwrap() <= seconds * 1000);
        assert_eq!(client.names("tools/list").len(), 11, "lists cost nothing");
    }
}

#[test]
fn no_more_calls_under_way_than_allowed_and_the_place_comes_back() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "limits: { concurrency: 1 }", "");
    let client = gateway.modern();
    let slow = client.clone();
    let first = std::thread::spawn(move || slow.call("up__slow", r#"{"ms":60000}"#));
    wait::within(Duration::from_secs(20), "the slow call", || {
        up.seen().iter().any(|s| s.body.contains("60000"))
    });
    let result = client.call("up__echo", "{}").result();
    assert_eq!(*reason(&result), json!("concurrency"));
    assert_eq!(result["_meta"]["dev.tollgate/refusal"]["retryable"], true);
    gateway.sigterm();
    first.join().unwrap();
}

#[test]
fn a_place_is_free_again_when_a_client_leaves() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "limits: { concurrency: 1 }", "");
    let client = gateway.modern();
    let mut conn = tollgate_tests::http::Conn::open(gateway.addr);
    conn.write(
        &client
            .request("tools/call", r#"{"name":"up__slow","arguments":{"ms":60000}}"#)
            .wire(&gateway.addr.to_string()),
    );
    wait::within(Duration::from_secs(20), "the slow call", || {
        up.seen().iter().any(|s| s.body.contains("60000"))
    });
    drop(conn);
    wait::within(Duration::from_secs(20), "a place", || {
        client.call("up__echo", "{}").result()["isError"] == false
    });
}

#[test]
fn l1_a_budget_is_named_when_it_is_spent_and_counts_for_its_run_alone() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "limits: { budget_usd: 1.00 }", ", cost: { per_call_usd: 0.40 }");
    let run = |run: &str| gateway.modern().meta("dev.tollgate/run", &format!("{run:?}"));
    for _ in 0..2 {
        assert_eq!(run("a").call("up__echo", "{}").result()["isError"], false);
    }
    let result = run("a").call("up__echo", "{}").result();
    assert_eq!(*reason(&result), json!("budget"));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(" USD") && text.contains("this run"), "{text}");
    assert_eq!(run("b").call("up__echo", "{}").result()["isError"], false);
}

#[test]
fn l2_a_price_that_is_none_charges_the_reservation() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            out.json(
                200,
                seen.rpc()
                    .result(r#"{"resultType":"complete","content":[],"structuredContent":{"cost":-5}}"#),
            );
        }
        mine
    });
    let cost = ", cost: { reported: /structuredContent/cost, reserve_usd: 0.50 }";
    let gateway = gateway(&up, "limits: { budget_usd: 1.00 }", cost);
    let client = gateway.modern().meta("dev.tollgate/run", "\"r\"");
    for _ in 0..2 {
        assert!(client.call("up__count", "{}").result().get("isError").is_none());
    }
    assert_eq!(*reason(&client.call("up__count", "{}").result()), json!("budget"));
    let metrics = gateway.admin("/metrics").text();
    assert!(metrics.contains("tollgate_unusable_prices_total{server=\"up\"} 2"), "{metrics}");
}

#[test]
fn a_call_that_never_reached_its_server_costs_nothing() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "limits: { budget_calls: 2 }", "");
    let client = gateway.modern().meta("dev.tollgate/run", "\"r\"");
    assert_eq!(client.call("up__echo", "{}").result()["isError"], false);
    for _ in 0..3 {
        let result = client.call("up__echo", r#"{"n":"none"}"#).result();
        assert_eq!(*reason(&result), json!("arguments"));
    }
    assert_eq!(client.call("up__echo", "{}").result()["isError"], false);
    assert_eq!(*reason(&client.call("up__echo", "{}").result()), json!("budget"));
}

#[test]
fn u8_results_over_the_cap_are_refused_or_cut_with_a_mark() {
    let up = Scripted::json(Peer::modern("up"));
    let refusing = gateway(&up, "limits: { result_bytes: 4KiB }", "");
    for client in [Box::new(refusing.modern()) as Box<dyn Client>, Box::new(refusing.legacy())] {
        assert!(client.call("up__blob", r#"{"bytes":3000}"#).result().get("isError").is_none());
        let result = client.call("up__blob", r#"{"bytes":5000}"#).result();
        assert_eq!(*reason(&result), json!("result_too_large"));
    }
    let cutting = gateway(&up, "limits: { result_bytes: 4KiB, on_too_large: truncate }", "");
    let result = cutting.modern().call("up__blob", r#"{"bytes":5000}"#).result();
    assert!(result["_meta"]["dev.tollgate/truncated"].is_object(), "{result}");
    // The cap is on what the server gives; the gateway's own members come on top.
    let mut given = result.clone();
    given.as_object_mut().expect("an object").remove("_meter");
    for own in ["dev.tollgate/receipt", "dev.tollgate/span"] {
        given["_meta"].as_object_mut().expect("an object").remove(own);
    }
    assert!(given.to_string().len() <= 4096);
}

#[test]
fn x3_secrets_are_taken_out_of_results_and_errors_and_counted() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "redact: true", "");
    let arguments = json!({ "text": format!("my {} token", secret()) }).to_string();
    for client in [Box::new(gateway.modern()) as Box<dyn Client>, Box::new(gateway.legacy())] {
        let answer = client.call("up__echo", &arguments);
        assert_eq!(answer.result()["isError"], false, "{}", answer.text());
        assert!(!answer.text().contains("a1B2") && answer.text().contains("[redacted:"), "{}", answer.text());
    }
    assert!(up.seen().iter().any(|seen| seen.body.contains(&secret())), "arguments stay as they are");
    assert!(gateway.admin("/metrics").text().contains("tollgate_redactions_total{rule="));
    assert!(!gateway.log().contains("a1B2"));
}

#[test]
fn m7_mirrored_headers_are_built_from_the_redacted_arguments() {
    let tool = r#"{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string","x-mcp-header":"Text"}}}}"#;
    let up = Scripted::json(Peer::modern("up").tools(vec![tool.into()]));
    let gateway = gateway(&up, "redact: { arguments: true }", "");
    let client = gateway.modern();
    let params = json!({ "name": "up__echo", "arguments": { "text": secret() } }).to_string();
    let request = client.request("tools/call", &params).header("Mcp-Param-Text", &mirrored(&secret()));
    let answer = request.header("Mcp-Param-Other", &secret()).send(gateway.addr);
    assert_eq!(answer.result()["isError"], false, "{}", answer.text());
    let seen = up.seen_of("tools/call").pop().expect("a call");
    assert!(!seen.text().contains("a1B2"), "{}", seen.text());
    assert!(
        seen.header("mcp-param-text").is_some_and(|value| value.contains("[redacted:")),
        "{}",
        seen.text()
    );
}

#[test]
fn s6_a_secret_in_two_progress_messages_is_taken_out_of_both() {
    let halves = secret();
    let (first, second) = halves.split_at(20);
    let (first, second) = (first.to_owned(), second.to_owned());
    let (head, tail) = (first.clone(), second.clone());
    let up = Scripted::carried(Peer::modern("up"), Carrier::Sse, move |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            let token = tollgate_tests::json::raw(&seen.rpc().params, &["_meta", "progressToken"])
                .unwrap_or_default();
            let note = |n: u8, text: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{n},"message":"{text}"}}}}"#
                )
            };
            let last = seen.rpc().result(r#"{"resultType":"complete","content":[]}"#);
            out.stream(&[]);
            for event in [note(1, &format!("see {head}")), note(2, &format!("{tail} end")), last] {
                out.event(&event);
            }
            out.end();
        }
        mine
    });
    let gateway = gateway(&up, "redact: true", "");
    let answer = gateway.modern().meta("progressToken", "7").call("up__count", "{}");
    assert!(answer.result().is_object(), "{}", answer.text());
    assert_eq!(answer.notifications().len(), 2, "{}", answer.text());
    assert!(!answer.text().contains(&first) && !answer.text().contains(&second), "{}", answer.text());
    assert!(answer.text().contains("see ") && answer.text().contains(" end"), "{}", answer.text());
}

#[test]
fn x4_a_redacted_result_that_breaks_the_tools_promise_is_not_passed_on() {
    let tool = r#"{"name":"echo","inputSchema":{"type":"object"},"outputSchema":{"type":"object","properties":{"arguments":{"type":"object","properties":{"text":{"type":"string","pattern":"^ghp_"}}}}}}"#;
    let up = Scripted::json(Peer::modern("up").tools(vec![tool.into()]));
    let gateway = gateway(&up, "redact: true", "");
    let result = gateway.modern().call("up__echo", &json!({ "text": secret() }).to_string()).result();
    assert_eq!(*reason(&result), json!("unscreened"), "{result}");
    assert!(!result.to_string().contains("a1B2"));
}
