//! How long checking a value would take: schema and value are walked together as a validator does, deciding nothing,
//! until a budget is spent. Never asks whether a value fits.

use std::collections::HashMap;

use serde_json::Value;

/// Nesting of subschemas being applied; recursion costs stack.
const MAX_OPEN: usize = 400;

/// Whether checking `value` against `root` takes at most `budget` steps. A step is a subschema or a keyword, applied
/// to one part of the value, or 16 bytes of text looked at. Takes no more steps than that itself.
pub(super) fn within(root: &Value, value: &Value, budget: u64) -> bool {
    let mut walk = Walk { root, left: budget, depth: 0, open: Vec::new(), anchors: HashMap::new() };
    walk.apply(root, value).is_some()
}

struct Walk<'s, 'v> {
    root: &'s Value,
    left: u64,
    depth: usize,
    /// References being followed, and for which part.
    open: Vec<(&'s str, &'v Value)>,
    anchors: HashMap<&'s str, Option<&'s Value>>,
}

impl<'s, 'v> Walk<'s, 'v> {
    fn spend(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(u64::try_from(steps).ok()?)?;
        Some(())
    }

    /// None when the budget is spent.
    fn apply(&mut self, schema: &'s Value, value: &'v Value) -> Option<()> {
        self.spend(1)?;
        let Value::Object(keywords) = schema else { return Some(()) };
        if self.depth >= MAX_OPEN {
            return None;
        }
        self.depth += 1;
        // What is unevaluated is found by going through everything else once more.
        let again =
            keywords.contains_key("unevaluatedProperties") || keywords.contains_key("unevaluatedItems");
        for _ in 0..=usize::from(again) {
            for (keyword, part) in keywords {
                self.spend(1)?;
                self.keyword(keyword, part, value)?;
            }
        }
        self.depth -= 1;
        Some(())
    }

    fn keyword(&mut self, keyword: &str, part: &'s Value, value: &'v Value) -> Option<()> {
        match (keyword, part, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to), _) => self.follow(to, value),
            ("allOf" | "anyOf" | "oneOf", Value::Array(all), _) => {
                all.iter().try_for_each(|schema| self.apply(schema, value))
            }
            ("not" | "if" | "then" | "else", ..) => self.apply(part, value),
            ("dependentSchemas" | "dependencies", Value::Object(all), _) => {
                all.values().try_for_each(|schema| self.apply(schema, value))
            }
            ("enum" | "const", ..) => self.size(part),
            ("uniqueItems", _, Value::Array(_)) => self.size(value).and_then(|()| self.size(value)),
            ("pattern", _, Value::String(text)) => self.spend(text.len() / 16),
            (_, _, Value::Object(members)) => {
                members.iter().try_for_each(|(name, child)| self.member(keyword, part, name, child))
            }
            (_, _, Value::Array(elements)) => self.elements(keyword, part, elements),
            _ => Some(()),
        }
    }

    fn member(&mut self, keyword: &str, part: &'s Value, name: &str, child: &'v Value) -> Option<()> {
        match (keyword, part) {
            ("properties", _) => part.get(name).map_or(Some(()), |schema| self.apply(schema, child)),
            ("patternProperties", Value::Object(all)) => all.values().try_for_each(|schema| {
                self.spend(1 + name.len() / 16)?;
                self.apply(schema, child)
            }),
            ("additionalProperties" | "unevaluatedProperties", _) => self.apply(part, child),
            // A name is a string, and all that is asked of strings is asked of it.
            ("propertyNames", _) => self.spend(1 + name.len() / 16).and_then(|()| self.size(part)),
            _ => Some(()),
        }
    }

    fn elements(&mut self, keyword: &str, part: &'s Value, elements: &'v [Value]) -> Option<()> {
        match (keyword, part) {
            ("items" | "prefixItems", Value::Array(all)) => {
                all.iter().zip(elements).try_for_each(|(schema, element)| self.apply(schema, element))
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", _) => {
                elements.iter().try_for_each(|element| self.apply(part, element))
            }
            _ => Some(()),
        }
    }

    fn follow(&mut self, to: &'s str, value: &'v Value) -> Option<()> {
        // Back where it stands, and no part of the value further: validators stop there as well.
        let mut here = self.open.iter().rev().take_while(|(_, part)| std::ptr::eq(*part, value));
        if here.any(|(open, _)| *open == to) {
            return Some(());
        }
        let pointer = to.strip_prefix('#')?;
        let root = self.root;
        let target = match pointer.is_empty() || pointer.starts_with('/') {
            true => root.pointer(&super::unescaped(pointer)),
            false => *self.anchors.entry(pointer).or_insert_with(|| anchored(root, pointer)),
        };
        self.open.push((to, value));
        self.apply(target?, value)?;
        self.open.pop();
        Some(())
    }

    /// Spends a step for each part of a value, and more for long text.
    fn size(&mut self, value: &Value) -> Option<()> {
        self.spend(1)?;
        match value {
            Value::Array(all) => all.iter().try_for_each(|part| self.size(part)),
            Value::Object(members) => members.values().try_for_each(|part| self.size(part)),
            Value::String(text) => self.spend(text.len() / 16),
            _ => Some(()),
        }
    }
}

/// The subschema with this anchor.
fn anchored<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    let is = |key: &str| schema.get(key).and_then(Value::as_str) == Some(name);
    if is("$anchor") || is("$dynamicAnchor") {
        return Some(schema);
    }
    match schema {
        Value::Array(all) => all.iter().find_map(|part| anchored(part, name)),
        Value::Object(members) => members.values().find_map(|part| anchored(part, name)),
        _ => None,
    }
}
