//! JSON Schemas of strangers: compiled once, checked for cost before that, and never a reason for I/O. Validation
//! of a value can take as long as the product of its nodes and the schema's expanded size, and with recursion longer:
//! the size is bounded when the schema is compiled, the steps before each value.

mod cycle;
mod steps;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use jsonschema::{Draft, PatternOptions, Retrieve, Uri, Validator};
use serde_json::Value;

/// Subschemas after all references are followed; doubling references (`allOf: [a, a]`) reach it fast.
const MAX_EXPANDED: u64 = 50_000;
/// Most steps of one validation, as [`steps`] counts them: some tenths of a second.
const MAX_STEPS: u64 = 5_000_000;
/// Steps that a check may take, going by the sizes alone, without being counted for it or kept off a worker thread.
const LIGHT: u64 = 100_000;
/// How much more there is to be compiled and checked where a schema asks for what was not evaluated: all that applies
/// to the same value is compiled and gone through again for that, also where it asks the same itself.
const AGAIN: u64 = 3;
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
    /// Whether it asks for what was not evaluated: nor does it then.
    unevaluated: bool,
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

    /// Whether checking so many bytes may take long enough to keep it off a thread that others wait for.
    pub fn is_heavy(&self, bytes: usize) -> bool {
        // A value has no more nodes than bytes.
        let most = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(self.size.expanded);
        self.size.recursive || self.size.unevaluated || most > LIGHT
    }

    /// Checks a value, in at most five million steps and the time to parse it: callers want a thread for what
    /// [is heavy](Self::is_heavy).
    ///
    /// # Errors
    /// The first place that breaks the schema, or why it was not looked for.
    pub fn check(&self, text: &str) -> Result<(), Refusal> {
        self.check_within(text, MAX_STEPS)
    }

    /// Checks a value in at most so many steps.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_within(&self, text: &str, steps: u64) -> Result<(), Refusal> {
        let value: Value = serde_json::from_str(text).map_err(|_| Refusal::NoJson)?;
        // Most values are that small; only the others are gone through.
        if self.is_heavy(text.len()) && !steps::within(&self.source, &value, steps) {
            return Err(Refusal::TooCostly);
        }
        self.validator.validate(&value).map_err(|error| {
            Refusal::Broken(Violation {
                at: error.instance_path().to_string(),
                keyword: error.kind().keyword().to_owned(),
            })
        })
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
    let mut counter = Counter {
        root: schema,
        known: HashMap::new(),
        open: Vec::new(),
        recursive: false,
        unevaluated: false,
    };
    match counter.expanded(schema, 0)? {
        size if size > MAX_EXPANDED => Err("the schema is too large once its references are followed"),
        expanded => Ok(Size { expanded, recursive: counter.recursive, unevaluated: counter.unevaluated }),
    }
}

struct Counter<'a> {
    root: &'a Value,
    known: HashMap<&'a str, u64>,
    open: Vec<&'a str>,
    recursive: bool,
    unevaluated: bool,
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
                let again = members.keys().any(|key| key.starts_with("unevaluated"));
                self.unevaluated |= again;
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
                    let times = if again && !is_inside(key) { AGAIN } else { 1 };
                    sum = sum.saturating_add(more.saturating_mul(times));
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

/// Keywords whose schemas are for parts that are evaluated whatever these say, or for nothing by themselves.
fn is_inside(keyword: &str) -> bool {
    matches!(
        keyword,
        "properties"
            | "patternProperties"
            | "propertyNames"
            | "items"
            | "prefixItems"
            | "$defs"
            | "definitions"
    )
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
