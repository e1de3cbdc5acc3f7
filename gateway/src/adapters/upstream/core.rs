//! What every part of one server's client shares: its configuration, its ids, what is known of it, how it fares. No
//! I/O happens here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use mcp::era::Era;
use metrics::Metrics;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::compose::Ticket;
use super::flight::{Flight, Gate};
use crate::config;
use crate::ports::clock::Clock;
use crate::ports::upstream::{Change, Facts, Fault, FaultKind};

/// A changed era is looked for at most so often: a server that answers "method not found" to everything must not be
/// probed with every call.
const SUSPICION: Duration = Duration::from_secs(2);

/// What a modern HTTP server said of itself is asked again after this time, without anybody waiting for it.
const RENEWAL: Duration = Duration::from_secs(300);

/// How a server is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Stateless, over its transport.
    Modern,
    /// With a handshake: streamable HTTP or a pipe.
    Legacy,
    /// With a handshake over HTTP+SSE of 2024-11-05.
    OldSse,
}

impl Way {
    pub(super) fn era(self) -> Era {
        match self {
            Way::Modern => Era::Modern,
            Way::Legacy | Way::OldSse => Era::Legacy,
        }
    }
}

/// What the probe found.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) way: Way,
    pub(super) facts: Arc<Facts>,
    at: Instant,
}

impl Known {
    /// Whether the server may have become another meanwhile. A process tells by ending, a URL does not.
    pub(super) fn is_old(&self) -> bool {
        self.at.elapsed() >= RENEWAL
    }
}

/// The shared part.
pub(super) struct Core {
    pub(super) spec: Arc<config::Server>,
    pub(super) server: Arc<str>,
    pub(super) changes: broadcast::Sender<Change>,
    pub(super) gate: Gate,
    /// Cancelled at shutdown; background work ends with it.
    pub(super) stop: CancellationToken,
    ids: AtomicU64,
    known: ArcSwapOption<Known>,
    pub(super) probe: Flight<Result<Arc<Known>, Fault>>,
    probed: Mutex<Option<Instant>>,
    pub(super) health: Health,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
}

impl Core {
    pub(super) fn new(spec: Arc<config::Server>, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Arc<Core> {
        Arc::new(Core {
            server: Arc::from(spec.id.as_str()),
            spec,
            changes: broadcast::channel(64).0,
            gate: Gate::new(),
            stop: CancellationToken::new(),
            ids: AtomicU64::new(1),
            known: ArcSwapOption::empty(),
            probe: Flight::new(),
            probed: Mutex::new(None),
            health: Health::default(),
            clock,
            metrics,
        })
    }

    /// A new id; never used before with this server.
    pub(super) fn ticket(&self) -> Ticket {
        Ticket::new(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    /// What is known, without asking.
    pub(super) fn known(&self) -> Option<Arc<Known>> {
        self.known.load_full()
    }

    /// Remembers a probe's outcome. When the way differs from what was known, everything known is stale.
    pub(super) fn learn(&self, way: Way, facts: Arc<Facts>) -> Arc<Known> {
        let known = Arc::new(Known { way, facts, at: Instant::now() });
        let before = self.known.swap(Some(Arc::clone(&known)));
        *self.probed.lock() = Some(Instant::now());
        if before.is_some_and(|before| before.way != way) {
            tracing::info!(server = %self.server, era = %way.era(), "the server changed its era");
            self.announce(Change::Restarted);
        }
        known
    }

    /// Whether an odd answer is reason enough to probe again now.
    pub(super) fn may_suspect(&self) -> bool {
        let mut probed = self.probed.lock();
        let now = Instant::now();
        let due = probed.is_none_or(|at| now.duration_since(at) >= SUSPICION);
        if due {
            *probed = Some(now);
        }
        due
    }

    /// As if the last probe were long ago.
    #[cfg(test)]
    pub(super) fn forget_suspicion(&self) {
        *self.probed.lock() = None;
    }

    /// Tells whoever listens.
    pub(super) fn announce(&self, change: Change) {
        // Nobody listening is no failure.
        let _ = self.changes.send(change);
    }

    /// Refuses to start anything after shutdown.
    pub(super) fn running(&self) -> Result<(), Fault> {
        if self.stop.is_cancelled() {
            return Err(Fault::early(FaultKind::Unreachable, "the gateway is ending"));
        }
        Ok(())
    }

    /// Notes how an exchange ended, once, where it ends: an answer that is there whole, or a fault. One that is
    /// dropped before its end says nothing. A probe or handshake that failed (`arm`) closes the gate for a while.
    pub(super) fn note(&self, fault: Option<&Fault>, arm: bool) {
        match fault {
            None => {
                self.health.good(self);
                self.gate.open();
            }
            Some(fault) => {
                self.health.bad(fault, self);
                if arm && fault.kind != FaultKind::Auth {
                    self.gate.failed(fault);
                }
            }
        }
    }
}

/// Whether the server works, as far as the last exchange tells.
#[derive(Default)]
pub(super) struct Health {
    fine: AtomicBool,
    state: Mutex<HealthState>,
}

/// For `/status`.
#[derive(Clone, Default)]
pub(super) struct HealthState {
    pub(super) connected: Option<bool>,
    pub(super) since: Option<SystemTime>,
    pub(super) last_error: Option<(String, SystemTime)>,
}

impl Health {
    fn good(&self, core: &Core) {
        // The usual case takes no lock.
        if !self.fine.swap(true, Ordering::Relaxed) {
            self.state.lock().turn(true, core);
        }
    }

    fn bad(&self, fault: &Fault, core: &Core) {
        let mut state = self.state.lock();
        self.fine.store(false, Ordering::Relaxed);
        state.turn(false, core);
        state.last_error = Some((fault.to_string(), core.clock.now()));
    }

    /// What is known now.
    pub(super) fn state(&self) -> HealthState {
        self.state.lock().clone()
    }
}

impl HealthState {
    /// The metric is set here, under the state's lock: it never says anything else than `/status`.
    fn turn(&mut self, connected: bool, core: &Core) {
        if self.connected != Some(connected) {
            self.connected = Some(connected);
            self.since = Some(core.clock.now());
            core.metrics.up(&core.server, connected);
        }
    }
}
