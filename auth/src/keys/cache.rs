//! What is known of one issuer's keys, and when to fetch them: a state machine that fetches nothing itself. All ages are
//! monotonic, so that a jump of the wall clock neither revives old keys nor drops good ones.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;

use super::{Key, KeySet, MAX_KID};

/// Unknown key ids that are remembered.
const MAX_UNKNOWN: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);
/// Unknown key ids that wait for one fetch.
const MAX_AWAITED: usize = 256;

/// The times of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Age of a set from which it is fetched again.
    pub refresh: Duration,
    /// Shortest time from one fetch's start to the next one's, however many unknown key ids ask for it.
    pub cooldown: Duration,
    /// How long after [`Timing::refresh`] the old set still serves while fetches fail.
    pub stale: Duration,
    /// How long a key id that a fetch didn't bring is not asked for again.
    pub unknown: Duration,
    /// How long a fetch may take: one that hasn't ended by then never will.
    pub flight: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            refresh: Duration::from_secs(10 * 60),
            cooldown: Duration::from_secs(30),
            stale: Duration::from_secs(60 * 60),
            unknown: Duration::from_secs(5 * 60),
            flight: Duration::from_secs(30),
        }
    }
}

/// What a look-up found.
#[derive(Clone, Debug)]
pub enum Found {
    /// The key.
    Key(Arc<Key>),
    /// Not known before the fetch under way has ended: look up again then.
    Wait,
    /// The issuer has no such key, or one that can't be used: refuse the token.
    Unknown,
    /// Not in the set, which may be older than the key, and none may be fetched yet: ask the caller to come again. A
    /// refusal would be wrong for good tokens of a new key, and whoever invents key ids could bring it about.
    Held,
    /// The issuer's keys are not known, or too old to be used: refuse the token.
    Closed,
}

/// The answer of a look-up.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// What was found.
    pub found: Found,
    /// Start one fetch now, and tell its end by [`KeyCache::fetched`]. No other look-up says so before that.
    pub fetch: bool,
}

/// The state of a cache, for those who look after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Usable keys.
    pub keys: usize,
    /// Keys of the set that can't be used.
    pub dropped: usize,
    /// Age of the set; none before the first.
    pub age: Option<Duration>,
    /// Fetches that failed since the last that didn't.
    pub failures: u32,
    /// Time since the first of these.
    pub failing: Option<Duration>,
    /// Whether tokens can be verified at all.
    pub usable: bool,
}

/// The keys of one issuer.
#[derive(Debug)]
pub struct KeyCache {
    timing: Timing,
    set: KeySet,
    fetched: Option<Duration>,
    started: Option<Duration>,
    flying: bool,
    failures: u32,
    failing: Option<Duration>,
    awaited: HashSet<String>,
    unknown: LruCache<String, Duration>,
}

impl KeyCache {
    /// An empty cache.
    pub fn new(timing: Timing) -> KeyCache {
        KeyCache {
            timing,
            set: KeySet::default(),
            fetched: None,
            started: None,
            flying: false,
            failures: 0,
            failing: None,
            awaited: HashSet::new(),
            unknown: LruCache::new(MAX_UNKNOWN),
        }
    }

    /// Looks up a key. `now` is monotonic, since any fixed moment.
    pub fn lookup(&mut self, kid: &str, now: Duration) -> Lookup {
        if kid.len() > MAX_KID {
            return Lookup { found: Found::Unknown, fetch: false };
        }
        let usable = self.usable(now);
        let fresh = self.age(now).is_some_and(|age| age < self.timing.refresh);
        if let Some(key) = self.set.get(kid).filter(|_| usable).cloned() {
            let fetch = !fresh && self.start(now);
            return Lookup { found: Found::Key(key), fetch };
        }
        // An id of a key that can't be used is as good as none; a mended key comes with the next set.
        let void = self.set.is_unusable(kid) || self.unknown.get(kid).is_some_and(|until| now < *until);
        if usable && void {
            let fetch = !fresh && self.start(now);
            return Lookup { found: Found::Unknown, fetch };
        }
        let fetch = self.start(now);
        let found = match (fetch || self.in_flight(now), usable) {
            (true, _) => {
                self.await_kid(kid);
                Found::Wait
            }
            (false, true) => Found::Held,
            (false, false) => Found::Closed,
        };
        Lookup { found, fetch }
    }

    /// Whether a fetch is due even if nobody asks: before the first call, and for issuers that are rarely used. Like a
    /// look-up, says so once per fetch.
    pub fn due(&mut self, now: Duration) -> bool {
        let fresh = self.age(now).is_some_and(|age| age < self.timing.refresh);
        !fresh && self.start(now)
    }

    /// Tells how a fetch ended. A set without usable keys is an answer like any other: its issuer has revoked them all.
    /// A failure leaves the old set as it is.
    pub fn fetched(&mut self, set: Option<KeySet>, now: Duration) {
        self.flying = false;
        let awaited = std::mem::take(&mut self.awaited);
        let Some(set) = set else {
            self.failures = self.failures.saturating_add(1);
            self.failing = self.failing.or(Some(now));
            return;
        };
        let until = now.saturating_add(self.timing.unknown);
        // What was asked for and did not come, and what was there and has gone.
        let before = self.set.ids().map(str::to_owned).collect::<Vec<_>>();
        for kid in awaited.into_iter().chain(before).filter(|kid| set.get(kid).is_none()) {
            self.unknown.put(kid, until);
        }
        self.set = set;
        self.fetched = Some(now);
        self.failures = 0;
        self.failing = None;
    }

    /// The state at `now`.
    pub fn report(&self, now: Duration) -> Report {
        Report {
            keys: self.set.len(),
            dropped: self.set.dropped().len(),
            age: self.age(now),
            failures: self.failures,
            failing: self.failing.map(|at| now.saturating_sub(at)),
            usable: self.usable(now) && !self.set.is_empty(),
        }
    }

    fn age(&self, now: Duration) -> Option<Duration> {
        self.fetched.map(|at| now.saturating_sub(at))
    }

    fn usable(&self, now: Duration) -> bool {
        let longest = self.timing.refresh.saturating_add(self.timing.stale);
        self.age(now).is_some_and(|age| age < longest)
    }

    fn in_flight(&self, now: Duration) -> bool {
        self.flying && self.started.is_some_and(|at| now.saturating_sub(at) < self.timing.flight)
    }

    fn start(&mut self, now: Duration) -> bool {
        let cooled = self.started.is_none_or(|at| now.saturating_sub(at) >= self.timing.cooldown);
        let start = cooled && !self.in_flight(now);
        if start {
            self.started = Some(now);
            self.flying = true;
        }
        start
    }

    fn await_kid(&mut self, kid: &str) {
        if self.awaited.len() < MAX_AWAITED {
            self.awaited.insert(kid.to_owned());
        }
    }
}

#[cfg(test)]
mod tests;
