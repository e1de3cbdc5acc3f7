//! Tests of mirrored arguments by case id (security cases M3–M6).

use super::*;

fn raw(text: &str) -> Raw {
    Raw::parse(bytes::Bytes::copy_from_slice(text.as_bytes()), &Limits::ANSWER)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

const SCHEMA: &str = r#"{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"},
    "n":{"type":"integer","x-mcp-header":"Count"},
    "on":{"x-mcp-header":"On","type":"boolean"},
    "deep":{"type":"object","properties":{"a.b":{"properties":{"c":{"type":"string","x-mcp-header":"Deep"}}}}},
    "plain":{"type":"number"}}}"#;

fn headers() -> ParamHeaders {
    from_schema(&raw(SCHEMA)).unwrap()
}

fn check(arguments: &str, received: &[(&str, &[&str])]) -> Result<(), MirrorError> {
    let received: Vec<(String, Vec<String>)> = received
        .iter()
        .map(|(name, values)| ((*name).to_owned(), values.iter().map(|value| (*value).to_owned()).collect()))
        .collect();
    headers().check(Some(&raw(arguments)), &received)
}

#[test]
fn m4_headers_are_built_along_the_property_path() {
    let built = headers().build(Some(&raw(
        r#"{"region":"Hello, 世界","n":42.0,"on":false,"deep":{"a.b":{"c":" x"}},"plain":1}"#,
    )));
    let expected = [
        ("Mcp-Param-Region", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        ("Mcp-Param-Count", "42"),
        ("Mcp-Param-On", "false"),
        ("Mcp-Param-Deep", "=?base64?IHg=?="),
    ];
    assert_eq!(built, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(headers().build(Some(&raw(r#"{"region":null,"deep":{"a.b":5},"n":[1],"on":{}}"#))).is_empty());
    assert!(headers().build(None).is_empty());
    assert!(from_schema(&raw(r#"{"type":"object"}"#)).unwrap().is_empty());
}

/// Arguments, and the headers received with them.
type Case = (&'static str, &'static [(&'static str, &'static [&'static str])]);

#[test]
fn m4_the_table_of_the_specification() {
    let good: &[Case] = &[
        (r#"{"region":"us-west1"}"#, &[("mcp-param-region", &["us-west1"])]),
        (r#"{"region":"us-west1"}"#, &[("mcp-param-region", &[" us-west1\t"])]),
        (r#"{"region":"Hello"}"#, &[("mcp-param-region", &["=?base64?SGVsbG8=?="])]),
        (r#"{"region":""}"#, &[("mcp-param-region", &[""])]),
        ("{}", &[]),
        (r#"{"region":null,"n":null}"#, &[]),
        (r#"{"n":42}"#, &[("mcp-param-count", &["42.0"])]),
        (r#"{"n":42.0}"#, &[("mcp-param-count", &["42"])]),
        (r#"{"n":-7}"#, &[("mcp-param-count", &["-7"])]),
        (r#"{"on":true}"#, &[("mcp-param-on", &["true"])]),
        (r#"{"deep":{"a.b":{"c":"x"}}}"#, &[("mcp-param-deep", &["x"])]),
    ];
    for (arguments, received) in good {
        assert_eq!(check(arguments, received), Ok(()), "{arguments}");
    }
    let bad: &[Case] = &[
        (r#"{"region":"us-west1"}"#, &[]),
        (r#"{"region":"us-west1"}"#, &[("mcp-param-region", &["us-east1"])]),
        (r#"{"region":"us-west1"}"#, &[("mcp-param-region", &["US-WEST1"])]),
        (r#"{"region":"a"}"#, &[("mcp-param-region", &["a", "a"])]),
        (r#"{"region":"a"}"#, &[("mcp-param-region", &["a"]), ("mcp-param-region", &["b"])]),
        (r#"{"region":null}"#, &[("mcp-param-region", &["null"])]),
        (r#"{"region":null}"#, &[("mcp-param-region", &[""])]),
        ("{}", &[("mcp-param-region", &["x"])]),
        (r#"{"n":42}"#, &[("mcp-param-count", &["42.5"])]),
        (r#"{"n":42}"#, &[("mcp-param-count", &["042"])]),
        (r#"{"n":42}"#, &[("mcp-param-count", &["+42"])]),
        (r#"{"n":42}"#, &[("mcp-param-count", &["[42]"])]),
        (r#"{"n":42}"#, &[("mcp-param-count", &["=?base64?IDQy?="])]),
        (r#"{"on":true}"#, &[("mcp-param-on", &["True"])]),
        (r#"{"on":true}"#, &[("mcp-param-on", &["1"])]),
    ];
    for (arguments, received) in bad {
        assert!(check(arguments, received).is_err(), "{arguments} {received:?}");
    }
}

#[test]
fn m3_bad_encodings_are_refused_and_values_never_shown() {
    for value in [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?/w==?=",
        "Hel\u{7f}lo",
        "Hellö",
        "\u{fffd}",
    ] {
        let error =
            check(r#"{"region":"Hello"}"#, &[("mcp-param-region", &[value])]).unwrap_err().to_string();
        assert!(
            error.starts_with("Header mismatch: Mcp-Param-Region header ") && !error.contains("Hel"),
            "{error}"
        );
    }
}

#[test]
fn m5_unknown_parameter_headers_are_not_looked_at() {
    assert_eq!(check("{}", &[("mcp-param-other", &["x", "\u{1}"])]), Ok(()));
}

#[test]
fn m6_bad_annotations_drop_the_tool() {
    let schema = |property: &str| {
        format!(
            r#"{{"type":"object","properties":{{"p":{property},"q":{{"type":"string","x-mcp-header":"Q"}}}}}}"#
        )
    };
    for value in [
        r#""""#,
        r#""a\r\nb""#,
        r#""a b""#,
        r#""a:b""#,
        r#""é""#,
        r#""Q""#,
        r#""q""#,
        "null",
        "1",
        "[]",
        "true",
    ] {
        let text = schema(&format!(r#"{{"type":"string","x-mcp-header":{value}}}"#));
        assert!(from_schema(&raw(&text)).is_err(), "{value}");
    }
    let long = format!("\"{}\"", "x".repeat(129));
    assert!(from_schema(&raw(&schema(&format!(r#"{{"type":"string","x-mcp-header":{long}}}"#)))).is_err());
    for kind in [
        r#""number""#,
        r#""object""#,
        r#""array""#,
        r#""null""#,
        r#"["string","null"]"#,
        r#"["string"]"#,
        "1",
    ] {
        let text = schema(&format!(r#"{{"x-mcp-header":"P","type":{kind}}}"#));
        assert!(from_schema(&raw(&text)).is_err(), "{kind}");
    }
    let good = r#"{"x-mcp-header":"P","type":"string"}"#;
    assert!(from_schema(&raw(&schema(r#"{"x-mcp-header":"P"}"#))).is_err(), "no type");
    for around in [
        r#"{"type":"array","items":GOOD}"#,
        r#"{"prefixItems":[GOOD]}"#,
        r#"{"oneOf":[{"properties":{"x":GOOD}}]}"#,
        r#"{"anyOf":[GOOD]}"#,
        r#"{"allOf":[GOOD]}"#,
        r#"{"not":GOOD}"#,
        r#"{"if":{"properties":{"x":GOOD}}}"#,
        r#"{"then":GOOD}"#,
        r#"{"additionalProperties":GOOD}"#,
        r#"{"patternProperties":{"^x":GOOD}}"#,
        r#"{"$defs":{"x":GOOD}}"#,
        r#"{"x-own":{"y":[GOOD]}}"#,
    ] {
        let text = schema(&around.replace("GOOD", good));
        assert!(from_schema(&raw(&text)).is_err(), "{around}");
        assert!(
            from_schema(&raw(&text.replace("x-mcp-header", "x-mcp-heade\\u0072"))).is_err(),
            "escaped: {around}"
        );
    }
    assert!(from_schema(&raw(r#"{"type":"object","x-mcp-header":"Root"}"#)).is_err());
    assert!(from_schema(&raw(r##"{"$defs":{"r":{"type":"string","x-mcp-header":"R"}},"properties":{"p":{"$ref":"#/$defs/r"}}}"##)).is_err());
}

#[test]
fn m6_what_only_looks_like_an_annotation_passes() {
    for text in [
        r#"{"properties":{"x-mcp-header":{"type":"array","items":{"type":"string"}}}}"#,
        r#"{"properties":{"p":{"default":{"x-mcp-header":""},"enum":[{"x-mcp-header":1}],"const":{"x-mcp-header":1}}}}"#,
        r#"{"$defs":{"x-mcp-header":{"type":"string"}}}"#,
        r#"{"description":"x-mcp-header"}"#,
        "true",
    ] {
        assert_eq!(from_schema(&raw(text)), Ok(ParamHeaders::default()), "{text}");
    }
}

#[test]
fn schemas_nested_beyond_reason_are_refused() {
    let text = format!("{}{{\"x-mcp-header\":1}}{}", "{\"not\":".repeat(5000), "}".repeat(5000));
    let deep = Raw::parse(text.into(), &Limits { depth: u16::MAX, nodes: u32::MAX }).unwrap();
    assert!(from_schema(&deep).is_err());
}
