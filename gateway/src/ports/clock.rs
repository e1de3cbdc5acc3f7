//! The port to the wall clock. Deadlines use the runtime's monotonic clock instead.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since 1970 UTC; nothing for what was before.
pub fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whole seconds since 1970 UTC, as policies count them.
pub fn unix_seconds(time: SystemTime) -> i64 {
    i64::try_from(since_epoch(time).as_secs()).unwrap_or(i64::MAX)
}

/// What time it is.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> SystemTime;
}

/// The system's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}
