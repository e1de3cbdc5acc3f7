//! Byte for byte: what a server says of itself and what either side sends is changed only where the design says.

use serde_json::json;
use tollgate_tests::client::{Client, Legacy, call_params, with_member};
use tollgate_tests::json;
use tollgate_tests::peer::ECHO;

use crate::eras::{Matrix, SERVERS, is_modern};

/// Raw members of an object without those that the gateway itself adds or that eras differ in.
fn own_members(raw: &str) -> Vec<(String, String)> {
    let ours = ["_meter", "resultType", "ttlMs", "cacheScope", "_meta"];
    json::members(raw).into_iter().filter(|(k, _)| !ours.contains(&k.as_str())).collect()
}

fn own_meta(raw: &str) -> Vec<(String, String)> {
    let meta = json::raw(raw, &["_meta"]).unwrap_or_else(|| "{}".into());
    let ours = |key: &str| {
        key.starts_with("dev.tollgate/")
            || matches!(key, "traceparent" | "baggage" | "io.modelcontextprotocol/serverInfo")
    };
    json::members(&meta).into_iter().filter(|(k, _)| !ours(k)).collect()
}

#[test]
fn list_entries_pass_byte_for_byte() {
    Matrix::start().each(|server, client| {
        for (method, member, want) in [
            ("tools/list", "tools", ECHO),
            ("prompts/list", "prompts", r#"{"name":"greet","title":"Greet","description":"Greets someone","arguments":[{"name":"who","required":true,"x-order":1.0}],"futureField":[1e0]}"#),
            ("resources/templates/list", "resourceTemplates", r#"{"uriTemplate":"file:///notes/{name}","name":"notes","futureField":2.0}"#),
        ] {
            let raw = client.send(method, "{}").raw_result();
            let list = json::elements(&json::raw(&raw, &[member]).expect("a list"));
            assert_eq!(list[0], want, "{server} {method}");
        }
        let raw = client.send("resources/list", "{}").raw_result();
        let list = json::elements(&json::raw(&raw, &["resources"]).expect("a list"));
        let note = r#"{"uri":"file:///notes/a.txt","name":"a.txt","mimeType":"text/plain","size":12,"annotations":{"priority":0.50},"futureField":{"k":1.0}}"#;
        assert!(list.iter().any(|e| e == note), "{server}: {list:#?}");
    });
}

#[test]
fn merged_list_entries_differ_in_name_and_description_only() {
    let matrix = Matrix::start();
    for client in [Box::new(matrix.gateway.modern()) as Box<dyn Client>, Box::new(matrix.gateway.legacy())] {
        let raw = client.send("tools/list", "{}").raw_result();
        let list = json::elements(&json::raw(&raw, &["tools"]).expect("a list"));
        for server in SERVERS {
            let want = ECHO
                .replace("\"name\":\"echo\"", &format!("\"name\":\"{server}__echo\""))
                .replace("\"Says it again\"", &format!("\"[{server}] Says it again\""));
            assert!(
                list.contains(&want),
                "{server}: {:#?}",
                list.iter().find(|e| e.contains(&format!("{server}__echo")))
            );
        }
    }
}

#[test]
fn arguments_and_params_pass_byte_for_byte() {
    let odd = r#"{"n":1.0,"big":123456789012345678901234567890,"e":1E-7,"neg":-0,"s":"\u00e9\/","nest":{"z":[1.50,{"a":null}]},"ws": [ 1 ,2 ]}"#;
    let matrix = Matrix::start();
    matrix.each(|server, client| {
        client.call("echo", odd).result();
        let seen = matrix.last(server, "tools/call");
        assert_eq!(json::raw(&seen, &["params", "arguments"]).as_deref(), Some(odd), "{server}");
        let extra = with_member(&call_params("echo", odd), "futureParam", r#"{"keep":1.0}"#);
        client.send("tools/call", &extra).result();
        let seen = matrix.last(server, "tools/call");
        assert_eq!(
            json::raw(&seen, &["params", "futureParam"]).as_deref(),
            Some(r#"{"keep":1.0}"#),
            "{server}: {seen}"
        );
    });
}

#[test]
fn members_of_meta_pass_to_servers() {
    let matrix = Matrix::start();
    for server in SERVERS {
        let more = [("com.example/a", r#"{"x":[1.0,-0]}"#), ("tracestate", "\"a=b\""), ("futureKey", "1e3")];
        // A state means something with its parent alone.
        let parent = "\"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\"";
        let modern = matrix.gateway.modern().server(server).meta("traceparent", parent);
        let modern = more.iter().fold(modern, |c, (k, v)| c.meta(k, v));
        modern.call("echo", "{}").result();
        let seen = matrix.last(server, "tools/call");
        for (key, value) in more {
            assert_eq!(
                json::raw(&seen, &["params", "_meta", key]).as_deref(),
                Some(value),
                "{server}: {seen}"
            );
        }
        let legacy = Legacy::server(matrix.gateway.addr, server);
        let params = with_member(&call_params("echo", "{}"), "_meta", r#"{"com.example/a":{"x":[1.0,-0]}}"#);
        legacy.send("tools/call", &params).result();
        let seen = matrix.last(server, "tools/call");
        assert_eq!(
            json::raw(&seen, &["params", "_meta", "com.example/a"]).as_deref(),
            Some(r#"{"x":[1.0,-0]}"#),
            "{server}"
        );
    }
    matrix.assert_clean();
}

#[test]
fn results_pass_byte_for_byte() {
    Matrix::start().each(|server, client| {
        let arguments = r#"{"n":1.0,"s":"\u00e9"}"#;
        let raw = client.call("echo", arguments).raw_result();
        let text = serde_json::Value::from(arguments);
        let want = [
            ("content", format!(r#"[{{"type":"text","text":{text},"annotations":{{"priority":0.50}},"_meta":{{"com.example/c":1.0}}}}]"#)),
            ("structuredContent", format!(r#"{{"server":"{server}","arguments":{arguments}}}"#)),
            ("isError", "false".into()),
            ("futureField", r#"{"n":1.0e0,"big":123456789012345678901234567890,"__proto__":{"x":1}}"#.into()),
        ];
        let want: Vec<(String, String)> = want.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        assert_eq!(own_members(&raw), want, "{server}: {raw}");
        assert_eq!(own_meta(&raw), [("com.example/r".to_owned(), "[1.0,-0]".to_owned())], "{server}: {raw}");

        let raw = client.send("resources/read", r#"{"uri":"file:///notes/a.txt"}"#).raw_result();
        let contents = format!(r#"[{{"uri":"file:///notes/a.txt","mimeType":"text/plain","text":"from {server}","futureField":1.50}}]"#);
        assert_eq!(own_members(&raw), [("contents".to_owned(), contents)], "{server}");
        let raw = client.send("prompts/get", r#"{"name":"greet"}"#).raw_result();
        assert!(raw.contains(r#""futureField":[1.0]"#), "{server}: {raw}");
        let raw = client.call("links", "{}").raw_result();
        assert!(raw.contains(r#"{"type":"resource_link","uri":"file:///notes/a.txt","name":"a","x":1.0}"#), "{server}: {raw}");
    });
}

#[test]
fn merged_results_differ_in_uris_only() {
    let matrix = Matrix::start();
    for client in [Box::new(matrix.gateway.modern()) as Box<dyn Client>, Box::new(matrix.gateway.legacy())] {
        let raw = client.call("m-json__links", "{}").raw_result();
        let content = json::raw(&raw, &["content"]).expect("content");
        let want = r#"[{"type":"resource_link","uri":"m-json+file:///notes/a.txt","name":"a","x":1.0},{"type":"resource","resource":{"uri":"m-json+file:///notes/b.txt","text":"uri: file:///notes/b.txt","x":-0}},{"type":"resource_link","uri":"ui://m-json/app/main","name":"ui"},{"type":"resource_link","uri":"https://example.com/doc?a=1#x","name":"doc"}]"#;
        assert_eq!(content, want);
    }
}

#[test]
fn what_a_server_claims_in_the_gateways_name_is_removed() {
    use tollgate_tests::peer::Peer;
    use tollgate_tests::scripted::{Carrier, Scripted};
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            out.json(200, seen.rpc().result(
                r#"{"resultType":"complete","_meter":{"cost_usd":77},"content":[],"_meta":{"dev.tollgate/receipt":{"seq":1},"com.example/k":1.0}}"#,
            ));
        }
        mine
    });
    let bench = crate::support::Bench::of(up, "", "");
    let raw = bench.client().call("echo", "{}").raw_result();
    assert!(!raw.contains("\"cost_usd\":77") && !raw.contains("{\"seq\":1}"), "{raw}");
    assert_eq!(json::raw(&raw, &["_meta", "com.example/k"]).as_deref(), Some("1.0"), "{raw}");
}

#[test]
fn large_results_pass_whole() {
    Matrix::start().each(|server, client| {
        let answer = client.call("blob", r#"{"bytes":3000000}"#);
        let text = answer.result()["content"][0]["text"].as_str().map(str::len);
        assert_eq!(text, Some(3_000_000), "{server}");
        assert_eq!(
            is_modern(client),
            answer.result().get("resultType") == Some(&json!("complete")),
            "{server}"
        );
    });
}
