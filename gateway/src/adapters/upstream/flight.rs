//! Two small guards before a server: one attempt for all who wait for the same thing, and a pause after a failure, so
//! that a dead server costs a caller nothing but a fast error. Neither ever holds a lock while waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::adapters::child::Backoff;
use crate::ports::upstream::Fault;

type Attempt<T> = Shared<BoxFuture<'static, T>>;

/// At most one attempt at a time; whoever comes meanwhile gets its outcome. The attempt goes on when its first caller
/// leaves, so it must have a deadline of its own.
pub(super) struct Flight<T: Clone> {
    running: Arc<Mutex<Option<Attempt<T>>>>,
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// Nothing under way.
    pub(super) fn new() -> Flight<T> {
        Flight { running: Arc::default() }
    }

    /// Whether an attempt is under way.
    pub(super) fn is_flying(&self) -> bool {
        self.running.lock().is_some()
    }

    /// Joins the attempt under way, or starts the one that `make` describes.
    pub(super) fn join(&self, make: impl FnOnce() -> BoxFuture<'static, T>) -> Attempt<T> {
        let mut running = self.running.lock();
        if let Some(attempt) = running.as_ref().filter(|attempt| attempt.peek().is_none()) {
            return attempt.clone();
        }
        let attempt = make().shared();
        *running = Some(attempt.clone());
        let (driven, slot) = (attempt.clone(), Arc::clone(&self.running));
        tokio::spawn(async move {
            drop(driven.await);
            // The outcome lives where the attempt put it; holding it here would keep sessions alive.
            let mut running = slot.lock();
            if running.as_ref().is_some_and(|attempt| attempt.peek().is_some()) {
                *running = None;
            }
        });
        attempt
    }
}

/// Closed for a while after a failure, longer with each further one, as [`Backoff`] counts. When the time is over
/// whoever comes tries again; attempts that fail together count once.
pub(super) struct Gate {
    /// Whether `shut` holds anything: the usual call takes no lock.
    closed: AtomicBool,
    shut: Mutex<Option<Shut>>,
}

struct Shut {
    pause: Backoff,
    fault: Fault,
}

impl Gate {
    /// Open.
    pub(super) fn new() -> Gate {
        Gate { closed: AtomicBool::new(false), shut: Mutex::new(None) }
    }

    /// # Errors
    /// The last failure, while its pause lasts.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if !self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        match &*self.shut.lock() {
            Some(shut) if shut.pause.left(Instant::now()).is_some() => {
                Err(Fault::early(shut.fault.kind, format!("{} (not tried again yet)", shut.fault.detail)))
            }
            _ => Ok(()),
        }
    }

    /// Closes for the next pause.
    pub(super) fn failed(&self, fault: &Fault) {
        let (mut shut, now) = (self.shut.lock(), Instant::now());
        let mut pause = match shut.take() {
            Some(before) if before.pause.left(now).is_some() => {
                *shut = Some(before);
                return;
            }
            Some(before) => before.pause,
            None => Backoff::new(),
        };
        pause.failed(Duration::ZERO, now);
        *shut = Some(Shut { pause, fault: fault.clone() });
        self.closed.store(true, Ordering::Release);
    }

    /// The server works.
    pub(super) fn open(&self) {
        if self.closed.load(Ordering::Acquire) {
            *self.shut.lock() = None;
            self.closed.store(false, Ordering::Release);
        }
    }
}
