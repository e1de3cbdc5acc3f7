//! Tests of the bridge between the eras.

use super::*;
use crate::json::Limits;
use Era::{Legacy, Modern};

fn raw(text: &str) -> Raw {
    Raw::parse(bytes::Bytes::copy_from_slice(text.as_bytes()), &Limits::ANSWER)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn bridge(client: Era, server: Era, method: &str, result: &str) -> String {
    to_client(client, server, method, &raw(result), Cache { ttl_ms: 60_000 }).as_str().to_owned()
}

#[test]
fn modern_clients_get_what_the_revision_demands() {
    let result = r#"{ "tools" : [ {"n":1e400} ] , "x":null }"#;
    let full = r#"{ "tools" : [ {"n":1e400} ] , "x":null,"resultType":"complete","ttlMs":60000,"cacheScope":"private" }"#;
    assert_eq!(bridge(Modern, Legacy, "tools/list", result), full);
    assert_eq!(bridge(Modern, Modern, "tools/list", full), full);
    assert_eq!(
        bridge(Modern, Legacy, "tools/call", r#"{"content":[]}"#),
        r#"{"content":[],"resultType":"complete"}"#
    );
    for method in
        ["server/discover", "prompts/list", "resources/list", "resources/templates/list", "resources/read"]
    {
        assert_eq!(
            bridge(Modern, Legacy, method, "{}"),
            r#"{"resultType":"complete","ttlMs":60000,"cacheScope":"private"}"#
        );
    }
}

#[test]
fn cache_hints_are_private_and_never_longer() {
    for (given, shown) in [
        ("5", "5"),
        ("60000", "60000"),
        ("60001", "60000"),
        ("-1", "0"),
        ("1.5", "0"),
        ("\"9\"", "0"),
        ("null", "0"),
    ] {
        let result = format!(r#"{{"ttlMs":{given},"cacheScope":"public","resultType":"complete"}}"#);
        let expected = format!(r#"{{"ttlMs":{shown},"cacheScope":"private","resultType":"complete"}}"#);
        assert_eq!(bridge(Modern, Modern, "resources/read", &result), expected);
    }
    // What is not complete is not cached, and other methods' members of these names are their own.
    let asked = r#"{"resultType":"input_required","ttlMs":5,"inputRequests":{},"cacheScope":"public"}"#;
    assert_eq!(
        bridge(Modern, Modern, "resources/read", asked),
        r#"{"resultType":"input_required","inputRequests":{}}"#
    );
    let call = r#"{"ttlMs":5,"resultType":"complete","cacheScope":"public"}"#;
    assert_eq!(bridge(Modern, Modern, "tools/call", call), call);
}

#[test]
fn legacy_clients_get_no_modern_fields() {
    let result =
        r#"{"resultType":"complete", "tools":[ ], "ttlMs":5 ,"cacheScope":"public", "nextCursor":"c"}"#;
    assert_eq!(bridge(Legacy, Modern, "tools/list", result), r#"{"tools":[ ], "nextCursor":"c"}"#);
    let own = r#"{"ttlMs":5,"resultType":7}"#;
    assert_eq!(bridge(Legacy, Legacy, "tools/call", own), own);
}

#[test]
fn u5_a_legacy_servers_modern_words_mean_nothing() {
    let forged = r#"{"resultType":"input_required","tools":[],"inputRequests":{"a":{}},"requestState":"s"}"#;
    assert_eq!(bridge(Modern, Legacy, "tools/call", forged), r#"{"tools":[],"resultType":"complete"}"#);
    assert_eq!(
        bridge(Modern, Legacy, "tools/list", forged),
        r#"{"tools":[],"resultType":"complete","ttlMs":60000,"cacheScope":"private"}"#
    );
    assert_eq!(bridge(Modern, Modern, "tools/call", forged), forged);
}

#[test]
fn untouched_results_are_not_copied() {
    for (client, server, text) in [
        (Legacy, Legacy, r#"{"content":[],"_meta":{"a":1}}"#),
        (Legacy, Modern, r#"{"content":[]}"#),
        (
            Modern,
            Modern,
            r#"{"content":[],"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{}}}"#,
        ),
    ] {
        let result = raw(text);
        let shown = to_client(client, server, "tools/call", &result, Cache { ttl_ms: 0 });
        assert_eq!(shown.bytes().as_ptr(), result.bytes().as_ptr(), "{text}");
    }
}

#[test]
fn j14_gateway_facts_from_a_server_are_removed() {
    let result = r#"{"_meter":{"cost_usd":0},"content":[],"_meta":{"dev.tollgate/receipt":1, "dev.tollgatex/a":2,"dev.tollgate/meter":3},"dev.tollgate/x":1,"resultType":"complete"}"#;
    for (client, rest) in [(Modern, r#","resultType":"complete""#), (Legacy, "")] {
        let expected = format!(r#"{{"content":[],"_meta":{{"dev.tollgatex/a":2}}{rest}}}"#);
        assert_eq!(bridge(client, Modern, "tools/call", result), expected);
    }
    // However the key is spelled; a `_meta` that nothing is left of goes too.
    let spelled = r#"{"\u005fmeter":1,"_meta":{"dev.tollgate\/x":1}}"#;
    assert_eq!(bridge(Legacy, Legacy, "tools/call", spelled), "{}");
}

#[test]
fn structured_values_that_are_no_objects_become_text_for_legacy_clients() {
    let bare = r#"{"structuredContent":[1,"a\n"],"resultType":"complete"}"#;
    assert_eq!(
        bridge(Legacy, Modern, "tools/call", bare),
        r#"{"content":[{"type":"text","text":"[1,\"a\\n\"]"}]}"#
    );
    let empty = r#"{"content":[],"structuredContent":1.0}"#;
    assert_eq!(bridge(Legacy, Modern, "tools/call", empty), r#"{"content":[{"type":"text","text":"1.0"}]}"#);
    let both = r#"{"content":[{"type":"text","text":"x"}],"structuredContent":null}"#;
    assert_eq!(bridge(Legacy, Modern, "tools/call", both), r#"{"content":[{"type":"text","text":"x"}]}"#);
    let object = r#"{"structuredContent":{"a":[1]},"content":[]}"#;
    assert_eq!(bridge(Legacy, Modern, "tools/call", object), object);
    assert_eq!(bridge(Modern, Modern, "tools/call", bare), bare);
}

#[test]
fn result_types() {
    assert_eq!(result_type(&raw("{}")), ResultType::Complete);
    assert_eq!(result_type(&raw(r#"{"resultType":"complete"}"#)), ResultType::Complete);
    assert_eq!(result_type(&raw(r#"{"resultType":"input_requir\u0065d"}"#)), ResultType::InputRequired);
    for text in [r#"{"resultType":"task"}"#, r#"{"resultType":null}"#, r#"{"resultType":1}"#] {
        assert_eq!(result_type(&raw(text)), ResultType::Unknown);
    }
}

#[test]
fn error_codes_per_era() {
    let code =
        |client, server, method, code| error_to_client(client, server, method, RpcError::new(code, "m")).code;
    assert_eq!(code(Modern, Legacy, "resources/read", -32002), -32602);
    assert_eq!(code(Legacy, Modern, "resources/read", -32602), -32002);
    assert_eq!(code(Legacy, Legacy, "resources/read", -32602), -32602);
    assert_eq!(code(Legacy, Legacy, "resources/read", -32002), -32002);
    assert_eq!(code(Modern, Modern, "resources/read", -32602), -32602);
    assert_eq!(code(Modern, Legacy, "tools/call", -32002), -32603);
    assert_eq!(code(Legacy, Legacy, "tools/call", -32042), -32042);
    assert_eq!(code(Modern, Modern, "tools/call", -32021), -32021);
    for (client, server, old) in [
        (Modern, Legacy, -32042),
        (Modern, Modern, -32020),
        (Modern, Modern, -32022),
        (Modern, Modern, -32099),
        (Legacy, Modern, -32020),
        (Legacy, Modern, -32021),
        (Legacy, Modern, -32022),
        (Legacy, Modern, -32042),
    ] {
        assert_eq!(code(client, server, "tools/call", old), -32603, "{old}");
    }
    for old in [-32700, -32600, -32601, -32602, -32603, -32000, -32001, -32019, 7004, 1, 0] {
        assert_eq!(code(Modern, Modern, "tools/call", old), old);
        assert_eq!(code(Legacy, Modern, "tools/call", old), old);
    }
}

#[test]
fn u3_error_messages_are_bounded_and_printable() {
    let message = format!("bad\n\u{1b}[31mthing\u{0}\u{9b}{}", "é".repeat(5 << 20));
    let data = raw(r#"{"_meter":{},"a": 1,"dev.tollgate/x":2}"#);
    let shown = error_to_client(Modern, Legacy, "tools/call", RpcError::new(1, message).with_data(data));
    assert!(shown.message.starts_with("bad [31mthingé") && shown.message.len() <= 4096);
    assert_eq!(shown.data.unwrap().as_str(), r#"{"a": 1}"#);
    let data = raw("[1]");
    let shown =
        error_to_client(Modern, Legacy, "tools/call", RpcError::new(1, "plain ✓").with_data(data.clone()));
    assert_eq!(shown, RpcError::new(1, "plain ✓").with_data(data));
}

#[test]
fn requests_to_servers_of_both_eras() {
    let params: Vec<(Key, Raw)> =
        raw(r#"{"name":"x","\u0061rguments":{"a": 1e400},"_meta":{"stale":1}}"#).members().collect();
    let rest: Vec<(Key, Raw)> = raw(r#"{"other":"00","dev.tollgate/run":"r","progressToken":1,"io.modelcontextprotocol/protocolVersion":"x","io.modelcontextprotocol/ext":1}"#)
        .members()
        .collect();
    let (info, capabilities, level, token) =
        (raw(r#"{"name":"c"}"#), raw(r#"{"roots":{}}"#), raw("\"info\""), raw("7"));
    let mut meta = ServerMeta {
        version: "2026-07-28",
        client_info: Some(&info),
        client_capabilities: &capabilities,
        log_level: Some(&level),
        progress_token: Some(&token),
        rest: &rest,
        added: &[("traceparent", "00")],
    };
    let id = Id::from_number(3);
    let made = |era, params: &[(Key, Raw)], meta: &ServerMeta<'_>| {
        let text = server_request(era, (&id, "tools/call"), params, meta);
        Raw::parse(text.clone(), &Limits::REQUEST).unwrap();
        String::from_utf8(text.to_vec()).unwrap()
    };
    let head = r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":"#;
    let modern = concat!(
        r#"{"name":"x","\u0061rguments":{"a": 1e400},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
        r#""io.modelcontextprotocol/clientInfo":{"name":"c"},"io.modelcontextprotocol/clientCapabilities":{"roots":{}},"#,
        r#""io.modelcontextprotocol/logLevel":"info","progressToken":7,"other":"00","io.modelcontextprotocol/ext":1,"traceparent":"00"}}"#
    );
    assert_eq!(made(Modern, &params, &meta), format!("{head}{modern}}}"));
    let legacy = r#"{"name":"x","\u0061rguments":{"a": 1e400},"_meta":{"progressToken":7,"other":"00","io.modelcontextprotocol/ext":1,"traceparent":"00"}}"#;
    assert_eq!(made(Legacy, &params, &meta), format!("{head}{legacy}}}"));
    (meta.progress_token, meta.added) = (None, &[]);
    assert_eq!(
        made(Legacy, &[], &meta),
        format!(r#"{head}{{"_meta":{{"other":"00","io.modelcontextprotocol/ext":1}}}}}}"#)
    );
    // What does not go on makes no `_meta`.
    meta.rest = &rest[1..4];
    assert_eq!(made(Legacy, &[], &meta), format!("{head}{{}}}}"));
}

#[test]
fn what_claims_to_be_the_gateways_goes_from_data_and_params_and_their_meta() {
    let given =
        r#"{"_meter":{},"a":{"_meter":1},"dev.tollgate/x":1,"_meta":{"k":1,"dev.tollgate/meter":{}}}"#;
    let kept = r#"{"a":{"_meter":1},"_meta":{"k":1}}"#;
    assert_eq!(without_claims(&raw(given)).as_str(), kept);
    assert_eq!(without_claims(&raw(r#"{"a":1,"_meta":{"dev.tollgate/span":"s"}}"#)).as_str(), r#"{"a":1}"#);
    for other in ["[1]", "\"x\"", r#"{"a" : 1}"#] {
        assert_eq!(without_claims(&raw(other)).as_str(), other);
    }
    let error = RpcError { code: -1, message: "m".into(), data: Some(raw(given)) };
    let told = error_to_client(Era::Modern, Era::Modern, method::TOOLS_CALL, error);
    assert_eq!(told.data.unwrap().as_str(), kept);
}
