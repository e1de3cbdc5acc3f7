//! What is kept for owners: HTTP sessions, child processes, old SSE connections. Two owners never share an entry; the
//! pool is bounded by number and by idle time. Closing is the entry's own business, when its last user lets it go.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::flight::Flight;
use super::handshake::Failed;
use crate::adapters::child::Backoff;
use crate::digest::mixed;
use crate::ports::upstream::{Client, SessionKey};

/// Entries kept per server.
const ENTRIES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1023);

/// Whose entry, and for which capabilities: a list depends on them, and so may anything else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Key {
    /// The owner; none: everybody.
    pub(super) owner: Option<SessionKey>,
    variant: [u8; 32],
}

impl Key {
    /// For calls of `client`.
    pub(super) fn new(owner: SessionKey, client: &Client) -> Key {
        Key { owner: Some(owner), variant: client.variant }
    }

    /// The same for one caller's credential alone.
    pub(super) fn of(self, caller: [u8; 32]) -> Key {
        Key { variant: mixed(self.variant, caller), ..self }
    }

    /// Whether lists are read through this entry.
    pub(super) fn is_for_lists(&self) -> bool {
        matches!(self.owner, None | Some(SessionKey::Catalog))
    }

    /// For what everybody shares.
    pub(super) fn shared() -> Key {
        Key { owner: None, variant: [0; 32] }
    }
}

/// What a pool keeps.
pub(super) trait Entry: Send + Sync + 'static {
    /// Whether it can still serve.
    fn usable(&self) -> bool;
    /// It is about to serve.
    fn touch(&self);
    /// Whether it announces what somebody wants to hear: then it stays, although nobody calls.
    fn is_heard(&self) -> bool;
    /// For how long it has served nobody.
    fn idle(&self, now: Instant) -> Duration;
}

/// The place of one entry.
pub(super) struct Slot<T> {
    ready: ArcSwapOption<T>,
    /// After an entry that ended by itself: no new one for a while.
    pub(super) pause: Mutex<Backoff>,
    /// The attempt to fill it.
    pub(super) flight: Flight<Result<Arc<T>, Failed>>,
}

impl<T: Entry> Slot<T> {
    /// The entry, if it can still serve.
    pub(super) fn ready(&self) -> Option<Arc<T>> {
        let entry = self.ready.load_full().filter(|entry| entry.usable())?;
        entry.touch();
        Some(entry)
    }

    /// Whether an entry was here that may no longer serve.
    pub(super) fn was_filled(&self) -> bool {
        self.ready.load().is_some()
    }

    /// Puts a new entry in place.
    pub(super) fn fill(&self, entry: T) -> Arc<T> {
        let entry = Arc::new(entry);
        self.ready.store(Some(Arc::clone(&entry)));
        entry
    }

    /// Whether lists were read through an entry that ended by itself: its successor must be known as one, however
    /// late it comes, since it may have other lists.
    fn is_missed(&self, key: &Key) -> bool {
        key.is_for_lists() && self.ready.load().as_ref().is_some_and(|entry| !entry.usable())
    }

    fn disused(&self, now: Instant, limit: Duration) -> bool {
        match self.ready.load_full() {
            Some(entry) if !entry.usable() => !self.is_slowed(now),
            // Two references: the slot's and this one. A call under way holds one more.
            Some(entry) => Arc::strong_count(&entry) <= 2 && entry.idle(now) >= limit && !entry.is_heard(),
            None => !self.flight.is_flying() && !self.is_slowed(now),
        }
    }

    /// The count of its failures in a row is all that slows a process down that ends again and again.
    fn is_slowed(&self, now: Instant) -> bool {
        self.pause.lock().is_fresh(now)
    }
}

/// The entries of one server.
pub(super) struct Pool<T> {
    slots: Mutex<LruCache<Key, Arc<Slot<T>>>>,
    idle: Duration,
    /// Whether somebody looks after idle entries already.
    swept: AtomicBool,
}

