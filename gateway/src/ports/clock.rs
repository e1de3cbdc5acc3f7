//! The port to the wall clock. Deadlines use the runtime's monotonic clock instead.

use std::time::SystemTime;

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
