//! FORMAT.md's worked example is what the code does.

use tollgate_audit::entry::{Entry, Int, Kind, Nanos};
use tollgate_audit::frame::line;
use tollgate_audit::key::SigningKey;
use tollgate_audit::note::Checkpoint;
use tollgate_audit::recover::genesis;
use tollgate_audit::tree::{Range, leaf_hash};

#[test]
fn the_example_of_the_document_is_made_by_the_code() {
    let document = include_str!("../../FORMAT.md");
    let has = |text: &str| assert!(document.contains(&format!("    {text}\n")), "FORMAT.md lacks: {text}");
    let log = "example.com/gw/00112233445566ff";
    let key = SigningKey::from_seed([7; 32]).unwrap();
    let vkey = key.verifier(log);
    has(&format!("vkey     {vkey}"));
    has(&format!("prev(0)  {}", genesis(&vkey)));
    let open = Entry {
        durability: Some("buffered".into()),
        epoch: Some(Int(0)),
        segment: Some(Int(0)),
        vkey: Some(vkey.to_string().into()),
        ..Entry::new(Kind::Open)
    };
    let intent = Entry { call: Some("c1".into()), server: Some("docs".into()), ..Entry::new(Kind::Intent) };
    let (mut prev, mut range) = (genesis(&vkey), Range::default());
    for (seq, entry) in [(0, open), (1, intent)] {
        let entry = Entry {
            boot: "8899aabbccddeeff".into(),
            log: log.into(),
            mono_ns: Nanos(1_000_000),
            prev,
            seq: Int(seq),
            ts: "2026-11-30T12:00:00.000Z".into(),
            v: Int(1),
            ..entry
        };
        prev = leaf_hash(&entry.json());
        range.push(prev);
        has(String::from_utf8(line(&entry.json())).unwrap().trim_end());
        has(&format!("leaf({seq})  {prev}"));
    }
    has(&format!("root     {}", range.root()));
    let note = Checkpoint { origin: log.into(), size: 2, root: range.root() }.sign(&key);
    note.lines().filter(|l| !l.is_empty()).for_each(has);
}
