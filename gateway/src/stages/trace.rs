//! The caller's trace context, and the one that a server gets in its place: valid and bounded, with the gateway's span as
//! parent. From `_meta`, or where that says nothing from the HTTP headers; nothing of it is passed on as it came.

use std::borrow::Cow;

use http::HeaderName;
use mcp::trace::{self, BAGGAGE, PARENT, Parent, STATE};
use smallvec::SmallVec;

use crate::ports::journal::Ids;
use crate::ports::upstream::Trace;
use crate::stages::decode::Decoded;

/// Baggage: the method that is called.
const METHOD: &str = "mcp.method.name";
/// Baggage: the call's index in its run.
const INDEX: &str = "tollgate.call.index";

// As header names: made once, since each lookup would parse the text anew.
static PARENT_HEADER: HeaderName = HeaderName::from_static(PARENT);
static STATE_HEADER: HeaderName = HeaderName::from_static(STATE);
static BAGGAGE_HEADER: HeaderName = HeaderName::from_static(BAGGAGE);

/// The caller's `traceparent` as it was sent; perhaps not valid.
pub fn parent(decoded: &Decoded) -> Option<Cow<'_, str>> {
    meta(decoded, PARENT).map(Cow::Owned).or_else(|| parent_header(decoded).map(Cow::Borrowed))
}

fn parent_header(decoded: &Decoded) -> Option<&str> {
    let mut lines = decoded.admitted.headers.get_all(&PARENT_HEADER).iter();
    // Two lines are no parent.
    let (line, None) = (lines.next()?, lines.next()) else { return None };
    line.to_str().ok()
}

/// What a server gets of a call with these ids; nothing when there are none. `begun`: flags of a trace that begins here.
pub fn towards(decoded: &Decoded, ids: &Ids, method: &str, begun: u8) -> Trace {
    if ids.span.is_empty() {
        return Trace::default();
    }
    let sent = meta(decoded, PARENT);
    let callers = sent.as_deref().or_else(|| parent_header(decoded)).and_then(Parent::parse);
    let flags = callers.map_or(begun, |parent| parent.flags);
    let parent = Parent { trace: &ids.trace, span: &ids.span, flags };
    // A state means something with its parent alone.
    let state = match (callers, &sent) {
        (None, _) => None,
        (Some(_), Some(_)) => meta(decoded, STATE).map(Cow::Owned),
        (Some(_), None) => header(decoded, &STATE_HEADER),
    };
    let state = state.as_deref().and_then(trace::state).map(Into::into);
    let callers = meta(decoded, BAGGAGE).map(Cow::Owned);
    let callers = callers.or_else(|| header(decoded, &BAGGAGE_HEADER)).unwrap_or_default();
    let index = ids.index.map(|index| index.to_string());
    let index = index.as_deref().map(|index| (INDEX, index));
    let own: SmallVec<[(&str, &str); 2]> = [(METHOD, method)].into_iter().chain(index).collect();
    Trace { parent: Some(parent.text()), state, baggage: Some(trace::baggage(&own, &callers)) }
}

fn meta(decoded: &Decoded, key: &str) -> Option<String> {
    let mut found = decoded.meta.rest.iter().filter(|(name, _)| name.as_str() == key);
    found.next().map(|(_, value)| value.string().unwrap_or_default())
}

/// All lines of a header as one list.
fn header<'a>(decoded: &'a Decoded, name: &HeaderName) -> Option<Cow<'a, str>> {
    let lines = decoded.admitted.headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    let lines: SmallVec<[&str; 2]> = lines.collect();
    match &*lines {
        [] => None,
        [line] => Some(Cow::Borrowed(*line)),
        lines => Some(Cow::Owned(lines.join(","))),
    }
}
