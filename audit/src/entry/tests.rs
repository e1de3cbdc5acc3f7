//! Records as bytes.

use serde_json::Value;

use super::*;
use crate::frame::MAX_JSON;

/// RFC 8785, for values without floats: members by UTF-16 code units, the escapes of section 3.2.2.2.
fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut all: Vec<_> = members.iter().collect();
            all.sort_by_key(|(name, _)| name.encode_utf16().collect::<Vec<u16>>());
            out.push('{');
            for (at, (name, value)) in all.into_iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                canonical(&Value::String(name.clone()), out);
                out.push(':');
                canonical(value, out);
            }
            out.push('}');
        }
        Value::String(text) => {
            out.push('"');
            for c in text.chars() {
                match c {
                    '"' => out.push_str("\\\""),
                    '\\' => out.push_str("\\\\"),
                    '\u{8}' => out.push_str("\\b"),
                    '\t' => out.push_str("\\t"),
                    '\n' => out.push_str("\\n"),
                    '\u{c}' => out.push_str("\\f"),
                    '\r' => out.push_str("\\r"),
                    c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
                    c => out.push(c),
                }
            }
            out.push('"');
        }
        Value::Number(n) => {
            let exact = n.as_i64().is_some_and(|n| n.unsigned_abs() <= MAX_SAFE);
            assert!(exact, "{n} is no integer that every reader keeps");
            out.push_str(&n.to_string());
        }
        other => panic!("{other} is in no record"),
    }
}

/// A record with every field.
pub(crate) fn full(text: &str) -> Entry {
    let mut entry = Entry {
        args_bytes: Some(Int(1)),
        args_mac: Some(Digest([1; 32])),
        boot: "0011223344556677".into(),
        bytes_dropped: Some(Int(u64::MAX)),
        cost_nanousd: Some(Int(MAX_SAFE)),
        count: Some(Int(MAX_SAFE + 1)),
        digest: Some(Digest([2; 32])),
        epoch: Some(Int(0)),
        fork_root: Some(Digest([3; 32])),
        fork_size: Some(Int(7)),
        index: Some(Int(3)),
        kind: Kind::Intent,
        log: "example.com/gw/0011223344556677".into(),
        mono_ns: Nanos(u64::MAX),
        ms: Some(Int(12)),
        policy_digest: Some(Digest([4; 32])),
        redactions: Some(Int(0)),
        result_bytes: Some(Int(9)),
        result_mac: Some(Digest([5; 32])),
        segment: Some(Int(1)),
        seq: Int(u64::MAX),
        size: Some(Int(5)),
        snapshot: Some(Digest([6; 32])),
        status: Some(-32602),
        step_ms: Some(-3_600_000),
        tool_digest: Some(Digest([7; 32])),
        ts: "2026-11-30T12:00:00.000Z".into(),
        v: Int(1),
        ..Entry::default()
    };
    for field in entry.texts() {
        *field = Some(text.to_owned().into());
    }
    entry
}

#[test]
fn the_bytes_are_the_rfc_8785_form() {
    let all: String = (0..0x80).filter_map(char::from_u32).chain("é€😀\u{2028}\u{fffd}".chars()).collect();
    for entry in [full(&all), full(""), Entry::new(Kind::MailboxMessage)] {
        let json = entry.json();
        let mut expected = String::new();
        canonical(&serde_json::from_slice(&json).unwrap(), &mut expected);
        assert_eq!(String::from_utf8(json.clone()).unwrap(), expected);
        assert_eq!(serde_json::to_string(&entry).unwrap(), expected, "snapshots hold the same");
        assert_eq!(Entry::parse(&json), Some(entry));
    }
}

#[test]
fn the_longest_record_fits() {
    for filler in ["\u{1}", "\"", "x", "é"] {
        for length in [MAX_TEXT / 6, MAX_TEXT / 2, MAX_TEXT, MAX_TEXT * 9] {
            let mut entry = full(&filler.repeat(length));
            entry.checkpoint = Some(filler.repeat(MAX_CHECKPOINT / 6).into());
            entry.log = "l".repeat(300).into();
            entry.bound();
            let length = entry.json().len();
            assert!(length <= MAX_JSON, "{filler:?}: {length}");
        }
    }
}

#[test]
fn texts_over_the_bound_become_their_digest() {
    let long = "x".repeat(MAX_TEXT + 1);
    let mut entry = full(&long);
    entry.bound();
    assert_eq!(entry.sub, Some(format!("sha256:{}", Digest::sha256(&[long.as_bytes()])).into()));
    assert_eq!(entry.checkpoint.as_deref(), Some(long.as_str()));
}

#[test]
fn kinds_have_the_names_of_the_format() {
    let names: Vec<&str> = [Kind::DeniedCount, Kind::ClaimReceipt, Kind::MailboxMessage, Kind::CheckpointRef]
        .map(Kind::name)
        .to_vec();
    for name in "open intent outcome denied denied_count question list quarantine pin config key rotate heartbeat \
        clock_step recovered checkpoint_ref run artefact task.claim_receipt task.mailbox_message close unknown"
        .split_whitespace()
    {
        let kind: Kind = serde_json::from_str(&format!("{name:?}")).unwrap();
        assert_eq!((kind.name(), serde_json::to_string(&kind).unwrap()), (name, format!("{name:?}")));
    }
    assert_eq!(names, ["denied_count", "task.claim_receipt", "task.mailbox_message", "checkpoint_ref"]);
    let later = Entry::parse(br#"{"kind":"later","seq":5,"new":[1]}"#).unwrap();
    assert_eq!((later.kind, later.seq), (Kind::Unknown, Int(5)));
    assert_eq!(Entry::parse(br#"{"kind":"open","seq":5,"seq":6}"#), None, "duplicate members");
}
