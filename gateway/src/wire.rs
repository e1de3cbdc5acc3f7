//! What passes between the edge and the pipeline: a request's head, its reply, and the two traits that join
//! them. Plain data: no Pingora type, no I/O, no decision is ever made here.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::Stream;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A request's head, as the edge read and bounded it. Nothing in it is trusted.
#[derive(Clone, Debug)]
pub struct Head {
    /// The request method, as sent.
    pub method: Method,
    /// The path exactly as on the wire (not decoded, not normalised), without the query.
    pub path: String,
    /// What follows the first `?`, when there is one.
    pub query: Option<String>,
    /// All header fields but the hop-by-hop ones. `Host` is there exactly once (on HTTP/2 taken from
    /// `:authority`); only an HTTP/1.0 request may lack it.
    pub headers: HeaderMap,
    /// The peer's address, `None` when the connection is already half gone.
    pub peer: Option<SocketAddr>,
    /// Whether the connection is under TLS.
    pub tls: bool,
    /// Whether the request came over HTTP/2.
    pub version_h2: bool,
    /// The client's certificate (DER), issued by a trusted authority as TLS has checked.
    pub certificate: Option<Arc<[u8]>>,
}

/// The `Host` of a request, lower case; None when it is missing or no text.
pub fn host(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(header::HOST)?.to_str().ok()?.to_ascii_lowercase())
}

/// A host without its port: `[::1]:80` → `[::1]`, `localhost:80` → `localhost`.
pub fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// What the edge sends back.
#[derive(Debug)]
pub enum Reply {
    /// A whole answer, sent with its length.
    Full(Full),
    /// An answer whose body is made while it is sent.
    Stream(StreamReply),
}

/// A whole answer. The edge adds the framing headers (`Content-Length`, `Connection`); everything else is in
/// `headers`.
#[derive(Clone, Debug)]
pub struct Full {
    /// The HTTP status.
    pub status: StatusCode,
    /// All headers but the framing ones; framing headers set here are ignored.
    pub headers: HeaderMap,
    /// The body; not sent for HEAD, 204 and 304.
    pub body: Bytes,
    /// Close the connection after this answer (HTTP/1.1; no meaning on HTTP/2).
    pub close: bool,
}

/// An answer that is sent as it is made.
pub struct StreamReply {
    /// The HTTP status.
    pub status: StatusCode,
    /// All headers but the framing ones.
    pub headers: HeaderMap,
    /// The pieces of the body, each written and flushed before the next is asked for.
    pub frames: Frames,
    /// When whoever makes the frames gives up, if ever.
    pub end: Option<Arc<End>>,
}

/// When a stream gives up, which must also hold while nobody asks it for a frame: a frame that a slow reader has not
/// taken by then is given up, and the stream with it.
#[derive(Debug)]
pub struct End {
    at: Instant,
    lifted: AtomicBool,
}

impl End {
    /// At this time.
    pub fn new(at: Instant) -> Arc<End> {
        Arc::new(End { at, lifted: AtomicBool::new(false) })
    }

    /// The last frame is made: it has the time that every answer has.
    pub fn lift(&self) {
        self.lifted.store(true, Ordering::Release);
    }

    /// The time, while it counts.
    pub fn at(&self) -> Option<Instant> {
        (!self.lifted.load(Ordering::Acquire)).then_some(self.at)
    }
}

/// Encoded pieces of a body (SSE events, keep-alive comments among them). The end of the stream is the end of
/// the body. Dropped before its end: the client has gone.
pub type Frames = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Why a request was given up before the handler saw its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFault {
    /// Larger than `Work::body_limit`, as declared or as received: 413.
    TooLarge,
    /// The body's total deadline passed: 408.
    Timeout,
    /// The framing was wrong, or ended early: 400.
    Malformed,
    /// The client left while sending it; no reply can be delivered.
    Gone,
}

impl BodyFault {
    /// The HTTP status that says it.
    pub fn status(self) -> StatusCode {
        match self {
            BodyFault::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            BodyFault::Timeout => StatusCode::REQUEST_TIMEOUT,
            BodyFault::Malformed | BodyFault::Gone => StatusCode::BAD_REQUEST,
        }
    }
}

/// Who answers the requests of one listener.
pub trait Handler: Send + Sync + 'static {
    /// Looks at the head alone, before any byte of the body is read. Must not block.
    ///
    /// # Errors
    /// The reply to send at once; the body is then drained up to a small cap or the connection is closed.
    fn admit(&self, head: Head) -> Result<Box<dyn Work>, Reply>;
}

/// One admitted request.
#[async_trait]
pub trait Work: Send + 'static {
    /// The largest body in bytes that is taken; more is answered by `refuse(TooLarge)`.
    fn body_limit(&self) -> usize;

    /// Whether `run` looks at the body. When not, an unexpected body is drained or the connection closed.
    fn wants_body(&self) -> bool {
        true
    }

    /// Does the work. `gone` is cancelled as soon as the client is seen to have left; the edge keeps polling
    /// until this returns and then discards the reply, so a handler that keeps a departed client's call alive
    /// returns first.
    async fn run(self: Box<Self>, body: Bytes, gone: CancellationToken) -> Reply;

    /// The body could not be had: makes the reply (not delivered for `Gone`) and whatever record is due.
    fn refuse(self: Box<Self>, fault: BodyFault) -> Full {
        Full::closing(fault.status())
    }
}

impl Full {
    /// An answer with a body of the given content type; the connection may be kept.
    pub fn new(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Full {
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        Full { status, headers, body: body.into(), close: false }
    }

    /// An answer without a body.
    pub fn empty(status: StatusCode) -> Full {
        Full { status, headers: HeaderMap::new(), body: Bytes::new(), close: false }
    }

    /// A short plain-text answer (the status's own words), after which the connection is closed.
    pub fn closing(status: StatusCode) -> Full {
        let words = status.canonical_reason().unwrap_or("error");
        let mut full = Full::new(status, "text/plain; charset=utf-8", format!("{words}\n"));
        full.close = true;
        full
    }
}

impl From<Full> for Reply {
    fn from(full: Full) -> Reply {
        Reply::Full(full)
    }
}

impl From<StreamReply> for Reply {
    fn from(stream: StreamReply) -> Reply {
        Reply::Stream(stream)
    }
}

impl std::fmt::Debug for StreamReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamReply")
            .field("status", &self.status)
            .field("headers", &self.headers)
            .finish_non_exhaustive()
    }
}
