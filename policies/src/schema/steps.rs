//! How long checking a value would take: schema and value are walked together as a validator does, deciding nothing,
//! until a budget is spent. Never asks whether a value fits.

use std::collections::HashMap;

use serde_json::Value;

/// Nesting of subschemas being applied; recursion costs stack.
const MAX_OPEN: usize = 400;
/// Conditions are asked once for each part that hangs on them, of which a validator keeps so many.
const MAX_PARTS: usize = 64;

/// Whether checking `value` against `root` takes at most `budget` steps. A step is a subschema or a keyword, applied
/// to one part of the value, or 16 bytes of text looked at. Takes no more steps than that itself.
pub(super) fn within(root: &Value, value: &Value, budget: u64) -> bool {
    let mut walk = Walk { root, left: budget, depth: 0, open: Vec::new(), anchors: HashMap::new() };
    walk.apply(root, value, Ask::Why).is_some()
}

/// What a validator wants to know of a subschema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// Whether the value fits.
    Fits,
    /// What is wrong: where one of several schemas has to fit, that is looked for after it is known that none does.
    Why,
    /// Which parts of the value it speaks of, for an `unevaluated…` above it.
    Marks,
}

struct Walk<'s> {
    root: &'s Value,
    left: u64,
    depth: usize,
    /// References being followed, for which part, and why.
    open: Vec<(&'s str, *const Value, Ask)>,
    anchors: HashMap<&'s str, Option<&'s Value>>,
}

/// All functions give None when the budget is spent.
impl<'s> Walk<'s> {
    fn spend(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(u64::try_from(steps).ok()?)?;
        Some(())
    }

    fn apply(&mut self, schema: &'s Value, value: &Value, ask: Ask) -> Option<()> {
        self.spend(1)?;
        let Value::Object(keywords) = schema else { return Some(()) };
        if self.depth >= MAX_OPEN {
            return None;
        }
        self.depth += 1;
        for (keyword, part) in keywords {
            self.spend(1)?;
            self.keyword(keyword, part, value, ask)?;
            if matches!(keyword.as_str(), "unevaluatedProperties" | "unevaluatedItems") {
                self.marks(schema, value)?;
            }
        }
        self.depth -= 1;
        Some(())
    }

