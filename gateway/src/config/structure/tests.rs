//! Tests of the shape check on its own: what is wrong goes out, what is right stays.

use serde_json::json;

use super::*;
use crate::config::document;

fn checked(text: &str) -> (Value, Vec<String>) {
    let mut document = document::parse(text.as_bytes()).unwrap();
    let faults = check(&mut document.root, &document.places).unwrap();
    (document.root, faults.into_iter().map(|f| format!("{}: {}", f.at.shown(), f.what)).collect())
}

#[test]
fn what_is_wrong_goes_out_and_the_rest_stays() {
    let (rest, faults) =
        checked("servers: { a: { url: 5, required: true } }\nhosts: [a, 1]\nnope: 1\ntls: { cert: x }\n");
    assert_eq!(rest, json!({ "servers": { "a": { "required": true } } }));
    assert_eq!(faults.len(), 4, "{faults:?}");
}

#[test]
fn keys_with_slashes_and_tildes_are_found_again() {
    let (rest, faults) = checked("servers: { 'a/b~c': { x/y~: 1 } }\n");
    assert_eq!(rest, json!({ "servers": { "a/b~c": {} } }));
    assert_eq!(faults.len(), 1);
}

#[test]
fn a_wrong_root_leaves_nothing() {
    assert_eq!(checked("[1]").0, json!({}));
}