impl<T: Entry> Pool<T> {
    /// An empty pool; what served nobody for `idle` leaves it.
    pub(super) fn new(idle: Duration) -> Arc<Pool<T>> {
        Arc::new(Pool { slots: Mutex::new(LruCache::new(ENTRIES)), idle, swept: AtomicBool::new(false) })
    }

    /// The owner's slot; the one that was not asked for the longest time leaves when there are too many.
    pub(super) fn slot(self: &Arc<Self>, key: Key) -> Arc<Slot<T>> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(&key) {
            return Arc::clone(slot);
        }
        let slot = Arc::new(Slot {
            ready: ArcSwapOption::empty(),
            pause: Mutex::new(Backoff::new()),
            flight: Flight::new(),
        });
        let evicted = slots.push(key, Arc::clone(&slot));
        drop(slots);
        drop(evicted);
        if !self.swept.swap(true, Ordering::Relaxed) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        slot
    }

    /// An entry that can serve, without counting as a use of it.
    pub(super) fn peek(&self, key: &Key) -> Option<Arc<T>> {
        self.slots.lock().peek(key)?.ready.load_full().filter(|entry| entry.usable())
    }

    /// Entries that can serve.
    pub(super) fn len(&self) -> usize {
        let usable = |slot: &Slot<T>| slot.ready.load().as_ref().is_some_and(|entry| entry.usable());
        self.slots.lock().iter().filter(|(_, slot)| usable(slot)).count()
    }

    /// Takes out the entries that served nobody for `limit`. A place whose pause matters stays.
    pub(super) fn take_disused(&self, limit: Duration) -> Vec<Arc<T>> {
        let now = Instant::now();
        let mut slots = self.slots.lock();
        let keys: Vec<Key> = slots
            .iter()
            .filter(|(key, slot)| slot.disused(now, limit) && !slot.is_missed(key))
            .map(|(key, _)| *key)
            .collect();
        let mut taken = Vec::new();
        for key in keys {
            let slot = match slots.peek(&key) {
                Some(slot) if slot.is_slowed(now) => Some(Arc::clone(slot)),
                _ => slots.pop(&key),
            };
            taken.extend(slot.and_then(|slot| slot.ready.swap(None)));
        }
        taken
    }

    /// Takes out the one entry that nobody uses now and that was not used for the longest time.
    pub(super) fn take_oldest(&self) -> Option<Arc<T>> {
        let now = Instant::now();
        let slots = self.slots.lock();
        let free = |slot: &Slot<T>| slot.ready.load().is_some() && slot.disused(now, Duration::ZERO);
        // The cache iterates from the most recently used.
        let key = slots.iter().rev().find(|(_, slot)| free(slot)).map(|(key, _)| *key)?;
        // The place stays, for its pause; the sweep takes it in time.
        slots.peek(&key)?.ready.swap(None)
    }

    /// Takes out the entries of one owner, or all.
    pub(super) fn take(&self, owner: Option<&SessionKey>) -> Vec<Arc<T>> {
        let mut slots = self.slots.lock();
        let keys: Vec<Key> = slots
            .iter()
            .map(|(key, _)| *key)
            .filter(|key| owner.is_none_or(|owner| key.owner.as_ref() == Some(owner)))
            .collect();
        keys.iter().filter_map(|key| slots.pop(key)?.ready.swap(None)).collect()
    }
}

/// Lets go of what nobody used for long, for as long as the pool lives.
async fn sweep<T: Entry>(pool: Weak<Pool<T>>) {
    loop {
        let Some(every) = pool.upgrade().map(|pool| pool.idle / 4) else { return };
        tokio::time::sleep(every.clamp(Duration::from_millis(50), Duration::from_secs(30))).await;
        let Some(pool) = pool.upgrade() else { return };
        drop(pool.take_disused(pool.idle));
    }
}
