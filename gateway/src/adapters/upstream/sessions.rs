//! One session with a legacy server over streamable HTTP. Closed at the server exactly once, unless the server has
//! forgotten it first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp::json::Raw;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::back::Back;
use super::pool::Entry;
use crate::ports::upstream::Facts;

/// A session that served nothing for so long is closed.
pub(super) const IDLE: Duration = Duration::from_secs(600);

/// A session already shaken hands on.
pub(super) struct Session {
    pub(super) facts: Arc<Facts>,
    pub(super) back: Arc<Back>,
    /// Whether the server gave it an id: only then it can expire and be closed.
    pub(super) named: bool,
    /// The log level that the server was told last.
    pub(super) level: tokio::sync::Mutex<Option<Raw>>,
    /// Whether the server lets clients choose the level.
    pub(super) logs: bool,
    /// Cancelled when it is over: whoever listens to it stops.
    pub(super) gone: CancellationToken,
    over: AtomicBool,
    used: Mutex<Instant>,
}

impl Session {
    pub(super) fn new(facts: Facts, back: Back, named: bool) -> Session {
        Session {
            logs: logs(&facts),
            facts: Arc::new(facts),
            back: Arc::new(back),
            named,
            level: tokio::sync::Mutex::new(None),
            gone: CancellationToken::new(),
            over: AtomicBool::new(false),
            used: Mutex::new(Instant::now()),
        }
    }

    /// The server no longer knows it.
    pub(super) fn expire(&self) {
        self.over.store(true, Ordering::Release);
        self.gone.cancel();
    }

    /// Closes it at the server, once; to be waited for when the gateway ends.
    pub(super) async fn close(&self) {
        self.gone.cancel();
        if !self.over.swap(true, Ordering::AcqRel) && self.named {
            self.back.close_session().await;
        }
    }
}

/// Whether clients can choose the log level.
pub(super) fn logs(facts: &Facts) -> bool {
    facts.capabilities.get("logging").is_some_and(|v| v.is_object())
}

impl Entry for Session {
    fn usable(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }

    fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    fn idle(&self, now: Instant) -> Duration {
        now.duration_since(*self.used.lock())
    }
}

impl Drop for Session {
    /// Whatever leaves the pool is closed once its last call has ended.
    fn drop(&mut self) {
        self.gone.cancel();
        let open = !self.over.swap(true, Ordering::AcqRel) && self.named;
        if let (true, Ok(runtime)) = (open, Handle::try_current()) {
            let back = Arc::clone(&self.back);
            runtime.spawn(async move { back.close_session().await });
        }
    }
}
