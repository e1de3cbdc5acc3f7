//! Keeps closed segments of the journal in an object store: a thread of its own, so that no call ever waits for it. What
//! is there already isn't sent again and never overwritten; what fails is tried again for as long as the process lives.

mod http;
mod send;
mod source;
mod store;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use audit::verify::DirSource;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::ports::clock::{Clock, SystemClock};
use crate::ports::journal::Archive as State;
use send::{Queue, Refused};
pub use source::{Archived, logs};
pub use store::Store;

/// How often a newly closed segment is looked for.
const LOOK: Duration = Duration::from_secs(1);
/// The pauses after failures, from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// One attempt at a segment, or at finding out what is there.
const ATTEMPT: Duration = Duration::from_secs(600);
/// Longest text of an error that is kept.
const MAX_ERROR: usize = 400;

/// What is being kept, for whoever asks.
pub struct Archiver {
    state: Arc<Mutex<State>>,
    stop: CancellationToken,
}

impl Archiver {
    /// Begins to keep a log's closed segments under its id.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start(store: Store, dir: PathBuf, log: &str) -> std::io::Result<Archiver> {
        let state = Arc::new(Mutex::new(State { url: store.shown(log), ..State::default() }));
        let stop = CancellationToken::new();
        let work = Work {
            queue: Queue::new(store, DirSource::new(dir), log),
            state: Arc::clone(&state),
            stop: stop.clone(),
            pause: FIRST_PAUSE,
        };
        std::thread::Builder::new().name("archive".into()).spawn(move || match runtime() {
            Ok(runtime) => runtime.block_on(work.run()),
            Err(error) => work.failed(&error.to_string()),
        })?;
        Ok(Archiver { state, stop })
    }

    /// How it stands.
    pub fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// Ends the work; what is under way is given up, and taken up at the next start.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for Archiver {
    fn drop(&mut self) {
        self.stop();
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

struct Work {
    queue: Queue,
    state: Arc<Mutex<State>>,
    stop: CancellationToken,
    pause: Duration,
}

impl Work {
    async fn run(mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.turns() => {}
        }
    }

    async fn turns(&mut self) {
        loop {
            let begun = Instant::now();
            let step = match timeout(ATTEMPT, self.queue.step()).await {
                Ok(step) => step,
                Err(_) => Err(Refused::Later(format!("not done within {ATTEMPT:?}"))),
            };
            self.tell();
            match step {
                // There may be more to do at once.
                Ok(true) => self.pause = FIRST_PAUSE,
                Ok(false) => {
                    self.pause = FIRST_PAUSE;
                    sleep(LOOK).await;
                }
                Err(Refused::Different(why)) => self.failed(&why),
                Err(Refused::Later(why)) => {
                    self.failed(&why);
                    sleep(self.pause.saturating_sub(begun.elapsed())).await;
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn tell(&self) {
        let mut state = self.state.lock();
        state.lag_segments = self.queue.lag();
        state.kept_segments = self.queue.kept();
        state.refused.clone_from(&self.queue.refused);
        if state.lag_segments == 0 {
            state.error = None;
        }
    }

    fn failed(&self, why: &str) {
        let why: String = why.chars().take(MAX_ERROR).collect();
        let mut state = self.state.lock();
        let new = state.error.as_ref().is_none_or(|(before, _)| *before != why);
        let now: SystemTime = SystemClock.now();
        state.error = Some((why.clone(), now));
        drop(state);
        if new {
            tracing::warn!(target: "tollgate::audit", error = why, "the journal's archive takes nothing");
        }
    }
}

#[cfg(test)]
mod tests;
