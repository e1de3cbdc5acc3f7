//! Tests of the JSON front door by case id (security cases J2–J8), of walking, writing and editing.

use super::*;

fn parse(text: &str) -> Result<Raw, JsonError> {
    Raw::parse(Bytes::copy_from_slice(text.as_bytes()), &Limits::REQUEST)
}

fn ok(text: &str) -> Raw {
    parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn refused(text: &str, fault: Fault) {
    assert_eq!(parse(text).map_err(|error| error.fault), Err(fault), "{text}");
}

#[track_caller]
fn syntax(text: &str) {
    let fault = parse(text).map_err(|error| error.fault);
    assert!(matches!(fault, Err(Fault::Syntax(_))), "{text}: {fault:?}");
}

#[test]
fn j2_duplicate_keys_at_any_depth() {
    refused(r#"{"method":"a","id":1,"method":"b"}"#, Fault::Duplicate);
    refused(r#"{"params":{"name":"a","name":"a"}}"#, Fault::Duplicate);
    refused(r#"{"params":{"arguments":{"x":[{"y":{"k":1,"z":2,"k":3}}]}}}"#, Fault::Duplicate);
    refused(r#"[{"_meta":{},"_meta":{}}]"#, Fault::Duplicate);
    refused(r#"{"":1,"":2}"#, Fault::Duplicate);
    // The same key in different objects is fine, also after a nested object was closed.
    ok(r#"{"a":{"a":{"a":1},"b":1},"b":[{"a":1},{"a":1}]}"#);
    refused(r#"{"a":{"b":1},"b":{"c":1},"a":1}"#, Fault::Duplicate);
}

#[test]
fn j2_duplicates_are_compared_after_unescaping() {
    refused(r#"{"method":1,"m\u0065thod":2}"#, Fault::Duplicate);
    refused(r#"{"m\u0065thod":1,"method":2}"#, Fault::Duplicate);
    refused(r#"{"a":1,"b":2,"\u0061":3}"#, Fault::Duplicate);
    refused(r#"{"\ud83d\ude00":1,"😀":2}"#, Fault::Duplicate);
    refused(r#"{"a\/b":1,"a/b":2}"#, Fault::Duplicate);
    ok(r#"{"a\\u0062":1,"ab":2,"a\u0062":3}"#.replace(r#","ab":2"#, "").as_str());
    ok(r#"{"\\":1,"\\\\":2,"\u0041":3,"B":4}"#);
}

#[test]
fn j2_duplicates_among_many_keys() {
    for count in [15, 16, 17, 18, 40, 1000] {
        let keys: Vec<String> = (0..count).map(|n| format!("\"key{n}\":{n}")).collect();
        ok(&format!("{{{}}}", keys.join(",")));
        for twice in [0, count / 2, count - 1] {
            refused(&format!("{{{},\"key{twice}\":0}}", keys.join(",")), Fault::Duplicate);
        }
    }
}

#[test]
fn j5_depth_and_nodes_are_capped() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nest = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        ok(&nest(64));
        refused(&nest(65), Fault::Depth);
        refused(&nest(100_000), Fault::Depth);
        // Unclosed nesting is refused before its end is looked for.
        refused(&open.repeat(1_000_000), Fault::Depth);
    }
    refused(&format!("[{}[]]", "[],".repeat(1_000_000)), Fault::Nodes);
    let limits = Limits { depth: 64, nodes: 4 };
    let count = |text: &'static str| Raw::parse(Bytes::from_static(text.as_bytes()), &limits).is_ok();
    assert!(count("[1,2,3]") && !count("[1,2,3,4]"));
    assert!(count(r#"{"a":{"b":{"c":1}}}"#) && !count(r#"{"a":{"b":{"c":{"d":1}}}}"#));
}

#[test]
fn j5_a_hundred_thousand_keys_take_linear_time() {
    let keys: Vec<String> = (0..99_000).map(|n| format!("\"k{n}\":0")).collect();
    let flat = format!("{{{}}}", keys.join(","));
    assert_eq!(ok(&flat).view().count(), 99_000);
    refused(&format!("{},\"k5\":0}}", flat.trim_end_matches('}')), Fault::Duplicate);
    let escaped = flat.replace("\"k", "\"\\u006b");
    assert_eq!(ok(&escaped).view().count(), 99_000);
}

#[test]
fn j6_what_is_not_one_json_text() {
    for text in ["", " ", "\n\t\r "] {
        refused(text, Fault::Empty);
    }
    for bytes in
        [b"\"\xff\"".as_slice(), b"\"\xc0\xaf\"", b"\"\xed\xa0\x80\"", b"\"\xf4\x90\x80\x80\"", b"{}\x80"]
    {
        let error = Raw::parse(Bytes::copy_from_slice(bytes), &Limits::REQUEST).expect_err("invalid UTF-8");
        assert_eq!(error.fault, Fault::Utf8);
    }
    for lone in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#""\ud800\n""#,
        r#""\ud800\u0041""#,
        r#"{"\udfff":1}"#,
    ] {
        refused(lone, Fault::Surrogate);
    }
    syntax("\u{feff}{}");
    for control in ["\"a\nb\"", "\"a\u{0}b\"", "\"\u{1f}\"", "{\"a\tb\":1}"] {
        syntax(control);
    }
    for text in ["{} {}", "{}x", "1 2", "[]]", "{}\u{0}", "null,", "{}\u{feff}"] {
        refused(text, Fault::Trailing);
    }
}

#[test]
fn j6_what_the_grammar_refuses() {
    // Separated by spaces; those with a space inside follow.
    let texts = r#"{ [ [1 [1, [1,] [,1] {,} {"a"} {"a":} {"a":1,} {a:1} {'a':1} {"a":1] [1} "abc "\ "\x" "\u12" "\u12g4" "\u+123"
        tru True nul NaN Infinity - +1 01 -01 1. .5 1e 1e+ 0x10 1_000 --1 /**/1 {"a":1,,"b":2} ] } : , ["\ud83d\ {1:2} {null:1}"#;
    let spaced = ["{\"a\" 1}", "[1 2]", "{\"a\":1 \"b\":2}", "// c\n1", "- 1", "1 .5", "\"\\ u0041\""];
    for text in texts.split_whitespace().chain(spaced) {
        let fault = parse(text).map_err(|error| error.fault);
        assert!(
            matches!(fault, Err(Fault::Syntax(_) | Fault::Trailing | Fault::Surrogate)),
            "{text}: {fault:?}"
        );
    }
}

#[test]
fn j6_what_the_grammar_allows() {
    let texts = r#"0 -0 1e400 -1.25E-7 0.1000 123456789012345678901234567890 true null "" [] {}"#;
    for text in texts.split(' ').chain([" [ 1 , { \"a\" : [ ] } , \"\\u0000\" ] \r\n"]) {
        assert_eq!(ok(text).as_str(), text.trim());
    }
}

#[test]
fn j7_numbers_keep_their_spelling() {
    let args = r#"{"a":1e400,"b":-0,"c":123456789012345678901234567890,"d":0.1000,"e":1E+2}"#;
    let raw = ok(&format!(r#"{{"arguments": {args} }}"#));
    assert_eq!(raw.get("arguments").unwrap().as_str(), args);
    assert_eq!(raw.at(&["arguments", "d"]).unwrap().as_str(), "0.1000");
    let integer = |text: &str| ok(text).integer();
    assert_eq!(integer("-0"), Some(0));
    assert_eq!(integer("9223372036854775807"), Some(i64::MAX));
    for text in ["9223372036854775808", "1.0", "1e2", "1e400", "\"1\"", "true", "[1]"] {
        assert_eq!(integer(text), None, "{text}");
    }
}

#[test]
fn j8_nul_stands_only_inside_strings_and_survives() {
    let raw = ok(r#"{"a\u0000b":"x\u0000y"}"#);
    let (key, value) = raw.members().next().unwrap();
    assert_eq!(key.as_str(), "a\0b");
    assert_eq!(key.raw(), br#""a\u0000b""#);
    assert_eq!(value.string().as_deref(), Some("x\0y"));
    assert!(raw.get("ab").is_none() && raw.get("a").is_none());
    syntax("\"a\u{0}\"");
}

#[test]
fn j3_keys_are_matched_exactly() {
    let raw = ok(r#"{"Method":1,"METHOD":2,"method\u0000":3," method":4,"param\u017f":5}"#);
    for key in ["method", "params", "Metho", "method "] {
        assert!(raw.get(key).is_none(), "{key}");
    }
    // A key that is spelled with a backslash is not its own spelling.
    let raw = ok(r#"{"a\nb":1}"#);
    assert!(raw.get(r"a\nb").is_none());
    assert!(raw.get("a\nb").is_some());
}

#[test]
fn j9_odd_but_legal_keys_pass_untouched() {
    let text = r#"{"__proto__":{"constructor":1},"prototype":[]}"#;
    assert_eq!(ok(text).as_str(), text);
}

#[test]
fn errors_say_where_and_never_what() {
    let error = parse(r#"{"secret":"hunter2","secret":1}"#).unwrap_err();
    assert_eq!(error, JsonError { fault: Fault::Duplicate, at: 20 });
    assert_eq!(error.to_string(), "duplicate key at byte 20");
    assert_eq!(format!("{:?}", ok(r#"{"secret":1}"#)), "Raw(Object, 12 B)");
}

#[test]
fn walking_shares_the_buffer_and_the_spelling() {
    let text = "{ \"a\" : [ 1 , \"x]}\\\"\" , { } ] ,\n\"b\":{\"c\":[[],[[2]]]}, \"d\":\"\" }";
    let raw = ok(text);
    let members: Vec<(String, String)> =
        raw.members().map(|(key, value)| (key.to_string(), value.as_str().to_owned())).collect();
    assert_eq!(
        members,
        [("a", "[ 1 , \"x]}\\\"\" , { } ]"), ("b", "{\"c\":[[],[[2]]]}"), ("d", "\"\"")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
    );
    let elements: Vec<String> =
        raw.get("a").unwrap().elements().map(|value| value.as_str().to_owned()).collect();
    assert_eq!(elements, ["1", "\"x]}\\\"\"", "{ }"]);
    assert_eq!(raw.at(&["b", "c"]).unwrap().elements().count(), 2);
    assert_eq!(ok("[]").elements().count(), 0);
    assert_eq!(ok("{ }").members().count(), 0);
    assert_eq!(ok("[1]").members().count() + ok("{\"a\":1}").elements().count(), 0, "wrong kind: nothing");
}

#[test]
fn s1_single_line_drops_line_breaks_between_tokens_only() {
    let raw = ok("{\r\n \"a\" :\n\"b\\nc\u{2028}\",\r\"n\": [1,\n2]\n}");
    let line = raw.single_line();
    assert_eq!(line.as_str(), "{ \"a\" :\"b\\nc\u{2028}\",\"n\": [1,2]}");
    let flat = ok("{\"a\":1}");
    assert_eq!(flat.single_line().bytes().as_ptr(), flat.bytes().as_ptr(), "no copy without line breaks");
}

#[test]
fn writers_escape_and_splice() {
    let mut object = ObjectWriter::new();
    object.string("k\"\n", "v\\\u{1}").integer("n", -5).boolean("t", true);
    object.raw("r", &ok("[1.0]"));
    let escaped = ok(r#"{"\u0061":1}"#);
    let (key, value) = escaped.members().next().unwrap();
    object.raw_key(&key, &value);
    let object = object.finish();
    assert_eq!(object.as_str(), r#"{"k\"\n":"v\\\u0001","n":-5,"t":true,"r":[1.0],"\u0061":1}"#);
    let mut array = ArrayWriter::new();
    array.push(&object).push_str("x").push(&Raw::null());
    ok(array.finish().as_str());
    assert_eq!(ObjectWriter::new().finish(), Raw::empty_object());
    assert_eq!(ArrayWriter::new().finish().as_str(), "[]");
    assert_eq!(Raw::from_str_value("a\"b").string().as_deref(), Some("a\"b"));
}

#[test]
fn edits_keep_every_other_byte() {
    let raw = ok("{ \"a\" : 1 ,  \"b\":[ 2 ],\n\"c\" : {} }");
    let edit = |name: &'static str, edit: Edit| {
        raw.edit(&[], |member| if member.is(name) { edit.clone() } else { Edit::Keep }).as_str().to_owned()
    };
    assert_eq!(edit("b", Edit::Replace(Raw::null())), "{ \"a\" : 1 ,  \"b\":null,\n\"c\" : {} }");
    assert_eq!(edit("a", Edit::Drop), "{ \"b\":[ 2 ],\n\"c\" : {} }");
    assert_eq!(edit("b", Edit::Drop), "{ \"a\" : 1,\n\"c\" : {} }");
    assert_eq!(edit("c", Edit::Drop), "{ \"a\" : 1 ,  \"b\":[ 2 ] }");
    assert_eq!(raw.edit(&[], |_| Edit::Drop).as_str(), "{  }");
    assert_eq!(raw.edit(&[("x", Raw::from_integer(1))], |_| Edit::Drop).as_str(), "{ \"x\":1 }");
    assert_eq!(raw.with("d", &Raw::null()).as_str(), "{ \"a\" : 1 ,  \"b\":[ 2 ],\n\"c\" : {},\"d\":null }");
    assert_eq!(Raw::empty_object().with("d", &Raw::null()).as_str(), "{\"d\":null}");
    assert_eq!(ok("{ }").with("d", &Raw::null()).as_str(), "{\"d\":null }");
    assert_eq!(raw.without("zz").bytes().as_ptr(), raw.bytes().as_ptr(), "no copy when nothing changes");
    assert_eq!(ok("[1]").without("a").as_str(), "[1]");
}

#[test]
fn array_edits_keep_every_other_byte() {
    let raw = ok("[ 1 , 2,3 ]");
    let drop = |which: &'static str| {
        raw.edit_elements(|value| if value.as_str() == which { Edit::Drop } else { Edit::Keep })
            .as_str()
            .to_owned()
    };
    assert_eq!(drop("1"), "[ 2,3 ]");
    assert_eq!(drop("2"), "[ 1,3 ]");
    assert_eq!(drop("3"), "[ 1 , 2 ]");
    assert_eq!(raw.edit_elements(|_| Edit::Replace(Raw::null())).as_str(), "[ null , null,null ]");
    assert_eq!(raw.edit_elements(|_| Edit::Keep).bytes().as_ptr(), raw.bytes().as_ptr());
}

#[test]
fn the_places_that_a_check_notes_are_those_that_a_walk_finds() {
    let many: String = (0..20).map(|n| format!("\"k{n}\": [{n}],")).collect();
    for text in [
        "{}",
        "[{\"a\":1}]",
        "7",
        r#"{"a":1}"#,
        " \n{ \"a\" : { \"b\" : [1, {\"c\":\"}\"}] } , \"\\u0064\":\"x\\\"\" , \"e\" : -1.5e3 } \t",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{}}}"#,
        &format!("{{{many}\"last\":null}}"),
    ] {
        let outer = Outer::parse(Bytes::from(text.to_owned()), &Limits::REQUEST).unwrap();
        let places = |member: Member<'_>| (member.key().to_string(), member.value(), member.end());
        let noted: Vec<_> = outer.members().map(places).collect();
        assert_eq!(noted, outer.raw().view().map(places).collect::<Vec<_>>(), "{text}");
    }
}
