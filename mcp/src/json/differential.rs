//! The strict reader against serde_json on mutated texts: it accepts the same, but for duplicate keys (refused)
//! and numbers beyond a double (kept as text). Uses a fixed seed, so a failure repeats.

use std::collections::HashSet;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::*;

/// What serde_json reads, with duplicate keys refused.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(Value::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Strict, A::Error> {
        let mut out = Vec::new();
        while let Some(Strict(value)) = access.next_element()? {
            out.push(value);
        }
        Ok(Strict(Value::Array(out)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Strict, A::Error> {
        let mut out = serde_json::Map::new();
        let mut seen = HashSet::new();
        let mut twice = false;
        while let Some((key, Strict(value))) = access.next_entry::<String, Strict>()? {
            twice |= !seen.insert(key.clone());
            out.insert(key, value);
        }
        if twice { Err(de::Error::custom("duplicate")) } else { Ok(Strict(Value::Object(out))) }
    }
}

/// The tree that walking finds.
fn tree(raw: &Raw) -> Value {
    match raw.kind() {
        Kind::Object => raw.members().map(|(key, value)| (key.to_string(), tree(&value))).collect(),
        Kind::Array => raw.elements().map(|value| tree(&value)).collect(),
        Kind::String => raw.string().expect("a string").into(),
        _ => serde_json::from_str(raw.as_str()).expect("a scalar"),
    }
}

/// xorshift64*
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

const SEEDS: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1,2.5,-0,1e10],"b":null}}}"#,
    r#"[{"k":"v\n\u0041\ud83d\ude00"},{"k":{"k":{"k":[]}}},true,false,null,"",0.0001,12345678901234567890]"#,
    r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":0,"l":1,"m":2,"n":3,"o":4,"p":5,"q":6,"r":7,"s":8}"#,
    "{ \"sp ace\" : [ \"é世界\" , \"\u{7f}\u{80}\" ] ,\r\n\t\"x\\u0000\" : -1.5E+3 }",
    r#""just a string with \\ and \" and \/ \b\f\r\t escapes""#,
    "-123.456e-7",
];
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u",
    "\\ud800",
    "\\udc00",
    "\\u0061",
    "\"a\":1,",
    "\"k\":",
    "0",
    "1",
    "-",
    "+",
    ".",
    "e",
    "E",
    "null",
    "true",
    " ",
    "\n",
    "\u{0}",
    "\u{1f}",
    "é",
    "\u{feff}",
    "99999999999999999999",
    "e400",
    "e-400",
];

#[test]
fn differential_with_serde_json() {
    let mut random = Random(0x7011_6A7E);
    let mut accepted = 0;
    for _ in 0..60_000 {
        let mut text = SEEDS[random.below(SEEDS.len())].as_bytes().to_vec();
        for _ in 0..random.below(4) {
            let at = random.below(text.len() + 1);
            let until = (at + random.below(4)).min(text.len());
            match random.below(5) {
                0 => drop(text.drain(at..until)),
                1 => drop(text.splice(at..until, TOKENS[random.below(TOKENS.len())].bytes())),
                2 => drop(text.splice(at..at, TOKENS[random.below(TOKENS.len())].bytes())),
                3 if at < text.len() => text[at] = random.below(256) as u8,
                _ => {
                    let from = random.below(text.len() + 1);
                    let copy = text[from..(from + random.below(12)).min(text.len())].to_vec();
                    drop(text.splice(at..at, copy));
                }
            }
        }
        let theirs = serde_json::from_slice::<Strict>(&text);
        let ours = Raw::parse(Bytes::from(text.clone()), &Limits::ANSWER);
        let shown = String::from_utf8_lossy(&text);
        match (&ours, &theirs) {
            (Ok(raw), Ok(Strict(value))) => {
                accepted += 1;
                assert_eq!(&tree(raw), value, "{shown}");
            }
            (Ok(_), Err(error)) => {
                assert!(error.to_string().contains("number out of range"), "{error}: {shown}")
            }
            (Err(error), Ok(_)) => panic!("{error}: {shown}"),
            (Err(_), Err(_)) => {}
        }
    }
    assert!(accepted > 10_000, "the mutations still leave valid texts: {accepted}");
}

#[test]
fn truncation_at_every_byte_is_refused() {
    for seed in SEEDS.iter().take(5) {
        for end in 0..seed.len() {
            let cut = Bytes::copy_from_slice(&seed.as_bytes()[..end]);
            assert!(Raw::parse(cut, &Limits::ANSWER).is_err(), "{end} of {seed}");
        }
    }
}
