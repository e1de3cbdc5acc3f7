//! Settings of single tools: which rule is whose. Reads no configuration and knows no server.

use std::collections::HashMap;
use std::time::Duration;

use crate::config::glob::glob;

/// Deadlines of one tool, where they differ from its server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToolTimeouts {
    /// In place of [`super::Timeouts::call_idle`].
    pub call_idle: Option<Duration>,
    /// In place of [`super::Timeouts::call_total`].
    pub call_total: Option<Duration>,
}

/// Deadlines of tools.
pub type ToolRules = ByTool<ToolTimeouts>;

/// Settings of tools, by the server's own tool name or a glob with `*` and `?`. Sorted once, so that a call of a
/// server without globs is one look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByTool<T> {
    named: HashMap<String, T>,
    /// Longest first.
    globs: Vec<(String, T)>,
}

impl<T> Default for ByTool<T> {
    fn default() -> Self {
        ByTool { named: HashMap::new(), globs: Vec::new() }
    }
}

impl<T: Clone> FromIterator<(String, T)> for ByTool<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(all: I) -> Self {
        let named: HashMap<_, _> = all.into_iter().collect();
        let pattern = |(name, _): &(&String, _)| name.contains(['*', '?']);
        let globs = named.iter().filter(pattern).map(|(name, rule)| (name.clone(), rule.clone()));
        let mut globs: Vec<_> = globs.collect();
        globs.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        ByTool { named, globs }
    }
}

impl<T> ByTool<T> {
    /// The first that a rule for this tool says: an exact name wins over globs, and of globs the longest.
    pub(super) fn first<'a, P>(&'a self, tool: &str, pick: impl Fn(&'a T) -> Option<P>) -> Option<P> {
        let globs = || self.globs.iter().filter(|(pattern, _)| glob(pattern, tool));
        self.named.get(tool).and_then(&pick).or_else(|| globs().find_map(|(_, rule)| pick(rule)))
    }
}
