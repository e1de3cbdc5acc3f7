//! What a decision is about: one entry of a server's manifest, with the hints that may count.

/// The kinds of entries that a task can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource or a resource template.
    Resource,
}

/// One entry of a server's manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The server's configured id.
    pub server: &'a str,
    /// Tool, prompt or resource.
    pub kind: Kind,
    /// The name as clients of the merged endpoint see it, or the resource's URI.
    pub exposed: &'a str,
    /// The server's own name for it.
    pub own: &'a str,
    /// A tool's hints, after [`Hints::believed`].
    pub hints: Hints,
}

/// A tool's annotations (MCP `ToolAnnotations`), as far as they were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// `readOnlyHint`.
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    pub destructive: Option<bool>,
    /// `idempotentHint`.
    pub idempotent: Option<bool>,
    /// `openWorldHint`.
    pub open_world: Option<bool>,
}

impl Hints {
    /// The hints that count. Those of a server that is not trusted count only where they say the worse.
    #[must_use]
    pub fn believed(self, trusted: bool) -> Hints {
        let only = |hint: Option<bool>, worse| hint.filter(|h| trusted || *h == worse);
        Hints {
            read_only: only(self.read_only, false),
            destructive: only(self.destructive, true),
            idempotent: only(self.idempotent, false),
            open_world: only(self.open_world, true),
        }
    }

    /// `readOnlyHint`, false by default.
    pub fn is_read_only(&self) -> bool {
        self.read_only.unwrap_or(false)
    }

    /// Whether it may destroy: `destructiveHint` is true or absent on a tool that is not read-only.
    pub fn is_destructive(&self) -> bool {
        !self.is_read_only() && self.destructive.unwrap_or(true)
    }

    /// `idempotentHint`, false by default.
    pub fn is_idempotent(&self) -> bool {
        self.idempotent.unwrap_or(false)
    }

    /// `openWorldHint`, true by default.
    pub fn is_open_world(&self) -> bool {
        self.open_world.unwrap_or(true)
    }
}

impl Entry<'_> {
    /// Server and own name together, when the exposed name is not just that: a long name is shown shortened.
    pub(crate) fn unshortened(&self) -> Option<String> {
        if self.kind == Kind::Resource {
            return None;
        }
        let rest = self.exposed.strip_prefix(self.server).and_then(|rest| rest.strip_prefix("__"));
        (rest != Some(self.own)).then(|| format!("{}__{}", self.server, self.own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t11_hints_of_a_server_that_is_not_trusted_only_tighten() {
        for bits in 0..81_u32 {
            let hint = |n: u32| [None, Some(false), Some(true)][(bits / 3_u32.pow(n) % 3) as usize];
            let told =
                Hints { read_only: hint(0), destructive: hint(1), idempotent: hint(2), open_world: hint(3) };
            let (held, none) = (told.believed(false), Hints::default());
            // Never better than a tool that says nothing at all.
            assert!(!held.is_read_only() && held.is_destructive(), "{told:?}");
            assert!(!held.is_idempotent() && held.is_open_world(), "{told:?}");
            assert_eq!(none.is_destructive(), held.is_destructive());
            assert_eq!(told.believed(true), told);
        }
    }

    #[test]
    fn destructive_is_what_the_specification_says() {
        let of =
            |read_only, destructive| Hints { read_only, destructive, ..Hints::default() }.is_destructive();
        assert!(of(None, None) && of(Some(false), None) && of(Some(false), Some(true)));
        assert!(!of(Some(true), None) && !of(Some(true), Some(true)) && !of(None, Some(false)));
    }
}
