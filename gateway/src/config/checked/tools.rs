//! Deadlines of single tools: which rule is whose. Reads no configuration and knows no server.

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

/// Deadlines of tools, by the server's own tool name or a glob with `*` and `?`. Sorted once, so that a call of a
/// server without globs is one look-up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolRules {
    named: HashMap<String, ToolTimeouts>,
    /// Longest first.
    globs: Vec<(String, ToolTimeouts)>,
}

impl FromIterator<(String, ToolTimeouts)> for ToolRules {
    fn from_iter<I: IntoIterator<Item = (String, ToolTimeouts)>>(all: I) -> Self {
        let named: HashMap<_, _> = all.into_iter().collect();
        let pattern = |(name, _): &(&String, _)| name.contains(['*', '?']);
        let globs = named.iter().filter(pattern).map(|(name, rule)| (name.clone(), *rule));
        let mut globs: Vec<_> = globs.collect();
        globs.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        ToolRules { named, globs }
    }
}

impl ToolRules {
    /// The first that a rule for this tool says: an exact name wins over globs, and of globs the longest.
    pub(super) fn first<T>(&self, tool: &str, pick: impl Fn(&ToolTimeouts) -> Option<T>) -> Option<T> {
        let globs = || self.globs.iter().filter(|(pattern, _)| glob(pattern, tool));
        self.named.get(tool).and_then(&pick).or_else(|| globs().find_map(|(_, rule)| pick(rule)))
    }
}
