//! Runs many calls over one [`Pipe`]: hands out ids, gives answers and events to their calls, tells the server of
//! calls given up. Never matches by order of arrival and never waits for a consumer.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt, Stream};
use mcp::era::Era;
use mcp::json::Raw;
use mcp::message::Id;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[cfg(test)]
use super::MuxCounts;
use super::router::Router;
use super::table::Inbox;
use super::{MuxEvent, MuxOptions, Pipe, words};
use crate::ports::upstream::{Change, Fault, FaultKind};

/// Answers to a server's own requests that wait to be sent; more are dropped and counted.
const REPLIES: usize = 256;
/// What a server that closed its side, or a mux that nobody holds any more, gets to end in order.
const LAST_GRACE: Duration = Duration::from_secs(2);

/// Runs many calls over one pipe. Dropping the last handle (calls hold one too) closes the pipe; so does any
/// breach of the framing by the server, which ends every call with [`FaultKind::Protocol`].
pub struct Mux {
    router: Arc<Router>,
}

impl Mux {
    /// Takes over a pipe and the messages that come out of it. Must be called within a runtime.
    pub fn start(
        pipe: Arc<dyn Pipe>,
        incoming: mpsc::Receiver<Result<Bytes, Fault>>,
        options: MuxOptions,
    ) -> Arc<Mux> {
        // One cancellation a call at most, so that the queue never overflows while calls are bounded.
        let (cancels, cancel_queue) = mpsc::channel(options.calls.max(1));
        let (replies, reply_queue) = mpsc::channel(REPLIES);
        let router = Arc::new(Router::new(pipe, options, cancels, replies));
        tokio::spawn(read(router.clone(), incoming));
        tokio::spawn(write(router.clone(), cancel_queue, reply_queue));
        Arc::new(Mux { router })
    }

    /// Sends a request. `body` makes the message from our id and our progress token; with `want_progress` false
    /// the token should not be sent, and progress for it is dropped. The fault's `dispatched` says whether the
    /// server may have got it.
    pub async fn request(
        self: &Arc<Self>,
        body: impl FnOnce(&Id, &Raw) -> Bytes + Send,
        want_progress: bool,
    ) -> Result<Pending, Fault> {
        self.open(body, want_progress, true).await
    }

    /// Sends `initialize`, which must not be cancelled (2025-11-25 cancellation.mdx): dropping it only stops the
    /// wait.
    pub async fn initialize(
        self: &Arc<Self>,
        body: impl FnOnce(&Id) -> Bytes + Send,
    ) -> Result<Pending, Fault> {
        self.open(|id, _| body(id), false, false).await
    }

    async fn open(
        self: &Arc<Self>,
        body: impl FnOnce(&Id, &Raw) -> Bytes + Send,
        progress: bool,
        cancel: bool,
    ) -> Result<Pending, Fault> {
        let inbox = self.router.table.lock().open(progress, Instant::now())?;
        let id = Id::from_number(inbox.id);
        let line = body(&id, &id.raw());
        // From here on the call is the guard's: a caller that leaves during the send cancels it as well.
        let mut pending = Pending { inbox, cancel, finished: false, mux: self.clone() };
        if let Err(fault) = self.router.pipe.send(line).await {
            pending.cancel &= fault.dispatched;
            return Err(fault);
        }
        Ok(pending)
    }

    /// Sends a request that is answered by announcements (`subscriptions/listen`): it counts as no call, and
    /// what the server answers at its end is dropped.
    pub async fn listen(&self, body: impl FnOnce(&Id, &Raw) -> Bytes + Send) -> Result<(), Fault> {
        let id = Id::from_number(self.router.table.lock().reserve());
        self.router.pipe.send(body(&id, &id.raw())).await
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Option<&Raw>) -> Result<(), Fault> {
        if let Some(fault) = self.router.table.lock().ended() {
            return Err(Fault::early(FaultKind::Unreachable, fault.detail.clone()));
        }
        self.router.pipe.send(mcp::message::notification(method, params)).await
    }

    /// Says which era the server speaks. Until then its requests are answered as a legacy server's.
    pub fn set_era(&self, era: Era) {
        self.router.set_era(era);
    }

