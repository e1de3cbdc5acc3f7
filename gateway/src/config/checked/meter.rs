//! The checked `meter` section.

/// What answers to tool calls say of their cost, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    /// Where it stands.
    pub placement: Placement,
    /// Whether sizes and what is left of the budget are told too.
    pub detail: bool,
}

/// Where the meter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Beside the result's own members, as `_meter`.
    Result,
    /// In the result's `_meta`.
    Meta,
    /// Nowhere: results leave as they are.
    Off,
}

impl Placement {
    /// Its name in the configuration and on the capability card.
    pub const fn as_str(self) -> &'static str {
        match self {
            Placement::Result => "result",
            Placement::Meta => "meta",
            Placement::Off => "off",
        }
    }
}
