//! The cases K1 to K7 as they come through a call's arguments.

use super::*;

fn schema(text: &str) -> Arguments {
    let arguments = Arguments::compile(text);
    assert_eq!(arguments.unfit(), None, "{text}");
    arguments
}

#[test]
fn a_violation_names_the_place_and_the_keyword_and_not_the_value() {
    let tool = schema(
        r#"{"type":"object","properties":{"q":{"type":"object","properties":{"n":{"maxLength":3}}}}}"#,
    );
    assert_eq!(tool.check(Some(r#"{"q":{"n":"abc"}}"#)), Ok(()));
    let rejected = tool.check(Some(r#"{"q":{"n":"hunter2"}}"#)).unwrap_err();
    let told = rejected.to_string();
    assert_eq!(
        told,
        "The argument at /q/n breaks 'maxLength' of the tool's input schema. The call was not sent."
    );
    assert!(!format!("{rejected:?}").contains("hunter2"));
}

#[test]
fn absent_arguments_are_an_empty_object_and_others_are_refused() {
    let tool = schema(r#"{"type":"object","required":["q"]}"#);
    assert!(matches!(tool.check(None), Err(Rejected::Broken { pointer, .. }) if pointer.is_empty()));
    assert_eq!(schema(r#"{"type":"object"}"#).check(None), Ok(()));
    for no_object in ["[]", "1", "null", "\"{}\"", "{"] {
        assert_eq!(tool.check(Some(no_object)), Err(Rejected::NoObject), "{no_object}");
    }
}

#[test]
fn x6_a_place_that_is_told_is_visible_and_short() {
    let tool = schema(r#"{"additionalProperties":{"type":"integer"}}"#);
    let name = format!("a\\n\\u001b[31m\\u202e{}", "x".repeat(5000));
    let told = tool.check(Some(&format!(r#"{{"{name}":"v"}}"#))).unwrap_err().to_string();
    assert!(told.len() < 400 && !told.contains(['\n', '\u{1b}', '\u{202e}']), "{told:?}");
}

#[test]
fn k1_a_schema_that_points_out_of_itself_makes_its_tool_unfit_and_nothing_valid() {
    for text in [
        r#"{"properties":{"a":{"$ref":"http://127.0.0.1:1/canary"}}}"#,
        r#"{"properties":{"a":{"$ref":"file:///etc/passwd"}}}"#,
        r#"{"properties":{"a":{"$dynamicRef":"http://127.0.0.1:1/canary#x"}}}"#,
        r##"{"properties":{"a":{"$id":"http://127.0.0.1:1/","$ref":"#/x"}}}"##,
        r#"{"$schema":"http://127.0.0.1:1/schema"}"#,
    ] {
        let tool = Arguments::compile(text);
        let reason = tool.unfit().unwrap();
        assert_eq!(tool.check(Some("{}")), Err(Rejected::Unfit(reason)), "{text}");
    }
}

#[test]
fn k2_k3_cost_is_bounded_before_anything_is_compiled_or_checked() {
    let doubled: String = (1..=26)
        .map(|n| {
            format!(
                r##","a{n}":{{"allOf":[{{"$ref":"#/$defs/a{}"}},{{"$ref":"#/$defs/a{}"}}]}}"##,
                n - 1,
                n - 1
            )
        })
        .collect();
    let text = format!(r##"{{"$defs":{{"a0":{{}}{doubled}}},"$ref":"#/$defs/a26"}}"##);
    assert!(Arguments::compile(&text).unfit().is_some());
    let twice = schema(
        r##"{"properties":{"a":{"$ref":"#"}},"additionalProperties":{"allOf":[{"$ref":"#"},{"$ref":"#"}]}}"##,
    );
    let deep = format!("{}1{}", r#"{"b":"#.repeat(60), "}".repeat(60));
    assert_eq!(twice.check(Some(&deep)), Err(Rejected::TooCostly));
    let many: String = (0..10_000).map(|n| format!(r#"{{"const":{n}}},"#)).collect();
    let one_of = schema(&format!(r#"{{"properties":{{"a":{{"oneOf":[{}]}}}}}}"#, many.trim_end_matches(',')));
    assert_eq!(one_of.check(Some(r#"{"a":7}"#)), Ok(()));
    let nested = format!("{}1{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    assert_eq!(schema("{}").check(Some(&nested)), Err(Rejected::NoObject));
}

#[test]
fn k4_a_pattern_for_a_backtracking_engine_makes_its_tool_unfit() {
    let tool = Arguments::compile(r#"{"properties":{"a":{"pattern":"^(a|a)*\\1?$"}}}"#);
    assert!(tool.unfit().is_some());
    let linear = schema(r#"{"properties":{"a":{"pattern":"^(a|a)*$"}}}"#);
    let long = format!(r#"{{"a":"{}b"}}"#, "a".repeat(100_000));
    assert!(
        matches!(linear.check(Some(&long)), Err(Rejected::Broken { keyword, .. }) if keyword == "pattern")
    );
}

#[test]
fn k5_known_dialects_are_read_and_others_are_unfit() {
    for known in [
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        let tool = schema(&format!(r#"{{"$schema":"{known}","type":"object","required":["a"]}}"#));
        assert_eq!(tool.check(Some(r#"{"a":1}"#)), Ok(()), "{known}");
        assert!(tool.check(Some("{}")).is_err(), "{known}");
    }
    assert!(
        Arguments::compile(r#"{"$schema":"https://json-schema.org/draft/2099-01/schema"}"#).unfit().is_some()
    );
    assert!(Arguments::compile("no schema").unfit().is_some());
    assert!(Arguments::compile("7").unfit().is_some());
}

#[test]
fn k6_extreme_keywords_neither_panic_nor_accept_everything() {
    for text in [
        r#"{"properties":{"a":{"multipleOf":1e-300}}}"#,
        r#"{"properties":{"a":{"minimum":1e308,"maximum":-1e308}}}"#,
        r#"{"properties":{"a":{"format":"regex","contentEncoding":"base64","contentMediaType":"application/json"}}}"#,
        r#"{"properties":{"a":{"minLength":9007199254740993,"maxItems":1e300}}}"#,
    ] {
        let tool = Arguments::compile(text);
        for arguments in
            [r#"{"a":1e308}"#, r#"{"a":-0.1}"#, r#"{"a":"(((("}"#, r#"{"a":[1]}"#, r#"{"a":1e999}"#]
        {
            let _ = tool.check(Some(arguments));
        }
    }
    let tool = schema(r#"{"properties":{"a":{"minimum":1e308}}}"#);
    assert!(tool.check(Some(r#"{"a":1}"#)).is_err());
}

#[test]
fn k7_the_pinned_schema_is_the_one_that_counts() {
    let pinned = schema(r#"{"properties":{"n":{"maximum":10}}}"#);
    let published = schema(r#"{"properties":{"n":{"maximum":1000}}}"#);
    let arguments = Some(r#"{"n":500}"#);
    assert_eq!(published.check(arguments), Ok(()));
    assert!(matches!(pinned.check(arguments), Err(Rejected::Broken { pointer, .. }) if pointer == "/n"));
}
