//! Tests of list entries by case id (security cases M6, T8, J8).

use super::*;
use crate::json::Limits;

fn raw(text: &str) -> Raw {
    Raw::parse(bytes::Bytes::copy_from_slice(text.as_bytes()), &Limits::ANSWER)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

const TOOL: &str = r#"{ "title":"T" ,"name" : "sea\u0072ch","inputSchema":{"type":"object","properties":{"n":{"type":"number","minimum":1e400}},"required":["n"]},
  "annotations":{"readOnlyHint":true,"x":5},"execution":{"taskSupport":"optional"},"x-own":[1.0],"_meta":{"a/b":1}}"#;

#[test]
fn good_entries_keep_their_bytes() {
    let tool = check(EntryKind::Tool, &raw(TOOL)).unwrap();
    assert_eq!((tool.key.as_str(), tool.raw.as_str()), ("search", TOOL));
    for (kind, text, key) in [
        (EntryKind::Prompt, r#"{"name":"p","arguments":[{"name":"a","required":true}]}"#, "p"),
        (EntryKind::Resource, r#"{"uri":"file:///x y","name":"","size":1}"#, "file:///x y"),
        (EntryKind::Template, r#"{"uriTemplate":"{+path}","name":"n"}"#, "{+path}"),
        (
            EntryKind::Tool,
            r#"{"name":"odd. näme/✓ ,","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}"#,
            "odd. näme/✓ ,",
        ),
        (
            EntryKind::Tool,
            r#"{"name":"x","inputSchema":{"type":"object","properties":{"a":true},"oneOf":[]}}"#,
            "x",
        ),
    ] {
        let entry = check(kind, &raw(text)).unwrap();
        assert_eq!((entry.key.as_str(), entry.raw.as_str()), (key, text));
    }
}

#[test]
fn t8_bad_entries_are_dropped_one_by_one() {
    let schema = r#""inputSchema":{"type":"object"}"#;
    let long = format!(r#"{{"name":"{}",{schema}}}"#, "n".repeat(129));
    let huge = format!(r#"{{"name":"{}",{schema}}}"#, "n".repeat(1 << 20));
    for text in [
        "null",
        "[]",
        "\"x\"",
        "{}",
        r#"{"name":"x"}"#,
        r#"{"name":"x","inputSchema":null}"#,
        r#"{"name":"x","inputSchema":"{}"}"#,
        r#"{"name":"x","inputSchema":{}}"#,
        r#"{"name":"x","inputSchema":{"type":"string"}}"#,
        r#"{"name":"x","inputSchema":{"type":["object"]}}"#,
        r#"{"name":"x","inputSchema":{"type":"object","properties":[]}}"#,
        r#"{"name":"x","inputSchema":{"type":"object","properties":{"a":1}}}"#,
        r#"{"name":"x","inputSchema":{"type":"object","required":"a"}}"#,
        r#"{"name":"x","inputSchema":{"type":"object","required":[1]}}"#,
        &format!(r#"{{"name":1,{schema}}}"#),
        &format!(r#"{{"name":"",{schema}}}"#),
        &format!(r#"{{"name":" \u3000",{schema}}}"#),
        &format!(r#"{{"name":"a\u0000",{schema}}}"#),
        &format!(r#"{{"name":"a\u001b[1m",{schema}}}"#),
        &format!(r#"{{"name":"a\u0085",{schema}}}"#),
        &long,
        &huge,
        &format!(r#"{{"Name":"x",{schema}}}"#),
        &format!(r#"{{"name":"x",{schema},"description":5}}"#),
        &format!(r#"{{"name":"x",{schema},"title":{{}}}}"#),
        &format!(r#"{{"name":"x",{schema},"outputSchema":true}}"#),
        &format!(r#"{{"name":"x",{schema},"annotations":[]}}"#),
        &format!(r#"{{"name":"x",{schema},"annotations":{{"readOnlyHint":"yes"}}}}"#),
        &format!(r#"{{"name":"x",{schema},"icons":{{}}}}"#),
        &format!(r#"{{"name":"x",{schema},"icons":[{{}}]}}"#),
        &format!(r#"{{"name":"x",{schema},"_meta":1}}"#),
    ] {
        assert!(check(EntryKind::Tool, &raw(text)).is_err(), "{text:.80}");
    }
    for (kind, text) in [
        (EntryKind::Prompt, r#"{"name":"x","arguments":{}}"#),
        (EntryKind::Prompt, r#"{"name":"x","arguments":["a"]}"#),
        (EntryKind::Resource, r#"{"uri":"a:b"}"#),
        (EntryKind::Resource, r#"{"uri":"/a/b","name":"n"}"#),
        (EntryKind::Resource, r#"{"uri":"1a:b","name":"n"}"#),
        (EntryKind::Resource, r#"{"uri":"a:\n","name":"n"}"#),
        (EntryKind::Resource, r#"{"uri":"a:b","name":"n","size":"1"}"#),
        (EntryKind::Template, r#"{"uri":"a:b","name":"n"}"#),
    ] {
        assert!(check(kind, &raw(text)).is_err(), "{text}");
    }
}

#[test]
fn m6_a_tool_with_a_bad_mirrored_header_is_dropped() {
    let tool = |property: &str| {
        raw(&format!(r#"{{"name":"x","inputSchema":{{"type":"object","properties":{{"p":{property}}}}}}}"#))
    };
    assert!(check(EntryKind::Tool, &tool(r#"{"type":"string","x-mcp-header":"P"}"#)).is_ok());
    assert!(check(EntryKind::Tool, &tool(r#"{"type":"number","x-mcp-header":"P"}"#)).is_err());
}

#[test]
fn nulls_of_optional_members_are_taken_out() {
    let entry = check(
        EntryKind::Tool,
        &raw(r#"{"name":"x","description":null, "inputSchema":{"type":"object","default":null},"outputSchema":null,"own":null,"icons":null}"#),
    )
    .unwrap();
    assert_eq!(
        entry.raw.as_str(),
        r#"{"name":"x", "inputSchema":{"type":"object","default":null},"own":null}"#
    );
}

#[test]
fn nulls_inside_optional_members_are_taken_out() {
    let schema = r#""inputSchema":{"type":"object"}"#;
    let text = format!(
        r#"{{"name":"x",{schema},"annotations":{{"title":null,"readOnlyHint":true,"idempotentHint":null}},"icons":[{{"src":"https://x","theme":null}}]}}"#
    );
    let entry = check(EntryKind::Tool, &raw(&text)).unwrap();
    let expected = format!(
        r#"{{"name":"x",{schema},"annotations":{{"readOnlyHint":true}},"icons":[{{"src":"https://x"}}]}}"#
    );
    assert_eq!(entry.raw.as_str(), expected);
    let prompt = check(
        EntryKind::Prompt,
        &raw(r#"{"name":"p","arguments":[{"name":"a","required":null},{"name":"b"}]}"#),
    )
    .unwrap();
    assert_eq!(prompt.raw.as_str(), r#"{"name":"p","arguments":[{"name":"a"},{"name":"b"}]}"#);
}

#[test]
fn rewriting_changes_two_members_alone() {
    let tool = check(EntryKind::Tool, &raw(TOOL)).unwrap();
    let shown = rewrite(&tool, EntryKind::Tool, "docs__search", Some("[docs] \"search\"\n"));
    let expected = TOOL.replace("\"sea\\u0072ch\"", "\"docs__search\"");
    let expected =
        format!("{},\"description\":\"[docs] \\\"search\\\"\\n\"}}", &expected[..expected.len() - 1]);
    assert_eq!(shown.as_str(), expected);
    let renamed = rewrite(&tool, EntryKind::Tool, "x", None);
    assert_eq!(renamed.as_str(), TOOL.replace("\"sea\\u0072ch\"", "\"x\""));
    let resource =
        check(EntryKind::Resource, &raw(r#"{"description" : "d","name":"n","uri":"a:b"}"#)).unwrap();
    let shown = rewrite(&resource, EntryKind::Resource, "docs+a:b", Some("[docs] d"));
    assert_eq!(shown.as_str(), r#"{"description" : "[docs] d","name":"n","uri":"docs+a:b"}"#);
}

#[test]
fn legacy_clients_get_no_output_schema_of_another_type() {
    let tool = |schema: &str| {
        raw(&format!(r#"{{"name":"x","inputSchema":{{"type":"object"}},"outputSchema":{schema}}}"#))
    };
    for schema in [r#"{"type":"array"}"#, "{}", r#"{"oneOf":[]}"#] {
        let shown = for_client(&tool(schema), EntryKind::Tool, Era::Legacy);
        assert_eq!(shown.as_str(), r#"{"name":"x","inputSchema":{"type":"object"}}"#);
        assert_eq!(for_client(&tool(schema), EntryKind::Tool, Era::Modern), tool(schema));
    }
    let object = tool(r#"{"type":"object"}"#);
    assert_eq!(for_client(&object, EntryKind::Tool, Era::Legacy), object);
}

#[test]
fn kinds_name_their_members() {
    let named = EntryKind::ALL.map(|kind| (kind.list_method(), kind.result_member(), kind.id_member()));
    assert_eq!(
        named,
        [
            ("tools/list", "tools", "name"),
            ("prompts/list", "prompts", "name"),
            ("resources/list", "resources", "uri"),
            ("resources/templates/list", "resourceTemplates", "uriTemplate"),
        ]
    );
}
