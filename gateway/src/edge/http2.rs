//! HTTP/2 on one connection: a task per stream, GOAWAY on shutdown, an end for idle connections. It does not
//! know what the requests are about.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use http::StatusCode;
use pingora_core::protocols::Digest;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{self, H2Accept, H2Options, HttpSession};
use tokio::time::{Instant, sleep, timeout};

use super::exchange::exchange;
use super::line::Line;
use super::respond::Writer;
use super::{Held, Limits, Shared, count, head};
use crate::wire::Full;

/// Malformed streams on one connection before it is closed: a client that sends them does nothing else.
const MALFORMED: u32 = 32;

/// Answer bytes that one stream may hold before its writer waits for the client.
const SEND_BUFFER: usize = 64 * 1024;

/// Pingora's bounded options (they bound what a header may unpack to), made tighter.
fn options(limits: &Limits) -> H2Options {
    let mut options = server::default_h2_options();
    options.max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX));
    options.max_concurrent_streams(limits.h2_streams);
    options.max_send_buffer_size(SEND_BUFFER);
    options
}

/// Serves a connection until it ends. Streams run in tasks of their own; this task drives the connection.
pub(super) async fn serve(mut line: Box<Line>, peer: SocketAddr, shared: &Arc<Shared>) {
    let limits = &shared.limits;
    let from = head::From::of(&line, peer);
    line.guard(limits.header_time);
    let handshake = Box::pin(timeout(limits.header_time, server::handshake(line, Some(options(limits)))));
    let Ok(Ok(mut connection)) = handshake.await else { return };
    let digest = Arc::new(Digest::default());
    let open = Arc::new(());
    let (mut served, mut malformed) = (0u32, 0u32);
    let (mut closing, mut fresh) = (false, false);
    let mut timer = pin!(sleep(limits.h2_idle));
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.shutdown.cancelled(), if !closing => {
                connection.graceful_shutdown();
                closing = true;
                timer.as_mut().reset(Instant::now() + limits.linger);
                continue;
            }
            accepted = HttpSession::from_h2_conn(&mut connection, digest.clone()) => accepted,
            () = timer.as_mut() => {
                let busy = Arc::strong_count(&open) > 1 || std::mem::take(&mut fresh);
                if closing && !busy {
                    return;
                }
                if !busy {
                    connection.graceful_shutdown();
                    closing = true;
                }
                timer.as_mut().reset(Instant::now() + if closing { limits.linger } else { limits.h2_idle });
                continue;
            }
        };
        match accepted {
            Ok(Some(H2Accept::Session(stream))) => {
                fresh = true;
                served = served.saturating_add(1);
                spawn(stream, from.clone(), shared, open.clone());
            }
            Ok(Some(H2Accept::Rejected)) => {
                count(&shared.counters.bad_heads);
                malformed = malformed.saturating_add(1);
            }
            Ok(None) | Err(_) => return,
        }
        if malformed >= MALFORMED {
            return;
        }
        if !closing && limits.requests.is_some_and(|cap| served >= cap) {
            connection.graceful_shutdown();
            closing = true;
        }
    }
}

/// Starts a stream's task. It ends by itself when the connection does; past the drain's deadline it is cut.
fn spawn(stream: HttpSession, from: head::From, shared: &Arc<Shared>, open: Arc<()>) {
    let shared = shared.clone();
    let (tasks, home) = (shared.tasks.clone(), shared.home.clone());
    let stream = async move {
        let _open = open;
        let _held = Held::new(&shared.counters.in_flight);
        tokio::select! {
            biased;
            () = shared.kill.cancelled() => {}
            () = one(stream, &from, &shared) => {}
        }
    };
    tasks.spawn_on(stream, &home);
}

/// One stream.
async fn one(stream: HttpSession, from: &head::From, shared: &Arc<Shared>) {
    let mut session = ServerSession::new_http2(stream);
    match head::take(&mut session, from, &shared.limits) {
        Ok(taken) => {
            exchange(&mut session, taken, shared, None, false).await;
        }
        Err(status) => refuse(&mut session, status, shared).await,
    }
}

async fn refuse(session: &mut ServerSession, status: StatusCode, shared: &Shared) {
    count(&shared.counters.bad_heads);
    let mut writer = Writer::new(session, shared, None);
    if writer.full(Full::closing(status)).await.is_err() {
        tracing::debug!("a refused stream was reset");
    }
}
