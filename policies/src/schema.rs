//! JSON Schemas of strangers: compiled once, checked for cost before that, and never a reason for I/O. Validation
//! of a value can take as long as the product of its nodes and the schema's expanded size, and with recursion longer:
//! the size is bounded when the schema is compiled, the steps before each value.

mod cycle;
mod steps;

use std::collections::HashMap;

use jsonschema::{Draft, PatternOptions, Retrieve, Uri, Validator};
use serde_json::Value;

/// Subschemas after all references are followed; doubling references (`allOf: [a, a]`) reach it fast.
const MAX_EXPANDED: u64 = 50_000;
/// Most steps of one validation, as [`steps`] counts them: some tenths of a second.
const MAX_STEPS: u64 = 5_000_000;
/// Nesting of the schema itself.
const MAX_DEPTH: usize = 64;
/// Compiled size of one pattern, in bytes.
const MAX_PATTERN: usize = 256 * 1024;

/// A schema that values can be checked against.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    source: Value,
    size: Size,
}

/// A schema's size after all references are followed.
#[derive(Clone, Copy, Debug)]
struct Size {
    expanded: u64,
    /// Whether a reference leads back to where it stands: then the size says nothing of the steps.
    recursive: bool,
}

/// Why a value is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is no JSON.
    NoJson,
    /// Checking it could take too long: it is not known whether it fits the schema.
    TooCostly,
    /// It breaks the schema.
    Broken(Violation),
}

impl std::fmt::Display for Refusal {
    /// What is wrong with "the value", without the value.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::NoJson => f.write_str("is no JSON"),
            Refusal::TooCostly => f.write_str("is too large to be checked against a schema of this size"),
            Refusal::Broken(violation) => write!(f, "{} breaks '{}'", violation.at, violation.keyword),
        }
    }
}

/// Where a value breaks a schema, as a JSON Pointer (RFC 6901) into the value. The value itself is not told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The place in the value.
    pub at: String,
    /// The keyword that it breaks.
    pub keyword: String,
}

/// Retrieves nothing: references out of the schema are an error, never a request (SEP-2106).
struct Nothing;

impl Retrieve for Nothing {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("references out of the schema are not followed".into())
    }
}

impl Schema {
    /// Compiles a schema; without `$schema` it is read as 2020-12. Drafts 4, 6, 7, 2019-09 and 2020-12 are known.
    ///
    /// # Errors
    /// Why it can't be used: no JSON, an unknown dialect, a reference out of it or back to itself, a pattern that only
    /// a backtracking engine could match, or an expanded size over the bound.
    pub fn compile(text: &str) -> Result<Schema, &'static str> {
        let schema: Value = serde_json::from_str(text).map_err(|_| "the schema is no JSON")?;
        let size = size(&schema)?;
        if size.recursive && cycle::endless(&schema) {
            return Err("a reference of the schema leads back to itself and says nothing");
        }
        let options =
            jsonschema::options().with_draft(dialect(&schema)?).with_retriever(Nothing).with_pattern_options(
                PatternOptions::regex().size_limit(MAX_PATTERN).dfa_size_limit(MAX_PATTERN),
            );
        let validator = options.build(&schema).map_err(|_| "the schema is not valid in its dialect")?;
        Ok(Schema { validator, source: schema, size })
    }

    /// The schema's size after all references are followed, at least 1. A value's nodes times this bounds the steps of
    /// checking it, unless the schema is recursive.
    pub fn cost(&self) -> u64 {
        self.size.expanded
    }

    /// Checks a value, in at most five million steps and the time to parse it: callers with large values want a thread
    /// for that.
    ///
    /// # Errors
    /// The first place that breaks the schema, or why it was not looked for.
    pub fn check(&self, text: &str) -> Result<(), Refusal> {
        let value: Value = serde_json::from_str(text).map_err(|_| Refusal::NoJson)?;
        if !self.affords(text.len(), &value) {
            return Err(Refusal::TooCostly);
        }
        self.validator.validate(&value).map_err(|error| {
            Refusal::Broken(Violation {
                at: error.instance_path().to_string(),
                keyword: error.kind().keyword().to_owned(),
            })
        })
    }

    fn affords(&self, bytes: usize, value: &Value) -> bool {
        // A value has no more nodes than bytes. Most are that small; only the others are gone through.
        let most = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(self.size.expanded);
        (!self.size.recursive && most <= MAX_STEPS) || steps::within(&self.source, value, MAX_STEPS)
    }
}

fn dialect(schema: &Value) -> Result<Draft, &'static str> {
    let Some(named) = schema.get("$schema") else { return Ok(Draft::Draft202012) };
    match named.as_str().map(|uri| uri.trim_end_matches('#')) {
        Some("https://json-schema.org/draft/2020-12/schema") => Ok(Draft::Draft202012),
        Some("https://json-schema.org/draft/2019-09/schema") => Ok(Draft::Draft201909),
        Some("http://json-schema.org/draft-07/schema" | "https://json-schema.org/draft-07/schema") => {
            Ok(Draft::Draft7)
        }
        Some("http://json-schema.org/draft-06/schema") => Ok(Draft::Draft6),
        Some("http://json-schema.org/draft-04/schema") => Ok(Draft::Draft4),
        _ => Err("the schema's dialect is not known"),
    }
}

