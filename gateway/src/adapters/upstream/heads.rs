//! The headers of a call: what a modern server reads without its body, and the trace context. What no header can carry
//! is never sent as something else.

use http::{HeaderMap, HeaderName, HeaderValue};
use mcp::era::Revision;
use mcp::mirror;
use mcp::trace::{BAGGAGE, PARENT, STATE};

use super::net::Headers;
use crate::ports::upstream::{Call, Fault, FaultKind};

// Made once: a name that is given as text is parsed for each call.
static VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
static METHOD: HeaderName = HeaderName::from_static("mcp-method");
static NAME: HeaderName = HeaderName::from_static("mcp-name");
static TRACE_PARENT: HeaderName = HeaderName::from_static(PARENT);
static TRACE_STATE: HeaderName = HeaderName::from_static(STATE);
static TRACE_BAGGAGE: HeaderName = HeaderName::from_static(BAGGAGE);

/// The headers of every request with places for what the usual call adds: to fill places of a copy costs less than to
/// grow it. An empty value is a place that is not filled.
pub(super) fn places(base: &HeaderMap) -> HeaderMap {
    let mut map = base.clone();
    for name in [&VERSION, &METHOD, &NAME, &TRACE_PARENT, &TRACE_BAGGAGE] {
        map.entry(name).or_insert(HeaderValue::from_static(""));
    }
    map
}

/// What a modern server reads of a call without its body, and the call's trace context. `headers` may have places.
pub(super) fn modern(mut headers: Headers, call: &Call, revision: Revision) -> Result<Headers, Fault> {
    let unfit = |what: &str| Fault::early(FaultKind::Protocol, format!("no header can carry {what}"));
    headers.insert(&VERSION, HeaderValue::from_static(revision.as_str()));
    headers.insert(&METHOD, HeaderValue::from_static(call.method));
    match &call.mirrored.name {
        Some(name) => {
            let value = HeaderValue::try_from(mirror::encode_value(name)).map_err(|_| unfit("the name"))?;
            headers.insert(&NAME, value);
        }
        None => leave(&mut headers, &NAME),
    }
    for (name, value) in &call.mirrored.params {
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| unfit("a parameter's name"))?;
        let value = HeaderValue::from_str(value).map_err(|_| unfit("a parameter"))?;
        headers.insert(name, value);
    }
    Ok(traced(headers, call))
}

/// With the call's trace context; what no header can carry is left out.
pub(super) fn traced(mut headers: Headers, call: &Call) -> Headers {
    let trace = &call.trace;
    let value = |text: &Option<String>| HeaderValue::from_str(text.as_deref()?).ok();
    for (name, text) in [(&TRACE_PARENT, &trace.parent), (&TRACE_BAGGAGE, &trace.baggage)] {
        match value(text) {
            Some(value) => {
                headers.insert(name, value);
            }
            None => leave(&mut headers, name),
        }
    }
    if let Some(value) = value(&trace.state) {
        headers.insert(&TRACE_STATE, value);
    }
    headers
}

/// Takes a place away that stays empty.
fn leave(headers: &mut HeaderMap, name: &HeaderName) {
    if headers.get(name).is_some_and(HeaderValue::is_empty) {
        headers.remove(name);
    }
}
