//! What callers and the writer's thread share: the bounded queue, the chain's end, and who drains the one into the
//! other. A caller never waits for another's lock: whoever holds the chain's end looks at the queue again before it
//! goes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::head::{Head, Item, MAX_RECORDS};
use super::sealer::Sealer;
use super::slot::{Places, Slot, Ticket};
use super::thread::{SIGN_NS, own};
use super::{Command, Durability, Options, Stats};
use crate::clock::Clock;
use crate::entry::Entry;
use crate::error::Unavailable;

/// Bytes that may be written without being synced; more waits in the queue.
const MAX_UNSYNCED: u64 = 32 << 20;
/// Places of the queue that are taken when records wait for each other: a call has one or two.
const BUSY: usize = 16;
/// Reasons whose refusals are counted; more are counted as one.
const MAX_REASONS: usize = 64;

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) items: VecDeque<Item>,
    commands: Vec<Command>,
    counts: BTreeMap<&'static str, u64>,
    dirty: bool,
    stop: bool,
    /// Why nothing more is taken.
    ended: Option<Unavailable>,
}

/// What is wrong now: with writing, and with what follows a sync.
#[derive(Default)]
struct Faults {
    write: Option<String>,
    seal: Option<String>,
}

pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) queue: Mutex<Queue>,
    work: Condvar,
    pub(crate) places: Places,
    pub(crate) head: Mutex<Head>,
    /// Taken before the head, and by callers only when nobody has it.
    pub(crate) sealer: Mutex<Sealer>,
    pub(crate) written: AtomicU64,
    pub(crate) synced: AtomicU64,
    /// How long the last sync took, in nanoseconds; at first nobody knows.
    pub(crate) sync_took: AtomicU64,
    signed: AtomicU64,
    signed_at: AtomicU64,
    faults: Mutex<Faults>,
    /// The last write failed.
    failing: AtomicBool,
    /// Why the journal is lost, as whoever did the thread's work found. Set and read with the sealer locked, so that
    /// nobody syncs after a sync that failed.
    pub(crate) broken: Mutex<Option<String>>,
    last: Mutex<Option<Arc<str>>>,
}

impl Shared {
    pub(crate) fn new(options: Options, head: Head, sealer: Sealer) -> Shared {
        let clock = options.clock.clone();
        Shared {
            places: Places::new(options.queue),
            written: AtomicU64::new(head.seq),
            synced: AtomicU64::new(head.seq),
            sync_took: AtomicU64::new(u64::MAX),
            signed: AtomicU64::new(0),
            signed_at: AtomicU64::new(clock.mono_ns()),
            faults: Mutex::default(),
            failing: AtomicBool::new(false),
            broken: Mutex::default(),
            last: Mutex::new(None),
            queue: Mutex::new(Queue::default()),
            work: Condvar::new(),
            head: Mutex::new(head),
            sealer: Mutex::new(sealer),
            clock,
            options,
        }
    }

    /// A failpoint: tests end the process here.
    pub(crate) fn at(&self, point: &'static str) {
        if let Some(hook) = &self.options.hook {
            hook(point);
        }
    }

    /// Queues a record whose place was taken. The place goes back when the record leaves the queue, or now.
    pub(crate) fn push(&self, item: Item) -> Result<(), Unavailable> {
        let mut queue = self.queue.lock();
        if let Some(why) = &queue.ended {
            let why = why.clone();
            drop(queue);
            self.places.give(usize::from(item.place));
            item.slot.complete(Err(why.clone()));
            return Err(why);
        }
        queue.items.push_back(item);
        // `strict`: who pushed sees to it.
        if self.options.durability == Durability::Buffered {
            self.wake(&mut queue);
        }
        Ok(())
    }

    /// Wakes the thread for what is queued.
    pub(crate) fn poke(&self) {
        self.wake(&mut self.queue.lock());
    }

    fn wake(&self, queue: &mut Queue) {
        if !std::mem::replace(&mut queue.dirty, true) {
            self.work.notify_one();
        }
    }

    /// Queues a record of the journal's own.
    pub(crate) fn push_own(&self, entry: Entry) {
        self.queue.lock().items.push_back(own(entry));
    }

