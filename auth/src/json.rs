//! JSON objects of strangers (token headers and claims, key sets, metadata), read strictly: a key that stands twice,
//! deep nesting and too many values are refused. Never keeps the last of two equal keys, as readers commonly do: what
//! one reader checked, another would not obey.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Nesting that is read, the outermost object counted.
const MAX_DEPTH: usize = 16;
/// Values of any kind that are read.
const MAX_VALUES: usize = 20_000;

/// The text is no JSON object within the bounds, or holds a key twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no JSON object within bounds and with each key once")]
pub(crate) struct Malformed;

/// Reads one object and nothing after it.
pub(crate) fn object(text: &[u8]) -> Result<Map<String, Value>, Malformed> {
    // Looked through first and then read by the library: how it holds numbers depends on features that any other crate
    // may turn on, and a reader of our own would have to know.
    let left = Cell::new(MAX_VALUES);
    let mut reader = serde_json::Deserializer::from_slice(text);
    Strict { depth: MAX_DEPTH, left: &left }.deserialize(&mut reader).map_err(|_| Malformed)?;
    reader.end().map_err(|_| Malformed)?;
    serde_json::from_slice(text).map_err(|_| Malformed)
}

#[derive(Clone, Copy)]
struct Strict<'a> {
    depth: usize,
    left: &'a Cell<usize>,
}

impl Strict<'_> {
    fn inside<E: Error>(self) -> Result<Self, E> {
        match self.depth {
            0 => Err(E::custom("too deep")),
            depth => Ok(Strict { depth: depth - 1, ..self }),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        match self.left.get() {
            0 => return Err(D::Error::custom("too many values")),
            left => self.left.set(left - 1),
        }
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inner = self.inside()?;
        while items.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let inner = self.inside()?;
        let mut seen = HashSet::new();
        while let Some(Key(key)) = entries.next_key()? {
            if !seen.insert(key) {
                return Err(A::Error::custom("a key stands twice"));
            }
            entries.next_value_seed(inner)?;
        }
        Ok(())
    }
}

/// A key, borrowed unless it is written with escapes.
#[derive(serde::Deserialize)]
struct Key<'k>(#[serde(borrow)] Cow<'k, str>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_objects_are_read_whole() {
        let text = br#"{"a":[1,-2,2.5,null,true,"\u00e9"],"b":{"c":18446744073709551615}}"#;
        let whole: Value = serde_json::from_slice(text).unwrap();
        assert_eq!(Value::Object(object(text).unwrap()), whole);
    }

    #[test]
    fn what_two_readers_could_read_differently_is_refused() {
        for text in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"x":{"a":1,"a":1}}"#,
            r#"{"x":[{"a":1,"a":1}]}"#,
            r#"{"a":1} {}"#,
            r#"[]"#,
            r#""text""#,
            "",
            "{\"a\":\"\\ud800\"}",
            "\u{feff}{}",
        ] {
            assert_eq!(object(text.as_bytes()), Err(Malformed), "{text}");
        }
        assert_eq!(object(b"{\"a\":\"\xff\"}"), Err(Malformed));
    }

    #[test]
    fn depth_and_number_of_values_are_bounded() {
        let nested = |n: usize| format!("{}1{}", "{\"a\":".repeat(n), "}".repeat(n));
        assert!(object(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert_eq!(object(nested(MAX_DEPTH + 1).as_bytes()), Err(Malformed));
        assert_eq!(object(nested(100_000).as_bytes()), Err(Malformed));
        let many = |n: usize| format!("{{\"a\":[{}]}}", vec!["1"; n].join(","));
        assert!(object(many(MAX_VALUES - 2).as_bytes()).is_ok());
        assert_eq!(object(many(MAX_VALUES - 1).as_bytes()), Err(Malformed));
    }
}
