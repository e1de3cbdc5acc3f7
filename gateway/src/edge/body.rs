//! The request body: read under one total deadline and one cap, or dropped under small ones. It never parses.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pingora_core::protocols::http::ServerSession;
use tokio::time::{Instant, timeout, timeout_at};

use super::Limits;
use super::head::Framing;
use crate::wire::BodyFault;

/// Set aside at first for a body in several pieces; a declared length is a claim, not a reason to allocate.
const FIRST: usize = 64 * 1024;

/// Pingora's names (private constants) for bodies whose framing is wrong, as against those that just end.
const MALFORMED: [&str; 2] = ["InvalidChunk", "InvalidTrailerEnd"];

/// Reads the whole body, at most `cap` bytes. A declared length over the cap is refused before anything is
/// read.
///
/// # Errors
/// Why there is no body; the connection can't be kept then.
pub(super) async fn read(
    session: &mut ServerSession,
    framing: Framing,
    cap: usize,
    limits: &Limits,
) -> Result<Bytes, BodyFault> {
    if framing.declared.is_some_and(|n| n > cap as u64) {
        return Err(BodyFault::TooLarge);
    }
    if session.is_body_done() {
        return Ok(Bytes::new());
    }
    let until = Instant::now() + limits.body_time;
    if framing.expects
        && let ServerSession::H1(h1) = session
    {
        // Pingora takes the 100 for an answer before the body's end, after which it would close.
        h1.set_close_on_response_before_downstream_finish(false);
        let told = timeout_at(until, h1.write_continue_response()).await;
        h1.set_close_on_response_before_downstream_finish(true);
        if !matches!(told, Ok(Ok(()))) {
            return Err(BodyFault::Gone);
        }
    }
    timeout_at(until, collect(session, cap)).await.unwrap_or(Err(BodyFault::Timeout))
}

/// All pieces as one; a body that came in one piece is not copied.
async fn collect(session: &mut ServerSession, cap: usize) -> Result<Bytes, BodyFault> {
    let mut first: Option<Bytes> = None;
    let mut whole = BytesMut::new();
    while let Some(piece) = next(session).await? {
        let held = whole.len().max(first.as_ref().map_or(0, Bytes::len));
        if held.saturating_add(piece.len()) > cap {
            return Err(BodyFault::TooLarge);
        }
        match first.take() {
            None if whole.is_empty() => first = Some(piece),
            None => whole.extend_from_slice(&piece),
            Some(before) => {
                whole.reserve(FIRST.min(cap).max(before.len().saturating_add(piece.len())));
                whole.extend_from_slice(&before);
                whole.extend_from_slice(&piece);
            }
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

async fn next(session: &mut ServerSession) -> Result<Option<Bytes>, BodyFault> {
    session.read_request_body().await.map_err(|error| {
        // Only its kind: the text may quote the body.
        tracing::debug!(kind = error.etype().as_str(), "reading a request body");
        if MALFORMED.contains(&error.etype().as_str()) { BodyFault::Malformed } else { BodyFault::Gone }
    })
}

/// Reads and drops a body that nobody wants, if it is small and comes soon, so that the connection can be
/// kept. Whether the body has ended.
pub(super) async fn discard(session: &mut ServerSession, framing: Framing, limits: &Limits) -> bool {
    if session.is_body_done() {
        return true;
    }
    let small = framing.declared.is_none_or(|n| n <= limits.drain_bytes as u64);
    // A client that waits for our 100 sends nothing; the answer is what it waits for.
    small && !framing.expects && discard_within(session, limits.linger, limits.drain_bytes).await
}

async fn discard_within(session: &mut ServerSession, time: Duration, cap: usize) -> bool {
    let all = async {
        let mut dropped = 0usize;
        loop {
            match next(session).await {
                Ok(None) => return true,
                Ok(Some(piece)) => dropped = dropped.saturating_add(piece.len()),
                Err(_) => return false,
            }
            if dropped > cap {
                return false;
            }
        }
    };
    timeout(time, all).await.unwrap_or(false)
}
