//! What the gateway is made of while it runs: the compiled configuration, and what all requests share. Plain
//! holding; the way of a request is in `pipeline`.

use std::sync::Arc;

use arc_swap::ArcSwap;
use metrics::Metrics;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::catalog::Catalog;
use crate::config::Checked;
use crate::inflight::Inflight;
use crate::ports::clock::Clock;
use crate::ports::journal::Ending;
use crate::ports::keys::Keys;
use crate::ports::nonces::Nonces;
use crate::profiles::{Party, Profiles};
use crate::questions::Questions;
use crate::reject::Reject;
use crate::runs::Runs;
use crate::seal::Sealer;
use crate::sessions::{Session, Sessions};
use crate::stages::limit::Limits;
use crate::stages::record::{Book, Ledger};
use crate::stages::session::Desk;

/// The compiled configuration. Swapped as a whole; a request keeps the one that it began with.
pub struct Snapshot {
    /// The checked configuration.
    pub config: Arc<Checked>,
    /// The tasks that callers work under.
    pub profiles: Profiles,
    /// What proves callers.
    pub keys: Arc<dyn Keys>,
    /// All servers' lists.
    pub catalog: Arc<Catalog>,
    /// Legacy sessions.
    pub sessions: Sessions,
    /// Seals cursors.
    pub sealer: Sealer,
}

/// The gateway between the listeners and the servers.
pub struct Gate {
    /// The configuration in force.
    pub snapshot: ArcSwap<Snapshot>,
    /// Journal and metrics.
    pub book: Arc<Book>,
    /// What calls need too that go on beside their request.
    pub means: Arc<Means>,
    /// Used confirmations.
    pub nonces: Arc<dyn Nonces>,
    /// Used states of servers' rounds: however many there are, confirmations have their place.
    pub rounds: Arc<dyn Nonces>,
    /// Questions that legacy clients are asked.
    pub questions: Questions,
    /// Runs that nobody names.
    pub runs: Runs,
    /// Calls that can be cancelled by id.
    pub inflight: Inflight,
    /// Places for event streams open to clients.
    pub streams: Arc<Semaphore>,
    /// Cancelled when the process is to end: new requests are refused, streams of announcements end.
    pub draining: CancellationToken,
    /// Cancelled when every server was asked once.
    pub warm: CancellationToken,
}

/// What a call needs of the gateway when it goes on beside its request; together, so that a call holds one of it.
pub struct Means {
    /// Counters of rates, concurrency and budgets.
    pub limits: Arc<Limits>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Places for requests being served.
    pub places: Arc<Semaphore>,
    /// Cancelled shortly before what is still under way is cut: calls end with an error that says so.
    pub closing: CancellationToken,
}

impl Gate {
    /// What session checks need.
    pub fn desk<'a>(&'a self, snap: &'a Snapshot, party: &'a Party, host: Option<&'a Session>) -> Desk<'a> {
        let (legacy, sessions) = (&snap.config.legacy, &snap.sessions);
        Desk { legacy, sessions, runs: &self.runs, party, host, now: self.means.clock.now() }
    }

    /// Counts a refusal that came before the message was known. The id is that of the record.
    pub fn refused(&self, party: Option<&Party>, reject: &Reject) -> Arc<str> {
        let mut ledger = Ledger::open(&self.book, party);
        ledger.blame(reject);
        self.book.journal.count_denied(reject.why.row().label);
        ledger.close(Ending::Refused);
        Arc::clone(&ledger.call_id)
    }
}

/// The host of `tollgate stdio`: one session as long as the process.
#[derive(Default)]
pub struct Host(Mutex<Option<Session>>);

impl Host {
    /// The session, once `initialize` was answered.
    pub fn session(&self) -> Option<Session> {
        self.0.lock().clone()
    }

    /// Begins a session; a second `initialize` begins another.
    pub fn begin(&self, session: Session) {
        *self.0.lock() = Some(session);
    }
}
