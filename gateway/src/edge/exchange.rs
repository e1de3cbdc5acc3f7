//! One request and its answer, the same for HTTP/1.1 and HTTP/2: admit, body, run, respond, and the watch for
//! a client that leaves meanwhile. It never decides anything about the request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pingora_core::ErrorType;
use pingora_core::protocols::http::ServerSession;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::conn::Knobs;
use super::head::Framing;
use super::respond::{self, Broken, Writer};
use super::{Shared, body, count};
use crate::wire::{BodyFault, Head, Reply, Work};

/// Bytes that a client may send behind its request before we stop telling them from a departure. (Some send a
/// line end after the body.)
const STRAYS: u8 = 64;

/// Looks out for a client that leaves while its answer is made.
#[derive(Debug, Default)]
pub(super) struct Watch {
    strays: u8,
}

impl Watch {
    /// Returns when the client has left: it closed (even only its sending side), or reset the stream. May be
    /// dropped and called again. Bytes behind the request are no departure: they are dropped, and the
    /// connection is not kept.
    pub(super) async fn departed(&mut self, session: &mut ServerSession) {
        loop {
            match session.read_body_or_idle(true).await {
                // Pingora's way to say that there was data where none was expected.
                Err(error) if *error.etype() == ErrorType::ConnectError => {
                    session.set_keepalive(None);
                    self.strays = self.strays.saturating_add(1);
                    if self.strays >= STRAYS {
                        return std::future::pending().await;
                    }
                }
                Err(_) => return,
                Ok(_) => session.set_keepalive(None),
            }
        }
    }
}

/// How one exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The answer has been sent whole.
    Sent,
    /// The same, but bytes have come behind the request.
    Untidy,
    /// The client has left, or must be left; the connection (HTTP/2: the stream) is of no use.
    Broken,
}

/// Serves one request whose header has been read. `last`: nothing follows on this connection.
pub(super) async fn exchange(
    session: &mut ServerSession,
    (head, framing): (Head, Framing),
    shared: &Arc<Shared>,
    knobs: Option<&Knobs>,
    last: bool,
) -> Ending {
    // Cancelled also when this future is dropped half-way (the drain's deadline).
    let gone = CancellationToken::new();
    let guard = gone.clone().drop_guard();
    let mut watch = Watch::default();
    let Some(reply) = produce(session, (head, framing), shared, (&gone, &mut watch)).await else {
        count(&shared.counters.departed);
        return Ending::Broken;
    };
    let wants_close = matches!(&reply, Reply::Full(full) if full.close);
    let old_stream = framing.http10 && matches!(reply, Reply::Stream(_));
    if last || wants_close || old_stream || shared.shutdown.is_cancelled() {
        session.set_keepalive(None);
    }
    let mut writer = Writer::new(session, shared, knobs).to(framing);
    let outcome = match reply {
        Reply::Full(full) => writer.full(full).await,
        Reply::Stream(stream) => writer.stream(stream, &mut watch).await,
    };
    match outcome {
        Ok(()) => {
            guard.disarm();
            if watch.strays > 0 { Ending::Untidy } else { Ending::Sent }
        }
        Err(broken) => {
            respond::note(broken, &shared.counters);
            if broken == Broken::Slow && session.is_http2() {
                session.shutdown().await;
            }
            Ending::Broken
        }
    }
}

/// The reply, or `None` when the client has left before there was one.
async fn produce(
    session: &mut ServerSession,
    (head, framing): (Head, Framing),
    shared: &Arc<Shared>,
    (gone, watch): (&CancellationToken, &mut Watch),
) -> Option<Reply> {
    let work = match shared.handler.admit(head) {
        Ok(work) => work,
        Err(reply) => {
            body::discard(session, framing, &shared.limits).await;
            return Some(reply);
        }
    };
    let cap = work.wants_body().then(|| work.body_limit());
    match take_body(session, framing, cap, shared).await {
        Ok(body) => run(session, work, body, (gone, watch), shared.limits.linger).await,
        Err(fault) => {
            let mut full = work.refuse(fault);
            full.close = true;
            (fault != BodyFault::Gone).then_some(Reply::Full(full))
        }
    }
}

/// The body, if one is wanted (then with its cap), or none after an unwanted one has been dropped.
async fn take_body(
    session: &mut ServerSession,
    framing: Framing,
    cap: Option<usize>,
    shared: &Shared,
) -> Result<Bytes, BodyFault> {
    if let Some(cap) = cap {
        return body::read(session, framing, cap, &shared.limits).await;
    }
    if body::discard(session, framing, &shared.limits).await {
        Ok(Bytes::new())
    } else {
        Err(BodyFault::TooLarge)
    }
}

/// Runs the work to its end. When the client leaves first, the work is told and still polled until it
/// returns: only it knows whether a departed client's call goes on for a while.
async fn run(
    session: &mut ServerSession,
    work: Box<dyn Work>,
    body: Bytes,
    (gone, watch): (&CancellationToken, &mut Watch),
    linger: Duration,
) -> Option<Reply> {
    let mut running = work.run(body, gone.clone());
    tokio::select! {
        biased;
        reply = &mut running => return Some(reply),
        () = watch.departed(session) => {}
    }
    gone.cancel();
    if !session.is_http2() {
        // The socket is of no more use, however long the work still takes.
        drop(timeout(linger, session.shutdown()).await);
    }
    drop(running.await);
    None
}
