//! When a child process may be started, and how many at once. Pure arithmetic and counting: starts nothing, waits
//! for nothing, reads no clock.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::ports::upstream::{Fault, FaultKind};

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(30);
/// A process that ran for so long was a good one: the next failure counts as the first.
const GOOD_RUN: Duration = Duration::from_secs(60);

/// The delay before a restart: 0.5 s, doubled at each failure in a row up to 30 s, plus up to a quarter of it so
/// that many servers do not start in step. Forgotten after 60 s of good running.
#[derive(Clone, Debug)]
pub struct Backoff {
    failures: u32,
    seed: u64,
    ready_at: Option<Instant>,
}

impl Backoff {
    /// No failure yet, with a random jitter.
    pub fn new() -> Backoff {
        Backoff::with_seed(RandomState::new().hash_one(0_u8))
    }

    /// No failure yet, with a jitter that follows from `seed`.
    pub fn with_seed(seed: u64) -> Backoff {
        Backoff { failures: 0, seed: seed | 1, ready_at: None }
    }

    /// Notes at `now` an end that nobody had asked for (or a start or handshake that failed: `ran` zero), and
    /// returns the delay before the next start.
    pub fn failed(&mut self, ran: Duration, now: Instant) -> Duration {
        if ran >= GOOD_RUN {
            self.failures = 0;
        }
        let base = FIRST.saturating_mul(1 << self.failures.min(6)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let delay = base + base.mul_f64(0.25 * self.fraction());
        self.ready_at = now.checked_add(delay);
        delay
    }

    /// What is left of the delay, None when a start is allowed.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        self.ready_at?.checked_duration_since(now).filter(|left| !left.is_zero())
    }

    /// Whether the next failure counts as one more in a row: no good run fits in since the last.
    pub fn is_fresh(&self, now: Instant) -> bool {
        self.ready_at.is_some_and(|at| now < at + GOOD_RUN)
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The next number in 0..1 (xorshift: it spreads load, nobody needs to be unable to guess it).
    fn fraction(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        f64::from(u32::try_from(self.seed >> 32).unwrap_or_default()) / f64::from(u32::MAX)
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Backoff::new()
    }
}

/// The cap on processes over all servers.
#[derive(Debug)]
pub struct Slots {
    free: Arc<Semaphore>,
    max: usize,
}

impl Slots {
    /// At most `max` processes at once.
    pub fn new(max: usize) -> Slots {
        let max = max.min(Semaphore::MAX_PERMITS);
        Slots { free: Arc::new(Semaphore::new(max)), max }
    }

    /// A server's own cap below this one.
    pub fn server(self: &Arc<Self>, server: &str, max: usize) -> ServerSlots {
        ServerSlots { all: self.clone(), own: Slots::new(max), server: server.to_owned() }
    }

    /// Processes now.
    pub fn used(&self) -> usize {
        self.max.saturating_sub(self.free.available_permits())
    }
}

/// One server's cap.
#[derive(Debug)]
pub struct ServerSlots {
    all: Arc<Slots>,
    own: Slots,
    server: String,
}

impl ServerSlots {
    /// Takes a place for one process, or says at once which cap is reached ([`FaultKind::Unreachable`]).
    pub fn take(&self) -> Result<Slot, Fault> {
        let full = |text: String| Fault::early(FaultKind::Unreachable, text);
        let own = self.own.free.clone().try_acquire_owned().map_err(|_| {
            full(format!("server `{}` runs {} processes already (max_processes)", self.server, self.own.max))
        })?;
        let all = self.all.free.clone().try_acquire_owned().map_err(|_| {
            full(format!(
                "no process for server `{}`: the gateway runs {} already",
                self.server, self.all.max
            ))
        })?;
        Ok(Slot { _own: own, _all: all })
    }

    /// This server's processes now.
    pub fn used(&self) -> usize {
        self.own.used()
    }
}

/// The place of one process; dropping it gives it back.
#[derive(Debug)]
pub struct Slot {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_delays_double_from_half_a_second_to_thirty() {
        let now = Instant::now();
        let mut backoff = Backoff::with_seed(7);
        for (step, base) in [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0].into_iter().enumerate() {
            let delay = backoff.failed(Duration::from_secs(59), now).as_secs_f64();
            assert!((base..=base * 1.25).contains(&delay), "step {step}: {delay} of {base}");
        }
        assert_eq!(backoff.failures(), 9);
        assert!(backoff.failed(Duration::from_secs(60), now).as_secs_f64() <= 0.625, "a good run forgets");
    }

    #[test]
    fn a_start_is_allowed_once_the_delay_is_over() {
        let now = Instant::now();
        let mut backoff = Backoff::new();
        assert_eq!(backoff.left(now), None);
        let delay = backoff.failed(Duration::ZERO, now);
        assert_eq!(backoff.left(now), Some(delay));
        assert!(backoff.is_fresh(now + Duration::from_secs(59)));
        assert!(!backoff.is_fresh(now + delay + Duration::from_secs(60)));
        assert_eq!(backoff.left(now + delay), None);
        assert_eq!(backoff.left(now + Duration::from_secs(3600)), None);
    }

    #[test]
    fn the_jitter_differs_between_seeds() {
        let now = Instant::now();
        let delay = |seed| Backoff::with_seed(seed).failed(Duration::ZERO, now);
        assert_ne!(delay(0x1234_5678_9abc), delay(0xfedc_ba98_7654));
        assert_eq!(delay(42), delay(42));
    }

    #[test]
    fn a_full_cap_is_named_and_a_place_comes_back() {
        let slots = Arc::new(Slots::new(2));
        let (a, b) = (slots.server("a", 1), slots.server("b", 9));
        let first = a.take().unwrap();
        let fault = a.take().unwrap_err();
        assert!(fault.detail.contains("server `a` runs 1 processes"), "{fault}");
        assert!(!fault.dispatched);
        let _second = b.take().unwrap();
        let fault = b.take().unwrap_err();
        assert!(fault.detail.contains("the gateway runs 2"), "{fault}");
        assert_eq!((slots.used(), a.used(), b.used()), (2, 1, 1), "a refused take keeps nothing");
        drop(first);
        assert_eq!((slots.used(), a.used()), (1, 0));
        assert!(b.take().is_ok());
    }
}
