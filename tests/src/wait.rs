//! Waiting with a deadline. Never waits without one, and says what it waited for.

use std::time::{Duration, Instant};

/// The patience of the tests with a busy machine.
pub const LONG: Duration = Duration::from_secs(20);

/// A moment after which "nothing more comes" is believed.
pub const QUIET: Duration = Duration::from_millis(300);

/// Polls until `done` says yes; panics with `what` after [`LONG`].
pub fn until(what: &str, done: impl FnMut() -> bool) {
    within(LONG, what, done);
}

/// Polls until `done` says yes; panics with `what` after `limit`.
pub fn within(limit: Duration, what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !done() {
        assert!(Instant::now() < end, "still waiting after {limit:?} for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process with this id exists and is not a zombie.
pub fn alive(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => !matches!(stat.rsplit(')').next().and_then(|s| s.trim().chars().next()), Some('Z' | 'X')),
        Err(_) => false,
    }
}
