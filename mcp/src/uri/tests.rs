//! Tests of exposed URIs.

use super::*;
use crate::json::Limits;

fn raw(text: &str) -> Raw {
    Raw::parse(bytes::Bytes::copy_from_slice(text.as_bytes()), &Limits::ANSWER)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn becomes(kind: ResultKind, before: &str, after: &str) {
    let before = raw(before);
    let result = expose_in_result("docs", &before, kind);
    assert_eq!(result.as_str(), after);
    if before.as_str() == after {
        assert_eq!(result.bytes().as_ptr(), before.bytes().as_ptr(), "no copy when nothing changes");
    }
}

#[test]
fn uris_round_trip() {
    for (uri, exposed) in [
        ("file:///a+b", "docs+file:///a+b"),
        ("git+ssh://x", "docs+git+ssh://x"),
        ("ui://app/page", "ui://docs/app/page"),
        ("ui://", "ui://docs/"),
        ("UI://app", "docs+UI://app"),
        ("http://x", "docs+http://x"),
        ("memo://{id}", "docs+memo://{id}"),
    ] {
        assert_eq!(expose("docs", uri), exposed);
        assert_eq!(split(exposed), Some(("docs".to_owned(), uri.to_owned())), "{exposed}");
    }
    for uri in ["https://x/a+b", "HTTPS://x"] {
        assert_eq!(expose("docs", uri), uri);
        assert_eq!(split(uri), None, "{uri}");
    }
    for exposed in [
        "",
        "file:///x",
        "+x",
        "docs+",
        "ui://x",
        "ui:///x",
        "Docs+file:///",
        "ui://Docs/x",
        "tollgate://capability",
    ] {
        assert_eq!(split(exposed), None, "{exposed}");
    }
}

#[test]
fn links_and_embedded_resources_in_results() {
    becomes(
        ResultKind::ToolCall,
        r#"{ "content" : [ {"type":"text","text":"uri \"file:///x\""}, {"uri":"file:\/\/\/x" , "type":"resource_link","uri2":"a:b"},{"type":"resource","resource":{"text":"t","uri":"ui://p","n":1.0}}],"isError":false}"#,
        r#"{ "content" : [ {"type":"text","text":"uri \"file:///x\""}, {"uri":"docs+file:///x" , "type":"resource_link","uri2":"a:b"},{"type":"resource","resource":{"text":"t","uri":"ui://docs/p","n":1.0}}],"isError":false}"#,
    );
    becomes(
        ResultKind::Prompt,
        r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"a:b"}}},{"content":[{"type":"resource_link","uri":"c:d"}]}]}"#,
        r#"{"messages":[{"role":"user","content":{"type":"resource","resource":{"uri":"docs+a:b"}}},{"content":[{"type":"resource_link","uri":"docs+c:d"}]}]}"#,
    );
    becomes(
        ResultKind::Read,
        r#"{"contents":[{"uri":"a:b","text":"uri"},{"uri":"https://x"},{"uri":7}],"uri":"a:b"}"#,
        r#"{"contents":[{"uri":"docs+a:b","text":"uri"},{"uri":"https://x"},{"uri":7}],"uri":"a:b"}"#,
    );
    becomes(
        ResultKind::ToolEntry,
        r#"{"name":"x","_meta":{"ui":{"resourceUri":"ui://a","visibility":[]},"ui/resourceUri":"ui://a","z":"ui://a"}}"#,
        r#"{"name":"x","_meta":{"ui":{"resourceUri":"ui://docs/a","visibility":[]},"ui/resourceUri":"ui://docs/a","z":"ui://a"}}"#,
    );
    becomes(ResultKind::Uri, r#"{"uri":"a:b"}"#, r#"{"uri":"docs+a:b"}"#);
}

#[test]
fn results_without_uris_are_not_copied() {
    for (kind, text) in [
        (
            ResultKind::ToolCall,
            r#"{"content":[{"type":"text","text":"x"},{"type":"resource_link","uri":"https://x"},5,[[]]]}"#,
        ),
        (ResultKind::ToolCall, r#"{"content":"x","structuredContent":{"uri":"a:b","type":"resource_link"}}"#),
        (ResultKind::Prompt, r#"{"messages":[{"content":"x"},1]}"#),
        (ResultKind::Read, r#"{"contents":[]}"#),
        (ResultKind::ToolEntry, r#"{"_meta":{"ui":[]}}"#),
        (ResultKind::Uri, "[]"),
    ] {
        becomes(kind, text, text);
    }
}
