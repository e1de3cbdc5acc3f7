//! Tests of the envelope by case id (security cases J1, J3, J4, J8, J10, U2, U3).

use super::*;
use crate::json::Limits;

fn raw(text: &str) -> Raw {
    Raw::parse(Bytes::copy_from_slice(text.as_bytes()), &Limits::REQUEST)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn read(text: &str) -> Result<Message, EnvelopeError> {
    decode(&raw(text))
}

#[track_caller]
fn refused(text: &str) -> EnvelopeError {
    let error = read(text).expect_err(text);
    assert_eq!(error.code, -32600);
    error
}

#[test]
fn j1_arrays_are_no_message() {
    for text in ["[]", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, "1", "\"x\"", "null", "true", "{}"] {
        refused(text);
    }
}

#[test]
fn requests_and_notifications() {
    let message = read(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name" : "x"}}"#);
    let Ok(Message::Request(request)) = message else { panic!("{message:?}") };
    assert_eq!((request.id.raw().as_str(), request.method.as_str()), ("\"a\"", "tools/call"));
    assert_eq!(request.params.unwrap().as_str(), r#"{"name" : "x"}"#);
    let message = read(r#"{"method":"notifications/cancelled","jsonrpc":"2.0"}"#);
    let Ok(Message::Notification(notification)) = message else { panic!("{message:?}") };
    assert_eq!(notification, Notification { method: "notifications/cancelled".into(), params: None });
}

#[test]
fn j3_members_are_known_and_spelled_exactly() {
    for (key, value) in [
        ("Method", "\"x\""),
        ("METHOD", "\"x\""),
        ("method\\u0000", "\"x\""),
        ("PARAMS", "{}"),
        ("param\u{17f}", "{}"),
        ("\u{212a}elvin", "1"),
        ("jsonRPC", "\"2.0\""),
        ("ID", "2"),
        ("extra", "null"),
        ("", "1"),
    ] {
        let error = refused(&format!(r#"{{"jsonrpc":"2.0","id":7,"method":"ping","{key}":{value}}}"#));
        assert_eq!(error.id, Some(Id::from_number(7)), "{key}");
        refused(&format!(r#"{{"jsonrpc":"2.0","id":7,"{key}":{value}}}"#));
    }
    // An escaped spelling of the key is the same key.
    assert!(read(r#"{"jsonrpc":"2.0","id":1,"m\u0065thod":"ping"}"#).is_ok());
}

#[test]
fn j3_version_is_exact() {
    for version in ["\"1.0\"", "2.0", "2", "\"2.0 \"", "null", "\"2\""] {
        refused(&format!(r#"{{"jsonrpc":{version},"id":1,"method":"ping"}}"#));
    }
    refused(r#"{"id":1,"method":"ping"}"#);
}

#[test]
fn j4_ids() {
    let long = format!("\"{}\"", "x".repeat(257));
    let huge = format!("\"{}\"", "x".repeat(10 << 20));
    let escaped = format!("\"{}\"", "\\u0061".repeat(257));
    for id in [
        "null",
        "true",
        "1.5",
        "{}",
        "[]",
        "\"\"",
        &huge,
        &long,
        &escaped,
        "9007199254740992",
        "-9007199254740992",
        "18446744073709551616",
        "1e400",
        "-0",
        "0.0",
        "1.0",
        "1e2",
        "\"\\u0000\"",
        "\"a\\nb\"",
    ] {
        let error = refused(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        assert_eq!(error.id, None);
    }
    let exact = format!("\"{}\"", "x".repeat(256));
    for id in ["0", "-1", "9007199254740991", "-9007199254740991", "\"1\"", "\"\\u0041 é\"", &exact] {
        let message = read(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        let Ok(Message::Request(request)) = message else { panic!("{id}: {message:?}") };
        assert_eq!(request.id.raw().as_str(), id, "echoed as received");
    }
}

#[test]
fn u2_ids_differ_by_kind_and_agree_across_spellings() {
    let id = |text: &str| Id::from_raw(&raw(text)).unwrap();
    assert_ne!(id("1"), id("\"1\""));
    assert_eq!(id("\"a\""), id("\"\\u0061\""));
    assert_eq!(id("5"), Id::from_number(5));
    assert_eq!((id("5").number(), id("\"5\"").number()), (Some(5), None));
    let ids = std::collections::HashSet::from([id("1"), id("\"1\""), id("\"\\u0031\"")]);
    assert_eq!(ids.len(), 2);
    assert_eq!(Id::from_number(u64::MAX).raw().as_str(), "9007199254740991");
}

#[test]
fn j8_methods_are_short_plain_strings() {
    let long = format!("\"{}\"", "m".repeat(129));
    for method in ["1", "null", "{}", "\"\"", "\"a\\u0000b\"", "\"a\\nb\"", "\"\\u009b\"", &long] {
        refused(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":{method}}}"#));
    }
}

#[test]
fn params_are_an_object() {
    for params in ["[]", "null", "1", "\"x\""] {
        refused(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{params}}}"#));
    }
}

#[test]
fn j10_a_null_id_never_makes_a_notification() {
    refused(r#"{"jsonrpc":"2.0","id":null,"method":"notifications/initialized"}"#);
}

#[test]
fn responses() {
    let message = read(r#"{"jsonrpc":"2.0","id":3,"result":{"a": 1.0}}"#);
    let Ok(Message::Response(Response { id: Some(id), outcome: Ok(result) })) = message else {
        panic!("{message:?}")
    };
    assert_eq!((id.number(), result.as_str()), (Some(3), "{\"a\": 1.0}"));
    for id in ["", r#""id":null,"#] {
        let message = read(&format!(
            r#"{{"jsonrpc":"2.0",{id}"error":{{"code":-32700,"message":"m","data":[1],"x":2}}}}"#
        ));
        let Ok(Message::Response(Response { id: None, outcome: Err(error) })) = message else {
            panic!("{message:?}")
        };
        assert_eq!(error, RpcError::new(-32700, "m").with_data(raw("[1]")));
    }
}

#[test]
fn u3_malformed_responses() {
    for rest in [
        r#""id":1,"result":{},"error":{"code":1,"message":""}"#,
        r#""id":1"#,
        r#""id":1,"result":[]"#,
        r#""id":1,"result":null"#,
        r#""result":{}"#,
        r#""id":null,"result":{}"#,
        r#""id":1,"result":{},"params":{}"#,
        r#""id":1,"result":{},"method":"x""#,
        r#""id":1,"error":{"code":"1","message":""}"#,
        r#""id":1,"error":{"code":1.5,"message":""}"#,
        r#""id":1,"error":{"code":1}"#,
        r#""id":1,"error":{"message":"x"}"#,
        r#""id":1,"error":{"code":1,"message":null}"#,
        r#""id":1,"error":"x""#,
        r#""id":{},"error":{"code":1,"message":"x"}"#,
        r#""id":1,"method":"x","error":{"code":1,"message":"x"}"#,
    ] {
        refused(&format!(r#"{{"jsonrpc":"2.0",{rest}}}"#));
    }
}

#[test]
fn what_is_written_reads_back() {
    let id = Id::from_raw(&raw("\"\\u0061\"")).unwrap();
    let params = raw(r#"{"n":1e400}"#);
    assert_eq!(
        request(&id, "a\"b", Some(&params)),
        r#"{"jsonrpc":"2.0","id":"\u0061","method":"a\"b","params":{"n":1e400}}"#
    );
    assert_eq!(request(&id, "ping", None), r#"{"jsonrpc":"2.0","id":"\u0061","method":"ping"}"#);
    assert_eq!(notification("n", Some(&params)), r#"{"jsonrpc":"2.0","method":"n","params":{"n":1e400}}"#);
    assert_eq!(result(&id, &params), r#"{"jsonrpc":"2.0","id":"\u0061","result":{"n":1e400}}"#);
    let problem = RpcError::new(-32602, "no\n\u{1b}[1m").with_data(raw("{}"));
    assert_eq!(
        error(Some(&id), &problem),
        "{\"jsonrpc\":\"2.0\",\"id\":\"\\u0061\",\"error\":{\"code\":-32602,\"message\":\"no\\n\\u001b[1m\",\"data\":{}}}"
    );
    assert_eq!(error(None, &RpcError::new(1, "")), r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#);
    assert!(matches!(
        read(std::str::from_utf8(&error(Some(&id), &problem)).unwrap()),
        Ok(Message::Response(_))
    ));
}
