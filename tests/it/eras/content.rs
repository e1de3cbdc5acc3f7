//! Lists, calls, reads, prompts and completions on every pair of eras.

use serde_json::json;
use tollgate_tests::client::{Client, Legacy, call_params};
use tollgate_tests::json;

use super::{Matrix, SERVERS, check_era, is_modern};

#[test]
fn eras_tools_list() {
    Matrix::start().each(|server, client| {
        let result = client.send("tools/list", "{}").result();
        check_era(server, client, &result, true);
        assert_eq!(result["tools"][0]["name"], "echo", "{server}");
        assert_eq!(result["tools"].as_array().map(Vec::len), Some(12), "{server}");
    });
}

#[test]
fn eras_tools_call() {
    let matrix = Matrix::start();
    matrix.each(|server, client| {
        let result = client.call("echo", r#"{"text":"hi","n":1.0}"#).result();
        check_era(server, client, &result, false);
        assert_eq!(result["structuredContent"]["server"], server);
        assert_eq!(result["structuredContent"]["arguments"]["text"], "hi");
        let failed = client.call("fail", "{}").result();
        assert_eq!(failed["isError"], true, "{server}");
        let own = client.call("rpc_error", "{}");
        assert_eq!((own.status, own.code()), (200, Some(1234)), "{server}: {}", own.text());
        assert_eq!(own.error()["data"]["why"], json!(1.0), "{server}");
        let none = client.call("no_such_tool", "{}");
        assert_eq!((none.status, none.code()), (200, Some(-32602)), "{server}: {}", none.text());
    });
    for server in SERVERS {
        let text = matrix.last(server, "tools/call");
        let modern = json::raw(&text, &["params", "_meta", "io.modelcontextprotocol/protocolVersion"]);
        assert_eq!(modern.is_some(), server.starts_with('m'), "{server}: {text}");
    }
}

#[test]
fn eras_merged_endpoint_calls() {
    let matrix = Matrix::start();
    for client in [Box::new(matrix.gateway.modern()) as Box<dyn Client>, Box::new(matrix.gateway.legacy())] {
        let names = client.names("tools/list");
        assert_eq!(names.len(), 72, "{names:?}");
        for server in SERVERS {
            let result = client.call(&format!("{server}__echo"), r#"{"a":1}"#).result();
            assert_eq!(result["structuredContent"]["server"], server);
        }
    }
    matrix.assert_clean();
}

#[test]
fn eras_resources() {
    Matrix::start().each(|server, client| {
        let list = client.send("resources/list", "{}").result();
        check_era(server, client, &list, true);
        let mut uris: Vec<&str> = list["resources"]
            .as_array()
            .expect("resources")
            .iter()
            .filter_map(|r| r["uri"].as_str())
            .collect();
        uris.retain(|u| !u.starts_with("tollgate:"));
        assert_eq!(
            uris,
            ["file:///notes/a.txt", "ui://app/main", "https://example.com/doc?a=1#x"],
            "{server}"
        );
        let templates = client.send("resources/templates/list", "{}").result();
        check_era(server, client, &templates, true);
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "file:///notes/{name}", "{server}");
        for uri in ["file:///notes/a.txt", "file:///notes/of-a-template.txt", "https://example.com/doc?a=1#x"]
        {
            let read = client.send("resources/read", &json!({"uri": uri}).to_string()).result();
            check_era(server, client, &read, true);
            assert_eq!(read["contents"][0]["uri"], uri, "{server}");
            assert_eq!(read["contents"][0]["text"], format!("from {server}"));
        }
        let missing = client.send("resources/read", r#"{"uri":"file:///nowhere"}"#);
        let code = if is_modern(client) { -32602 } else { -32002 };
        assert_eq!((missing.status, missing.code()), (200, Some(code)), "{server}: {}", missing.text());
    });
}

#[test]
fn eras_merged_endpoint_uris() {
    let matrix = Matrix::start();
    for client in [Box::new(matrix.gateway.modern()) as Box<dyn Client>, Box::new(matrix.gateway.legacy())] {
        for server in SERVERS {
            for (own, exposed) in [
                ("file:///notes/a.txt", format!("{server}+file:///notes/a.txt")),
                ("ui://app/main", format!("ui://{server}/app/main")),
            ] {
                let read = client.send("resources/read", &json!({"uri": exposed}).to_string()).result();
                assert_eq!(read["contents"][0]["text"], format!("from {server}"), "{exposed}");
                assert_eq!(read["contents"][0]["uri"], exposed);
                let seen = matrix.last(server, "resources/read");
                assert_eq!(json::at(&seen, &["params", "uri"]), Some(json!(own)), "{seen}");
            }
            let links = client.call(&format!("{server}__links"), "{}");
            let content = links.result()["content"].clone();
            assert_eq!(content[0]["uri"], format!("{server}+file:///notes/a.txt"), "{content}");
            assert_eq!(content[1]["resource"]["uri"], format!("{server}+file:///notes/b.txt"), "{content}");
            assert_eq!(
                content[1]["resource"]["text"], "uri: file:///notes/b.txt",
                "text is no URI: {content}"
            );
            assert_eq!(content[2]["uri"], format!("ui://{server}/app/main"), "{content}");
            assert_eq!(content[3]["uri"], "https://example.com/doc?a=1#x", "{content}");
            assert_eq!(links.result()["structuredContent"]["uri"], "file:///notes/a.txt", "data is no link");
        }
        let https = client.send("resources/read", r#"{"uri":"https://example.com/doc?a=1#x"}"#).result();
        assert!(https["contents"][0]["text"].as_str().is_some_and(|t| t.starts_with("from ")), "{https}");
        let templates = client.names("resources/templates/list");
        assert!(templates.contains(&"m-json+file:///notes/{name}".to_owned()), "{templates:?}");
        let card = client.send("resources/read", r#"{"uri":"tollgate://capability"}"#).result();
        let text = card["contents"][0]["text"].as_str().expect("text").to_owned();
        assert_eq!(json::parse(&text)["specRevision"], "2026-07-28");
    }
}

#[test]
fn eras_prompts() {
    Matrix::start().each(|server, client| {
        let list = client.send("prompts/list", "{}").result();
        check_era(server, client, &list, true);
        assert_eq!(list["prompts"][0]["name"], "greet", "{server}");
        let got = client.send("prompts/get", r#"{"name":"greet","arguments":{"who":"é"}}"#).result();
        check_era(server, client, &got, false);
        assert_eq!(got["messages"][0]["content"]["text"], r#"{"who":"é"}"#, "{server}");
        let none = client.send("prompts/get", r#"{"name":"nope"}"#);
        assert_eq!((none.status, none.code()), (200, Some(-32602)), "{server}: {}", none.text());
    });
}

#[test]
fn eras_completion() {
    let matrix = Matrix::start();
    matrix.each(|server, client| {
        for reference in [r#"{"type":"ref/prompt","name":"greet","x":1.0}"#, r#"{"type":"ref/resource","uri":"file:///notes/{name}"}"#] {
            let params = format!(r#"{{"ref":{reference},"argument":{{"name":"who","value":"o"}},"context":{{"arguments":{{"a":"b"}}}}}}"#);
            let result = client.send("completion/complete", &params).result();
            check_era(server, client, &result, false);
            assert_eq!(result["completion"]["values"], json!(["one", "two"]), "{server}");
            let seen = matrix.last(server, "completion/complete");
            assert_eq!(json::raw(&seen, &["params", "ref"]).as_deref(), Some(reference), "{server}");
        }
    });
    // On the merged endpoint the reference is mapped back.
    for (reference, key, own) in [
        (r#"{"type":"ref/prompt","name":"l-sse__greet"}"#, "name", "greet"),
        (r#"{"type":"ref/resource","uri":"l-sse+file:///notes/{name}"}"#, "uri", "file:///notes/{name}"),
    ] {
        let params = format!(r#"{{"ref":{reference},"argument":{{"name":"who","value":"o"}}}}"#);
        assert_eq!(
            matrix.gateway.modern().send("completion/complete", &params).result()["completion"]["total"],
            2
        );
        let seen = matrix.last("l-sse", "completion/complete");
        assert_eq!(json::at(&seen, &["params", "ref", key]), Some(json!(own)), "{seen}");
    }
}

#[test]
fn eras_what_comes_later_is_answered_with_an_error() {
    let matrix = Matrix::start();
    for server in SERVERS {
        let modern = matrix.gateway.modern().server(server);
        let legacy = Legacy::server(matrix.gateway.addr, server);
        for method in ["subscriptions/listen", "tasks/get", "tasks/list", "tasks/cancel"] {
            let answer = modern.send(method, r#"{"notifications":{"toolsListChanged":true},"taskId":"x"}"#);
            assert!(answer.code().is_some(), "{server} {method}: {} {}", answer.status, answer.text());
        }
        for method in ["resources/subscribe", "resources/unsubscribe", "tasks/get"] {
            let answer = legacy.send(method, r#"{"uri":"file:///notes/a.txt","taskId":"x"}"#);
            assert!(answer.code().is_some(), "{server} {method}: {}", answer.text());
            assert_eq!(answer.status, 200, "{server} {method}");
        }
    }
    matrix.assert_clean();
}

#[test]
fn eras_answers_are_json_unless_there_is_something_to_stream() {
    Matrix::start().each(|server, client| {
        let request = client.request("tools/call", &call_params("echo", "{}"));
        let answer = request.send(client.addr());
        assert_eq!(answer.messages().len(), 1, "{server}");
        let kind = answer.header("content-type").unwrap_or_default().to_owned();
        assert!(
            kind.starts_with("application/json") || kind.starts_with("text/event-stream"),
            "{server}: {kind}"
        );
    });
}
