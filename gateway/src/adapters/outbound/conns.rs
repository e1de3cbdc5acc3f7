//! The connections to one server. Over HTTP/1.1 a request drives its connection itself, so that no other task is woken
//! for it; over HTTP/2 all requests share one connection, which a task drives. A request is sent once: only one that
//! certainly never left, or that the server says it has not looked at, is sent again.

use std::error::Error as _;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, Parts, Scheme};
use http::{Request, Response, Uri, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tower_service::Service as _;

use super::body::Body;
use super::connect::{Connector, chain};
use super::shelves::Shelves;
use crate::lanes;
use crate::ports::upstream::{Fault, FaultKind};

/// A connection that is used so often in a row on other lanes than its own is replaced by one of the last user's: its
/// events come to another thread first.
const STRANGERS: u8 = 32;
/// How often an HTTP/2 connection is asked for a sign of life, and how long that may take.
const ALIVE: Duration = Duration::from_secs(20);
/// Attempts for a request that keeps being refused unseen. (Connections that were idle do not count: they run out.)
const ATTEMPTS: u8 = 3;
/// How long a request waits for the connection that another one opens, rather than to open its own.
const TURN: Duration = Duration::from_secs(1);
/// The largest header block that is taken over HTTP/2, in bytes.
const H2_HEADERS: u32 = 64 << 10;

type Io = MaybeHttpsStream<TokioIo<TcpStream>>;
type Whole = Full<Bytes>;

/// All connections to one origin.
pub(in crate::adapters) struct Conns {
    connector: Connector,
    origin: Uri,
    scheme: Scheme,
    authority: Authority,
    idle: Shelves,
    shared: Mutex<Option<http2::SendRequest<Whole>>>,
    /// Whether the last connection was one that all requests share, and whose turn it is to open the next.
    shares: AtomicBool,
    turn: tokio::sync::Mutex<()>,
    open: Arc<AtomicUsize>,
}

/// Counts a connection as open as long as it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(open: &Arc<AtomicUsize>) -> Counted {
        open.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(open))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An HTTP/1.1 connection. Nothing happens on it unless [`Wire::poll`] is called.
pub(in crate::adapters) struct Wire {
    sender: http1::SendRequest<Whole>,
    /// None when it is over.
    conn: Option<http1::Connection<Io, Whole>>,
    /// The lane on which it was opened: its events come there.
    pub(super) lane: usize,
    /// How often in a row it was used on others.
    strangers: u8,
    _counted: Counted,
}