/// Bounds the size of a schema, and tells it.
fn size(schema: &Value) -> Result<Size, &'static str> {
    let mut counter = Counter { root: schema, known: HashMap::new(), open: Vec::new(), recursive: false };
    match counter.expanded(schema, 0)? {
        size if size > MAX_EXPANDED => Err("the schema is too large once its references are followed"),
        expanded => Ok(Size { expanded, recursive: counter.recursive }),
    }
}

struct Counter<'a> {
    root: &'a Value,
    known: HashMap<&'a str, u64>,
    open: Vec<&'a str>,
    recursive: bool,
}

impl<'a> Counter<'a> {
    fn expanded(&mut self, value: &'a Value, depth: usize) -> Result<u64, &'static str> {
        if depth > MAX_DEPTH {
            return Err("the schema is nested too deeply");
        }
        let mut sum = 1_u64;
        match value {
            Value::Array(all) => {
                for part in all {
                    sum = sum.saturating_add(self.expanded(part, depth + 1)?);
                }
            }
            Value::Object(members) => {
                for (key, part) in members {
                    let more = match (key.as_str(), part) {
                        ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                            self.followed(to, depth)?
                        }
                        ("$id" | "id", Value::String(_)) if depth > 0 => {
                            return Err("a subschema with an id of its own is not followed");
                        }
                        _ => self.expanded(part, depth + 1)?,
                    };
                    sum = sum.saturating_add(more);
                }
            }
            _ => {}
        }
        Ok(sum)
    }

