//! The JSON front door: what it accepts another parser accepts too and reads alike; walking and writing what was
//! accepted never panics and loses nothing; the envelope and `_meta` never panic.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use mcp::json::{ArrayWriter, Limits, ObjectWriter, Raw};
use mcp::message::{self, Message};
use mcp::meta::Meta;

fuzz_target!(|data: &[u8]| {
    let Ok(raw) = Raw::parse(Bytes::copy_from_slice(data), &Limits::REQUEST) else { return };
    let other: serde_json::Value = serde_json::from_str(raw.as_str()).expect("accepted by us, refused by serde_json");
    assert_eq!(same(&raw), other);
    let line = raw.single_line();
    assert!(!line.as_str().contains(['\n', '\r']));
    if let Ok(message) = message::decode(&raw) {
        let params = match &message {
            Message::Request(request) => request.params.as_ref(),
            Message::Notification(note) => note.params.as_ref(),
            Message::Response(_) => None,
        };
        let _ = Meta::parse(params);
        if let Message::Request(request) = &message {
            let again = message::request(&request.id, &request.method, request.params.as_ref());
            let again = Raw::parse(again, &Limits::ANSWER).expect("what was re-emitted is JSON");
            assert!(matches!(message::decode(&again), Ok(Message::Request(r)) if r.id == request.id));
        }
    }
});

/// The value rebuilt member by member through the walker and the writers.
fn same(raw: &Raw) -> serde_json::Value {
    serde_json::from_str(rebuild(raw).as_str()).expect("what was written is JSON")
}

fn rebuild(raw: &Raw) -> Raw {
    if raw.is_object() {
        let mut out = ObjectWriter::new();
        for (key, value) in raw.members() {
            assert!(raw.get(&key).is_some());
            out.raw_key(&key, &rebuild(&value));
        }
        return out.finish();
    }
    if raw.is_array() {
        let mut out = ArrayWriter::new();
        for value in raw.elements() {
            out.push(&rebuild(&value));
        }
        return out.finish();
    }
    match raw.string() {
        Some(text) => Raw::from_str_value(&text),
        None => raw.clone(),
    }
}
