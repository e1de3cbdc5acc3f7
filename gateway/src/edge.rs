//! HTTP off the wire and back on it: listeners, TLS, framing, deadlines, departures, drain. The only place,
//! with `adapters/pingora_*`, that names Pingora. It never looks inside a body, never routes, never decides
//! who may call.
//!
//! Every wait has a deadline: handshake, first byte, header (in total, not per read), body (in total), each
//! written frame, idle keep-alive, drain. Every buffer has a bound: header bytes and fields, body, 16 KiB of
//! gathered output per connection; the next frame of a stream is asked for only when the one before has been
//! written.

mod blocks;
mod body;
pub mod certs;
mod conn;
mod exchange;
mod head;
mod http1;
mod http2;
mod line;
pub mod listen;
mod respond;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pingora_core::listeners::tls::Acceptor;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use listen::{Drained, bind, serve};

use crate::lanes::Places;
pub use crate::wire::{BodyFault, Frames, Full, Handler, Head, Reply, StreamReply, Work};

/// How one listener behaves.
#[derive(Clone)]
pub struct Options {
    /// Sizes and times.
    pub limits: Limits,
    /// Certificates: TLS with HTTP/2 and HTTP/1.1 by ALPN. `None`: plain HTTP/1.1.
    pub tls: Option<Arc<certs::Certificates>>,
    /// HTTP/2 without TLS, told from HTTP/1.1 by its first bytes (RFC 9113 §3.3). Ignored under TLS.
    pub h2c: bool,
    /// How long requests in flight may take after `shutdown`, before they are cut.
    pub drain: Duration,
    /// Where connections are served; none: where the listener is.
    pub places: Places,
    /// Counts that the listener keeps; share it with whoever shows them.
    pub counters: Arc<Counters>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            limits: Limits::default(),
            tls: None,
            h2c: false,
            drain: Duration::from_secs(30),
            places: Places::default(),
            counters: Arc::default(),
        }
    }
}

/// Sizes and times of one listener. All times are totals, none is per read.
#[derive(Clone, Debug)]
pub struct Limits {
    /// TLS handshake: 10 s.
    pub handshake: Duration,
    /// From a request's first byte to the end of its header, and from accept to the first byte: 10 s. Then
    /// 408.
    pub header_time: Duration,
    /// Request line and header fields together: 32 KiB. Then 431.
    pub header_bytes: usize,
    /// Header fields: 128. Then 431 (Pingora itself answers more than 256 with 400).
    pub header_count: usize,
    /// From the end of the header to the end of the body: 30 s. Then 408.
    pub body_time: Duration,
    /// One frame or answer, plus a second for each 64 KiB of it: 30 s. Then the connection is closed.
    pub write_time: Duration,
    /// A keep-alive connection without a request: 75 s.
    pub idle: Duration,
    /// An HTTP/2 connection without a stream: at least this long, at most twice: 75 s.
    pub h2_idle: Duration,
    /// Streams open at once on one HTTP/2 connection: 100.
    pub h2_streams: u32,
    /// Connections at once; more are closed as soon as they are accepted: 10,000.
    pub connections: u64,
    /// Requests on one connection, after which it is closed: no limit.
    pub requests: Option<u32>,
    /// An unread body up to this size is read and dropped, so that the connection can be kept: 64 KiB.
    pub drain_bytes: usize,
    /// How long such a body is waited for, and how long a closing connection is read so that the client sees
    /// the answer instead of a reset: 1 s.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            handshake: Duration::from_secs(10),
            header_time: Duration::from_secs(10),
            header_bytes: 32 * 1024,
            header_count: 128,
            body_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            h2_idle: Duration::from_secs(75),
            h2_streams: 100,
            connections: 10_000,
            requests: None,
            drain_bytes: 64 * 1024,
            linger: Duration::from_secs(1),
        }
    }
}

/// What one listener counts. The first two go up and down, the others only up.
#[derive(Debug, Default)]
pub struct Counters {
    /// Open connections.
    pub connections: AtomicU64,
    /// Requests whose header has begun and whose answer has not ended.
    pub in_flight: AtomicU64,
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections closed at once because there were too many.
    pub refused: AtomicU64,
    /// TLS handshakes that failed or took too long.
    pub handshakes_failed: AtomicU64,
    /// Requests refused for their header (400, 408, 431) before the handler saw them.
    pub bad_heads: AtomicU64,
    /// Clients that left before their answer had ended.
    pub departed: AtomicU64,
    /// Clients that took their answer too slowly.
    pub slow_readers: AtomicU64,
}

/// What all connections of a listener share.
struct Shared {
    limits: Limits,
    h2c: bool,
    handler: Arc<dyn Handler>,
    acceptor: Option<Acceptor>,
    counters: Arc<Counters>,
    /// No new requests; what runs is finished.
    shutdown: CancellationToken,
    /// Past the drain deadline: everything is dropped.
    kill: CancellationToken,
    tasks: TaskTracker,
    places: Places,
    /// Where the listener is. An HTTP/2 connection's streams run there: they would be too much for one lane.
    home: Handle,
}

/// Holds a gauge up for as long as it lives, whatever ends the task that holds it.
struct Held<'a>(&'a AtomicU64);

impl<'a> Held<'a> {
    fn new(gauge: &'a AtomicU64) -> Held<'a> {
        gauge.fetch_add(1, Ordering::Relaxed);
        Held(gauge)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Adds one.
fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
