//! Cases K1 to K4, for schemas by themselves.

use super::*;

#[test]
fn a_value_is_checked_and_the_place_is_told_without_the_value() {
    let schema =
        Schema::compile(r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#);
    let schema = schema.unwrap();
    assert_eq!(schema.check(r#"{"n":1}"#), Ok(()));
    let refusal = schema.check(r#"{"n":"secret"}"#).unwrap_err();
    assert_eq!(refusal, Refusal::Broken(Violation { at: "/n".into(), keyword: "type".into() }));
    assert_eq!(refusal.to_string(), "/n breaks 'type'");
    assert_eq!(schema.check("{"), Err(Refusal::NoJson));
}

#[test]
fn what_a_large_value_and_a_large_schema_cost_together_is_bounded() {
    let rule = r#"{"minimum":0},"#.repeat(10_000);
    let text = format!(r#"{{"items":{{"allOf":[{}]}}}}"#, rule.trim_end_matches(','));
    let schema = Schema::compile(&text).unwrap();
    assert!((20_000..MAX_EXPANDED).contains(&schema.cost()), "{}", schema.cost());
    let value = |n: usize| format!("[{}]", vec!["1"; n].join(","));
    assert_eq!(schema.check(&value(100)), Ok(()));
    assert_eq!(schema.check(&value(100_000)), Err(Refusal::TooCostly));
    // Much of it, but little to be done for each part.
    let wide = format!(
        r#"{{"items":{{"oneOf":[true]}},"$defs":{{"x":{{"allOf":[{}]}}}}}}"#,
        rule.trim_end_matches(',')
    );
    assert_eq!(Schema::compile(&wide).unwrap().check(&value(100_000)), Ok(()));
    let cheap = Schema::compile(r#"{"items":{"type":"integer"}}"#).unwrap();
    assert_eq!(cheap.check(&value(100_000)), Ok(()));
}

#[test]
fn k1_nothing_outside_is_referred_to() {
    for reference in ["http://127.0.0.1:1/x", "file:///etc/passwd", "other.json"] {
        let text = format!(r#"{{"properties":{{"a":{{"$ref":"{reference}"}}}}}}"#);
        assert!(Schema::compile(&text).is_err(), "{reference}");
    }
    assert!(Schema::compile(r#"{"$schema":"http://127.0.0.1:1/mine"}"#).is_err());
    assert!(Schema::compile(r##"{"$defs":{"x":{"$id":"http://a/b","$ref":"#/c"}}}"##).is_err());
}

#[test]
fn k2_doubling_references_are_refused_before_they_are_compiled() {
    let mut defs = r#""a0":{"type":"string"}"#.to_owned();
    for n in 1..=26 {
        let m = n - 1;
        defs.push_str(&format!(
            r##","a{n}":{{"allOf":[{{"$ref":"#/$defs/a{m}"}},{{"$ref":"#/$defs/a{m}"}}]}}"##
        ));
    }
    let text = format!(r##"{{"$defs":{{{defs}}},"$ref":"#/$defs/a26"}}"##);
    assert!(Schema::compile(&text).is_err());
}

#[test]
fn k3_recursion_is_allowed_and_bounded() {
    let tree = r##"{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}}}"##;
    let schema = Schema::compile(tree).unwrap();
    assert!(schema.check(r#"{"children":[{"children":[]}]}"#).is_ok());
    assert!(schema.check(r#"{"children":[{"children":1}]}"#).is_err());
}

#[test]
fn k3_a_reference_that_leads_back_to_itself_is_no_schema_that_accepts_everything() {
    for endless in [
        r##"{"$ref":"#"}"##,
        r##"{"allOf":[{"$ref":"#"}]}"##,
        r##"{"type":"object","not":{"$ref":"#"}}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"#/$defs/a"}}}"##,
        r##"{"$defs":{"a":{"$anchor":"a","anyOf":[{"type":"string"},{"$ref":"#b"}]},"b":{"$anchor":"b","$ref":"#a"}},"$ref":"#a"}"##,
        r##"{"$dynamicAnchor":"n","if":{"$dynamicRef":"#n"},"then":{"type":"object"}}"##,
        r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","oneOf":[{"$recursiveRef":"#"}]}"##,
        r##"{"dependentSchemas":{"x":{"$ref":"#"}}}"##,
        r##"{"properties":{"x":{"$ref":"#/properties/x"}}}"##,
    ] {
        assert!(Schema::compile(endless).is_err(), "{endless}");
    }
    // Each step into the value is one that ends.
    for fine in [
        r##"{"properties":{"child":{"$ref":"#"}}}"##,
        r##"{"items":{"anyOf":[{"type":"integer"},{"$ref":"#"}]}}"##,
        r##"{"$defs":{"a":{"properties":{"b":{"$ref":"#/$defs/b"}}},"b":{"items":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
        r##"{"$defs":{"a":{"type":"string"}},"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}"##,
    ] {
        assert!(Schema::compile(fine).is_ok(), "{fine}");
    }
}

#[test]
fn k2_k3_no_order_of_circles_hides_a_doubling() {
    // Counted from its far end, behind a reference that is still being followed.
    let mut defs = r##""a25":{"properties":{"p":{"$ref":"#/$defs/a0"}}}"##.to_owned();
    for n in 0..25 {
        let m = n + 1;
        defs.push_str(&format!(
            r##","a{n}":{{"allOf":[{{"$ref":"#/$defs/a{m}"}},{{"$ref":"#/$defs/a{m}"}}]}}"##
        ));
    }
    for first in ["a25", "a24", "a12", "a0"] {
        let text = format!(r##"{{"$defs":{{{defs}}},"$ref":"#/$defs/{first}"}}"##);
        let bounded = match Schema::compile(&text) {
            Err(_) => true,
            Ok(schema) => schema.check(r#"{"p":{"p":{"p":1}}}"#) == Err(Refusal::TooCostly),
        };
        assert!(bounded, "{first}");
    }
}

#[test]
fn k3_recursion_that_doubles_at_every_level_is_not_followed_to_its_end() {
    for twice in [
        r##"{"$anchor":"a","items":{"allOf":[{"$ref":"#a"},{"$ref":"#a"}]}}"##,
        r##"{"$defs":{"a":{"items":{"$ref":"#/$defs/a"},"contains":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
    ] {
        let schema = Schema::compile(twice).unwrap();
        assert_eq!(schema.check("[[[1]]]"), Ok(()), "{twice}");
        let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
        assert_eq!(schema.check(&deep), Err(Refusal::TooCostly), "{twice}");
    }
}

#[test]
fn k4_patterns_are_matched_in_linear_time_or_not_at_all() {
    assert!(Schema::compile(r#"{"pattern":"^(a|a)*\\1?$"}"#).is_err());
    assert!(Schema::compile(r#"{"pattern":"^[a-z]+$"}"#).is_ok());
}

/// A schema that nests what asks for everything that was not evaluated.
fn nested(n: usize, wrap: impl Fn(usize, String) -> String) -> String {
    (0..n).fold(r#"{"unevaluatedProperties":true}"#.to_owned(), |inner, at| wrap(at, inner))
}

#[test]
fn k2_what_is_unevaluated_within_what_is_unevaluated_does_not_double() {
    type Wrap = fn(usize, String) -> String;
    let wraps: [(&str, Wrap); 7] = [
        ("allOf", |_, s| format!(r#"{{"allOf":[{s}],"unevaluatedProperties":{{"type":"string"}}}}"#)),
        ("anyOf", |_, s| format!(r#"{{"anyOf":[{s}],"unevaluatedProperties":{{"type":"string"}}}}"#)),
        ("oneOf", |_, s| format!(r#"{{"oneOf":[{s}],"unevaluatedProperties":{{"type":"string"}}}}"#)),
        ("if", |_, s| format!(r#"{{"if":{s},"unevaluatedProperties":{{"type":"string"}}}}"#)),
        ("dependentSchemas", |_, s| {
            format!(r#"{{"dependentSchemas":{{"zz":{s}}},"unevaluatedProperties":{{"type":"string"}}}}"#)
        }),
        ("additionalProperties", |_, s| {
            format!(r#"{{"additionalProperties":{s},"unevaluatedProperties":false}}"#)
        }),
        ("below", |_, s| {
            format!(r#"{{"unevaluatedProperties":{{"allOf":[{s}],"unevaluatedProperties":{s}}}}}"#)
        }),
    ];
    let ended = |text: &str, value: &str| {
        // Refused when it is compiled, or when it is checked, or done in the time that steps stand for.
        let began = std::time::Instant::now();
        let _ = Schema::compile(text).map(|schema| schema.check(value));
        assert!(began.elapsed() < std::time::Duration::from_secs(20), "{} bytes: {text:.80}", text.len());
    };
    for (name, wrap) in wraps {
        for n in [3, 7, 9, 10, 12, 28] {
            if name == "below" && n > 10 {
                continue;
            }
            ended(&nested(n, wrap), r#"{"zz":"y"}"#);
            ended(&nested(n, wrap), r#"{"zz":{"zz":{"zz":{"zz":{"zz":1}}}}}"#);
        }
        assert!(name == "below" || Schema::compile(&nested(28, wrap)).is_err(), "{name}");
    }
    let items = |_, s| format!(r#"{{"allOf":[{s}],"unevaluatedItems":{{"type":"integer"}}}}"#);
    for n in [7, 9, 28] {
        ended(&nested(n, items).replace("unevaluatedProperties", "unevaluatedItems"), "[1,2]");
    }
    let mut defs = r#""a0":{"unevaluatedProperties":true}"#.to_owned();
    for n in 1..=28 {
        let m = n - 1;
        defs.push_str(&format!(
            r##","a{n}":{{"allOf":[{{"$ref":"#/$defs/a{m}"}}],"unevaluatedProperties":{{"type":"string"}}}}"##
        ));
    }
    assert!(Schema::compile(&format!(r##"{{"$defs":{{{defs}}},"$ref":"#/$defs/a28"}}"##)).is_err());
}

#[test]
fn k2_a_condition_that_much_hangs_on_is_counted_as_often_as_it_is_asked() {
    let rule = r#"{"minProperties":0},"#.repeat(2000);
    let heavy = format!(r#"{{"allOf":[{}]}}"#, rule.trim_end_matches(','));
    let parts: Vec<String> = (0..60)
        .map(|n| format!(r#"{{"if":{{"minProperties":1}},"then":{{"properties":{{"p{n}":true}}}}}}"#))
        .collect();
    let inner =
        format!(r#"{{"if":{heavy},"then":{{"allOf":[{}]}},"unevaluatedProperties":true}}"#, parts.join(","));
    let schema = Schema::compile(&format!(r#"{{"items":{inner}}}"#)).unwrap();
    assert!(schema.is_heavy(10));
    assert_eq!(schema.check(r#"[{"a":1}]"#), Ok(()));
    let many = format!("[{}]", vec![r#"{"a":1}"#; 500].join(","));
    assert_eq!(schema.check(&many), Err(Refusal::TooCostly));
}

#[test]
fn k2_what_is_usual_of_unevaluated_is_checked() {
    // Objects in objects, each closed, as generators write them.
    let closed = (0..20).fold(r#"{"type":"integer"}"#.to_owned(), |inner, _| {
        format!(
            r##"{{"allOf":[{{"$ref":"#/$defs/base"}}],"properties":{{"a":{inner}}},"unevaluatedProperties":false}}"##
        )
    });
    let text =
        format!(r#"{{"$defs":{{"base":{{"properties":{{"id":{{"type":"string"}}}}}}}},{}"#, &closed[1..]);
    let schema = Schema::compile(&text).unwrap();
    let value = (0..20).fold("1".to_owned(), |inner, _| format!(r#"{{"id":"x","a":{inner}}}"#));
    assert_eq!(schema.check(&value), Ok(()));
    assert!(schema.check(&value.replacen("id", "ib", 1)).is_err());
    // A tree of them.
    let tree = r##"{"properties":{"child":{"$ref":"#"}},"unevaluatedProperties":false}"##;
    let deep = (0..60).fold("{}".to_owned(), |inner, _| format!(r#"{{"child":{inner}}}"#));
    assert_eq!(Schema::compile(tree).unwrap().check(&deep), Ok(()));
}

#[test]
fn k2_alternatives_that_fail_are_counted_as_often_as_they_are_looked_at() {
    let rule = r#"{"minimum":0},"#.repeat(1500);
    let failing = format!(r#"{{"allOf":[{rule}{{"type":"string"}}]}}"#);
    let text = (0..25).fold(failing, |inner, _| format!(r#"{{"anyOf":[{inner}]}}"#));
    let schema = Schema::compile(&format!(r#"{{"items":{text}}}"#)).unwrap();
    assert!(matches!(schema.check("[1]"), Err(Refusal::Broken(_))));
    let many = format!("[{}]", vec!["1"; 1000].join(","));
    assert_eq!(schema.check(&many), Err(Refusal::TooCostly));
    // Names are checked against what a reference leads to.
    let text = format!(
        r##"{{"$defs":{{"n":{{"allOf":[{}]}}}},"propertyNames":{{"$ref":"#/$defs/n"}}}}"##,
        rule.trim_end_matches(',')
    );
    let names: Vec<String> = (0..5000).map(|n| format!(r#""n{n}":1"#)).collect();
    let schema = Schema::compile(&text).unwrap();
    assert_eq!(schema.check(&format!("{{{}}}", names.join(","))), Err(Refusal::TooCostly));
    assert_eq!(schema.check(r#"{"n":1}"#), Ok(()));
}