    pub(crate) fn command<T>(
        &self,
        make: impl FnOnce(Arc<Slot<T>>) -> Command,
    ) -> Result<Ticket<T>, Unavailable> {
        let slot = Slot::new();
        let mut queue = self.queue.lock();
        if let Some(why) = &queue.ended {
            return Err(why.clone());
        }
        queue.commands.push(make(slot.clone()));
        self.wake(&mut queue);
        Ok(Ticket::new(slot))
    }

    /// Counts a refusal that gets no record of its own.
    pub(crate) fn count(&self, reason: &'static str) {
        let mut queue = self.queue.lock();
        let full = queue.counts.len() >= MAX_REASONS && !queue.counts.contains_key(reason);
        *queue.counts.entry(if full { "other" } else { reason }).or_default() += 1;
    }

    /// Whether so many calls are under way that others are likely to come in the same moment.
    pub(crate) fn busy(&self) -> bool {
        self.taken() >= BUSY
    }

    /// Whether the thread has more to do than to sync: it was woken, it is to end, or a checkpoint is due.
    pub(crate) fn due(&self) -> bool {
        let since = self.clock.mono_ns().saturating_sub(self.signed_at.load(Ordering::Acquire));
        let queue = self.queue.lock();
        since >= SIGN_NS || queue.dirty || queue.stop
    }

    /// Places of the queue that are taken.
    pub(crate) fn taken(&self) -> usize {
        self.options.queue.saturating_sub(self.places.free())
    }

