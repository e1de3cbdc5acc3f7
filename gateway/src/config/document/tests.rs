//! Tests of the YAML reader: values, places, bounds.

use serde_json::json;

use super::*;

#[test]
fn values_and_their_places() {
    let document = parse(b"a: 1\nb:\n  - x\n  - {c: ~}\n'd e': \"t\"\n").unwrap();
    assert_eq!(document.root, json!({ "a": 1, "b": ["x", { "c": null }], "d e": "t" }));
    let spot = |at: &At| {
        let spot = document.places.spot(at);
        (spot.line, spot.column)
    };
    let root = At::root();
    assert_eq!(spot(&root.key("a")), (1, 4));
    assert_eq!(spot(&root.key("b")), (2, 1));
    assert_eq!(spot(&root.key("b").index(0)), (3, 5));
    assert_eq!(spot(&root.key("b").index(1).key("c")), (4, 9));
    assert_eq!(spot(&root.key("d e")), (5, 8));
    assert!(document.faults.is_empty());
}

#[test]
fn columns_count_characters() {
    let document = parse("{ä: 1, ö: 2}".as_bytes()).unwrap();
    assert_eq!(document.places.key_spot(&At::root().key("ö")), Spot { line: 1, column: 8 });
}

#[test]
fn the_first_of_two_keys_counts() {
    let document = parse(b"a: 1\na: { b: 2 }\n").unwrap();
    assert_eq!(document.root, json!({ "a": 1 }));
    assert_eq!(document.faults.len(), 1);
    assert_eq!(document.faults[0].spot, Spot { line: 2, column: 1 });
}

#[test]
fn keys_are_compared_after_unescaping() {
    let document = parse(b"a: 1\n\"\\x61\": 2\n").unwrap();
    assert_eq!(document.faults.len(), 1);
}

#[test]
fn line_ends_of_every_kind() {
    assert_eq!(parse(b"a: 1\r\nb: 2\r\n").unwrap().root, json!({ "a": 1, "b": 2 }));
}

#[test]
fn a_document_may_be_marked_and_ended() {
    assert_eq!(parse(b"---\na: 1\n...\n").unwrap().root, json!({ "a": 1 }));
}
