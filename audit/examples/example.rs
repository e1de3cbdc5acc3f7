//! Prints the worked example of FORMAT.md: a log of two records with a fixed key, id and time.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use tollgate_audit::entry::{Entry, Int, Kind, Nanos};
use tollgate_audit::frame::line;
use tollgate_audit::key::SigningKey;
use tollgate_audit::note::Checkpoint;
use tollgate_audit::recover::genesis;
use tollgate_audit::tree::{Range, leaf_hash};

fn main() {
    let log = "example.com/gw/00112233445566ff";
    let key = SigningKey::from_seed([7; 32]).unwrap();
    let vkey = key.verifier(log);
    println!("seed      {}", "07".repeat(32));
    println!("vkey      {vkey}");
    println!("prev(0)   {}", genesis(&vkey));
    let mut range = Range::default();
    let mut prev = genesis(&vkey);
    let open = Entry {
        durability: Some("buffered".into()),
        epoch: Some(Int(0)),
        segment: Some(Int(0)),
        vkey: Some(vkey.to_string().into()),
        ..Entry::new(Kind::Open)
    };
    let intent = Entry { call: Some("c1".into()), server: Some("docs".into()), ..Entry::new(Kind::Intent) };
    for (seq, entry) in [open, intent].into_iter().enumerate() {
        let entry = Entry {
            boot: "8899aabbccddeeff".into(),
            log: log.into(),
            mono_ns: Nanos(1_000_000),
            prev,
            seq: Int(u64::try_from(seq).unwrap()),
            ts: "2026-11-30T12:00:00.000Z".into(),
            v: Int(1),
            ..entry
        };
        let json = entry.json();
        prev = leaf_hash(&json);
        range.push(prev);
        print!("line {seq}    {}", String::from_utf8(line(&json)).unwrap());
        println!("leaf({seq})   {prev}");
    }
    let checkpoint = Checkpoint { origin: log.into(), size: range.size(), root: range.root() };
    println!("root      {}", range.root());
    print!("{}", checkpoint.sign(&key));
}
