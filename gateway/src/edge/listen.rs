//! Listening, accepting, the TLS handshake, and the drain. It never reads a request.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pingora_core::listeners::tls::Acceptor;
use pingora_core::protocols::TcpKeepalive;
use pingora_core::protocols::l4::ext::set_tcp_keepalive;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::conn::{Conn, Knobs};
use super::line::Line;
use super::{Held, Options, Shared, count, http1, http2};
use crate::wire::Handler;

/// Pause after an accept that failed for want of something that only time gives back (file handles, memory).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// For connections to notice that they are cut, after the drain's deadline.
const CUT_TIME: Duration = Duration::from_secs(1);

/// How a listener ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections and streams that were cut because the drain's time was over; 0: everything had ended by
    /// itself.
    pub cut: usize,
}

/// Binds `addr` (port 0: any free one) and says where it really listens. Nothing is accepted before `serve`,
/// but clients that connect are kept waiting by the kernel.
///
/// # Errors
/// The system's error, when the address can't be had.
pub fn bind(addr: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(addr)?;
    listener.set_nonblocking(true)?;
    let actual = listener.local_addr()?;
    Ok((listener, actual))
}

/// Serves one listener until `shutdown`, then drains: nothing more is accepted, idle connections are closed,
/// requests in flight may finish within `options.drain`, the rest is cut. Streams end when the handler ends
/// them; it has the same token.
///
/// # Errors
/// Only at start, when the runtime can't take the listener.
pub async fn serve(
    listener: TcpListener,
    options: Options,
    handler: Arc<dyn Handler>,
    shutdown: CancellationToken,
) -> io::Result<Drained> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let drain = options.drain;
    let shared = Arc::new(Shared {
        acceptor: options.tls.as_ref().map(|certs| Acceptor::from_server_config(certs.server_config())),
        limits: options.limits,
        h2c: options.h2c,
        handler,
        counters: options.counters,
        shutdown,
        kill: CancellationToken::new(),
        tasks: TaskTracker::new(),
        places: options.places,
        home: Handle::current(),
    });
    accept(&listener, &shared).await;
    drop(listener);
    shared.tasks.close();
    if timeout(drain, shared.tasks.wait()).await.is_ok() {
        return Ok(Drained { cut: 0 });
    }
    let cut = shared.tasks.len();
    shared.kill.cancel();
    if timeout(CUT_TIME, shared.tasks.wait()).await.is_err() {
        tracing::error!(left = shared.tasks.len(), "connections could not be cut");
    }
    Ok(Drained { cut })
}

/// Takes connections until the shutdown.
async fn accept(listener: &tokio::net::TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = tokio::select! {
            biased;
            () = shared.shutdown.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((tcp, peer)) => take(tcp, peer, shared),
            Err(error) if belongs_to_one_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept connections");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether a failed accept says something about that one client only.
fn belongs_to_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

/// Starts a connection's task, or closes it when there are too many.
fn take(tcp: TcpStream, peer: SocketAddr, shared: &Arc<Shared>) {
    count(&shared.counters.accepted);
    if shared.counters.connections.load(Ordering::Relaxed) >= shared.limits.connections {
        count(&shared.counters.refused);
        return;
    }
    let shared = shared.clone();
    // Counted here and not in the task: a burst must not pass the check before the first task runs.
    shared.counters.connections.fetch_add(1, Ordering::Relaxed);
    // Of its own: each time that the connection is looked at asks for the token's lock.
    let kill = shared.kill.child_token();
    let Some((lane, place)) = shared.places.take() else {
        shared.tasks.clone().spawn(until_killed(kill, tcp, peer, shared));
        return;
    };
    let moved = tcp.into_std();
    shared.tasks.clone().spawn_on(
        async move {
            let _place = place;
            match moved.and_then(TcpStream::from_std) {
                Ok(tcp) => until_killed(kill, tcp, peer, shared).await,
                Err(error) => {
                    drop(Held(&shared.counters.connections));
                    tracing::debug!(%error, "a connection that could not be moved");
                }
            }
        },
        &lane,
    );
}

async fn until_killed(kill: CancellationToken, tcp: TcpStream, peer: SocketAddr, shared: Arc<Shared>) {
    let _held = Held(&shared.counters.connections);
    tokio::select! {
        biased;
        () = kill.cancelled() => {}
        () = connection(tcp, peer, &shared) => {}
    }
}

/// One connection from its first byte to its last.
async fn connection(tcp: TcpStream, peer: SocketAddr, shared: &Arc<Shared>) {
    prepare(&tcp);
    let knobs = Knobs::new();
    let conn = Conn::new(tcp, knobs.clone());
    let mut line = match &shared.acceptor {
        None => Box::new(Line::plain(conn, knobs)),
        Some(acceptor) => {
            // Boxed: the handshake's state is large and must not stay a part of every connection's task.
            let handshake = Box::pin(timeout(shared.limits.handshake, acceptor.tls_handshake(conn)));
            match handshake.await {
                Ok(Ok(stream)) => Box::new(Line::tls(stream, knobs)),
                outcome => {
                    count(&shared.counters.handshakes_failed);
                    tracing::debug!(%peer, late = outcome.is_err(), "TLS handshake failed");
                    return;
                }
            }
        }
    };
    let h2 = if line.is_tls() {
        line.chose_h2()
    } else if shared.h2c {
        match timeout(shared.limits.header_time, line.starts_h2()).await {
            Ok(Ok(h2)) => h2,
            _ => return,
        }
    } else {
        false
    };
    if h2 {
        http2::serve(line, peer, shared).await;
    } else {
        http1::serve(line, peer, shared).await;
    }
}

/// Socket options: no Nagle (answers are gathered already), and probes, so that a peer that vanished without
/// a word is noticed while its call is running.
fn prepare(tcp: &TcpStream) {
    let probes = TcpKeepalive {
        idle: Duration::from_secs(60),
        interval: Duration::from_secs(15),
        count: 4,
        #[cfg(target_os = "linux")]
        user_timeout: Duration::ZERO,
    };
    if let Err(error) = tcp.set_nodelay(true) {
        tracing::trace!(%error, "no delay");
    }
    if let Err(error) = set_tcp_keepalive(tcp, &probes) {
        tracing::trace!(%error, "keep-alive probes");
    }
}
