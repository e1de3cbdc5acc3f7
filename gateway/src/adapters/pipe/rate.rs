//! A token bucket. It only says yes or no; it never waits and reads no clock.

use std::time::Duration;

use tokio::time::Instant;

/// Allows `burst` takes at once and `rate` a second after that.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    rate: f64,
    burst: f64,
    level: f64,
    at: Instant,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(rate: u32, burst: u32, now: Instant) -> Bucket {
        let burst = f64::from(burst);
        Bucket { rate: f64::from(rate), burst, level: burst, at: now }
    }

    /// Takes one token, if there is one. A `now` before the last one counts as the last one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let passed = now.checked_duration_since(self.at).unwrap_or(Duration::ZERO);
        self.at = self.at.max(now);
        self.level = (self.level + passed.as_secs_f64() * self.rate).min(self.burst);
        if self.level < 1.0 {
            return false;
        }
        self.level -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u13_a_bucket_gives_its_burst_then_its_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10, 3, start);
        assert_eq!((0..5).filter(|_| bucket.take(start)).count(), 3);
        assert!(!bucket.take(start + Duration::from_millis(50)));
        assert!(bucket.take(start + Duration::from_millis(150)));
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..9).filter(|_| bucket.take(later)).count(), 3, "never more than the burst");
    }

    #[test]
    fn u13_a_clock_that_steps_back_gives_nothing() {
        let start = Instant::now() + Duration::from_secs(60);
        let mut bucket = Bucket::new(10, 1, start);
        assert!(bucket.take(start));
        assert!(!bucket.take(start - Duration::from_secs(30)));
        assert!(!bucket.take(start));
    }
}
