//! Answers onto the wire: whole ones with their length, streams frame by frame, each under a write deadline.
//! It adds the framing headers and nothing else; it never holds more than one frame.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use pingora_core::protocols::http::ServerSession;
use smallvec::SmallVec;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout, timeout_at};

use super::conn::Knobs;
use super::exchange::Watch;
use super::head::Framing;
use super::{Limits, Shared, count};
use crate::wire::{Full, StreamReply};

/// Written under one deadline; each earns one more second for the whole.
const PIECE: usize = 64 * 1024;

/// Framing is the edge's own: none of these is taken from a reply.
fn is_framing(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "content-length" | "transfer-encoding" | "connection" | "upgrade" | "trailer" | "keep-alive"
    )
}

/// Why an answer ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// The client has left.
    Gone,
    /// The client did not take it in time.
    Slow,
}

/// What is the same for all writes of one answer.
pub(super) struct Writer<'a> {
    session: &'a mut ServerSession,
    limits: &'a Limits,
    /// The connection's own cork; `None` on HTTP/2, which gathers by itself.
    knobs: Option<&'a Knobs>,
    http10: bool,
    head_only: bool,
}

impl<'a> Writer<'a> {
    /// For an answer to a request that could not be understood.
    pub(super) fn new(
        session: &'a mut ServerSession,
        shared: &'a Shared,
        knobs: Option<&'a Knobs>,
    ) -> Writer<'a> {
        Writer { session, limits: &shared.limits, knobs, http10: false, head_only: false }
    }

    /// For an answer to this request.
    pub(super) fn to(mut self, framing: Framing) -> Writer<'a> {
        self.http10 = framing.http10;
        self.head_only = framing.head_only;
        self
    }

    /// Sends a whole answer.
    ///
    /// # Errors
    /// The connection is of no use then.
    pub(super) async fn full(&mut self, full: Full) -> Result<(), Broken> {
        let bodyless = matches!(full.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let mut headers = full.headers;
        strip(&mut headers);
        if !bodyless {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(full.body.len()));
        }
        let skip = bodyless || self.head_only;
        let body = if skip { Bytes::new() } else { full.body };
        let now = Instant::now();
        self.begin(full.status, headers, now).await?;
        self.body(body, true, None, now).await
    }

    /// Sends a stream until it ends. Frames that are ready together leave together; otherwise each is flushed
    /// at once.
    ///
    /// # Errors
    /// The client left or reads too slowly; the frames are dropped.
    pub(super) async fn stream(&mut self, reply: StreamReply, watch: &mut Watch) -> Result<(), Broken> {
        let StreamReply { status, mut headers, mut frames, end } = reply;
        strip(&mut headers);
        if !self.session.is_http2() && !self.http10 {
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        let mut ready = if self.head_only { None } else { frames.next().now_or_never() };
        self.cork(ready.is_some());
        self.begin(status, headers, Instant::now()).await?;
        while !self.head_only {
            let frame = match ready.take() {
                Some(frame) => frame,
                None => tokio::select! {
                    biased;
                    frame = frames.next() => frame,
                    () = watch.departed(self.session) => return Err(Broken::Gone),
                },
            };
            let Some(frame) = frame else { break };
            ready = frames.next().now_or_never();
            self.cork(ready.is_some());
            self.body(frame, false, end.as_ref().and_then(|end| end.at()), Instant::now()).await?;
        }
        self.cork(false);
        settle(timeout(self.time(0), self.session.finish_body()).await)
    }

    /// `now`: the write's time runs from here.
    async fn begin(&mut self, status: StatusCode, headers: HeaderMap, now: Instant) -> Result<(), Broken> {
        let (mut parts, ()) = Response::new(()).into_parts();
        parts.status = status;
        parts.headers = headers;
        let by = now + self.time(0);
        settle(timeout_at(by, self.session.write_response_header(Box::new(parts.into()))).await)
    }

    /// Writes a frame, or a whole body with `end`, piece by piece: each piece has the write deadline, all
    /// together from `now` a longer one, and none goes on after `limit`.
    async fn body(
        &mut self,
        mut body: Bytes,
        end: bool,
        limit: Option<Instant>,
        mut now: Instant,
    ) -> Result<(), Broken> {
        let until = now + self.time(body.len());
        let until = limit.map_or(until, |limit| until.min(limit));
        loop {
            let piece = body.split_to(body.len().min(PIECE));
            let last = body.is_empty();
            let by = until.min(now + self.limits.write_time);
            settle(timeout_at(by, self.session.write_response_body(piece, end && last)).await)?;
            if last {
                return Ok(());
            }
            now = Instant::now();
        }
    }

    fn cork(&self, on: bool) {
        if let Some(knobs) = self.knobs {
            knobs.cork(on);
        }
    }

    fn time(&self, bytes: usize) -> Duration {
        let more = (bytes / PIECE) as u64;
        self.limits.write_time.saturating_add(Duration::from_secs(more))
    }
}

/// A timed write's outcome.
fn settle(outcome: Result<pingora_core::Result<()>, Elapsed>) -> Result<(), Broken> {
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => {
            tracing::debug!(kind = error.etype().as_str(), "writing an answer");
            Err(Broken::Gone)
        }
        Err(_) => Err(Broken::Slow),
    }
}

fn strip(headers: &mut HeaderMap) {
    // Hardly any reply has one, and each removal would hash its name.
    let found: SmallVec<[HeaderName; 2]> = headers.keys().filter(|key| is_framing(key)).cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// Counts a broken answer.
pub(super) fn note(broken: Broken, counters: &super::Counters) {
    match broken {
        Broken::Gone => count(&counters.departed),
        Broken::Slow => count(&counters.slow_readers),
    }
}
