//! From bytes to one JSON-RPC answer that is provably ours. Nothing that did not parse whole is ever handed on.

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Response};
use http_body_util::BodyExt as _;
use mcp::message::{self, Id, Message};

use crate::adapters::outbound::{Body, chain};
pub(super) use crate::adapters::pipe::{broken, message};
use crate::ports::upstream::{Fault, FaultKind};

/// Reads a whole body of at most `cap` bytes; a larger declared length is refused before anything is read.
pub(super) async fn collect(response: Response<Body>, cap: usize) -> Result<Bytes, Fault> {
    let declared = declared_length(response.headers());
    if declared.is_some_and(|n| n > cap as u64) {
        return Err(too_large(cap));
    }
    let mut body = response.into_body();
    let mut first = Bytes::new();
    let mut rest: Option<BytesMut> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Fault::late(FaultKind::Dropped, chain(&e)))?;
        let Ok(data) = frame.into_data() else { continue };
        let have = rest.as_ref().map_or(first.len(), BytesMut::len);
        if data.len() > cap.saturating_sub(have) {
            return Err(too_large(cap));
        }
        match &mut rest {
            Some(all) => all.extend_from_slice(&data),
            // The usual answer is one frame and is not copied.
            None if first.is_empty() => first = data,
            None => {
                let expected = declared.unwrap_or(0).max((first.len() + data.len()) as u64);
                let mut all = BytesMut::with_capacity(usize::try_from(expected).unwrap_or(cap).min(cap));
                all.extend_from_slice(&first);
                all.extend_from_slice(&data);
                rest = Some(all);
            }
        }
    }
    Ok(rest.map_or(first, BytesMut::freeze))
}

fn declared_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pub(super) fn too_large(cap: usize) -> Fault {
    Fault::late(FaultKind::TooLarge, format!("the answer is larger than {cap} bytes"))
}

/// The answer to `id`, and to nothing else (U2).
pub(super) fn ours(message: Message, id: &Id) -> Result<message::Response, Fault> {
    match message {
        Message::Response(response) if response.id.as_ref() == Some(id) => Ok(response),
        Message::Response(_) => Err(broken("the answer carries another id")),
        _ => Err(broken("the answer is not a response")),
    }
}

/// Server text for the log: no control characters, bounded.
pub(super) fn printable(text: &str) -> String {
    crate::adapters::child::printable(text, 200)
}
