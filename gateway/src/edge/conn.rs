//! One TCP connection as Pingora's transport. It gathers small writes, so that an answer's header and body,
//! or a stream's header and first frames, leave in one system call; it reads without a buffer of its own. It
//! never interprets a byte.

use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::{
    GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest,
    UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

/// Output held back at most before it is written without a flush.
const GATHER: usize = 16 * 1024;

/// Room made for what is held, at first. Pingora writes a header out of a buffer of the same size.
const FIRST: usize = 4 * 1024;

/// Slices taken from one vectored write; a partial write is always allowed.
const SLICES: usize = 8;

/// What the connection's task tells the transport that Pingora's session has swallowed.
#[derive(Debug)]
pub(super) struct Knobs {
    /// While set, a flush is put off (the next write will carry what is held).
    cork: AtomicBool,
    /// Plaintext bytes that may still be read; `usize::MAX`: no limit.
    allowance: AtomicUsize,
}

impl Knobs {
    pub(super) fn new() -> Arc<Knobs> {
        Arc::new(Knobs { cork: AtomicBool::new(false), allowance: AtomicUsize::new(usize::MAX) })
    }

    /// Puts flushes off, or not any more. Does not flush by itself.
    pub(super) fn cork(&self, on: bool) {
        self.cork.store(on, Ordering::Relaxed);
    }

    /// Sets how many bytes may be read from now on; reading on after them fails.
    pub(super) fn allow(&self, bytes: usize) {
        self.allowance.store(bytes, Ordering::Relaxed);
    }

    /// Whether the allowance is used up.
    pub(super) fn spent(&self) -> bool {
        self.allowance.load(Ordering::Relaxed) == 0
    }

    /// Takes `bytes` off the allowance.
    pub(super) fn spend(&self, bytes: usize) {
        let left = self.allowance.load(Ordering::Relaxed);
        if left != usize::MAX {
            self.allowance.store(left.saturating_sub(bytes), Ordering::Relaxed);
        }
    }
}

/// A TCP connection with gathered output. The gathering buffer exists only while it holds something.
pub(super) struct Conn {
    tcp: TcpStream,
    knobs: Arc<Knobs>,
    held: BytesMut,
}

impl Conn {
    pub(super) fn new(tcp: TcpStream, knobs: Arc<Knobs>) -> Conn {
        Conn { tcp, knobs, held: BytesMut::new() }
    }

    /// Writes all that is held and frees the buffer.
    fn poll_held(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let written = ready!(Pin::new(&mut self.tcp).poll_write(cx, &self.held))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.advance(written);
        }
        self.held = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

/// Pingora logs its streams: never what is held.
impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("tcp", &self.tcp).finish_non_exhaustive()
    }
}

impl AsyncRead for Conn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_read(cx, buf)
    }
}

impl AsyncWrite for Conn {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let offered: usize = bufs.iter().map(|b| b.len()).sum();
        if this.held.len().saturating_add(offered) <= GATHER {
            if this.held.capacity() == 0 {
                // The header comes first, and a body behind it: room for both where the body is the usual one.
                this.held.reserve(offered.max(FIRST));
            }
            for buf in bufs {
                this.held.extend_from_slice(buf);
            }
            return Poll::Ready(Ok(offered));
        }
        loop {
            let held = this.held.len();
            let mut slices = [IoSlice::new(&[]); SLICES];
            let all = std::iter::once(&*this.held).chain(bufs.iter().map(|b| &**b)).filter(|b| !b.is_empty());
            for (slot, slice) in slices.iter_mut().zip(all) {
                *slot = IoSlice::new(slice);
            }
            let written = ready!(Pin::new(&mut this.tcp).poll_write_vectored(cx, &slices))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            this.held.advance(written.min(held));
            if written > held {
                return Poll::Ready(Ok(written.saturating_sub(held)));
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.knobs.cork.load(Ordering::Relaxed) {
            return Poll::Ready(Ok(()));
        }
        this.poll_held(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_held(cx))?;
        Pin::new(&mut this.tcp).poll_shutdown(cx)
    }
}

#[async_trait]
impl Shutdown for Conn {
    async fn shutdown(&mut self) {
        if let Err(error) = AsyncWriteExt::shutdown(self).await {
            tracing::trace!(%error, "closing a connection");
        }
    }
}

impl UniqueID for Conn {
    fn id(&self) -> UniqueIDType {
        self.tcp.as_raw_fd()
    }
}

impl Ssl for Conn {}

impl Peek for Conn {}

impl GetTimingDigest for Conn {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for Conn {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        None
    }
}

impl GetSocketDigest for Conn {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}