impl Wire {
    /// Lets the connection do what it can do now. Ready: it is of no more use.
    pub(in crate::adapters) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(conn) = &mut self.conn else { return Poll::Ready(()) };
        if Pin::new(conn).poll(cx).is_ready() {
            // Whatever it holds but has not begun comes back to its sender.
            self.conn = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Whether another request can be sent: the server has not closed, and the last exchange is complete.
    pub(super) fn is_free(&mut self) -> bool {
        self.poll(&mut Context::from_waker(Waker::noop())).is_pending() && self.sender.is_ready()
    }

    /// Sends a request. On a connection that the server has closed meanwhile it fails unsent.
    fn exchange(
        &mut self,
        request: Request<Whole>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Whole>>>> + Send {
        let sending = self.sender.try_send_request(request);
        async move {
            let mut sending = pin!(sending);
            poll_fn(|cx| {
                // An end that is found here is in what is sent back: a request that was not begun comes with it.
                let _ = self.poll(cx);
                sending.as_mut().poll(cx)
            })
            .await
        }
    }
}

enum Fresh {
    Own(Box<Wire>),
    Shared(http2::SendRequest<Whole>),
}

impl Conns {
    /// For this origin; nothing is connected yet. None when the URL has no scheme or no host.
    pub(in crate::adapters) fn new(connector: Connector, url: &Uri) -> Option<Arc<Conns>> {
        let (scheme, authority) = (url.scheme()?.clone(), url.authority()?.clone());
        let (idle, shared) = (Shelves::new(), Mutex::default());
        let (shares, turn, origin) = (AtomicBool::default(), tokio::sync::Mutex::default(), url.clone());
        let open = Arc::default();
        Some(Arc::new(Conns { connector, origin, scheme, authority, idle, shared, shares, turn, open }))
    }

    /// Sends a request in the form of HTTP/1.1 (path alone, with `Host`) and waits for the answer's head. Dropping the
    /// future closes the exchange.
    ///
    /// # Errors
    /// No connection, or it broke.
    pub(in crate::adapters) async fn send(
        self: &Arc<Self>,
        mut request: Request<Whole>,
    ) -> Result<Response<Body>, Fault> {
        let mut attempts = 0;
        loop {
            let (fresh, new) = match self.ready() {
                Some(ready) => (ready, false),
                // Boxed, so that the usual request does not carry what only the first one needs.
                None => (Box::pin(self.connect()).await?, true),
            };
            let unsent = match fresh {
                Fresh::Own(mut wire) => match wire.exchange(request).await {
                    Ok(response) => {
                        let wire = Some((wire, Arc::downgrade(self)));
                        return Ok(response.map(|body| Body::new(body, wire)));
                    }
                    Err(failed) => unsent(failed)?,
                },
                Fresh::Shared(sender) => match Box::pin(self.share_with(sender, request)).await? {
                    Ok(response) => return Ok(response),
                    Err(unsent) => unsent,
                },
            };
            attempts += u8::from(new || unsent.refused);
            if attempts >= ATTEMPTS {
                return Err(Fault::early(FaultKind::Unreachable, unsent.why));
            }
            request = unsent.request;
        }
    }

    /// One attempt over HTTP/2.
    async fn share_with(
        &self,
        mut sender: http2::SendRequest<Whole>,
        request: Request<Whole>,
    ) -> Result<Result<Response<Body>, Unsent>, Fault> {
        let again = request.clone();
        let failed = match sender.try_send_request(self.absolute(request)).await {
            Ok(response) => return Ok(Ok(response.map(|body| Body::new(body, None)))),
            Err(failed) => failed,
        };
        Ok(Err(match refused(failed.error()) {
            Some(closing) => {
                if closing {
                    *self.shared.lock() = None;
                }
                Unsent { request: again, why: chain(failed.error()), refused: true }
            }
            None => Unsent { request: again, ..unsent(failed)? },
        }))
    }

    /// Takes a connection back whose answer has been read to its end.
    pub(in crate::adapters) fn put(&self, mut wire: Box<Wire>) {
        if wire.is_free() {
            self.idle.put(wire);
        }
    }

    /// Connections that are open, in use or idle.
    pub(in crate::adapters) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Idle connections that can serve.
    #[cfg(test)]
    pub(in crate::adapters) fn idle(&self) -> usize {
        self.idle.free()
    }

    /// Those of one lane.
    #[cfg(test)]
    pub(in crate::adapters) fn idle_on(&self, lane: usize) -> usize {
        self.idle.free_on(lane)
    }

    /// A connection that stands ready.
    fn ready(&self) -> Option<Fresh> {
        {
            let mut shared = self.shared.lock();
            match &*shared {
                Some(sender) if !sender.is_closed() => return Some(Fresh::Shared(sender.clone())),
                Some(_) => *shared = None,
                None => {}
            }
        }
        let mut wire = self.idle.take()?;
        wire.strangers = if wire.lane == lanes::here() { 0 } else { wire.strangers.saturating_add(1) };
        // Too often: it goes before the request opens another, since some servers have one alone.
        (wire.strangers < STRANGERS).then_some(Fresh::Own(wire))
    }

    /// Where one connection serves all, who comes while it is opened waits a moment for it.
    async fn connect(&self) -> Result<Fresh, Fault> {
        let turn = match self.shares.load(Ordering::Acquire) {
            true => timeout(TURN, self.turn.lock()).await.ok(),
            false => None,
        };
        match turn.is_some().then(|| self.ready()).flatten() {
            Some(ready) => Ok(ready),
            None => self.dial().await,
        }
    }

    async fn dial(&self) -> Result<Fresh, Fault> {
        let unreachable = |detail: String| Fault::early(FaultKind::Unreachable, detail);
        let mut connector = self.connector.clone();
        poll_fn(|cx| connector.poll_ready(cx)).await.map_err(|e| unreachable(chain(&*e)))?;
        let io = connector.call(self.origin.clone()).await.map_err(|e| unreachable(chain(&*e)))?;
        let shares = io.connected().is_negotiated_h2();
        self.shares.store(shares, Ordering::Release);
        if shares {
            return self.share(io).await.map(Fresh::Shared);
        }
        let shaken = http1::Builder::new().handshake(io).await;
        let (sender, conn) = shaken.map_err(|e| unreachable(chain(&e)))?;
        Ok(Fresh::Own(Box::new(Wire {
            sender,
            conn: Some(conn),
            lane: lanes::here(),
            strangers: 0,
            _counted: Counted::new(&self.open),
        })))
    }

    /// Opens an HTTP/2 connection for all requests. Of several that are opened at once one is kept.
    async fn share(&self, io: Io) -> Result<http2::SendRequest<Whole>, Fault> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.timer(TokioTimer::new()).keep_alive_interval(ALIVE).keep_alive_timeout(ALIVE);
        builder.adaptive_window(true).max_header_list_size(H2_HEADERS);
        let shaken = builder.handshake(io).await;
        let (sender, conn) = shaken.map_err(|e| Fault::early(FaultKind::Unreachable, chain(&e)))?;
        // It ends when the server closes it or its last sender is gone.
        let counted = Counted::new(&self.open);
        tokio::spawn(async move {
            let _counted = counted;
            if let Err(error) = conn.await {
                tracing::debug!(error = %chain(&error), "an HTTP/2 connection to a server ended");
            }
        });
        let mut shared = self.shared.lock();
        match &*shared {
            Some(first) if !first.is_closed() => Ok(first.clone()),
            _ => Ok(shared.insert(sender).clone()),
        }
    }

    /// As HTTP/2 wants it: the whole URI, and no `Host`.
    fn absolute(&self, mut request: Request<Whole>) -> Request<Whole> {
        let mut parts = Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = request.uri().path_and_query().cloned();
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
        request.headers_mut().remove(header::HOST);
        request
    }
}

/// A request that no server has looked at.
struct Unsent {
    request: Request<Whole>,
    why: String,
    /// Whether the server said so, rather than that its idle connection was just closing.
    refused: bool,
}

/// The request, when not a byte of it was written.
fn unsent(mut failed: TrySendError<Request<Whole>>) -> Result<Unsent, Fault> {
    match failed.take_message() {
        Some(request) => Ok(Unsent { request, why: chain(&failed.into_error()), refused: false }),
        None => Err(Fault::late(FaultKind::Dropped, chain(&failed.into_error()))),
    }
}

/// Whether an HTTP/2 server says that it has not looked at this request (RFC 9113, 8.7): it refused the stream, or is
/// going away (true) and names an earlier stream as its last one.
fn refused(error: &hyper::Error) -> Option<bool> {
    let error = error.source()?.downcast_ref::<h2::Error>().filter(|error| error.is_remote())?;
    let reason = error.reason()?;
    if error.is_reset() {
        return (reason == h2::Reason::REFUSED_STREAM).then_some(false);
    }
    // With another reason all streams end, those that were looked at too.
    (error.is_go_away() && reason == h2::Reason::NO_ERROR).then_some(true)
}
