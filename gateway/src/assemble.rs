//! Puts a gateway together from a checked configuration: ports get their adapters here and nowhere else.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use mcp::entry::EntryKind;
use mcp::json::Raw;
use metrics::{Metrics, Registry};
use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;

use crate::adapters::child::Slots;
use crate::adapters::credentials::Issue;
use crate::adapters::keys::{Documents, Keyring, Obtain};
use crate::adapters::otlp::Otlp;
use crate::adapters::outbound::Fetcher;
use crate::adapters::upstream::{Deps, ServerClient};
use crate::adapters::{limiter, nonces};
use crate::catalog::member::{Member, Shared};
use crate::catalog::{Catalog, Owners};
use crate::config::{self, Checked};
use crate::gate::{Gate, Means, Snapshot};
use crate::inflight::Inflight;
use crate::ports::clock::{Clock, SystemClock};
use crate::ports::journal::{Journal, NoJournal};
use crate::ports::keys::{Keys, NoKeys};
use crate::ports::traces::Traces;
use crate::ports::upstream::Client;
use crate::profiles::Profiles;
use crate::questions::Questions;
use crate::runs::Runs;
use crate::seal::Sealer;
use crate::sessions::Sessions;
use crate::stages::limit::Limits;
use crate::stages::record::Book;

/// Child processes of all servers together.
const MAX_CHILDREN: usize = 512;
/// Announcements that a slow listener may fall behind by.
const CHANGES: usize = 256;
/// At the end: sessions are closed and children ended within this time.
pub const LAST_WORDS: Duration = Duration::from_secs(10);

/// Spans that wait at the end are sent within this time.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Makes a gateway that keeps no journal, for looking around. Nothing is connected or started yet.
///
/// # Errors
/// What the system could not give.
pub fn assemble(config: Checked) -> Result<Arc<Gate>, String> {
    with_journal(Checked { tracing: None, ..config }, Arc::new(NoJournal))
}

/// Makes a gateway whose calls leave records.
///
/// # Errors
/// What the system could not give.
pub fn with_journal(config: Checked, journal: Arc<dyn Journal>) -> Result<Arc<Gate>, String> {
    let book = book(&config, journal)?;
    let clock = Arc::clone(&book.clock);
    let config = Arc::new(config);
    let (changed, _) = broadcast::channel(CHANGES);
    let owners = Owners::default();
    let fetcher = Fetcher::new(&config.auth.egress, config.auth.egress_ca.as_deref())?;
    let issue = Issue { fetcher: Arc::clone(&fetcher), clock: Arc::clone(&clock) };
    let (slots, metrics) = (Arc::new(Slots::new(MAX_CHILDREN)), Arc::clone(&book.metrics));
    let deps = Deps { slots, clock: Arc::clone(&clock), metrics, issue };
    let shared = Shared {
        lists: config.lists,
        names_max: config.names_max,
        changed: changed.clone(),
        owners: owners.clone(),
        metrics: Arc::clone(&book.metrics),
    };
    let members = config.servers.iter().enumerate().map(|(order, server)| {
        let spec = Arc::new(server.clone());
        let upstream = ServerClient::new(Arc::clone(&spec), deps.clone());
        Member::new(spec, upstream, order, shared.clone())
    });
    let catalog = Arc::new(Catalog::new(members.collect(), owners, changed));
    let sealer = Sealer::new(&config.keys.seal).ok_or("the system gives no random bytes")?;
    let snapshot = Snapshot {
        profiles: profiles(&config),
        keys: keys(&config.auth, fetcher)?,
        catalog,
        sessions: Sessions::new(sealer.clone(), config.legacy.session_ttl),
        sealer,
        config: Arc::clone(&config),
    };
    Ok(Arc::new(Gate {
        snapshot: ArcSwap::from_pointee(snapshot),
        means: Arc::new(means(&config, &book)),
        book,
        nonces: Arc::new(nonces::InMemory::default()),
        rounds: Arc::new(nonces::InMemory::default()),
        questions: Questions::default(),
        runs: Runs::default(),
        inflight: Inflight::default(),
        streams: Arc::new(Semaphore::new(config.limits.streams)),
        draining: CancellationToken::new(),
        warm: CancellationToken::new(),
    }))
}

