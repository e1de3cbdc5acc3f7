//! References that lead back to where they stand without a step into the value: a schema with one says nothing, and
//! validators accept everything by it. Recursion over the parts of a value is another thing, and allowed.

use std::collections::HashMap;

use serde_json::Value;

/// Whether the schema has such a circle. Its nesting and the length of its chains of references must be bounded already.
pub(super) fn endless(root: &Value) -> bool {
    let mut search = Search { root, anchors: HashMap::new(), seen: HashMap::new() };
    search.anchored(root);
    search.all(root)
}

struct Search<'s> {
    root: &'s Value,
    anchors: HashMap<&'s str, &'s Value>,
    /// Subschemas by their address: whether they are done with.
    seen: HashMap<*const Value, bool>,
}

impl<'s> Search<'s> {
    fn anchored(&mut self, value: &'s Value) {
        match value {
            Value::Array(all) => all.iter().for_each(|part| self.anchored(part)),
            Value::Object(members) => {
                let names =
                    ["$anchor", "$dynamicAnchor"].into_iter().filter_map(|key| members.get(key)?.as_str());
                for name in names {
                    self.anchors.entry(name).or_insert(value);
                }
                members.values().for_each(|part| self.anchored(part));
            }
            _ => {}
        }
    }

    /// Looks from each part. What is no schema has no way on, or one that leads nowhere.
    fn all(&mut self, value: &'s Value) -> bool {
        if self.circles(value) {
            return true;
        }
        match value {
            Value::Array(all) => all.iter().any(|part| self.all(part)),
            Value::Object(members) => members.values().any(|part| self.all(part)),
            _ => false,
        }
    }

    /// Whether the way from here, over what is applied to the same part of a value, comes back to itself.
    fn circles(&mut self, schema: &'s Value) -> bool {
        let Value::Object(keywords) = schema else { return false };
        let at = std::ptr::from_ref(schema);
        match self.seen.get(&at) {
            Some(true) => return false,
            Some(false) => return true,
            None => {}
        }
        self.seen.insert(at, false);
        let circles = keywords.iter().any(|(keyword, part)| match (keyword.as_str(), part) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(to)) => {
                self.target(to).is_some_and(|target| self.circles(target))
            }
            ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => all.iter().any(|part| self.circles(part)),
            ("not" | "if" | "then" | "else", part) => self.circles(part),
            ("dependentSchemas" | "dependencies", Value::Object(all)) => {
                all.values().any(|part| self.circles(part))
            }
            _ => false,
        });
        self.seen.insert(at, true);
        circles
    }

    fn target(&self, to: &str) -> Option<&'s Value> {
        let pointer = to.strip_prefix('#')?;
        match pointer.is_empty() || pointer.starts_with('/') {
            true => self.root.pointer(&super::unescaped(pointer)),
            false => self.anchors.get(pointer).copied(),
        }
    }
}
