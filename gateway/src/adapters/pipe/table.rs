//! The calls in flight over one pipe: who waits for which id, and what is kept for them.
//! Holds no lock and does no I/O; ids are counted up from 1 and never given twice (J15).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp::message::Response;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::MuxEvent;
use super::rate::Bucket;
use crate::ports::upstream::{Fault, FaultKind};

/// Events that wait for one call's consumer at most.
const QUEUE: usize = 256;
/// Events of one call a second, and at once (U13).
const RATE: (u32, u32) = (200, 1_000);
/// For so long after a cancellation a shared pipe's log notifications may still be the cancelled call's, and
/// would be told to another caller.
const QUIET: Duration = Duration::from_secs(10);

/// Bytes kept for consumers over all calls.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    used: Arc<AtomicUsize>,
    limit: usize,
}

impl Budget {
    /// Nothing kept yet.
    pub(crate) fn new(limit: usize) -> Budget {
        Budget { used: Arc::default(), limit }
    }

    /// Keeps `value`, which pins `bytes`, unless that would exceed the limit.
    pub(crate) fn hold<T>(&self, value: T, bytes: usize) -> Option<Held<T>> {
        let room = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, room).ok()?;
        Some(Held { value, _room: Room { used: self.used.clone(), bytes } })
    }
}

/// A kept value; its bytes are given back when it is taken or dropped.
#[derive(Debug)]
pub(crate) struct Held<T> {
    value: T,
    _room: Room,
}

impl<T> Held<T> {
    /// The value.
    pub(crate) fn take(self) -> T {
        self.value
    }
}

#[derive(Debug)]
struct Room {
    used: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// How a call ends.
pub(crate) type End = Result<Held<Response>, Fault>;

/// The consumer's side of a call.
pub(crate) struct Inbox {
    /// Its id.
    pub(crate) id: u64,
    /// What is said before the end. Closed by the end.
    pub(crate) events: mpsc::Receiver<Held<MuxEvent>>,
    /// The end: a place of its own, so that no full queue can push it out.
    pub(crate) done: oneshot::Receiver<End>,
}

struct Slot {
    progress: bool,
    reached: f64,
    bucket: Bucket,
    events: mpsc::Sender<Held<MuxEvent>>,
    done: oneshot::Sender<End>,
}

/// What became of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answered {
    /// Given to its call.
    Taken,
    /// The call had ended already (U4).
    Late,
    /// No call ever had this id (U2).
    Unknown,
}

/// All calls of one pipe.
pub(crate) struct Table {
    last: u64,
    calls: BTreeMap<u64, Slot>,
    limit: usize,
    used_at: Instant,
    quiet_until: Instant,
    ended: Option<Fault>,
}

impl Table {
    /// No call yet; at most `limit` at once.
    pub(crate) fn new(limit: usize, now: Instant) -> Table {
        Table { last: 0, calls: BTreeMap::new(), limit, used_at: now, quiet_until: now, ended: None }
    }

    /// An id whose answer nobody waits for: it is dropped like a late one.
    pub(crate) fn reserve(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Opens a call under a fresh id.
    pub(crate) fn open(&mut self, progress: bool, now: Instant) -> Result<Inbox, Fault> {
        if let Some(fault) = &self.ended {
            return Err(Fault::early(
                FaultKind::Unreachable,
                format!("the pipe has ended: {}", fault.detail),
            ));
        }
        if self.calls.len() >= self.limit {
            return Err(Fault::early(
                FaultKind::Unreachable,
                format!("{} calls in flight already", self.limit),
            ));
        }
        self.last += 1;
        self.used_at = now;
        let (events, event_inbox) = mpsc::channel(QUEUE);
        let (done, end) = oneshot::channel();
        let bucket = Bucket::new(RATE.0, RATE.1, now);
        self.calls.insert(self.last, Slot { progress, reached: f64::NEG_INFINITY, bucket, events, done });
        Ok(Inbox { id: self.last, events: event_inbox, done: end })
    }

    /// Ends a call with its answer, which pins `bytes`.
    pub(crate) fn answer(
        &mut self,
        id: u64,
        response: Response,
        kept: (&Budget, usize),
        now: Instant,
    ) -> Answered {
        let Some(slot) = self.calls.remove(&id) else {
            return if id >= 1 && id <= self.last { Answered::Late } else { Answered::Unknown };
        };
        self.used_at = now;
        // An answer is never just dropped: without room for it the call ends with the reason.
        let end = kept.0.hold(response, kept.1).ok_or_else(|| {
            Fault::late(FaultKind::TooLarge, "too many answers of this server wait for their clients")
        });
        let _ = slot.done.send(end);
        Answered::Taken
    }

    /// Queues an event for a call. `false`: dropped (no such call, its queue or the budget is full, too many).
    pub(crate) fn tell(&mut self, id: u64, event: MuxEvent, kept: (&Budget, usize), now: Instant) -> bool {
        let Some(slot) = self.calls.get_mut(&id) else { return false };
        if !slot.bucket.take(now) {
            return false;
        }
        kept.0.hold(event, kept.1).is_some_and(|held| slot.events.try_send(held).is_ok())
    }

    /// Whether progress up to `value` is to be told to a call: it asked for progress, and the value never falls.
    pub(crate) fn advances(&mut self, id: u64, value: f64) -> bool {
        match self.calls.get_mut(&id) {
            Some(slot) if slot.progress && value >= slot.reached => {
                slot.reached = value;
                true
            }
            _ => false,
        }
    }

    /// Which call a log notification, which names none, can be told to without telling another caller's.
    pub(crate) fn log_target(&self, shared: bool, now: Instant) -> Option<u64> {
        let newest = self.calls.last_key_value().map(|(id, _)| *id)?;
        let sole = self.calls.len() == 1 && now >= self.quiet_until;
        (!shared || sole).then_some(newest)
    }

    /// Forgets a call that its consumer gave up. `false`: it had ended already.
    pub(crate) fn abandon(&mut self, id: u64, now: Instant) -> bool {
        let open = self.calls.remove(&id).is_some();
        if open {
            self.quiet_until = now + QUIET;
            self.used_at = now;
        }
        open
    }

    /// Ends every call, now and later, with `fault`. The first end counts. Returns whether this was it.
    pub(crate) fn end(&mut self, fault: &Fault) -> bool {
        if self.ended.is_some() {
            return false;
        }
        self.ended = Some(fault.clone());
        // Which call's answer was too large cannot be told, unless there is only one.
        let kind = match fault.kind {
            FaultKind::TooLarge if self.calls.len() != 1 => FaultKind::Protocol,
            kind => kind,
        };
        for slot in std::mem::take(&mut self.calls).into_values() {
            let _ = slot.done.send(Err(Fault::late(kind, fault.detail.clone())));
        }
        true
    }

    /// Why the pipe ended, once it has.
    pub(crate) fn ended(&self) -> Option<&Fault> {
        self.ended.as_ref()
    }

    /// Calls in flight.
    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    /// When a call was last opened or ended.
    pub(crate) fn used_at(&self) -> Instant {
        self.used_at
    }
}