    /// List changes, never [`Change::Restarted`], from now on. A receiver that lags loses the oldest.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.router.changes.subscribe()
    }

    /// Whether the pipe has ended: no call can be opened any more.
    pub fn is_closed(&self) -> bool {
        self.router.table.lock().ended().is_some()
    }

    /// Waits for the end of the pipe and says why it ended.
    pub async fn closed(&self) -> Fault {
        let mut end = self.router.end.subscribe();
        match end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone()) {
            Some(fault) => fault,
            None => Fault::late(FaultKind::Dropped, "the pipe is gone"),
        }
    }

    /// Ends every pending call with [`FaultKind::Dropped`], then the pipe within `grace`.
    pub async fn close(&self, grace: Duration) {
        self.router.finish(Fault::late(FaultKind::Dropped, "closed by the gateway"));
        self.router.pipe.close(grace).await;
    }

    /// What stands behind it.
    pub(super) fn router(&self) -> &Router {
        &self.router
    }

    /// Calls in flight.
    pub fn in_flight(&self) -> usize {
        self.router.table.lock().len()
    }

    /// When a call was last opened, answered or given up: with none in flight, the pipe has been idle since.
    pub fn last_used(&self) -> Instant {
        self.router.table.lock().used_at()
    }

    /// Counters since the start.
    #[cfg(test)]
    pub(super) fn counts(&self) -> MuxCounts {
        self.router.counts()
    }
}

impl Drop for Mux {
    fn drop(&mut self) {
        self.router.stop.cancel();
    }
}

/// A call under way. The stream ends after [`MuxEvent::Done`] or a fault. Dropping it before that sends
/// `notifications/cancelled` for it, unless it is `initialize`; its late answer is dropped and counted.
pub struct Pending {
    inbox: Inbox,
    cancel: bool,
    finished: bool,
    mux: Arc<Mux>,
}

impl Stream for Pending {
    type Item = Result<MuxEvent, Fault>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.finished {
            return Poll::Ready(None);
        }
        // The events' queue is closed by the end, after what was queued: so the end is always told last.
        if let Some(event) = std::task::ready!(self.inbox.events.poll_recv(cx)) {
            return Poll::Ready(Some(Ok(event.take())));
        }
        let end = std::task::ready!(self.inbox.done.poll_unpin(cx));
        self.finished = true;
        Poll::Ready(Some(match end {
            Ok(Ok(response)) => Ok(MuxEvent::Done(response.take())),
            Ok(Err(fault)) => Err(fault),
            Err(_) => Err(Fault::late(FaultKind::Dropped, "the pipe is gone")),
        }))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let open = self.mux.router.table.lock().abandon(self.inbox.id, Instant::now());
        if open && self.cancel {
            self.mux.router.cancel(self.inbox.id);
        }
    }
}

/// Takes messages until the pipe ends, breaks or is given up; then ends every call and the pipe.
async fn read(router: Arc<Router>, mut incoming: mpsc::Receiver<Result<Bytes, Fault>>) {
    let (fault, grace) = loop {
        let item = tokio::select! {
            biased;
            () = router.stop.cancelled() => {
                break (Fault::late(FaultKind::Dropped, "given up by the gateway"), LAST_GRACE);
            }
            item = incoming.recv() => item,
        };
        match item {
            Some(Ok(line)) => {
                if let Err(breach) = router.take(line).await {
                    break (breach, Duration::ZERO);
                }
            }
            Some(Err(fault)) if fault.kind == FaultKind::Dropped => break (fault, LAST_GRACE),
            Some(Err(fault)) => break (fault, Duration::ZERO),
            None => break (Fault::late(FaultKind::Dropped, "the server closed the pipe"), LAST_GRACE),
        }
    };
    tracing::debug!(server = %router.options.server, %fault, counts = ?router.counts(), "the pipe has ended");
    // False: `close` was first, and ends the pipe in its own time.
    if router.finish(fault) {
        router.pipe.close(grace).await;
    }
}

/// Sends what no caller waits for: cancellations, and answers to the server's own requests.
async fn write(router: Arc<Router>, mut cancels: mpsc::Receiver<u64>, mut replies: mpsc::Receiver<Bytes>) {
    let stop: CancellationToken = router.stop.clone();
    loop {
        let line = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some(id) = cancels.recv() => words::cancelled(&Id::from_number(id)),
            Some(line) = replies.recv() => line,
        };
        if let Err(fault) = router.pipe.send(line).await {
            tracing::debug!(server = %router.options.server, %fault, "a message was not sent");
        }
    }
}
