//! The first check of a document: its shape against the schema. All problems at once, each with its place and what
//! would be right; what is wrong is then taken out, so that the rest can be checked further. Never repeats a value
//! of the file, since it may be a secret that stands in the wrong place.

mod later;
mod nearest;

use std::collections::{HashMap, HashSet};

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use super::place::{At, Places, Spot, clip};
use super::schema::READY;
use super::units::{DURATION_FORM, MONEY_FORM, SIZE_FORM};

/// More than these help nobody.
const MAX_PROBLEMS: usize = 200;

/// One problem of the shape.
#[derive(Debug)]
pub(crate) struct ShapeFault {
    pub(crate) at: At,
    pub(crate) spot: Spot,
    pub(crate) what: String,
    pub(crate) fix: String,
}

/// Checks the shape and takes out of `root` what is wrong. `None` when the schema itself is unusable, which a test
/// excludes: it is made from the types alone.
pub(crate) fn check(root: &mut Value, places: &Places) -> Option<Vec<ShapeFault>> {
    let (schema, validator) = &*READY;
    let validator = validator.as_ref()?;
    let mut shape = Shape { schema, places, faults: Vec::new(), prune: Vec::new() };
    for error in validator.iter_errors(root) {
        shape.take(&error);
        if shape.faults.len() >= MAX_PROBLEMS {
            break;
        }
    }
    let Shape { faults, prune, .. } = shape;
    remove(root, &prune);
    Some(faults)
}

/// Takes the nearest mapping member at or above each pointer out: taking an element out of a sequence would shift
/// the places of the others. Each mapping is gone through once, however many of its members go.
fn remove(root: &mut Value, pointers: &[String]) {
    let mut members: HashMap<String, HashSet<String>> = HashMap::new();
    for mut pointer in pointers.iter().map(String::as_str) {
        loop {
            let Some((parent, last)) = pointer.rsplit_once('/') else {
                *root = Value::Object(serde_json::Map::new());
                return;
            };
            if !matches!(root.pointer(parent), Some(Value::Array(_))) {
                members
                    .entry(parent.to_owned())
                    .or_default()
                    .insert(last.replace("~1", "/").replace("~0", "~"));
                break;
            }
            pointer = parent;
        }
    }
    for (parent, gone) in members {
        if let Some(Value::Object(all)) = root.pointer_mut(&parent) {
            all.retain(|key, _| !gone.contains(key));
        }
    }
}

struct Shape<'a> {
    schema: &'a Value,
    places: &'a Places,
    faults: Vec<ShapeFault>,
    /// JSON pointers of what has to go.
    prune: Vec<String>,
}

impl Shape<'_> {
    fn take(&mut self, error: &ValidationError<'_>) {
        let pointer = error.instance_path().as_str().to_owned();
        let at = self.places.by_pointer(&pointer).unwrap_or_default();
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                let schema = self.beside(error).clone();
                for key in unexpected {
                    self.unknown(&at, key, &schema);
                }
                return;
            }
            ValidationErrorKind::Required { property } => {
                let key = property.as_str().unwrap_or_default();
                let what = format!("`{key}` is missing");
                let fix = describe(self.beside(error).pointer(&format!("/properties/{key}")));
                let fix = if fix.is_empty() { "add it".into() } else { format!("add it: {fix}") };
                let spot = self.places.key_spot(&at);
                self.faults.push(ShapeFault { at, spot, what, fix });
                // A missing root key leaves the rest worth checking.
                if pointer.is_empty() {
                    return;
                }
            }
            ValidationErrorKind::AnyOf { context } => {
                if let Some(branch) = meant(context, &pointer) {
                    branch.iter().for_each(|error| self.take(error));
                    return;
                }
                let fix = describe(Some(self.beside(error)));
                self.add(at, mismatch(error.instance()), fix);
            }
            kind => {
                let (what, fix) = plain(kind, error.instance(), self.beside(error));
                self.add(at, what, fix);
            }
        }
        self.prune.push(pointer);
    }

    fn add(&mut self, at: At, what: String, fix: String) {
        let spot = self.places.spot(&at);
        // Several keywords of one schema may fail for one mistake (a pattern and a minimum, say).
        if !self.faults.iter().any(|fault| fault.at == at) {
            self.faults.push(ShapeFault { at, spot, what, fix });
        }
    }

    /// The schema that the failed keyword stands in.
    fn beside(&self, error: &ValidationError<'_>) -> &Value {
        let path = error.schema_path().as_str();
        let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        self.schema.pointer(parent).unwrap_or(&Value::Null)
    }

    fn unknown(&mut self, at: &At, key: &str, schema: &Value) {
        let here = at.key(key);
        self.prune.push(here.pointer().to_owned());
        if self.faults.len() >= MAX_PROBLEMS {
            return;
        }
        let spot = self.places.key_spot(&here);
        let (what, fix) = match later::section(at.pointer(), key) {
            Some(fix) => (format!("`{key}` is not in this build of Tollgate yet"), fix.to_owned()),
            None => (format!("unknown key `{}`", clip(key, 64)), self.suggest(at, key, schema)),
        };
        self.faults.push(ShapeFault { at: here, spot, what, fix });
    }

    fn suggest(&self, at: &At, key: &str, schema: &Value) -> String {
        let known = nearest::keys(schema);
        if let Some(near) = nearest::nearest(key, &known) {
            return format!("did you mean `{near}`?");
        }
        let elsewhere = nearest::elsewhere(self.schema, key);
        match elsewhere.iter().find(|path| path.as_str() != at.shown()) {
            Some(path) => format!("it belongs to `{path}`"),
            None => format!("known here: {}", known.join(", ")),
        }
    }
}

