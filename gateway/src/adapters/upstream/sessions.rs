//! One session with a legacy server over streamable HTTP. Closed at the server exactly once, unless the server has
//! forgotten it first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::back::Back;
use super::level::Level;
use super::logs::Logs;
use super::pool::Entry;
use super::watch::Heard;
use crate::ports::upstream::Facts;

/// A session that served nothing for so long is closed, unless it is the one whose announcements are heard.
pub(super) const IDLE: Duration = Duration::from_secs(600);

/// A session already shaken hands on.
pub(super) struct Session {
    pub(super) facts: Arc<Facts>,
    pub(super) back: Arc<Back>,
    /// Whether the server gave it an id: only then it can expire and be closed.
    pub(super) named: bool,
    /// The log level that the server was told.
    pub(super) level: Level,
    /// Log messages that come outside its calls.
    pub(super) logs: Arc<Logs>,
    /// Cancelled when it is over: whoever listens to it stops.
    pub(super) gone: CancellationToken,
    /// Whether somebody wants what it announces.
    pub(super) heard: Arc<Heard>,
    over: AtomicBool,
    used: Mutex<Instant>,
}

impl Session {
    pub(super) fn new(facts: Facts, back: Back, named: bool) -> Session {
        Session {
            level: Level::new(&facts),
            facts: Arc::new(facts),
            back: Arc::new(back),
            named,
            logs: Arc::default(),
            gone: CancellationToken::new(),
            heard: Arc::default(),
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

impl Entry for Session {
    fn usable(&self) -> bool {
        !self.over.load(Ordering::Acquire)
    }

    fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    fn is_heard(&self) -> bool {
        self.heard.is_wanted()
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