    /// The size behind a reference. One that leads back to where it stands adds nothing here.
    fn followed(&mut self, to: &'a str, depth: usize) -> Result<u64, &'static str> {
        let Some(pointer) = to.strip_prefix('#') else {
            return Err("the schema refers out of itself");
        };
        if self.open.contains(&to) {
            self.recursive = true;
            return Ok(1);
        }
        if let Some(known) = self.known.get(to) {
            return Ok(*known);
        }
        // An anchor names a place that is counted where it stands; twice the root bounds it.
        let target = if pointer.is_empty() || pointer.starts_with('/') {
            self.root
                .pointer(&unescaped(pointer))
                .ok_or("the schema refers to a part that it does not have")?
        } else {
            self.root
        };
        if self.open.len() > MAX_DEPTH {
            return Err("the schema's references are nested too deeply");
        }
        self.open.push(to);
        let size = self.expanded(target, depth.min(1));
        self.open.pop();
        let size = size?;
        self.known.insert(to, size);
        Ok(size)
    }
}

/// A pointer in a URI fragment is percent-encoded.
fn unescaped(pointer: &str) -> String {
    if !pointer.contains('%') {
        return pointer.to_owned();
    }
    let mut out = Vec::with_capacity(pointer.len());
    let mut bytes = pointer.bytes();
    while let Some(byte) = bytes.next() {
        let hex =
            |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        match byte {
            b'%' => match (hex(bytes.next()), hex(bytes.next())) {
                (Some(high), Some(low)) => out.push(high << 4 | low),
                _ => return pointer.to_owned(),
            },
            _ => out.push(byte),
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| pointer.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_checked_and_the_place_is_told_without_the_value() {
        let schema =
            Schema::compile(r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#);
        let schema = schema.unwrap();
        assert_eq!(schema.check(r#"{"n":1}"#), Ok(()));
        let refusal = schema.check(r#"{"n":"secret"}"#).unwrap_err();
        assert_eq!(refusal, Refusal::Broken(Violation { at: "/n".into(), keyword: "type".into() }));
        assert_eq!(refusal.to_string(), "/n breaks 'type'");
        assert_eq!(schema.check("{"), Err(Refusal::NoJson));
    }

    #[test]
    fn what_a_large_value_and_a_large_schema_cost_together_is_bounded() {
        let rule = r#"{"minimum":0},"#.repeat(10_000);
        let text = format!(r#"{{"items":{{"allOf":[{}]}}}}"#, rule.trim_end_matches(','));
        let schema = Schema::compile(&text).unwrap();
        assert!((20_000..MAX_EXPANDED).contains(&schema.cost()), "{}", schema.cost());
        let value = |n: usize| format!("[{}]", vec!["1"; n].join(","));
        assert_eq!(schema.check(&value(100)), Ok(()));
        assert_eq!(schema.check(&value(100_000)), Err(Refusal::TooCostly));
        // Much of it, but little to be done for each part.
        let wide = format!(
            r#"{{"items":{{"oneOf":[true]}},"$defs":{{"x":{{"allOf":[{}]}}}}}}"#,
            rule.trim_end_matches(',')
        );
        assert_eq!(Schema::compile(&wide).unwrap().check(&value(100_000)), Ok(()));
        let cheap = Schema::compile(r#"{"items":{"type":"integer"}}"#).unwrap();
        assert_eq!(cheap.check(&value(100_000)), Ok(()));
    }

    #[test]
    fn k1_nothing_outside_is_referred_to() {
        for reference in ["http://127.0.0.1:1/x", "file:///etc/passwd", "other.json"] {
            let text = format!(r#"{{"properties":{{"a":{{"$ref":"{reference}"}}}}}}"#);
            assert!(Schema::compile(&text).is_err(), "{reference}");
        }
        assert!(Schema::compile(r#"{"$schema":"http://127.0.0.1:1/mine"}"#).is_err());
        assert!(Schema::compile(r##"{"$defs":{"x":{"$id":"http://a/b","$ref":"#/c"}}}"##).is_err());
    }

    #[test]
    fn k2_doubling_references_are_refused_before_they_are_compiled() {
        let mut defs = r#""a0":{"type":"string"}"#.to_owned();
        for n in 1..=26 {
            let m = n - 1;
            defs.push_str(&format!(
                r##","a{n}":{{"allOf":[{{"$ref":"#/$defs/a{m}"}},{{"$ref":"#/$defs/a{m}"}}]}}"##
            ));
        }
        let text = format!(r##"{{"$defs":{{{defs}}},"$ref":"#/$defs/a26"}}"##);
        assert!(Schema::compile(&text).is_err());
    }

    #[test]
    fn k3_recursion_is_allowed_and_bounded() {
        let tree = r##"{"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}}}"##;
        let schema = Schema::compile(tree).unwrap();
        assert!(schema.check(r#"{"children":[{"children":[]}]}"#).is_ok());
        assert!(schema.check(r#"{"children":[{"children":1}]}"#).is_err());
    }

    #[test]
    fn k3_a_reference_that_leads_back_to_itself_is_no_schema_that_accepts_everything() {
        for endless in [
            r##"{"$ref":"#"}"##,
            r##"{"allOf":[{"$ref":"#"}]}"##,
            r##"{"type":"object","not":{"$ref":"#"}}"##,
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"#/$defs/a"}}}"##,
            r##"{"$defs":{"a":{"$anchor":"a","anyOf":[{"type":"string"},{"$ref":"#b"}]},"b":{"$anchor":"b","$ref":"#a"}},"$ref":"#a"}"##,
            r##"{"$dynamicAnchor":"n","if":{"$dynamicRef":"#n"},"then":{"type":"object"}}"##,
            r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","oneOf":[{"$recursiveRef":"#"}]}"##,
            r##"{"dependentSchemas":{"x":{"$ref":"#"}}}"##,
            r##"{"properties":{"x":{"$ref":"#/properties/x"}}}"##,
        ] {
            assert!(Schema::compile(endless).is_err(), "{endless}");
        }
        // Each step into the value is one that ends.
        for fine in [
            r##"{"properties":{"child":{"$ref":"#"}}}"##,
            r##"{"items":{"anyOf":[{"type":"integer"},{"$ref":"#"}]}}"##,
            r##"{"$defs":{"a":{"properties":{"b":{"$ref":"#/$defs/b"}}},"b":{"items":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
            r##"{"$defs":{"a":{"type":"string"}},"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}"##,
        ] {
            assert!(Schema::compile(fine).is_ok(), "{fine}");
        }
    }

    #[test]
    fn k2_k3_no_order_of_circles_hides_a_doubling() {
        // Counted from its far end, behind a reference that is still being followed.
        let mut defs = r##""a25":{"properties":{"p":{"$ref":"#/$defs/a0"}}}"##.to_owned();
        for n in 0..25 {
            let m = n + 1;
            defs.push_str(&format!(
                r##","a{n}":{{"allOf":[{{"$ref":"#/$defs/a{m}"}},{{"$ref":"#/$defs/a{m}"}}]}}"##
            ));
        }
        for first in ["a25", "a24", "a12", "a0"] {
            let text = format!(r##"{{"$defs":{{{defs}}},"$ref":"#/$defs/{first}"}}"##);
            let bounded = match Schema::compile(&text) {
                Err(_) => true,
                Ok(schema) => schema.check(r#"{"p":{"p":{"p":1}}}"#) == Err(Refusal::TooCostly),
            };
            assert!(bounded, "{first}");
        }
    }

    #[test]
    fn k3_recursion_that_doubles_at_every_level_is_not_followed_to_its_end() {
        for twice in [
            r##"{"$anchor":"a","items":{"allOf":[{"$ref":"#a"},{"$ref":"#a"}]}}"##,
            r##"{"$defs":{"a":{"items":{"$ref":"#/$defs/a"},"contains":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}"##,
        ] {
            let schema = Schema::compile(twice).unwrap();
            assert_eq!(schema.check("[[[1]]]"), Ok(()), "{twice}");
            let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
            assert_eq!(schema.check(&deep), Err(Refusal::TooCostly), "{twice}");
        }
    }

    #[test]
    fn k4_patterns_are_matched_in_linear_time_or_not_at_all() {
        assert!(Schema::compile(r#"{"pattern":"^(a|a)*\\1?$"}"#).is_err());
        assert!(Schema::compile(r#"{"pattern":"^[a-z]+$"}"#).is_ok());
    }
}
