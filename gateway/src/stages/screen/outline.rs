//! What is looked at in a result.

use mcp::bridge::ResultType;
use mcp::dress::Meta;
use mcp::era::Era;
use mcp::json::Raw;
use memchr::memmem;

/// What is looked at in a result, found in one walk over its members.
#[derive(Default)]
pub(super) struct Outline {
    pub(super) kind: Option<Raw>,
    pub(super) failed: bool,
    pub(super) timed: bool,
    pub(super) structured: Option<Raw>,
    pub(super) requests: Option<Raw>,
    pub(super) state: Option<Raw>,
    /// It may hold something that only the gateway may say.
    pub(super) own: bool,
    /// Its `_meta` says nothing: empty, or no object.
    pub(super) hollow: bool,
    meta: Meta,
}

impl Outline {
    /// Of a result of a server of this era. Rounds are the modern era's: what a legacy server calls so is no question.
    pub(super) fn of(result: &Raw, era: Era) -> Outline {
        let mut outline = Outline::default();
        let modern = era == Era::Modern;
        for member in result.view() {
            match member.name().as_ref() {
                "resultType" if modern => outline.kind = Some(member.value()),
                "isError" => outline.failed = member.value().boolean() == Some(true),
                "ttlMs" => outline.timed = true,
                "structuredContent" => outline.structured = Some(member.value()),
                "inputRequests" if modern => outline.requests = Some(member.value()),
                "requestState" if modern => outline.state = Some(member.value()),
                "_meter" => outline.own = true,
                // An escaped spelling is left to the careful way.
                "_meta" => {
                    let value = member.value();
                    let holds = |what: &[u8]| memmem::find(value.bytes(), what).is_some();
                    outline.own |= holds(b"dev.tollgate") || holds(b"\\");
                    outline.hollow = !Meta::is_fit(&value);
                    outline.meta = Meta::Ends(member.end());
                }
                _ => {}
            }
        }
        outline
    }

    /// Where the `_meta` of what became of `result` ends; looked for again only when that is other text.
    pub(super) fn meta_of(&self, result: &Raw, became: &Raw) -> Meta {
        let (old, new) = (result.bytes(), became.bytes());
        let same = old.as_ptr() == new.as_ptr() && old.len() == new.len();
        if same { self.meta } else { Meta::of(became) }
    }

    pub(super) fn result_type(&self) -> ResultType {
        match self.kind.as_ref().map(Raw::string) {
            None => ResultType::Complete,
            Some(kind) => match kind.as_deref() {
                Some("complete") => ResultType::Complete,
                Some("input_required") => ResultType::InputRequired,
                _ => ResultType::Unknown,
            },
        }
    }
}