    fn keyword(&mut self, keyword: &str, part: &'s Value, value: &Value, ask: Ask) -> Option<()> {
        match (keyword, part, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to), _) => {
                self.follow(to, value, ask).map(|_| ())
            }
            ("allOf", Value::Array(all), _) => all.iter().try_for_each(|s| self.apply(s, value, ask)),
            ("anyOf" | "oneOf", Value::Array(all), _) => {
                all.iter().try_for_each(|schema| self.apply(schema, value, Ask::Fits))?;
                match ask {
                    Ask::Why => all.iter().try_for_each(|schema| self.apply(schema, value, Ask::Why)),
                    Ask::Fits | Ask::Marks => Some(()),
                }
            }
            ("not" | "if", ..) => self.apply(part, value, Ask::Fits),
            ("then" | "else", ..) => self.apply(part, value, ask),
            ("dependentSchemas" | "dependencies", Value::Object(all), _) => {
                all.values().try_for_each(|schema| self.apply(schema, value, ask))
            }
            ("enum" | "const", ..) => self.size(part),
            ("uniqueItems", _, Value::Array(_)) => self.size(value).and_then(|()| self.size(value)),
            ("pattern", _, Value::String(text)) => self.spend(text.len() / 16),
            (_, _, Value::Object(members)) => members
                .iter()
                .try_for_each(|(name, child)| self.member(keyword, part, (name.as_str(), child), ask)),
            (_, _, Value::Array(elements)) => self.elements(keyword, part, elements, ask),
            _ => Some(()),
        }
    }

    fn member(
        &mut self,
        keyword: &str,
        part: &'s Value,
        (name, child): (&str, &Value),
        ask: Ask,
    ) -> Option<()> {
        match (keyword, part) {
            ("properties", _) => part.get(name).map_or(Some(()), |schema| self.apply(schema, child, ask)),
            ("patternProperties", Value::Object(all)) => all.values().try_for_each(|schema| {
                self.spend(1 + name.len() / 16)?;
                self.apply(schema, child, ask)
            }),
            ("additionalProperties" | "unevaluatedProperties", _) => self.apply(part, child, ask),
            // A name is a string, and all that is asked of strings is asked of it.
            ("propertyNames", _) => {
                self.spend(1 + name.len() / 16)?;
                self.apply(part, &Value::from(name), ask)
            }
            _ => Some(()),
        }
    }

    fn elements(&mut self, keyword: &str, part: &'s Value, elements: &[Value], ask: Ask) -> Option<()> {
        match (keyword, part) {
            ("items" | "prefixItems", Value::Array(all)) => {
                all.iter().zip(elements).try_for_each(|(schema, element)| self.apply(schema, element, ask))
            }
            ("items" | "additionalItems" | "unevaluatedItems" | "contains", _) => {
                elements.iter().try_for_each(|element| self.apply(part, element, ask))
            }
            _ => Some(()),
        }
    }

    /// Looks for what is evaluated: each schema that may say so is asked whether it fits, and then what it speaks of,
    /// so that nesting multiplies. Gives the number of parts that hang on conditions.
    fn marks(&mut self, schema: &'s Value, value: &Value) -> Option<usize> {
        self.spend(1)?;
        let Value::Object(keywords) = schema else { return Some(0) };
        if self.depth >= MAX_OPEN {
            return None;
        }
        self.depth += 1;
        let mut parts = 0;
        let mut conditional = 0;
        for (keyword, part) in keywords {
            self.spend(1)?;
            match (keyword.as_str(), part, value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to), _) => {
                    parts += self.follow(to, value, Ask::Marks)?;
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(all), _) => {
                    for schema in all {
                        self.apply(schema, value, Ask::Fits)?;
                        parts += self.marks(schema, value)?;
                    }
                }
                ("if" | "then" | "else", ..) => conditional += 1 + self.marks(part, value)?,
                ("dependentSchemas", Value::Object(all), _) => {
                    for schema in all.values() {
                        parts += 1 + self.marks(schema, value)?;
                    }
                }
                ("properties" | "additionalProperties", _, Value::Object(members)) => {
                    self.spend(members.len())?;
                }
                ("patternProperties" | "unevaluatedProperties", ..)
                | ("contains" | "unevaluatedItems", _, Value::Array(_)) => {
                    self.keyword(keyword, part, value, Ask::Fits)?;
                }
                _ => {}
            }
        }
        if let Some(condition) = keywords.get("if") {
            for _ in 0..conditional.min(MAX_PARTS) {
                self.apply(condition, value, Ask::Fits)?;
            }
        }
        self.depth -= 1;
        Some((parts + conditional).min(MAX_PARTS))
    }

    /// Applies what a reference leads to, or marks by it.
    fn follow(&mut self, to: &'s str, value: &Value, ask: Ask) -> Option<usize> {
        // Back where it stands, and no part of the value further: validators stop there as well.
        let at = std::ptr::from_ref(value);
        let mut here = self.open.iter().rev().take_while(|(_, part, _)| std::ptr::eq(*part, at));
        if here.any(|(open, _, why)| *open == to && (*why == Ask::Marks) == (ask == Ask::Marks)) {
            return Some(0);
        }
        let pointer = to.strip_prefix('#')?;
        let root = self.root;
        let target = match pointer.is_empty() || pointer.starts_with('/') {
            true => root.pointer(&super::unescaped(pointer)),
            false => *self.anchors.entry(pointer).or_insert_with(|| anchored(root, pointer)),
        };
        self.open.push((to, at, ask));
        let parts = match ask {
            Ask::Marks => self.marks(target?, value)?,
            Ask::Fits | Ask::Why => self.apply(target?, value, ask).map(|()| 0)?,
        };
        self.open.pop();
        Some(parts)
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
