//! A message pipe to a server (stdio child, old HTTP+SSE) and the multiplexer that runs many calls over it.
//! Never resynchronises a broken pipe, never reuses an id, never decides policy.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use mcp::json::Raw;
use mcp::message::Response;

use crate::ports::upstream::Fault;

mod lines;
mod mux;
mod pulse;
mod rate;
mod router;
mod table;
#[cfg(test)]
mod tests;
mod words;

pub(crate) use lines::Lines;
pub use mux::{Mux, Pending};
pub(crate) use rate::Bucket;
pub(crate) use words::{answer, broken, cancelled, list_change, message, without_token};

/// A two-way channel of whole JSON-RPC messages to one server. What the server sends comes out of the
/// receiver that is made together with the pipe: `Ok` is one message, `Err` is the last item and says why the
/// pipe broke, the plain end means that the server closed it.
#[async_trait]
pub trait Pipe: Send + Sync {
    /// Hands over one JSON-RPC message without a line end. Returns once the transport has taken it whole;
    /// bounded by the pipe's own write deadline. Dropping the future never tears a message.
    async fn send(&self, line: Bytes) -> Result<(), Fault>;

    /// Ends the pipe and, for a child, the process: orderly within `grace`, then by force. Zero is at once.
    /// Returns when it has ended. Calling it again is harmless.
    async fn close(&self, grace: Duration);
}

/// How a [`Mux`] treats its pipe.
#[derive(Clone, Debug)]
pub struct MuxOptions {
    /// The server's id, for log lines.
    pub server: Arc<str>,
    /// Whether calls of several sessions share the pipe: then a log notification, which names no call, is
    /// delivered only while exactly one call is pending.
    pub shared: bool,
    /// The largest message accepted from the server, in bytes.
    pub answer_bytes: usize,
    /// Calls in flight at most; one more is refused.
    pub calls: usize,
    /// Bytes of events and answers that wait for their consumers, over all calls.
    pub buffered_bytes: usize,
    /// What `roots/list` of a legacy server is answered with.
    pub roots: Option<Raw>,
}

impl MuxOptions {
    /// The defaults for `server`: 1,024 calls, 64 MiB waiting (never less than two answers).
    pub fn new(server: &str, shared: bool, answer_bytes: usize) -> MuxOptions {
        let buffered_bytes = answer_bytes.saturating_mul(2).max(64 << 20);
        MuxOptions {
            server: Arc::from(server),
            shared,
            answer_bytes,
            calls: 1024,
            buffered_bytes,
            roots: None,
        }
    }
}

/// What a pending call hears.
#[derive(Clone, Debug)]
pub enum MuxEvent {
    /// `notifications/progress` for this call: its params without `progressToken`.
    Progress(Raw),
    /// `notifications/message`: its params.
    Log(Raw),
    /// The answer; the stream ends after it.
    Done(Response),
}

/// Counters since the pipe was opened, for the log at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MuxCounts {
    /// Answers to calls that had ended already (U4).
    pub late_answers: u64,
    /// Notifications dropped: full queue, rate, unknown token (U13).
    pub dropped_events: u64,
    /// Requests of a legacy server answered with an error, `ping` excluded.
    pub refused_requests: u64,
    /// Requests of a modern server, which it must not send (U6).
    pub forbidden_requests: u64,
}
