//! Scopes (RFC 6749 section 3.3) and which of them imply others. Compiled once; never grants what no rule says.

use std::collections::{BTreeMap, BTreeSet};

/// Scopes of one token, or named by one issuer's rules.
pub const MAX_SCOPES: usize = 256;
/// Longest scope in bytes.
pub const MAX_SCOPE: usize = 256;

/// A set of scopes, in alphabetical order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<String>);

impl Scopes {
    /// Reads a space-separated list. `None` for a character that no scope may hold, and for too many or too long ones.
    pub fn parse(text: &str) -> Option<Scopes> {
        Scopes::collect(text.split(' ').filter(|scope| !scope.is_empty()))
    }

    /// Collects single scopes, under the same rules.
    pub fn collect<'a>(scopes: impl IntoIterator<Item = &'a str>) -> Option<Scopes> {
        let mut set = BTreeSet::new();
        for scope in scopes {
            if !is_scope(scope) || set.len() == MAX_SCOPES {
                return None;
            }
            set.insert(scope.to_owned());
        }
        Some(Scopes(set))
    }

    /// Whether a scope is held.
    pub fn contains(&self, scope: &str) -> bool {
        self.0.contains(scope)
    }

    /// The scopes in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those of `needed` that are not held, in their order: none means go ahead.
    pub fn lacking<'a>(&self, needed: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        needed.into_iter().filter(|scope| !self.contains(scope)).collect()
    }

    /// The space-separated list.
    pub fn text(&self) -> String {
        self.iter().collect::<Vec<_>>().join(" ")
    }
}

/// Whether a text is one scope: `%x21 / %x23-5B / %x5D-7E`.
pub fn is_scope(text: &str) -> bool {
    (1..=MAX_SCOPE).contains(&text.len())
        && text.bytes().all(|b| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// Which scopes imply which others, followed to the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hierarchy(BTreeMap<String, BTreeSet<String>>);

/// Why a hierarchy can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HierarchyError {
    /// A name that is no scope.
    #[error("'{0}' is no scope")]
    NoScope(String),
    /// A scope that implies itself, by way of others or directly.
    #[error("scope '{0}' implies itself")]
    Cycle(String),
    /// More than 256 scopes.
    #[error("more than {MAX_SCOPES} scopes in the hierarchy")]
    TooMany,
}

impl Hierarchy {
    /// Compiles `scope → the scopes that it implies`.
    ///
    /// # Errors
    /// A name that is no scope, a cycle, or too many scopes.
    pub fn compile(rules: &BTreeMap<String, Vec<String>>) -> Result<Hierarchy, HierarchyError> {
        let named: BTreeSet<&String> = rules.keys().chain(rules.values().flatten()).collect();
        if let Some(bad) = named.iter().find(|name| !is_scope(name)) {
            return Err(HierarchyError::NoScope((**bad).clone()));
        }
        if named.len() > MAX_SCOPES {
            return Err(HierarchyError::TooMany);
        }
        let mut closed = BTreeMap::new();
        for scope in rules.keys() {
            let mut implied = BTreeSet::new();
            let mut open: Vec<&String> = vec![scope];
            while let Some(next) = open.pop() {
                for one in rules.get(next).into_iter().flatten() {
                    if one == scope {
                        return Err(HierarchyError::Cycle(scope.clone()));
                    }
                    if implied.insert(one.clone()) {
                        open.push(one);
                    }
                }
            }
            closed.insert(scope.clone(), implied);
        }
        Ok(Hierarchy(closed))
    }

    /// The scopes with all those that they imply.
    pub fn expand(&self, scopes: Scopes) -> Scopes {
        let implied: Vec<String> =
            scopes.0.iter().filter_map(|scope| self.0.get(scope)).flatten().cloned().collect();
        let mut all = scopes;
        all.0.extend(implied);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(pairs: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        pairs
            .iter()
            .map(|(scope, implied)| (scope.to_string(), implied.iter().map(|s| s.to_string()).collect()))
            .collect()
    }

    #[test]
    fn a16_a_broader_scope_implies_the_narrower_ones_to_the_end() {
        let hierarchy =
            Hierarchy::compile(&rules(&[("mcp.admin", &["mcp.write"]), ("mcp.write", &["mcp.read"])]))
                .unwrap();
        let held = hierarchy.expand(Scopes::parse("mcp.admin other").unwrap());
        assert_eq!(held.text(), "mcp.admin mcp.read mcp.write other");
        let narrow = hierarchy.expand(Scopes::parse("mcp.read").unwrap());
        assert_eq!(narrow.lacking(["mcp.read", "mcp.write", "x"]), ["mcp.write", "x"]);
    }

    #[test]
    fn cycles_and_bad_names_are_refused() {
        let compile = |pairs: &[(&str, &[&str])]| Hierarchy::compile(&rules(pairs));
        assert_eq!(compile(&[("a", &["a"])]), Err(HierarchyError::Cycle("a".into())));
        assert_eq!(
            compile(&[("a", &["b"]), ("b", &["c"]), ("c", &["b"])]),
            Err(HierarchyError::Cycle("b".into()))
        );
        assert_eq!(compile(&[("a", &["b c"])]), Err(HierarchyError::NoScope("b c".into())));
        let many: Vec<String> = (0..MAX_SCOPES).map(|n| n.to_string()).collect();
        assert_eq!(Hierarchy::compile(&[("a".into(), many)].into()), Err(HierarchyError::TooMany));
        // Two ways to one scope are no cycle.
        assert!(compile(&[("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"])]).is_ok());
    }

    #[test]
    fn scopes_keep_to_their_characters_and_bounds() {
        for bad in ["a\tb", "a\"b", "a\\b", "é", "a\0", &"a".repeat(MAX_SCOPE + 1)] {
            assert_eq!(Scopes::parse(bad), None, "{bad:?}");
        }
        let many = |n: usize| (0..n).map(|i| i.to_string()).collect::<Vec<_>>().join(" ");
        assert!(Scopes::parse(&many(MAX_SCOPES)).is_some());
        assert!(Scopes::parse(&many(MAX_SCOPES + 1)).is_none());
        assert_eq!(Scopes::parse("  b   a b ").unwrap().text(), "a b");
        assert!(Scopes::parse("").unwrap().is_empty());
    }
}