/// What calls need that go on beside their request. Budgets go on where the journal says that they stood.
fn means(config: &Checked, book: &Book) -> Means {
    let limits = Limits::new(Arc::new(limiter::InMemory::default()), Arc::clone(&book.metrics));
    if let Some(accounts) = book.journal.accounts() {
        limits.restore(config.tasks.iter().map(|task| &*task.profile), accounts);
    }
    Means {
        limits: Arc::new(limits),
        clock: Arc::clone(&book.clock),
        metrics: Arc::clone(&book.metrics),
        places: Arc::new(Semaphore::new(config.limits.requests)),
        closing: CancellationToken::new(),
    }
}

/// Where records, counts and spans go. To be called within the runtime where spans go anywhere.
fn book(config: &Checked, journal: Arc<dyn Journal>) -> Result<Arc<Book>, String> {
    let metrics = Metrics::new(Registry::new(), env!("CARGO_PKG_VERSION")).map_err(|e| e.to_string())?;
    let metrics = Arc::new(metrics);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let syncs = metrics.audit_sync();
    journal.time_syncs(Box::new(move |took| syncs.observe(took.as_secs_f64())));
    let traces = match &config.tracing {
        Some(spec) => {
            let traces = Otlp::start(spec, Arc::clone(&metrics), Arc::clone(&clock))?;
            Some(traces as Arc<dyn Traces>)
        }
        None => None,
    };
    Ok(Arc::new(Book { metrics, journal, traces, clock, partials: Arc::default() }))
}

/// What proves callers.
fn keys(spec: &config::Auth, fetcher: Arc<Fetcher>) -> Result<Arc<dyn Keys>, String> {
    if !spec.any() {
        return Ok(Arc::new(NoKeys));
    }
    let obtain: Arc<dyn Obtain> = Arc::new(Documents(fetcher));
    Ok(Arc::new(Keyring::new(spec, &obtain)?))
}

/// The tasks of a configuration.
pub fn profiles(config: &Checked) -> Profiles {
    let all = config.tasks.iter().map(|task| Arc::clone(&task.profile));
    Profiles::new(all, config.default_task.as_deref(), config.listen.ip().to_canonical().is_loopback())
}

/// Reads all lists once, so that the first client does not wait and `/readyz` can tell. Cancels `warm` when every
/// server has answered or failed.
pub async fn warm_up(gate: Arc<Gate>) {
    let snap = gate.snapshot.load_full();
    for member in snap.catalog.members() {
        tokio::spawn(Arc::clone(member).follow());
    }
    let client = nobody();
    let shared = snap.catalog.members().iter().filter(|member| !member.spec.per_principal());
    let all = shared.map(|member| async {
        let lists = EntryKind::ALL.map(|kind| member.manifest(kind, &client, MAX_WARM_UP));
        join_all(lists).await;
    });
    tokio::select! {
        _ = join_all(all) => {}
        () = gate.draining.cancelled() => {}
    }
    gate.warm.cancel();
}

/// The longest that one server's first lists are waited for.
const MAX_WARM_UP: Duration = Duration::from_secs(60);

/// A client that declared nothing: the lists that are read at the start are read for it.
pub fn nobody() -> Client {
    Client::new(Raw::empty_object(), None)
}

/// Ends all sessions and children within this time (with none, children are killed at once), then the journal.
pub async fn shut_down(gate: &Gate, within: Duration) {
    let snap = gate.snapshot.load_full();
    join_all(snap.catalog.members().iter().map(|member| member.upstream.shutdown(within))).await;
    if let Some(traces) = &gate.book.traces {
        traces.close(LAST_SPANS).await;
    }
    let journal = Arc::clone(&gate.book.journal);
    // It waits for the disk.
    tokio::task::spawn_blocking(move || journal.close()).await.ok();
}
