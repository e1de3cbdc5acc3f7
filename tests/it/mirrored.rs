//! Cases M1 to M6 and M8: headers that mirror the body, in both directions.

use serde_json::json;
use tollgate_tests::client::{Client, call_params, mirrored, sentinel};
use tollgate_tests::http::Request;
use tollgate_tests::peer::{Peer, simple_tool};
use tollgate_tests::scripted::{Carrier, Scripted};

use crate::support::{Bench, http, yaml};
use tollgate_tests::gateway::Gateway;

fn tool(name: &str, properties: &str) -> String {
    format!(r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{properties}}}}}"#)
}

fn bench(tools: Vec<String>) -> Bench {
    Bench::of(
        Scripted::carried(Peer::modern("up").tools(tools), Carrier::Json, echo_any),
        "",
        ", check_arguments: false",
    )
}

/// Answers every call, whatever its name.
fn echo_any(seen: &tollgate_tests::scripted::Seen, out: &mut tollgate_tests::scripted::Out<'_>) -> bool {
    let rpc = seen.rpc();
    if rpc.method != "tools/call" {
        return false;
    }
    out.json(200, rpc.result(r#"{"resultType":"complete","content":[{"type":"text","text":"ok"}]}"#));
    true
}

#[test]
fn m1_the_method_header_must_equal_the_body() {
    let bench = Bench::modern();
    for wrong in ["tools/list", "Tools/Call", "tools/call2", ""] {
        bench.refuses(wrong, &bench.good().set("Mcp-Method", wrong), &[400], Some(-32020));
    }
    bench.refuses("missing", &bench.good().without("Mcp-Method"), &[400], Some(-32020));
    bench.refuses("twice", &bench.good().header("Mcp-Method", "tools/call"), &[400], Some(-32020));
    let list = bench.client().request("tools/list", "{}").set("Mcp-Method", "tools/call");
    bench.refuses("list dressed as call", &list, &[400], Some(-32020));
}

#[test]
fn m2_the_name_header_must_equal_the_body() {
    let bench = Bench::modern();
    for wrong in ["safe", "Echo", "echo2", ""] {
        bench.refuses(wrong, &bench.good().set("Mcp-Name", wrong), &[400], Some(-32020));
    }
    bench.refuses("missing", &bench.good().without("Mcp-Name"), &[400], Some(-32020));
    bench.refuses("twice", &bench.good().header("Mcp-Name", "echo"), &[400], Some(-32020));
    bench.refuses(
        "safe first",
        &bench.good().set("Mcp-Name", "safe").header("Mcp-Name", "echo"),
        &[400],
        Some(-32020),
    );
    let padded = bench.good().set("Mcp-Name", "  echo \t").send(bench.gateway.addr);
    assert_eq!(padded.status, 200, "outer white space is trimmed: {}", padded.text());
    let read = bench.client().request("resources/read", r#"{"uri":"file:///notes/a.txt"}"#);
    bench.refuses("other uri", &read.clone().set("Mcp-Name", "file:///notes/b.txt"), &[400], Some(-32020));
    bench.refuses("no uri", &read.without("Mcp-Name"), &[400], Some(-32020));
    let prompt = bench.client().request("prompts/get", r#"{"name":"greet"}"#);
    bench.refuses("other prompt", &prompt.set("Mcp-Name", "bare"), &[400], Some(-32020));
}

#[test]
fn m3_the_base64_form_is_decoded_and_compared() {
    let bench = bench(vec![simple_tool("echo"), simple_tool("grüße"), simple_tool("=?base64?eA==?=")]);
    let call = |name: &str, header: &str| -> Request {
        bench.client().request("tools/call", &call_params(name, "{}")).set("Mcp-Name", header)
    };
    for (name, header) in [
        ("echo", sentinel(b"echo")),
        ("grüße", sentinel("grüße".as_bytes())),
        ("=?base64?eA==?=", sentinel(b"=?base64?eA==?=")),
    ] {
        let answer = call(name, &header).send(bench.gateway.addr);
        assert_eq!(answer.status, 200, "{name} as {header}: {}", answer.text());
        let seen = bench.up.seen_of("tools/call").pop().expect("the call");
        assert_eq!(seen.header("mcp-name"), Some(mirrored(name).as_str()));
    }
    for (what, header) in [
        ("bad base64", "=?base64?%%%?=".to_owned()),
        ("no padding", "=?base64?ZWNobw?=".to_owned()),
        ("bad length", "=?base64?ZWNob?=".to_owned()),
        ("not UTF-8", sentinel(b"\xff\xfe")),
        ("line breaks", sentinel(b"echo\r\nX-Evil: 1")),
        ("encoded twice", sentinel(sentinel(b"echo").as_bytes())),
        ("capital marker", sentinel(b"echo").replace("base64", "BASE64")),
        ("other name", sentinel(b"danger")),
        ("empty", "=?base64??=".to_owned()),
    ] {
        bench.refuses(what, &call("echo", &header), &[400], Some(-32020));
    }
    // Plain text that looks like the base64 form means what it decodes to.
    bench.refuses("sentinel as plain", &call("=?base64?eA==?=", "=?base64?eA==?="), &[400], Some(-32020));
    bench.refuses("raw UTF-8", &call("grüße", "grüße"), &[400], Some(-32020));
}

#[test]
fn m4_parameter_headers_must_equal_the_arguments() {
    let properties = r#"{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"},"on":{"type":"boolean","x-mcp-header":"On"},"in":{"type":"object","properties":{"deep":{"type":"string","x-mcp-header":"Deep"}}},"free":{"type":"string"}}"#;
    let bench = bench(vec![tool("sql", properties)]);
    bench.client().names("tools/list");
    let call = |arguments: &str| bench.client().request("tools/call", &call_params("sql", arguments));
    let us = r#"{"region":"us-west1"}"#;
    bench.refuses("different", &call(us).header("Mcp-Param-Region", "eu"), &[400], Some(-32020));
    bench.refuses("case", &call(us).header("Mcp-Param-Region", "US-WEST1"), &[400], Some(-32020));
    bench.refuses("absent", &call(us), &[400], Some(-32020));
    bench.refuses(
        "twice",
        &call(us).header("Mcp-Param-Region", "us-west1").header("mcp-param-region", "us-west1"),
        &[400],
        Some(-32020),
    );
    bench.refuses(
        "null argument",
        &call(r#"{"region":null}"#).header("Mcp-Param-Region", "null"),
        &[400],
        Some(-32020),
    );
    bench.refuses("no argument", &call("{}").header("Mcp-Param-Region", "us-west1"), &[400], Some(-32020));
    bench.refuses("other number", &call(r#"{"n":42}"#).header("Mcp-Param-Count", "43"), &[400], Some(-32020));
    bench.refuses(
        "other flag",
        &call(r#"{"on":true}"#).header("Mcp-Param-On", "false"),
        &[400],
        Some(-32020),
    );
    bench.refuses(
        "flag's case",
        &call(r#"{"on":true}"#).header("Mcp-Param-On", "True"),
        &[400],
        Some(-32020),
    );
    bench.refuses(
        "deep",
        &call(r#"{"in":{"deep":"a"}}"#).header("Mcp-Param-Deep", "b"),
        &[400],
        Some(-32020),
    );
    bench.refuses("bad base64", &call(us).header("Mcp-Param-Region", "=?base64?%?="), &[400], Some(-32020));
    for (what, arguments, name, value) in [
        ("equal", us, "Mcp-Param-Region", "us-west1".to_owned()),
        ("base64", r#"{"region":"Hello, 世界"}"#, "Mcp-Param-Region", sentinel("Hello, 世界".as_bytes())),
        ("lower case name", us, "mcp-param-region", "us-west1".to_owned()),
        ("42 is 42.0", r#"{"n":42}"#, "Mcp-Param-Count", "42.0".to_owned()),
        ("negative", r#"{"n":-7}"#, "Mcp-Param-Count", "-7".to_owned()),
        ("flag", r#"{"on":false}"#, "Mcp-Param-On", "false".to_owned()),
        ("deep", r#"{"in":{"deep":"a"}}"#, "Mcp-Param-Deep", "a".to_owned()),
    ] {
        let answer = call(arguments).header(name, &value).send(bench.gateway.addr);
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
    }
    assert_eq!(call(r#"{"region":null,"free":"x"}"#).send(bench.gateway.addr).status, 200);
    assert_eq!(call("{}").send(bench.gateway.addr).status, 200);
}

#[test]
fn m4_headers_for_the_server_are_built_from_the_arguments() {
    let properties = r#"{"region":{"type":"string","x-mcp-header":"Region"},"n":{"type":"integer","x-mcp-header":"Count"},"on":{"type":"boolean","x-mcp-header":"On"}}"#;
    let bench = bench(vec![tool("sql", properties)]);
    // A legacy client knows nothing of these headers; the server still gets them.
    let legacy = tollgate_tests::client::Legacy::server(bench.gateway.addr, "up");
    let answer = legacy.call("sql", r#"{"region":" padded ","n":-7,"on":true}"#);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = bench.up.seen_of("tools/call").pop().expect("the call");
    assert_eq!(seen.header("mcp-param-region"), Some("=?base64?IHBhZGRlZCA=?="));
    assert_eq!(seen.header("mcp-param-count"), Some("-7"));
    assert_eq!(seen.header("mcp-param-on"), Some("true"));
    legacy.call("sql", r#"{"region":null}"#);
    let seen = bench.up.seen_of("tools/call").pop().expect("the call");
    assert!(
        seen.headers.iter().all(|(n, _)| !n.to_lowercase().starts_with("mcp-param-")),
        "{:?}",
        seen.headers
    );
}

#[test]
fn m4_a_servers_mismatch_refreshes_the_list_and_repeats_once() {
    let fresh = tool("sql", r#"{"region":{"type":"string","x-mcp-header":"Region"}}"#);
    let peer = Peer::modern("up").tools(vec![tool("sql", r#"{"region":{"type":"string"}}"#)]);
    let up = Scripted::carried(peer, Carrier::Json, |seen, out| {
        if seen.is("tools/call") && seen.header("mcp-param-region").is_none() {
            out.json(400, seen.rpc().error(-32020, "Header mismatch: Mcp-Param-Region is missing"));
            return true;
        }
        echo_any(seen, out)
    });
    let bench = Bench::of(up, "", "");
    bench.client().names("tools/list");
    bench.up.peer().set_tools(vec![fresh]);
    let answer =
        tollgate_tests::client::Legacy::server(bench.gateway.addr, "up").call("sql", r#"{"region":"eu"}"#);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.result()["content"][0]["text"], "ok", "{}", answer.text());
    assert_eq!(bench.up.count("tools/call"), 2, "repeated once");
}

#[test]
fn m5_unknown_parameter_headers_decide_nothing() {
    let bench = bench(vec![tool("sql", r#"{"region":{"type":"string","x-mcp-header":"Region"}}"#)]);
    let request = bench.client().request("tools/call", &call_params("sql", r#"{"region":"eu"}"#));
    let answer =
        request.header("Mcp-Param-Region", "eu").header("Mcp-Param-Other", "x").send(bench.gateway.addr);
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn m6_a_tool_with_a_bad_annotation_is_left_out_alone() {
    let bad = [
        ("empty", r#"{"a":{"type":"string","x-mcp-header":""}}"#),
        ("crlf", r#"{"a":{"type":"string","x-mcp-header":"A\r\nX: 1"}}"#),
        ("no_token", r#"{"a":{"type":"string","x-mcp-header":"A B"}}"#),
        (
            "twice",
            r#"{"a":{"type":"string","x-mcp-header":"Same"},"b":{"type":"string","x-mcp-header":"sAME"}}"#,
        ),
        ("number", r#"{"a":{"type":"number","x-mcp-header":"A"}}"#),
        ("object", r#"{"a":{"type":"object","x-mcp-header":"A"}}"#),
        ("items", r#"{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}"#),
        ("one_of", r#"{"a":{"oneOf":[{"type":"string","x-mcp-header":"A"}]}}"#),
        ("not_text", r#"{"a":{"type":"string","x-mcp-header":7}}"#),
    ];
    let mut tools: Vec<String> = bad.iter().map(|(name, p)| tool(name, p)).collect();
    tools.push(r##"{"name":"by_ref","inputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":"string","x-mcp-header":"A"}}}}"##.into());
    tools.push(tool("good", r#"{"a":{"type":"string","x-mcp-header":"A"}}"#));
    tools.push(simple_tool("plain"));
    let bench = bench(tools);
    assert_eq!(bench.client().names("tools/list"), ["good", "plain"]);
    let status = bench.gateway.server_status("up").to_string();
    assert!(
        status.contains("number") || bench.gateway.log().contains("number"),
        "no reason anywhere: {status}"
    );
    let answer = bench.client().call("number", r#"{"a":1}"#);
    assert_eq!(answer.code(), Some(-32602), "a tool left out can't be called: {}", answer.text());
    assert_eq!(bench.up.count("tools/call"), 0);
}

#[test]
fn m8_renamed_tools_reach_the_server_under_their_own_names() {
    let one = Scripted::json(Peer::modern("one"));
    let two = Scripted::json(Peer::modern("two"));
    let gateway = Gateway::start(&yaml("", &[http("one", &one, ""), http("two", &two, "")]));
    for (server, up) in [("one", &one), ("two", &two)] {
        let answer = gateway.modern().call(&format!("{server}__echo"), "{}");
        assert_eq!(answer.result()["structuredContent"]["server"], json!(server), "{}", answer.text());
        let prompt = gateway.modern().send("prompts/get", &format!(r#"{{"name":"{server}__greet"}}"#));
        assert_eq!(prompt.status, 200, "{}", prompt.text());
        let read =
            gateway.modern().send("resources/read", &format!(r#"{{"uri":"{server}+file:///notes/a.txt"}}"#));
        assert_eq!(read.status, 200, "{}", read.text());
        for (method, name) in
            [("tools/call", "echo"), ("prompts/get", "greet"), ("resources/read", "file:///notes/a.txt")]
        {
            assert_eq!(up.seen_of(method).pop().expect("seen").header("mcp-name"), Some(name));
        }
        up.assert_clean();
    }
}
