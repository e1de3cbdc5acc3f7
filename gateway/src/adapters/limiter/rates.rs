//! The store of rates: for each name the time until which it has spent its calls (GCRA, by `governor`). Sharded and
//! bounded. A name that is made room with leaves its debt to whoever comes new to its shard, so that crowding others
//! out gives nobody calls back.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::RateLimiter;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use parking_lot::Mutex;
use policies::rate::Quota;

const SHARDS: usize = 16;
/// Names of one shard; with their text about 150 bytes each.
const MAX_NAMES: usize = 16_384;

/// All rates of one process. Times are nanoseconds since its start.
#[derive(Default)]
pub(super) struct Rates {
    shards: [Mutex<Shard>; SHARDS],
    hasher: std::hash::RandomState,
}

#[derive(Default)]
struct Shard {
    /// The theoretical arrival time of the next call.
    names: HashMap<Box<str>, u64>,
    /// No name that isn't here has an arrival time after this.
    floor: u64,
}

impl Rates {
    /// Spends one call of a name's quota.
    ///
    /// # Errors
    /// How long to wait.
    pub(super) fn spend(&self, name: &str, quota: &Quota, now: u64) -> Result<(), Duration> {
        let interval = quota.interval();
        // The whole burst must fit into the clock's range.
        let most = u64::MAX / 8 / u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1);
        let burst = quota.burst.min(u32::try_from(most).unwrap_or(u32::MAX)).max(1);
        let (Some(rate), Some(burst)) = (governor::Quota::with_period(interval), NonZeroU32::new(burst))
        else {
            return Ok(());
        };
        let state = Named { rates: self, now };
        let limiter: RateLimiter<Box<str>, _, _, NoOpMiddleware<Nanos>> =
            RateLimiter::new(rate.allow_burst(burst), state, Frozen { now, begun: Cell::new(false) });
        let spent = limiter.check_key(&name.into());
        spent.map_err(|until| until.wait_time_from(now.into()))
    }

    fn shard(&self, name: &str) -> Option<&Mutex<Shard>> {
        let hash = usize::try_from(self.hasher.hash_one(name) >> 48).unwrap_or(0);
        self.shards.get(hash % SHARDS)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().names.len()).sum()
    }
}

/// The store at one moment.
struct Named<'a> {
    rates: &'a Rates,
    now: u64,
}

impl StateStore for Named<'_> {
    type Key = Box<str>;

    fn measure_and_replace<T, F, E>(&self, name: &Box<str>, decide: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let Some(shard) = self.rates.shard(name) else { return decide(None).map(|(done, _)| done) };
        let mut shard = shard.lock();
        if let Some(at) = shard.names.get_mut(name) {
            let (done, next) = decide(Some((*at).into()))?;
            *at = next.into();
            return Ok(done);
        }
        let owed = Some(shard.floor).filter(|floor| *floor > self.now).map(Nanos::from);
        let (done, next) = decide(owed)?;
        shard.make_room(self.now);
        shard.names.insert(name.clone(), next.into());
        Ok(done)
    }
}

impl Shard {
    /// Forgets what is as good as new; if that is not enough, the eighth with the least debt, whose most becomes the
    /// floor.
    fn make_room(&mut self, now: u64) {
        if self.names.len() < MAX_NAMES {
            return;
        }
        self.names.retain(|_, at| *at > now);
        let surplus = self.names.len().saturating_sub(MAX_NAMES - MAX_NAMES / 8);
        if surplus == 0 {
            return;
        }
        let mut debts: Vec<u64> = self.names.values().copied().collect();
        let (_, least, _) = debts.select_nth_unstable(surplus - 1);
        let least = *least;
        self.floor = self.floor.max(least);
        self.names.retain(|_, at| *at > least);
    }
}

/// The moment of one decision. The first reading is taken as the start of time, which is 0 for all.
struct Frozen {
    now: u64,
    begun: Cell<bool>,
}

impl Clock for Frozen {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        if self.begun.replace(true) { self.now.into() } else { 0.into() }
    }
}

impl Clone for Frozen {
    fn clone(&self) -> Frozen {
        Frozen { now: self.now, begun: self.begun.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn quota(text: &str) -> Quota {
        Quota::parse(text, None).unwrap()
    }

    #[test]
    fn a_burst_and_then_one_call_for_each_interval() {
        let (rates, quota) = (Rates::default(), quota("60/min"));
        for _ in 0..60 {
            assert_eq!(rates.spend("a", &quota, 0), Ok(()));
        }
        assert_eq!(rates.spend("a", &quota, 0), Err(Duration::from_secs(1)));
        assert_eq!(rates.spend("b", &quota, 0), Ok(()), "another's");
        assert_eq!(rates.spend("a", &quota, SECOND / 2), Err(Duration::from_millis(500)));
        assert_eq!(rates.spend("a", &quota, SECOND), Ok(()));
        assert!(rates.spend("a", &quota, SECOND).is_err());
    }

    #[test]
    fn l6_a_million_names_are_bounded_and_reset_no_offender() {
        let (rates, slow) = (Rates::default(), quota("2/h"));
        for _ in 0..2 {
            assert_eq!(rates.spend("offender", &slow, 0), Ok(()));
        }
        for n in 0..1_000_000_u64 {
            rates.spend(&format!("n{n}"), &slow, 0).ok();
            assert!(n % 50_000 != 0 || rates.spend("offender", &slow, 0).is_err(), "after {n}");
        }
        assert!(rates.len() <= SHARDS * MAX_NAMES);
        assert!(rates.spend("offender", &slow, SECOND).is_err());
        // Nobody is shut out for longer than the debt lasts.
        assert_eq!(rates.spend("late", &slow, 3600 * SECOND), Ok(()));
    }

    #[test]
    fn the_largest_quota_does_not_overflow() {
        let rates = Rates::default();
        let huge = Quota { calls: 1, per: Duration::from_secs(3600), burst: u32::MAX };
        for n in 0..100 {
            assert_eq!(rates.spend("a", &huge, n), Ok(()));
        }
    }
}