    pub(crate) fn take_counts(&self) -> BTreeMap<&'static str, u64> {
        std::mem::take(&mut self.queue.lock().counts)
    }

    pub(crate) fn has_work(&self) -> bool {
        !self.queue.lock().items.is_empty()
    }

    /// Writes what is queued, if nobody else is at it. `strict`: the thread's work alone.
    pub(crate) fn drain(&self) {
        while self.has_work() {
            let Some(mut head) = self.head.try_lock() else { return };
            // A lost file is the thread's to report: it finds the same.
            if self.drain_into(&mut head) != Ok(true) {
                return;
            }
        }
    }

    /// Looks at the chain's end, and then writes for those who found it locked meanwhile.
    pub(crate) fn with_head<R>(&self, look: impl FnOnce(&mut Head) -> R) -> R {
        let result = look(&mut self.head.lock());
        if self.options.durability == Durability::Buffered {
            self.drain();
        }
        result
    }

    /// Writes everything that is queued now; says whether that went well.
    pub(crate) fn drain_blocking(&self) -> Result<bool, String> {
        self.drain_into(&mut self.head.lock())
    }

    /// An error is a file whose end isn't known any more.
    fn drain_into(&self, head: &mut Head) -> Result<bool, String> {
        while head.unsynced.bytes < MAX_UNSYNCED {
            let mut batch: VecDeque<Item> = {
                let mut queue = self.queue.lock();
                let most = queue.items.len().min(MAX_RECORDS);
                queue.items.drain(..most).collect()
            };
            if batch.is_empty() {
                break;
            }
            let places = batch.iter().filter(|i| i.place).count();
            self.at("write");
            let result = head.write(&mut batch);
            self.at("written");
            self.written.store(head.seq, Ordering::Release);
            let (kept, error) = match result {
                Ok(()) => (VecDeque::new(), None),
                Err(refused) => (refused.kept.into(), Some(refused.error)),
            };
            let left = kept.iter().chain(&batch).filter(|i| i.place).count();
            self.places.give(places - left);
            self.requeue(kept, batch);
            match error {
                None if self.failing.swap(false, Ordering::AcqRel) => {
                    self.faulty(|faults| faults.write = None)
                }
                None => {}
                Some(Unavailable::Poisoned(why)) => return Err(why),
                Some(error) => {
                    self.refuse_waiting(&error);
                    return Ok(false);
                }
            }
        }
        Ok(head.unsynced.bytes < MAX_UNSYNCED)
    }

    fn requeue(&self, kept: VecDeque<Item>, rest: VecDeque<Item>) {
        if kept.is_empty() && rest.is_empty() {
            return;
        }
        let mut queue = self.queue.lock();
        for item in kept.into_iter().chain(rest).rev() {
            queue.items.push_front(item);
        }
    }

    /// After a failed write: who can be refused is refused at once instead of waiting for space.
    fn refuse_waiting(&self, error: &Unavailable) {
        let refused: VecDeque<Item> = {
            let mut queue = self.queue.lock();
            let (kept, refused) = std::mem::take(&mut queue.items).into_iter().partition(|i| i.keep);
            queue.items = kept;
            queue.items.iter().for_each(|item| item.slot.keep());
            refused
        };
        self.failing.store(true, Ordering::Release);
        self.faulty(|faults| faults.write = Some(error.to_string()));
        self.places.give(refused.iter().filter(|i| i.place).count());
        refused.iter().for_each(|i| i.slot.complete(Err(error.clone())));
    }

    /// Sleeps until there is work, at most `most`; then for `interval`, until a sync is worth its price.
    pub(crate) fn rest(&self, interval: Duration, most: Duration) -> (bool, Vec<Command>) {
        let mut queue = self.queue.lock();
        if !queue.dirty && !queue.stop && queue.commands.is_empty() {
            self.work.wait_for(&mut queue, most);
        }
        if queue.dirty && !queue.stop && queue.commands.is_empty() && !interval.is_zero() {
            self.work.wait_for(&mut queue, interval);
        }
        queue.dirty = false;
        (queue.stop, std::mem::take(&mut queue.commands))
    }

    pub(crate) fn stop(&self) {
        let mut queue = self.queue.lock();
        queue.stop = true;
        self.work.notify_one();
    }

    /// Takes nothing more; who waits is told why.
    /// Says that the thread does not go on.
    pub(crate) fn end(&self, why: &Unavailable) -> bool {
        let (items, commands) = {
            let mut queue = self.queue.lock();
            queue.ended = Some(why.clone());
            (std::mem::take(&mut queue.items), std::mem::take(&mut queue.commands))
        };
        self.places.give(items.iter().filter(|i| i.place).count());
        items.iter().for_each(|i| i.slot.complete(Err(why.clone())));
        commands.into_iter().for_each(|c| c.refuse(why));
        let acks = std::mem::take(&mut self.head.lock().unsynced.acks);
        acks.into_iter().for_each(|(slot, _)| slot.complete(Err(why.clone())));
        false
    }

    pub(crate) fn poison(&self, why: &str) -> bool {
        self.faulty(|faults| faults.seal = Some(why.to_owned()));
        self.end(&Unavailable::Poisoned(why.to_owned()));
        if let Some(fatal) = &self.options.on_fatal {
            fatal(why);
        }
        false
    }

    /// What is wrong now with what follows a sync; the thread goes on.
    pub(crate) fn note_fault(&self, why: Option<String>) -> bool {
        self.faulty(|faults| faults.seal = why);
        true
    }

    /// Changes what is wrong, and tells when that begins and ends.
    fn faulty(&self, change: impl FnOnce(&mut Faults)) {
        let mut faults = self.faults.lock();
        let before = faults.write.is_some() || faults.seal.is_some();
        change(&mut faults);
        let now = faults.write.as_deref().or(faults.seal.as_deref());
        if before != now.is_some() {
            self.options.watch.iter().for_each(|w| w.fault(now));
        }
    }

    /// Whether the last write failed: then nothing is queued that nobody waits for.
    pub(crate) fn failing(&self) -> bool {
        self.failing.load(Ordering::Acquire)
    }

    pub(crate) fn publish(&self, sealer: &Sealer) {
        self.synced.store(sealer.range.size(), Ordering::Release);
        if self.signed.swap(sealer.signed, Ordering::AcqRel) != sealer.signed {
            self.signed_at.store(self.clock.mono_ns(), Ordering::Release);
            (*self.last.lock()).clone_from(&sealer.last);
        }
    }

    pub(crate) fn last_checkpoint(&self) -> Option<Arc<str>> {
        self.last.lock().clone()
    }

    pub(crate) fn stats(&self) -> Stats {
        let records = self.written.load(Ordering::Acquire);
        let signed = self.signed.load(Ordering::Acquire);
        let since = self.clock.mono_ns().saturating_sub(self.signed_at.load(Ordering::Acquire));
        Stats {
            records,
            synced: self.synced.load(Ordering::Acquire),
            signed,
            checkpoint_lag_ns: if signed < records { since } else { 0 },
            queued: self.queue.lock().items.len(),
            places: self.places.free(),
            fault: {
                let faults = self.faults.lock();
                faults.write.clone().or_else(|| faults.seal.clone())
            },
        }
    }
}