/// The alternative that was meant: the one whose problems all lie deeper than the value itself, or whose only
/// problem there is about its keys.
fn meant<'a>(
    context: &'a [Vec<ValidationError<'static>>],
    pointer: &str,
) -> Option<&'a [ValidationError<'static>]> {
    let wrong_kind = |error: &ValidationError<'_>| {
        error.instance_path().as_str() == pointer
            && matches!(
                error.kind(),
                ValidationErrorKind::Type { .. }
                    | ValidationErrorKind::Enum { .. }
                    | ValidationErrorKind::Constant { .. }
            )
    };
    context.iter().find(|branch| !branch.iter().any(wrong_kind)).map(Vec::as_slice)
}

fn plain(kind: &ValidationErrorKind, value: &Value, schema: &Value) -> (String, String) {
    match kind {
        ValidationErrorKind::Type { kind } => {
            let text_wanted = matches!(kind, TypeKind::Single(one) if one.to_string() == "string");
            let fix = match value {
                Value::Null => format!("remove the key or give it a value: {}", describe(Some(schema))),
                Value::Number(_) | Value::Bool(_) if text_wanted => "put it in quotes".into(),
                _ => describe(Some(schema)),
            };
            (mismatch(value), fix)
        }
        ValidationErrorKind::Enum { .. } => {
            ("not one of the values known here".into(), describe(Some(schema)))
        }
        ValidationErrorKind::Pattern { .. } | ValidationErrorKind::Minimum { .. } => {
            ("not in the form that is needed here".into(), describe(Some(schema)))
        }
        other => (format!("breaks the rule `{}`", other.keyword()), describe(Some(schema))),
    }
}

fn mismatch(value: &Value) -> String {
    match value {
        Value::Null => "a key without a value",
        Value::Bool(_) => "true or false is not what is needed here",
        Value::Number(_) => "a number is not what is needed here",
        Value::String(_) => "text is not what is needed here",
        Value::Array(_) => "a list is not what is needed here",
        Value::Object(_) => "a mapping is not what is needed here",
    }
    .into()
}

/// What a schema wants, in words.
fn describe(schema: Option<&Value>) -> String {
    let Some(schema) = schema else { return String::new() };
    if let Some(Value::Array(options)) = schema.get("enum") {
        return format!("write one of: {}", words(options));
    }
    if let Some(Value::Array(options)) = schema.get("oneOf") {
        let consts: Vec<_> = options.iter().filter_map(|option| option.get("const").cloned()).collect();
        return format!("write one of: {}", words(&consts));
    }
    let examples = schema.get("examples").and_then(Value::as_array);
    if let (Some(_), Some(examples)) = (schema.get("anyOf"), examples) {
        return format!("write something such as {}", words(examples));
    }
    if schema.get("anyOf").is_some() {
        return "write `off`, or a mapping such as { listen: 127.0.0.1:9090 }".into();
    }
    let pattern = schema.get("pattern").and_then(Value::as_str).unwrap_or_default();
    match schema.get("type") {
        Some(Value::Array(types)) if types.iter().any(|name| name == "array") => {
            "write text, or a list of texts".into()
        }
        Some(Value::Array(_)) if pattern.contains("ms") => DURATION_FORM.into(),
        Some(Value::Array(types)) if types.contains(&Value::from("number")) => MONEY_FORM.into(),
        Some(Value::Array(_)) => SIZE_FORM.into(),
        Some(Value::String(name)) => match name.as_str() {
            "object" => "write a mapping (`key: value` lines, indented)".into(),
            "array" => "write a list (`- item` lines or [a, b])".into(),
            "boolean" => "write true or false".into(),
            "integer" => "write a whole number".into(),
            _ => "write text".into(),
        },
        _ => String::new(),
    }
}

fn words(options: &[Value]) -> String {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    options.iter().map(word).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
