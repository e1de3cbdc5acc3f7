//! Puts outcomes into HTTP: status, headers, JSON or an event stream. The headers are ours alone; nothing that a
//! server sent as a header is among them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use mcp::{message, sse};
use policies::rate::Quota;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::live::{Gauge, Live, Step};
use crate::gate::Gate;
use crate::reject::{Reject, Why};
use crate::stages::admit::Admitted;
use crate::wire::{End, Frames, Full, Reply, StreamReply};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Answers of one batch together, in bytes, however it came.
const MAX_BATCH_BYTES: usize = 64 << 20;

/// A JSON answer.
pub fn json(status: StatusCode, body: Bytes) -> Full {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(header::CONTENT_TYPE, JSON);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    Full { status, headers, body, close: false }
}

/// Waits for the answers of one batch and makes one JSON array of them; None when there are none. What comes after
/// [`MAX_BATCH_BYTES`] is not kept.
///
/// # Errors
/// The answers are too large together.
pub async fn batch<F>(answers: impl Iterator<Item = F>) -> Result<Option<Bytes>, Reject>
where
    F: Future<Output = Option<Bytes>>,
{
    let used = AtomicUsize::new(0);
    let kept = join_all(answers.map(|answer| async {
        let answer = answer.await?;
        let size = answer.len().saturating_add(1);
        let before = used.fetch_add(size, Ordering::Relaxed);
        (before.saturating_add(size) <= MAX_BATCH_BYTES).then_some(answer)
    }));
    let kept: Vec<Bytes> = kept.await.into_iter().flatten().collect();
    if used.into_inner() > MAX_BATCH_BYTES {
        let text = "the answers of this batch are too large together; send its messages one by one";
        return Err(Reject::new(Why::AnswerSize, text));
    }
    let array = || [b"[", kept.join(&b","[..]).as_slice(), b"]"].concat().into();
    Ok((!kept.is_empty()).then(array))
}

/// A refusal as JSON-RPC error; `status` as the sender's era wants it.
pub fn refusal(reject: &Reject, status: StatusCode, call_id: &str) -> Full {
    let mut full = json(status, message::error(reject.id.as_ref(), &reject.error(call_id)));
    match reject.why {
        Why::MethodNotAllowed => {
            full.headers.insert(header::ALLOW, HeaderValue::from_static("POST, GET, DELETE, OPTIONS"));
        }
        Why::Journal | Why::Draining | Why::Busy | Why::KeysAway | Why::LimitsAway => {
            full.headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        Why::Rate => {
            let seconds = Quota::retry_after(reject.retry_after.unwrap_or_default());
            full.headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        _ => {}
    }
    if let Some(Ok(challenge)) = reject.challenge.as_deref().map(HeaderValue::from_str) {
        full.headers.insert(header::WWW_AUTHENTICATE, challenge);
    }
    full
}

/// An event stream.
pub fn events(frames: Frames) -> StreamReply {
    StreamReply { status: StatusCode::OK, headers: event_headers(), frames, end: None }
}

fn event_headers() -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(header::CONTENT_TYPE, EVENTS);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    headers
}

/// One message as an event.
pub fn event(message: &[u8]) -> Bytes {
    sse::encode(Some("message"), None, message)
}

/// What an open stream holds: its place and its count.
pub type Held = (OwnedSemaphorePermit, Gauge);

/// The rest of a call as an event stream that begins with `first`.
pub fn live(mut live: Live, first: Bytes, held: Held) -> StreamReply {
    let end = live.end().map(End::new);
    let mut headers = event_headers();
    live.tags().head(&mut headers);
    let state = Some((live, Some(first), (held, end.clone())));
    let frames = stream::unfold(state, |state| async move {
        let (mut live, first, held) = state?;
        if let Some(first) = first {
            return Some((first, Some((live, None, held))));
        }
        match live.step().await {
            Step::Message(message) => {
                let event = live.tags().event(&message);
                Some((event, Some((live, None, held))))
            }
            Step::Quiet => Some((sse::comment(), Some((live, None, held)))),
            Step::Final(message, _) => {
                if let (_, Some(end)) = &held {
                    end.lift();
                }
                Some((live.tags().event(&message), None))
            }
            Step::Silent => None,
        }
    });
    StreamReply { status: StatusCode::OK, headers, frames: Box::pin(frames), end }
}

/// Waits for a call's first word: the answer itself is sent as JSON, anything before it opens a stream. A client
/// that leaves meanwhile ends the wait; what that means for the call is up to [`Live`]. When there is no place for
/// another stream, the answer is waited for without what comes before it.
pub async fn first(mut call: Live, gone: &CancellationToken, gate: &Gate) -> Reply {
    loop {
        let step = tokio::select! {
            biased;
            () = gone.cancelled() => Step::Silent,
            step = call.step() => step,
        };
        let first = match step {
            Step::Final(message, status) => {
                let mut full = json(status, message);
                call.tags().head(&mut full.headers);
                return full.into();
            }
            Step::Silent => return Full::empty(StatusCode::ACCEPTED).into(),
            Step::Message(message) => call.tags().event(&message),
            Step::Quiet => sse::comment(),
        };
        if let Ok(place) = Arc::clone(&gate.streams).try_acquire_owned() {
            return live(call, first, (place, Gauge::stream(&gate.book.metrics))).into();
        }
        call.unheard();
    }
}

/// Adds what a browser at an accepted origin needs to read the answer.
pub fn share(reply: &mut Reply, admitted: &Admitted) {
    let Some(origin) = &admitted.origin else { return };
    let headers = match reply {
        Reply::Full(full) => &mut full.headers,
        Reply::Stream(stream) => &mut stream.headers,
    };
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
    headers.insert(header::VARY, HeaderValue::from_static("Origin"));
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("Mcp-Session-Id, WWW-Authenticate, Retry-After, Tollgate-Span-Id"),
    );
}

/// The answer to a CORS preflight from an accepted origin. It needs no credential: browsers send none with it.
pub fn preflight() -> Full {
    let mut full = Full::empty(StatusCode::NO_CONTENT);
    let allow = HeaderValue::from_static("POST, GET, DELETE, OPTIONS");
    full.headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, allow);
    // Mcp-Param-* can't be listed, so what the browser asks for is what `*` and the named ones cover.
    let names = "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, \
                 Mcp-Session-Id, Last-Event-ID, Tollgate-Task, Tollgate-Run, *";
    full.headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(names));
    full.headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    full
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test]
    async fn the_answers_of_a_batch_have_one_bound_together() {
        let block = Bytes::from(vec![b'1'; MAX_BATCH_BYTES / 4]);
        let batch_of = |n: usize| batch((0..n).map(|_| ready(Some(block.clone()))));
        let whole = batch_of(3).await.unwrap().unwrap();
        assert_eq!(whole.len(), 3 * block.len() + 4, "brackets and commas");
        assert_eq!(batch_of(4).await.unwrap_err().why, Why::AnswerSize);
        assert_eq!(batch([ready(None), ready(None)].into_iter()).await.unwrap(), None);
        let small = [Some("1"), None, Some("{}")].map(|text| ready(text.map(Bytes::from)));
        assert_eq!(batch(small.into_iter()).await.unwrap().unwrap(), "[1,{}]");
    }
}
