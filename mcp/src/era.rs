//! Protocol eras and revisions: names, order, which era a revision belongs to. Never negotiates.

use std::fmt;

/// The two ways of speaking MCP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Era {
    /// Stateless: every request carries its version and capabilities in `_meta` (2026-07-28 and later).
    Modern,
    /// An `initialize` handshake opens a session (2024-11-05 to 2025-11-25).
    Legacy,
}

impl Era {
    /// `modern` or `legacy`, as in logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Era::Modern => "modern",
            Era::Legacy => "legacy",
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A published revision of the specification; ordered by date.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Revision {
    /// The first revision, HTTP+SSE transport.
    V2024_11_05,
    /// Streamable HTTP arrives; the only revision with batches.
    V2025_03_26,
    /// The `MCP-Protocol-Version` header arrives.
    V2025_06_18,
    /// The last revision with a handshake.
    V2025_11_25,
    /// The first stateless revision.
    V2026_07_28,
}

impl Revision {
    /// The revisions with a handshake, newest first.
    pub const LEGACY: &'static [Revision] =
        &[Revision::V2025_11_25, Revision::V2025_06_18, Revision::V2025_03_26, Revision::V2024_11_05];
    /// The stateless revision.
    pub const MODERN: Revision = Revision::V2026_07_28;
    /// What an `initialize` with an unknown version is answered with.
    pub const NEWEST_LEGACY: Revision = Revision::V2025_11_25;
    /// Every revision spoken, newest first: the `supported` list of error -32022.
    pub const SUPPORTED: &'static [Revision] = &[
        Revision::V2026_07_28,
        Revision::V2025_11_25,
        Revision::V2025_06_18,
        Revision::V2025_03_26,
        Revision::V2024_11_05,
    ];

    /// The revision with exactly this name; names are case-sensitive dates.
    pub fn parse(text: &str) -> Option<Revision> {
        Revision::SUPPORTED.iter().copied().find(|revision| revision.as_str() == text)
    }

    /// The name on the wire, `2026-07-28`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Revision::V2024_11_05 => "2024-11-05",
            Revision::V2025_03_26 => "2025-03-26",
            Revision::V2025_06_18 => "2025-06-18",
            Revision::V2025_11_25 => "2025-11-25",
            Revision::V2026_07_28 => "2026-07-28",
        }
    }

    /// The era that the revision belongs to.
    pub const fn era(self) -> Era {
        match self {
            Revision::V2026_07_28 => Era::Modern,
            _ => Era::Legacy,
        }
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_round_trip_and_are_ordered() {
        for pair in Revision::SUPPORTED.windows(2) {
            assert!(pair[0] > pair[1], "newest first");
        }
        for revision in Revision::SUPPORTED {
            assert_eq!(Revision::parse(revision.as_str()), Some(*revision));
        }
        assert_eq!(Revision::parse("2026-07-28 "), None);
        assert_eq!(Revision::parse("DRAFT-2026-v1"), None);
    }

    #[test]
    fn only_the_newest_is_modern() {
        assert_eq!(Revision::MODERN.era(), Era::Modern);
        assert!(Revision::LEGACY.iter().all(|revision| revision.era() == Era::Legacy));
        assert_eq!(Revision::LEGACY.first(), Some(&Revision::NEWEST_LEGACY));
    }
}
