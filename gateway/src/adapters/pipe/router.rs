//! Takes one message from a server to where it belongs. Never blocks, never guesses: what fits no call is dropped
//! and counted, what breaks the protocol is reported to the reader, which ends the pipe.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use bytes::Bytes;
use mcp::era::Era;
use mcp::json::Raw;
use mcp::message::{Message, Notification, Request, Response};
use mcp::{meta, method};
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::pulse::Pulse;
use super::rate::Bucket;
use super::table::{Answered, Budget, Table};
use super::{MuxCounts, MuxEvent, MuxOptions, Pipe, words};
use crate::ports::upstream::{Change, Fault, FaultKind};

/// Changes kept for a receiver that lags.
const CHANGES: usize = 64;
/// The state behind a mux, shared with its reading and writing tasks.
pub(crate) struct Router {
    pub(crate) pipe: Arc<dyn Pipe>,
    pub(crate) options: MuxOptions,
    pub(crate) table: Mutex<Table>,
    pub(crate) changes: broadcast::Sender<Change>,
    /// Why the pipe ended, once it has.
    pub(crate) end: watch::Sender<Option<Fault>>,
    /// Ends both tasks.
    pub(crate) stop: CancellationToken,
    /// Whether it lives, when somebody asks.
    pub(crate) pulse: Pulse,
    budget: Budget,
    modern: AtomicU8,
    cancels: mpsc::Sender<u64>,
    replies: mpsc::Sender<Bytes>,
    complaints: Mutex<Bucket>,
    late: AtomicU64,
    dropped: AtomicU64,
    refused: AtomicU64,
    forbidden: AtomicU64,
}

impl Router {
    pub(crate) fn new(
        pipe: Arc<dyn Pipe>,
        options: MuxOptions,
        cancels: mpsc::Sender<u64>,
        replies: mpsc::Sender<Bytes>,
    ) -> Router {
        let now = Instant::now();
        Router {
            pipe,
            table: Mutex::new(Table::new(options.calls, now)),
            changes: broadcast::Sender::new(CHANGES),
            end: watch::Sender::new(None),
            stop: CancellationToken::new(),
            pulse: Pulse::default(),
            budget: Budget::new(options.buffered_bytes),
            modern: AtomicU8::new(0),
            cancels,
            replies,
            complaints: Mutex::new(Bucket::new(1, 5, now)),
            late: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            forbidden: AtomicU64::new(0),
            options,
        }
    }

    pub(crate) fn set_era(&self, era: Era) {
        self.modern.store(u8::from(era == Era::Modern), Ordering::Release);
    }

    pub(crate) fn counts(&self) -> MuxCounts {
        MuxCounts {
            late_answers: self.late.load(Ordering::Relaxed),
            dropped_events: self.dropped.load(Ordering::Relaxed),
            refused_requests: self.refused.load(Ordering::Relaxed),
            forbidden_requests: self.forbidden.load(Ordering::Relaxed),
        }
    }

    /// Ends every call with `fault` and stops the tasks. Returns whether this was the first end.
    pub(crate) fn finish(&self, fault: Fault) -> bool {
        let first = self.table.lock().end(&fault);
        if first {
            self.end.send_replace(Some(fault));
        }
        self.stop.cancel();
        first
    }

    /// Queues the cancellation of a call.
    pub(crate) fn cancel(&self, id: u64) {
        // Full only when more calls were given up than may be in flight, before one notification got through:
        // the server does not read, and its write deadline ends it.
        if self.cancels.try_send(id).is_err() {
            self.complain("a cancellation was not sent", "queue full or pipe ended");
        }
    }

    /// Takes one message. `Err` says how the server broke the protocol, in text that holds nothing of it.
    pub(crate) async fn take(&self, line: Bytes) -> Result<(), Fault> {
        self.pulse.felt();
        let bytes = line.len();
        if bytes > self.options.answer_bytes {
            let detail =
                format!("a message of {bytes} bytes, over the limit of {}", self.options.answer_bytes);
            return Err(Fault::late(FaultKind::TooLarge, detail));
        }
        match words::message(line).await? {
            Message::Response(response) => self.answer(response, bytes),
            Message::Request(request) => {
                self.request(&request);
                Ok(())
            }
            Message::Notification(notification) => {
                if !self.notification(&notification, bytes) {
                    self.dropped.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
        }
    }

    /// U2: an answer is matched by our id alone, of our type; U4: one that is late or comes twice is dropped.
    fn answer(&self, response: Response, bytes: usize) -> Result<(), Fault> {
        let id = response.id.as_ref().and_then(|id| number(&id.raw()));
        let id = id.ok_or_else(|| words::broken("an answer without an id of ours"))?;
        match self.table.lock().answer(id, response, (&self.budget, bytes), Instant::now()) {
            Answered::Taken => {}
            Answered::Late => {
                self.late.fetch_add(1, Ordering::Relaxed);
            }
            Answered::Unknown => return Err(words::broken("an answer to a call that was never made")),
        }
        Ok(())
    }

    /// A request of the server's own. It is never relayed, and never left without an answer where its era has one.
    fn request(&self, request: &Request) {
        if self.modern.load(Ordering::Acquire) != 0 {
            // U6: a modern server must not send requests, and answering one is forbidden too (stdio.mdx).
            self.forbidden.fetch_add(1, Ordering::Relaxed);
            self.complain("a modern server sent a request, which was dropped", &request.method);
            return;
        }
        if request.method != method::PING {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        if self.replies.try_send(words::answer(request, self.options.roots.as_ref())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            self.complain("a server's request was not answered, it does not read", &request.method);
        }
    }

    /// Returns false when nobody was told.
    fn notification(&self, notification: &Notification, bytes: usize) -> bool {
        match notification.method.as_str() {
            method::PROGRESS => self.progress(notification.params.as_ref(), bytes),
            method::LOG => self.log(notification.params.clone(), bytes),
            other => words::list_change(other).is_some_and(|change| self.changes.send(change).is_ok()),
        }
    }

    /// U13: progress goes to the pending call that its token names, and to no other; it never goes back.
    fn progress(&self, params: Option<&Raw>, bytes: usize) -> bool {
        let Some(params) = params else { return false };
        let Some(id) = params.get(meta::PROGRESS_TOKEN).as_ref().and_then(number) else { return false };
        let value = params.get("progress").and_then(|value| value.as_str().parse::<f64>().ok());
        let Some(value) = value else { return false };
        let mut table = self.table.lock();
        if !table.advances(id, value) {
            return false;
        }
        table.tell(
            id,
            MuxEvent::Progress(words::without_token(params)),
            (&self.budget, bytes),
            Instant::now(),
        )
    }

    /// A log notification names no call: see [`Table::log_target`].
    fn log(&self, params: Option<Raw>, bytes: usize) -> bool {
        let (Some(params), now) = (params, Instant::now()) else { return false };
        let mut table = self.table.lock();
        let Some(id) = table.log_target(self.options.shared, now) else { return false };
        table.tell(id, MuxEvent::Log(params), (&self.budget, bytes), now)
    }

    /// One log line, a second at most on average: a flood of breaches is no flood of lines.
    fn complain(&self, what: &str, about: &str) {
        if self.complaints.lock().take(Instant::now()) {
            let about = crate::adapters::child::printable(about, 200);
            tracing::warn!(server = %self.options.server, about, "{what}");
        }
    }
}

/// One of our ids or tokens: an integer above zero. A string that looks like it is not one (U2).
fn number(raw: &Raw) -> Option<u64> {
    raw.integer().and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)
}
