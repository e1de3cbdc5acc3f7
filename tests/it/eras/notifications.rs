//! Progress and log notifications on every pair of eras: on the answer's own stream, only when asked for.

use serde_json::{Value, json};
use tollgate_tests::client::{Client, Legacy, call_params, with_member};
use tollgate_tests::http::Answer;
use tollgate_tests::json;

use super::{Matrix, SERVERS, is_modern};

/// Servers that can stream.
fn streams(server: &str) -> bool {
    !server.ends_with("json")
}

fn of(answer: &Answer, method: &str) -> Vec<Value> {
    answer.notifications().into_iter().filter(|m| m["method"] == method).collect()
}

/// A call with a progress token, for clients of either era.
fn with_token(client: &dyn Client, tool: &str, token: &str) -> Answer {
    let params = call_params(tool, r#"{"steps":3,"ms":5}"#);
    if !is_modern(client) {
        return client
            .send("tools/call", &with_member(&params, "_meta", &format!(r#"{{"progressToken":{token}}}"#)));
    }
    let mut request = client.request("tools/call", &params);
    let text = String::from_utf8(request.body.clone()).expect("text");
    request.body =
        text.replacen(r#""_meta":{"#, &format!(r#""_meta":{{"progressToken":{token},"#), 1).into_bytes();
    request.send(client.addr())
}

#[test]
fn eras_progress() {
    let matrix = Matrix::start();
    matrix.each(|server, client| {
        for token in ["\"mine é\"", "0", "77"] {
            let answer = with_token(client, "progress", token);
            assert_eq!(
                answer.result()["content"][0]["text"],
                "all steps done",
                "{server}: {}",
                answer.text()
            );
            let got = of(&answer, "notifications/progress");
            if !streams(server) {
                continue;
            }
            assert_eq!(got.len(), 3, "{server}: {}", answer.text());
            for (n, one) in got.iter().enumerate() {
                assert_eq!(one["params"]["progressToken"], json::parse(token), "{server}: {one}");
                assert_eq!(one["params"]["message"], format!("step {}", n + 1), "{server}: {one}");
            }
            let raw = answer.raw_messages()[0].clone();
            assert_eq!(json::raw(&raw, &["params", "progress"]).as_deref(), Some("1.50"), "{server}: {raw}");
            assert_eq!(
                json::raw(&raw, &["params", "futureField"]).as_deref(),
                Some("1.0"),
                "{server}: {raw}"
            );
            assert!(answer.is_stream(), "{server}");
        }
        let silent = client.call("progress", r#"{"steps":2,"ms":1}"#);
        assert!(
            of(&silent, "notifications/progress").is_empty(),
            "{server}: nobody asked: {}",
            silent.text()
        );
    });
    for server in SERVERS {
        let seen = matrix.last(server, "tools/call");
        let token = json::raw(&seen, &["params", "_meta", "progressToken"]);
        assert!(
            token.is_none_or(|t| t != "77" && t != "\"mine é\""),
            "the client's own token went upstream: {seen}"
        );
    }
}

#[test]
fn eras_progress_tokens_that_are_none_are_refused() {
    Matrix::start().each(|server, client| {
        for token in ["null", "{}", "true", "1.5"] {
            let answer = with_token(client, "progress", token);
            assert_eq!(answer.code(), Some(-32602), "{server} {token}: {}", answer.text());
        }
    });
}

#[test]
fn eras_log_level_in_meta_of_modern_clients() {
    let matrix = Matrix::start();
    for server in SERVERS {
        let client = matrix.gateway.modern().server(server);
        let silent = client.call("log", "{}");
        assert!(of(&silent, "notifications/message").is_empty(), "{server}: nobody asked: {}", silent.text());
        for (level, want) in
            [("debug", &["debug", "info", "error"][..]), ("info", &["info", "error"]), ("emergency", &[])]
        {
            let answer = client.clone().log_level(level).call("log", "{}");
            assert_eq!(answer.result()["content"][0]["text"], "logged", "{server}");
            let got = of(&answer, "notifications/message");
            let levels: Vec<&str> = got.iter().filter_map(|m| m["params"]["level"].as_str()).collect();
            if streams(server) {
                assert_eq!(levels, want, "{server} at {level}: {}", answer.text());
            }
            if let Some(raw) = answer.raw_messages().iter().find(|m| m.contains("notifications/message")) {
                let data = json::raw(raw, &["params", "data"]).expect("data");
                assert!(data.starts_with(r#"{"v":1.0,"#), "{server}: {data}");
            }
        }
        for wrong in ["\"loud\"", "7", "null"] {
            let answer = client.clone().meta("io.modelcontextprotocol/logLevel", wrong).call("log", "{}");
            assert_eq!(
                (answer.status, answer.code()),
                (400, Some(-32602)),
                "{server} {wrong}: {}",
                answer.text()
            );
        }
    }
    matrix.assert_clean();
}

#[test]
fn eras_logging_set_level_of_legacy_clients() {
    let matrix = Matrix::start();
    for server in SERVERS {
        let client = Legacy::server(matrix.gateway.addr, server);
        let silent = client.call("log", "{}");
        assert!(of(&silent, "notifications/message").is_empty(), "{server}: nobody asked: {}", silent.text());
        let set = client.send("logging/setLevel", r#"{"level":"info"}"#);
        assert_eq!(set.result(), json!({}), "{server}");
        let answer = client.call("log", "{}");
        let got = of(&answer, "notifications/message");
        let levels: Vec<&str> = got.iter().filter_map(|m| m["params"]["level"].as_str()).collect();
        if streams(server) {
            assert_eq!(levels, ["info", "error"], "{server}: {}", answer.text());
        }
        client.send("logging/setLevel", r#"{"level":"error"}"#).result();
        let answer = client.call("log", "{}");
        assert!(
            of(&answer, "notifications/message").iter().all(|m| m["params"]["level"] == "error"),
            "{server}: {}",
            answer.text()
        );
        for wrong in [r#"{"level":"loud"}"#, "{}", r#"{"level":5}"#] {
            assert_eq!(client.send("logging/setLevel", wrong).code(), Some(-32602), "{server} {wrong}");
        }
        let stranger = Legacy::server(matrix.gateway.addr, server).call("log", "{}");
        assert!(
            of(&stranger, "notifications/message").is_empty(),
            "{server}: another session's level: {}",
            stranger.text()
        );
    }
    matrix.assert_clean();
}

#[test]
fn eras_two_calls_at_once_get_their_own_progress() {
    let matrix = Matrix::start();
    for server in ["m-sse", "l-sse", "m-child", "l-child"] {
        let addr = matrix.gateway.addr;
        let session = Legacy::server(addr, server);
        let threads: Vec<_> = (0..6)
            .map(|n| {
                let client = session.clone();
                std::thread::spawn(move || {
                    let token = format!("\"caller {n}\"");
                    let answer = with_token(&client, "progress", &token);
                    let own = of(&answer, "notifications/progress");
                    assert!(
                        own.len() == 3
                            && own
                                .iter()
                                .all(|m| m["params"]["progressToken"] == json!(format!("caller {n}"))),
                        "{}",
                        answer.text()
                    );
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no mix");
        }
    }
}
