//! The cache of one list for one kind of client: which of fresh, stale, old, failed or empty it is, and what to do
//! then. Pure state over an injected `now`; reading is the member's job.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::manifest::Manifest;
use crate::ports::upstream::Fault;

/// After its freshness a list is still shown, while it is read anew, for at most this long.
const STALE: Duration = Duration::from_secs(60);
/// A list is read at most this often, whatever the server says.
pub(super) const MIN_INTERVAL: Duration = Duration::from_secs(1);
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LAST_BACKOFF: Duration = Duration::from_secs(30);

/// The state of one list.
#[derive(Debug, Default)]
pub(super) struct Slot {
    good: Option<Arc<Manifest>>,
    failure: Option<Failure>,
    /// Changes that the server announced, and how many of them the list already knows.
    announced: u64,
    known: u64,
    boarding: u64,
    /// Somebody was answered without this list.
    missed: bool,
    flight: Option<watch::Receiver<()>>,
    attempted: Option<Instant>,
}

#[derive(Debug, Clone)]
struct Failure {
    fault: Fault,
    at: Instant,
    backoff: Duration,
}

/// What to do with a list.
#[derive(Debug)]
pub(super) enum Look {
    /// Use it.
    Fresh(Arc<Manifest>),
    /// Use it and read it anew behind the caller's back.
    Stale(Arc<Manifest>),
    /// Read it now; if that fails, this is better than nothing.
    Read(Option<Arc<Manifest>>),
    /// It failed a moment ago and there is nothing to show.
    Failed(Fault),
}

/// What a reading that is over means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Landed {
    /// What clients see has changed.
    pub(super) changed: bool,
    /// It differs from the one before.
    pub(super) differs: bool,
    /// The server announced another change meanwhile: the list must be read once more.
    pub(super) again: bool,
}

impl Slot {
    /// What to do now. `grace` is how long the last good list outlives failures.
    pub(super) fn look(&self, now: Instant, grace: Duration) -> Look {
        let good = self.good.clone().filter(|m| now.duration_since(m.read) < m.ttl + grace);
        let waiting = self.failure.as_ref().filter(|f| now.duration_since(f.at) < f.backoff);
        match (good, waiting) {
            (Some(good), Some(_)) => Look::Fresh(good),
            (None, Some(failure)) => Look::Failed(failure.fault.clone()),
            (None, None) => Look::Read(None),
            (Some(good), None) if self.failure.is_some() => Look::Stale(good),
            (Some(good), None) if self.announced > self.known => Look::Read(Some(good)),
            (Some(good), None) => {
                let age = now.duration_since(good.read);
                if age < good.ttl.max(MIN_INTERVAL) {
                    Look::Fresh(good)
                } else if age < good.ttl + STALE {
                    Look::Stale(good)
                } else {
                    Look::Read(Some(good))
                }
            }
        }
    }

    /// Whether a name that is not in the list is worth another look at the server, or is perhaps in the list that
    /// is just being read.
    pub(super) fn may_reread(&self, now: Instant) -> bool {
        self.flight.is_some() || self.attempted.is_none_or(|at| now.duration_since(at) >= MIN_INTERVAL)
    }

    /// Whether the last reading failed.
    pub(super) fn failing(&self) -> bool {
        self.failure.is_some()
    }

    /// How long the reading under way has been going on.
    pub(super) fn airborne(&self, now: Instant) -> Option<Duration> {
        let flying = self.flight.as_ref().is_some_and(|flight| flight.has_changed().is_ok());
        self.attempted.filter(|_| flying).map(|at| now.duration_since(at))
    }

    /// Notes that somebody was answered without this list: its arrival is a change.
    pub(super) fn miss(&mut self) {
        self.missed = true;
    }

    /// Joins the reading under way, or takes it on: then the sender must be kept until it is over.
    pub(super) fn board(&mut self, now: Instant) -> (watch::Receiver<()>, Option<watch::Sender<()>>) {
        if let Some(flight) = &self.flight
            && flight.has_changed().is_ok()
        {
            return (flight.clone(), None);
        }
        let (sender, receiver) = watch::channel(());
        self.flight = Some(receiver.clone());
        self.attempted = Some(now);
        self.boarding = self.announced;
        (receiver, Some(sender))
    }

