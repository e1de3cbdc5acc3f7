//! The JSON Schema of the configuration file: made from the raw types, shipped by `tollgate schema`, and used for
//! the first check of every file. Never fetched from anywhere and never refers to another document.

use std::sync::LazyLock;

use jsonschema::Validator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::raw::File;

/// The schema ready for use, made once: it never changes.
pub(crate) static READY: LazyLock<(Value, Option<Validator>)> = LazyLock::new(|| {
    let schema = schema();
    let validator = jsonschema::validator_for(&schema).ok();
    (schema, validator)
});

/// JSON Schema (2020-12) of the configuration file. For editors: every key has its description and default.
pub fn schema() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<File>().to_value();
    without_null(&mut schema);
    if let Some(root) = schema.as_object_mut() {
        root.insert("title".into(), json!("Tollgate configuration"));
        root.insert("required".into(), json!(["servers"]));
    }
    schema
}

/// An optional key may be left out, but a key without a value is a mistake: `tls:` with everything under it
/// commented out must not mean plain HTTP.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Array(types)) = members.get_mut("type") {
                types.retain(|name| name != "null");
                if let [one] = types.as_slice() {
                    let one = one.clone();
                    members.insert("type".into(), one);
                }
            }
            if let Some(Value::Array(options)) = members.get_mut("enum") {
                options.retain(|option| !option.is_null());
            }
            lift_only_option(members);
            // `format: uint64` and the like mean nothing to a writer; a key that is called so is an object.
            if members.get("format").is_some_and(Value::is_string) {
                members.remove("format");
            }
            members.values_mut().for_each(without_null);
        }
        Value::Array(items) => items.iter_mut().for_each(without_null),
        _ => {}
    }
}

/// `anyOf` of a type and null becomes the type; what stands beside it (the key's own description) wins.
fn lift_only_option(members: &mut serde_json::Map<String, Value>) {
    let Some(Value::Array(options)) = members.get_mut("anyOf") else { return };
    options.retain(|option| option.get("type").is_none_or(|name| name != "null"));
    let [Value::Object(only)] = options.as_slice() else { return };
    let only = only.clone();
    members.remove("anyOf");
    for (key, value) in only {
        members.entry(key).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(schema: &Value, check: &mut impl FnMut(&Value)) {
        check(schema);
        match schema {
            Value::Object(members) => members.values().for_each(|value| walk(value, check)),
            Value::Array(items) => items.iter().for_each(|value| walk(value, check)),
            _ => {}
        }
    }

    #[test]
    fn names_every_key_and_allows_no_other() {
        let schema = schema();
        let at = |pointer: &str| schema.pointer(pointer).cloned().unwrap_or_default();
        assert_eq!(at("/additionalProperties"), json!(false));
        assert_eq!(at("/properties/tls/additionalProperties"), json!(false));
        assert_eq!(
            at("/properties/servers/additionalProperties/properties/type/enum"),
            json!(["auto", "http", "sse"])
        );
        assert_eq!(at("/properties/listen/type"), json!("string"));
    }

    #[test]
    fn has_no_null_and_no_reference() {
        walk(&schema(), &mut |value| {
            assert!(value.get("$ref").is_none() && value.get("$defs").is_none(), "{value}");
            assert!(!value.is_null() && *value != json!("null"));
        });
    }

    #[test]
    fn is_itself_a_valid_schema() {
        assert!(jsonschema::meta::is_valid(&schema()));
    }
}
