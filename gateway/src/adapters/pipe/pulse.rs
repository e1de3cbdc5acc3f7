//! Whether a silent server still lives: it is asked something, and any word of it is a sign of life. One that stays
//! silent is ended, never waited for; its calls end with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use mcp::message::Id;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::mux::Mux;
use crate::ports::upstream::{Fault, FaultKind};

/// What a server that hangs gets to end in order: it most likely cannot, and every caller waits for its successor.
const HUNG_GRACE: Duration = Duration::from_secs(2);

/// Waits for a word of the server, while somebody does.
#[derive(Debug, Default)]
pub(crate) struct Pulse {
    asking: AtomicBool,
    felt: Notify,
}

impl Pulse {
    /// The server has sent a message.
    pub(crate) fn felt(&self) {
        if self.asking.load(Ordering::Acquire) {
            self.felt.notify_waiters();
        }
    }
}

/// Nobody asks any more.
struct Asking<'a>(&'a Pulse);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.store(false, Ordering::Release);
    }
}

impl Mux {
    /// Asks the server for a sign of life, with the request that `body` makes of an id; its answer counts as no call's.
    /// When nothing at all comes `within` that time, the pipe and with it a child process is ended, by force if need
    /// be. Does nothing when the server is being asked already.
    pub(crate) async fn check(&self, body: impl FnOnce(&Id) -> Bytes + Send, within: Duration) {
        let router = self.router();
        if router.pulse.asking.swap(true, Ordering::AcqRel) {
            return;
        }
        let asking = Asking(&router.pulse);
        // Counts from here on, also while it is not polled.
        let felt = router.pulse.felt.notified();
        let asked = async {
            if let Err(fault) = self.listen(|id, _| body(id)).await {
                tracing::debug!(server = %router.options.server, %fault, "not even asked whether it lives");
            }
            felt.await;
        };
        let silent = tokio::select! {
            felt = timeout(within, asked) => felt.is_err(),
            () = router.stop.cancelled() => false,
        };
        drop(asking);
        let hangs =
            || Fault::late(FaultKind::Dropped, format!("the server hangs: no sign of life in {within:?}"));
        if silent && router.finish(hangs()) {
            router.pipe.close(HUNG_GRACE).await;
        }
    }
}