    /// The reading is over.
    pub(super) fn land(&mut self, result: Result<Arc<Manifest>, Fault>, now: Instant) -> Landed {
        self.flight = None;
        let again = self.announced > self.boarding;
        match result {
            Ok(manifest) => {
                let differs = self.good.as_ref().is_some_and(|old| old.digest != manifest.digest);
                let changed = differs || (self.good.is_none() && self.missed);
                self.missed = false;
                self.failure = None;
                self.known = self.boarding;
                self.good = Some(manifest);
                Landed { changed, differs, again }
            }
            Err(fault) => {
                let backoff =
                    self.failure.as_ref().map_or(FIRST_BACKOFF, |f| (f.backoff * 2).min(LAST_BACKOFF));
                self.failure = Some(Failure { fault, at: now, backoff });
                Landed { changed: false, differs: false, again: false }
            }
        }
    }

    /// The server says that the list has changed.
    pub(super) fn soil(&mut self) {
        self.announced += 1;
    }

    /// The last list and the last failure, for `/status`.
    pub(super) fn last(&self) -> (Option<&Arc<Manifest>>, Option<&Fault>) {
        (self.good.as_ref(), self.failure.as_ref().map(|f| &f.fault))
    }
}

#[cfg(test)]
mod tests {
    use mcp::entry::EntryKind;

    use super::super::manifest::Naming;
    use super::*;
    use crate::ports::upstream::FaultKind;

    fn manifest(ttl: u64) -> Arc<Manifest> {
        let naming = Naming { server: "s", max: 64 };
        Arc::new(Manifest::build(naming, EntryKind::Tool, &[], Duration::from_secs(ttl), None))
    }

    #[tokio::test(start_paused = true)]
    async fn peer_23_the_last_good_list_outlives_a_failing_server_for_the_grace_period() {
        let grace = Duration::from_secs(600);
        let mut slot = Slot::default();
        assert!(matches!(slot.look(Instant::now(), grace), Look::Read(None)));
        slot.land(Ok(manifest(60)), Instant::now());
        assert!(matches!(slot.look(Instant::now(), grace), Look::Fresh(_)));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(matches!(slot.look(Instant::now(), grace), Look::Stale(_)));
        slot.land(Err(Fault::late(FaultKind::Dropped, "gone")), Instant::now());
        assert!(matches!(slot.look(Instant::now(), grace), Look::Fresh(_)), "backing off");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(matches!(slot.look(Instant::now(), grace), Look::Stale(_)), "trying again");
        tokio::time::advance(Duration::from_secs(600)).await;
        assert!(matches!(slot.look(Instant::now(), grace), Look::Read(None)), "grace is over");
        slot.land(Err(Fault::late(FaultKind::Dropped, "gone")), Instant::now());
        assert!(matches!(slot.look(Instant::now(), grace), Look::Failed(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_reading_at_a_time() {
        let mut slot = Slot::default();
        let (_first, lead) = slot.board(Instant::now());
        assert!(lead.is_some());
        assert!(slot.board(Instant::now()).1.is_none());
        drop(lead);
        assert!(slot.board(Instant::now()).1.is_some(), "a reading that died is taken over");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_is_announced_is_read_before_the_next_answer() {
        let mut slot = Slot::default();
        slot.land(Ok(manifest(60)), Instant::now());
        slot.soil();
        assert!(matches!(slot.look(Instant::now(), Duration::ZERO), Look::Read(Some(_))));
        let lead = slot.board(Instant::now()).1;
        assert!(matches!(slot.look(Instant::now(), Duration::ZERO), Look::Read(Some(_))), "being read");
        slot.soil();
        let landed = slot.land(Ok(manifest(60)), Instant::now());
        drop(lead);
        assert!(landed.again, "a change announced during the reading");
        assert!(matches!(slot.look(Instant::now(), Duration::ZERO), Look::Read(Some(_))));
        drop(slot.board(Instant::now()));
        assert!(!slot.land(Ok(manifest(60)), Instant::now()).again);
        assert!(matches!(slot.look(Instant::now(), Duration::ZERO), Look::Fresh(_)));
    }
}
