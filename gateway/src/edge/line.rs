//! A connection's plaintext side: plain or TLS, with bytes read ahead and a cap on what a header may take. It
//! lets an idle connection wait without holding a buffer. It never parses a request.

use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::tls::TlsStream;
use pingora_core::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest,
    UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout_at};

use super::blocks::Guard;
use super::conn::{Conn, Knobs};

/// Read at once while waiting for a request: most requests of this protocol fit whole.
const AHEAD: usize = 4096;

/// Read at most from a connection that is being closed.
const LINGER_BYTES: usize = 1024 * 1024;

/// The first bytes of HTTP/2 without TLS (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection as Pingora's sessions see it.
pub(super) struct Line {
    io: Io,
    knobs: Arc<Knobs>,
    ahead: BytesMut,
    certificate: Option<Arc<[u8]>>,
    /// Over HTTP/2: the deadline of what has begun.
    guard: Option<Box<Guard>>,
}

/// Pingora logs its streams: never what was read ahead.
impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("tls", &self.is_tls()).finish_non_exhaustive()
    }
}

enum Io {
    Plain(Conn),
    Tls(Box<TlsStream<Conn>>),
}

/// Runs the same expression on either kind of stream.
macro_rules! either {
    ($io:expr, $s:ident => $run:expr) => {
        match $io {
            Io::Plain($s) => $run,
            Io::Tls($s) => $run,
        }
    };
}

impl Line {
    pub(super) fn plain(conn: Conn, knobs: Arc<Knobs>) -> Line {
        Line { io: Io::Plain(conn), knobs, ahead: BytesMut::new(), certificate: None, guard: None }
    }

    pub(super) fn tls(stream: TlsStream<Conn>, knobs: Arc<Knobs>) -> Line {
        let certificate = stream.get_ssl().and_then(|tls| tls.peer_certificate_der()).map(Arc::from);
        Line { io: Io::Tls(Box::new(stream)), knobs, ahead: BytesMut::new(), certificate, guard: None }
    }

    /// From here on it carries HTTP/2, whose frames but data, and header blocks, have this time each.
    pub(super) fn guard(&mut self, within: Duration) {
        self.guard = Some(Box::new(Guard::new(within)));
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self.io, Io::Tls(_))
    }

    /// The client's certificate (DER), where it has shown one that TLS accepts.
    pub(super) fn certificate(&self) -> Option<Arc<[u8]>> {
        self.certificate.clone()
    }

    /// Whether the client chose HTTP/2 by ALPN.
    pub(super) fn chose_h2(&self) -> bool {
        either!(&self.io, s => matches!(s.selected_alpn_proto(), Some(ALPN::H2)))
    }

    /// Whether something has been read ahead.
    pub(super) fn has_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    pub(super) fn knobs(&self) -> Arc<Knobs> {
        self.knobs.clone()
    }

    /// Waits until something has been read ahead; 0: the client has closed. While it waits, no buffer exists.
    pub(super) async fn fill(&mut self) -> io::Result<usize> {
        poll_fn(|cx| {
            let mut space = [const { MaybeUninit::uninit() }; AHEAD];
            let mut buf = ReadBuf::uninit(&mut space);
            ready!(either!(&mut self.io, s => Pin::new(s).poll_read(cx, &mut buf)))?;
            self.ahead.extend_from_slice(buf.filled());
            Poll::Ready(Ok(buf.filled().len()))
        })
        .await
    }

    /// Reads until the first bytes are, or can no longer be, those of HTTP/2. A short HTTP/1.1 request is
    /// told by its first differing byte, so nothing waits for 24 bytes that do not come.
    pub(super) async fn starts_h2(&mut self) -> io::Result<bool> {
        loop {
            let seen = self.ahead.iter().zip(PREFACE).take_while(|(a, b)| a == b).count();
            if seen == PREFACE.len() {
                return Ok(true);
            }
            if seen < self.ahead.len() || self.fill().await? == 0 {
                return Ok(false);
            }
        }
    }
}

/// Reads and drops what a client still sends, so that the answer reaches it before a reset would: until it
/// closes, until `until`, or for 1 MiB.
pub(super) async fn linger(io: &mut (impl AsyncRead + Unpin + ?Sized), until: Instant) {
    let mut space = vec![0; AHEAD];
    let mut dropped = 0usize;
    while dropped < LINGER_BYTES {
        match timeout_at(until, io.read(&mut space)).await {
            Ok(Ok(n)) if n > 0 => dropped = dropped.saturating_add(n),
            _ => return,
        }
    }
}

impl AsyncRead for Line {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.knobs.spent() {
            return Poll::Ready(Err(io::Error::other("the header is too large")));
        }
        if let Some(guard) = &mut this.guard {
            guard.check(cx)?;
        }
        if this.ahead.is_empty() {
            let before = buf.filled().len();
            ready!(either!(&mut this.io, s => Pin::new(s).poll_read(cx, buf)))?;
            this.knobs.spend(buf.filled().len().saturating_sub(before));
            if let Some(guard) = &mut this.guard {
                guard.feed(buf.filled().get(before..).unwrap_or_default());
            }
            return Poll::Ready(Ok(()));
        }
        let taken = this.ahead.split_to(this.ahead.remaining().min(buf.remaining()));
        buf.put_slice(&taken);
        if let Some(guard) = &mut this.guard {
            guard.feed(&taken);
        }
        this.knobs.spend(taken.len());
        if this.ahead.is_empty() {
            this.ahead = BytesMut::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        either!(&mut self.io, s => Pin::new(s).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(&mut self.io, s => Pin::new(s).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        either!(&self.io, s => s.is_write_vectored())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(&mut self.io, s => Pin::new(s).poll_flush(cx))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(&mut self.io, s => Pin::new(s).poll_shutdown(cx))
    }
}

#[async_trait]
impl Shutdown for Line {
    async fn shutdown(&mut self) {
        if let Err(error) = AsyncWriteExt::shutdown(self).await {
            tracing::trace!(%error, "closing a connection");
        }
    }
}

impl UniqueID for Line {
    fn id(&self) -> UniqueIDType {
        either!(&self.io, s => s.id())
    }
}

impl Ssl for Line {}

impl Peek for Line {}

impl GetTimingDigest for Line {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for Line {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for Line {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}
