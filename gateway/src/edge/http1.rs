//! HTTP/1.1 on one connection: request after request, never two at once, never one out of another's bytes. It
//! does not know what the requests are about.

use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use http::StatusCode;
use pingora_core::ErrorType;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::conn::Knobs;
use super::exchange::{Ending, exchange};
use super::line::{Line, linger};
use super::respond::Writer;
use super::{Held, Shared, count, head};
use crate::wire::Full;

/// Serves a connection until either side ends it.
pub(super) async fn serve(mut line: Box<Line>, peer: SocketAddr, shared: &Arc<Shared>) {
    let limits = &shared.limits;
    let mut served = 0u32;
    // Both stay over all requests, so that none has to put them up and take them down. A token of its own: the shared
    // one's lock would be asked for by every request of every connection.
    let stopping = shared.shutdown.child_token();
    let mut stopped = pin!(stopping.cancelled());
    let mut timer = pin!(sleep(limits.header_time));
    loop {
        if !line.has_ahead() {
            let wait = if served == 0 { limits.header_time } else { limits.idle };
            let until = Instant::now() + wait;
            let filled = tokio::select! {
                biased;
                filled = line.fill() => filled,
                () = stopped.as_mut() => return,
                () = over(timer.as_mut(), until) => return,
            };
            if !matches!(filled, Ok(n) if n > 0) {
                return;
            }
        }
        served = served.saturating_add(1);
        let last = limits.requests.is_some_and(|cap| served >= cap);
        // Not boxed: an idle connection is larger for it, and a request need not make room first.
        match one(line, peer, shared, last).await {
            Some(again) => line = again,
            None => return,
        }
    }
}

/// Waits until `until` with a timer that may have been set for another time: it is set anew only when it has run out,
/// which it hardly ever does on a busy connection.
async fn over(mut timer: Pin<&mut Sleep>, until: Instant) {
    if timer.deadline() > until {
        timer.as_mut().reset(until);
    }
    loop {
        timer.as_mut().await;
        if timer.deadline() >= until {
            return;
        }
        timer.as_mut().reset(until);
    }
}

/// One request; the connection, when it can be used again.
async fn one(line: Box<Line>, peer: SocketAddr, shared: &Arc<Shared>, last: bool) -> Option<Box<Line>> {
    let _held = Held::new(&shared.counters.in_flight);
    let from = head::From::of(&line, peer);
    let knobs = line.knobs();
    let mut session = ServerSession::new_http1(line);
    // Per read, so of no use; the deadlines here are totals.
    session.set_read_timeout(None);
    let taken = match read_head(&mut session, &knobs, shared).await {
        Ok(true) => head::take(&mut session, &from, &shared.limits),
        Ok(false) => return None,
        Err(status) => Err(status),
    };
    // Without a header that was taken, nobody knows where its body would end.
    let framed = taken.is_ok();
    let ending = match taken {
        Ok(taken) => exchange(&mut session, taken, shared, Some(&knobs), last).await,
        Err(status) => refuse(&mut session, status, shared).await,
    };
    match ending {
        Ending::Sent => finish(session, framed, shared).await,
        Ending::Untidy => finish(session, false, shared).await,
        Ending::Broken => None,
    }
}

/// Reads the header under its deadline and cap. `false`: the client has left.
async fn read_head(session: &mut ServerSession, knobs: &Knobs, shared: &Shared) -> Result<bool, StatusCode> {
    knobs.allow(shared.limits.header_bytes);
    let read = timeout(shared.limits.header_time, session.read_request()).await;
    let too_large = knobs.spent();
    knobs.allow(usize::MAX);
    match read {
        Err(_) => Err(StatusCode::REQUEST_TIMEOUT),
        Ok(Ok(false)) => Ok(false),
        Ok(Ok(true)) if raw_length(session) > shared.limits.header_bytes => {
            Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
        }
        Ok(Ok(true)) => Ok(true),
        Ok(Err(error)) => {
            // Only its kind: the text quotes what the client sent, credentials included.
            tracing::debug!(kind = error.etype().as_str(), "reading a request header");
            match error.etype() {
                ErrorType::ReadError if too_large => Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
                ErrorType::ReadError | ErrorType::ConnectionClosed => Ok(false),
                _ => Err(StatusCode::BAD_REQUEST),
            }
        }
    }
}

/// The header's bytes: the last read may have gone past the cap.
fn raw_length(session: &ServerSession) -> usize {
    match session {
        ServerSession::H1(h1) => h1.get_headers_raw_bytes().len(),
        _ => 0,
    }
}

/// Answers a header that the handler never sees, and closes.
async fn refuse(session: &mut ServerSession, status: StatusCode, shared: &Shared) -> Ending {
    count(&shared.counters.bad_heads);
    session.set_keepalive(None);
    let mut writer = Writer::new(session, shared, None);
    match writer.full(Full::closing(status)).await {
        Ok(()) => Ending::Sent,
        Err(_) => Ending::Broken,
    }
}

/// After a whole answer: the connection for the next request, or its orderly end.
async fn finish(session: ServerSession, tidy: bool, shared: &Shared) -> Option<Box<Line>> {
    let ServerSession::H1(mut h1) = session else { return None };
    if h1.will_keepalive() {
        // `None` also when bytes of a second request came with the first: it is not served, the client
        // repeats it.
        let (stream, _) = h1.reuse().await.ok()??.into_parts();
        return stream.into_any().downcast().ok();
    }
    let unread = !tidy || !h1.is_body_done();
    close(h1.into_inner(), unread, shared).await;
    None
}

/// Says that nothing follows, then reads on for a moment when the client may still be sending.
async fn close(mut stream: Stream, unread: bool, shared: &Shared) {
    let until = Instant::now() + shared.limits.linger;
    if timeout(shared.limits.linger, stream.shutdown()).await.is_ok() && unread {
        linger(&mut *stream, until).await;
    }
}
