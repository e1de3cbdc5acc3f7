//! Looking into JSON without changing a byte of it: raw members for the passthrough tests.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The members of an object, in order, each value as the text that stood there. Duplicates are kept.
pub struct Members(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct Ordered;
        impl<'de> Visitor<'de> for Ordered {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    members.push((key, value.get().to_owned()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Ordered)
    }
}

/// The members of `raw`; empty unless it is an object.
pub fn members(raw: &str) -> Vec<(String, String)> {
    serde_json::from_str::<Members>(raw).map(|m| m.0).unwrap_or_default()
}

/// The elements of `raw`, each as its text; empty unless it is an array.
pub fn elements(raw: &str) -> Vec<String> {
    serde_json::from_str::<Vec<Box<RawValue>>>(raw)
        .map(|list| list.iter().map(|e| e.get().to_owned()).collect())
        .unwrap_or_default()
}

/// The text of the value at a path of member names.
pub fn raw(text: &str, path: &[&str]) -> Option<String> {
    let mut here = text.to_owned();
    for key in path {
        here = members(&here).into_iter().find(|(k, _)| k == key)?.1;
    }
    Some(here)
}

/// The value at a path, parsed.
pub fn at(text: &str, path: &[&str]) -> Option<Value> {
    raw(text, path).and_then(|r| serde_json::from_str(&r).ok())
}

/// Parses or panics with the text.
pub fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("not JSON ({e}): {text:?}"))
}

/// An object from raw members: what serde_json would change (numbers, key order) stays.
pub fn object(members: &[(&str, &str)]) -> String {
    let body: Vec<String> = members.iter().map(|(k, v)| format!("{}:{v}", Value::from(*k))).collect();
    format!("{{{}}}", body.join(","))
}
