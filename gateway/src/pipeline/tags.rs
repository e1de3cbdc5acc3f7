//! What names a call outside its body: the span in a header, and on legacy streams in the events' ids, which are sealed.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcp::sse;

use crate::seal::{Sealer, Use};

/// The header that names the call's span.
pub static SPAN_HEADER: HeaderName = HeaderName::from_static("tollgate-span-id");

/// The names of one call.
#[derive(Default)]
pub struct Tags {
    /// The span id, once the call's intent is written.
    span: Option<Arc<str>>,
    /// Seals the ids of events, where events have ids.
    sealer: Option<Sealer>,
    events: u64,
}

impl Tags {
    /// A call with this span; with a sealer its events have ids.
    pub fn new(span: Option<Arc<str>>, sealer: Option<Sealer>) -> Tags {
        Tags { span, sealer, events: 0 }
    }

    /// Names the call in these headers.
    pub fn head(&self, headers: &mut HeaderMap) {
        if let Some(Ok(span)) = self.span.as_deref().map(HeaderValue::from_str) {
            headers.insert(&SPAN_HEADER, span);
        }
    }

    /// One message of the call as an event.
    pub fn event(&mut self, message: &[u8]) -> Bytes {
        let id = self.id();
        sse::encode(Some("message"), id.as_deref(), message)
    }

    /// `{span}.{n}`, sealed; `n` counts the call's events from 0.
    fn id(&mut self) -> Option<String> {
        let (span, sealer) = (self.span.as_deref()?, self.sealer.as_ref()?);
        let id = sealer.seal(Use::Event, format!("{span}.{}", self.events).as_bytes());
        self.events += 1;
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_and_their_ids_sealed() {
        let sealer = Sealer::new(&[[7; 32]]).unwrap();
        let mut tags = Tags::new(Some("00f067aa0ba902b7".into()), Some(sealer.clone()));
        for n in 0..3 {
            let text = String::from_utf8(tags.event(b"{}").to_vec()).unwrap();
            assert!(!text.contains("00f067aa0ba902b7"), "{text}");
            let id = text.lines().find_map(|line| line.strip_prefix("id: ")).unwrap();
            let open = sealer.open(Use::Event, id).unwrap();
            assert_eq!(String::from_utf8(open).unwrap(), format!("00f067aa0ba902b7.{n}"));
            assert_eq!(sealer.open(Use::Session, id), None);
        }
        let mut bare = Tags::new(Some("00f067aa0ba902b7".into()), None);
        assert_eq!(bare.event(b"{}"), Tags::default().event(b"{}"));
        assert_eq!(bare.event(b"{}"), "event: message\ndata: {}\n\n");
    }
}
