//! One server with the cache of its lists. Lists are kept apart by what the client declared, since a server may
//! answer differently; each is read by one flight at a time, behind the callers' backs where it can be.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use mcp::entry::EntryKind;
use metrics::Metrics;
use parking_lot::Mutex;
use tokio::sync::{broadcast, watch};
use tokio::time::{Instant, timeout};

use super::manifest::{Listed, Manifest, Naming, expose};
use super::slot::{Look, MIN_INTERVAL, Slot};
use super::{Changed, Owners, PATIENCE, reader};
use crate::config::{Lists, Server};
use crate::digest::{hex, mixed};
use crate::ports::upstream::{Change, Client, Facts, Fault, FaultKind, SessionKey, Upstream};

/// Different sets of client capabilities whose lists are kept.
const VARIANTS: NonZeroUsize = NonZeroUsize::new(4 * 32).unwrap();

/// The same where each caller has its own credential at the server.
const CALLERS: NonZeroUsize = NonZeroUsize::new(4 * 256).unwrap();

/// What a list depends on besides the server: its kind and a digest of the client's capabilities.
type SlotKey = (EntryKind, [u8; 32]);

/// A server of the configuration.
pub struct Member {
    /// Its configuration.
    pub spec: Arc<Server>,
    /// The way to it.
    pub upstream: Arc<dyn Upstream>,
    /// Counts what is asked of it.
    pub meter: Arc<metrics::Server>,
    /// Its place in the configuration.
    order: usize,
    shared: Shared,
    slots: Mutex<LruCache<SlotKey, Arc<Cell>>>,
}

/// What all members share.
#[derive(Clone)]
pub struct Shared {
    /// Bounds and freshness of lists.
    pub lists: Lists,
    /// The longest exposed name.
    pub names_max: usize,
    /// Where changes that clients can see are announced.
    pub changed: broadcast::Sender<Changed>,
    /// Whose `https:` resources are whose.
    pub owners: Owners,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

struct Cell {
    client: Mutex<Client>,
    slot: Mutex<Slot>,
}

/// An entry together with the list that it stands in.
#[derive(Clone)]
pub struct Found {
    manifest: Arc<Manifest>,
    at: usize,
}

impl Found {
    /// The entry.
    pub fn entry(&self) -> Option<&Listed> {
        self.manifest.entries.get(self.at)
    }
}

/// How a name is meant.
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    /// The server's own.
    Own(&'a str),
    /// As clients of `/mcp` see it.
    Exposed(&'a str),
}

impl Member {
    /// A server that nothing is known of yet.
    pub fn new(spec: Arc<Server>, upstream: Arc<dyn Upstream>, order: usize, shared: Shared) -> Arc<Member> {
        let slots = if spec.per_principal() { CALLERS } else { VARIANTS };
        let meter = shared.metrics.server(&spec.id);
        Arc::new(Member { spec, upstream, meter, order, shared, slots: Mutex::new(LruCache::new(slots)) })
    }

    /// What the server says of itself.
    ///
    /// # Errors
    /// The server's failure.
    pub async fn facts(&self, client: &Client) -> Result<Arc<Facts>, Fault> {
        let t = &self.spec.timeouts;
        let late = |_| Fault::early(FaultKind::Timeout, "the handshake took too long");
        let facts = self.upstream.facts(client, &SessionKey::Catalog);
        timeout(t.connect + t.initialize * 2, facts).await.unwrap_or_else(|e| Err(late(e)))
    }

    /// The list of this kind for a client that declared this. A reading that takes longer than `patience` goes on
    /// without the caller.
    ///
    /// # Errors
    /// The server's failure, when there is nothing better to show.
    pub async fn manifest(
        self: &Arc<Self>,
        kind: EntryKind,
        client: &Client,
        patience: Duration,
    ) -> Result<Arc<Manifest>, Fault> {
        let cell = self.cell(kind, client);
        let look = cell.slot.lock().look(Instant::now(), self.shared.lists.grace);
        let better_than_nothing = match look {
            Look::Fresh(manifest) => return Ok(manifest),
            Look::Stale(manifest) => {
                self.refresh(kind, &cell);
                return Ok(manifest);
            }
            Look::Failed(fault) => {
                cell.slot.lock().miss();
                return Err(fault);
            }
            Look::Read(old) => old,
        };
        // Who waits for a reading that hangs waits no longer than the first who did; and who can do without the
        // list does not wait for one that failed the last time.
        let patience = {
            let slot = cell.slot.lock();
            let flown = slot.airborne(Instant::now()).unwrap_or_default();
            if slot.failing() && patience <= PATIENCE {
                Duration::ZERO
            } else {
                patience.saturating_sub(flown)
            }
        };
        let mut landing = self.refresh(kind, &cell);
        // The sender is dropped when the reading is over, which ends `changed` with an error.
        let in_time = timeout(patience, landing.changed()).await.is_ok();
        let look = cell.slot.lock().look(Instant::now(), self.shared.lists.grace);
        match look {
            Look::Fresh(manifest) | Look::Stale(manifest) => Ok(manifest),
            Look::Failed(fault) => better_than_nothing.ok_or(fault),
            Look::Read(_) if in_time => better_than_nothing
                .ok_or_else(|| Fault::late(FaultKind::Dropped, "the list could not be read")),
            Look::Read(_) => better_than_nothing
                .ok_or_else(|| Fault::late(FaultKind::Timeout, "the list is still being read")),
        }
    }

    /// An entry by name. A name that is not in the list is looked for at the server once, at most once a second.
    ///
    /// # Errors
    /// The server's failure.
    pub async fn find(
        self: &Arc<Self>,
        kind: EntryKind,
        client: &Client,
        name: Name<'_>,
    ) -> Result<Option<Found>, Fault> {
        let patience = self.patience();
        let manifest = self.manifest(kind, client, patience).await?;
        if let Some(found) = found(manifest, name) {
            return Ok(Some(found));
        }
        let cell = self.cell(kind, client);
        if !cell.slot.lock().may_reread(Instant::now()) {
            return Ok(None);
        }
        self.reread(kind, client).await;
        Ok(found(self.manifest(kind, client, patience).await?, name))
    }

    /// An entry by name, of the list as it is known: nothing is looked for at the server.
    ///
    /// # Errors
    /// The server's failure.
    pub async fn known(
        self: &Arc<Self>,
        kind: EntryKind,
        client: &Client,
        name: Name<'_>,
    ) -> Result<Option<Found>, Fault> {
        Ok(found(self.manifest(kind, client, self.patience()).await?, name))
    }

    /// Whether an exposed name may be a shortened one: those are as long as names may be, but for a character's bytes.
    pub fn may_be_short(&self, exposed: &str) -> bool {
        exposed.len() + 3 >= self.shared.names_max
    }

    /// Reads a list anew and waits for it.
    pub async fn reread(self: &Arc<Self>, kind: EntryKind, client: &Client) {
        let cell = self.cell(kind, client);
        let mut landing = self.refresh(kind, &cell);
        timeout(self.patience(), landing.changed()).await.ok();
    }

    /// The longest that a reading can take.
    pub(super) fn patience(&self) -> Duration {
        self.spec.timeouts.connect + self.spec.timeouts.initialize * 2 + self.spec.timeouts.lists * 4
    }

    fn cell(&self, kind: EntryKind, client: &Client) -> Arc<Cell> {
        // The name of the client is not part of what a list may depend on.
        let cell = || Arc::new(Cell { client: Mutex::new(client.clone()), slot: Mutex::default() });
        if !self.spec.per_principal() {
            return self.slots.lock().get_or_insert((kind, client.variant), cell).clone();
        }
        // What the server shows to one caller is that caller's alone, and is read with the caller's newest credential.
        let variant = mixed(client.variant, client.behalf.variant());
        let cell = self.slots.lock().get_or_insert((kind, variant), cell).clone();
        cell.client.lock().clone_from(client);
        cell
    }

    fn refresh(self: &Arc<Self>, kind: EntryKind, cell: &Arc<Cell>) -> watch::Receiver<()> {
        let (landing, lead) = cell.slot.lock().board(Instant::now());
        if let Some(lead) = lead {
            let (member, cell) = (Arc::clone(self), Arc::clone(cell));
            tokio::spawn(async move {
                let client = cell.client.lock().clone();
                let result = member.read(kind, &client).await.map(Arc::new);
                member.note(kind, &result);
                let landed = cell.slot.lock().land(result, Instant::now());
                drop(lead);
                member.meter.list_read(landed.differs);
                if landed.changed {
                    member.shared.changed.send(Changed { server: member.spec.id.clone(), kind }).ok();
                }
                if landed.again {
                    tokio::time::sleep(MIN_INTERVAL).await;
                    member.refresh(kind, &cell);
                }
            });
        }
        landing
    }

    async fn read(&self, kind: EntryKind, client: &Client) -> Result<Manifest, Fault> {
        let facts = self.facts(client).await?;
        let capability = match kind {
            EntryKind::Tool => "tools",
            EntryKind::Prompt => "prompts",
            EntryKind::Resource | EntryKind::Template => "resources",
        };
        let lists = &self.shared.lists;
        let read = if facts.capabilities.get(capability).is_some() {
            reader::read(&self.upstream, kind, client, lists, self.spec.timeouts.lists).await?
        } else {
            reader::Read::default()
        };
        Ok(Manifest::build(self.naming(), kind, &read.entries, read.ttl.unwrap_or(lists.ttl), read.cut))
    }

    fn note(&self, kind: EntryKind, result: &Result<Arc<Manifest>, Fault>) {
        let server = self.spec.id.as_str();
        match result {
            Ok(manifest) => {
                for (name, reason) in &manifest.dropped {
                    tracing::warn!(server, entry = name, reason, list = kind.list_method(), "entry left out");
                }
                let dropped = u64::try_from(manifest.dropped.len()).unwrap_or(u64::MAX);
                self.shared.metrics.dropped(server, kind.result_member(), dropped);
                manifest.count_with(kind, &self.meter);
                if matches!(kind, EntryKind::Resource | EntryKind::Template) {
                    self.shared.owners.claim(self.order, kind, manifest);
                }
            }
            Err(fault) => {
                tracing::warn!(server, list = kind.list_method(), error = %fault, "list could not be read");
            }
        }
    }

    /// Follows the server's announcements until the upstream is gone. Storms cost one reading a second.
    pub async fn follow(self: Arc<Self>) {
        let mut changes = self.upstream.changes();
        loop {
            let change = match changes.recv().await {
                Ok(change) => Some(change),
                Err(broadcast::error::RecvError::Lagged(_)) => None,
                Err(broadcast::error::RecvError::Closed) => return,
            };
            self.soil(change);
            tokio::time::sleep(MIN_INTERVAL).await;
        }
    }

    /// Marks the lists that a change is about as dirty and reads them anew. None: anything may have changed.
    fn soil(self: &Arc<Self>, change: Option<Change>) {
        let about = |kind: EntryKind| match change {
            Some(Change::Tools) => kind == EntryKind::Tool,
            Some(Change::Prompts) => kind == EntryKind::Prompt,
            Some(Change::Resources) => matches!(kind, EntryKind::Resource | EntryKind::Template),
            Some(Change::Restarted) | None => true,
        };
        let cells: Vec<_> = {
            let slots = self.slots.lock();
            slots
                .iter()
                .filter(|((kind, _), _)| about(*kind))
                .map(|((kind, _), c)| (*kind, c.clone()))
                .collect()
        };
        for (kind, cell) in cells {
            cell.slot.lock().soil();
            self.refresh(kind, &cell);
        }
    }

    /// How clients of `/mcp` see one of the server's own names.
    pub fn exposed(&self, kind: EntryKind, own: &str) -> String {
        expose(self.naming(), kind, own)
    }

    fn naming(&self) -> Naming<'_> {
        Naming { server: &self.spec.id, max: self.shared.names_max }
    }

    /// The digest of a list that was read, in hexadecimal.
    pub fn digest(&self, kind: EntryKind) -> Option<String> {
        let slots = self.slots.lock();
        let (_, cell) = slots.iter().find(|((of, _), _)| *of == kind)?;
        let slot = cell.slot.lock();
        slot.last().0.map(|manifest| hex(&manifest.digest))
    }

    /// Numbers of usable entries, entries left out with their reasons, and the last failure: for `/status`.
    pub fn overview(&self) -> Overview {
        let mut overview = Overview::default();
        for ((kind, _), cell) in self.slots.lock().iter() {
            let slot = cell.slot.lock();
            let (good, fault) = slot.last();
            if let Some(good) = good {
                let count = match kind {
                    EntryKind::Tool => &mut overview.tools,
                    EntryKind::Prompt => &mut overview.prompts,
                    EntryKind::Resource => &mut overview.resources,
                    EntryKind::Template => &mut overview.templates,
                };
                *count = Some(count.unwrap_or(0).max(good.entries.len()));
                overview.dropped.extend(good.dropped.iter().cloned());
            }
            overview.failure = overview.failure.or_else(|| fault.map(|f| f.detail.clone()));
        }
        overview.dropped.sort();
        overview.dropped.dedup();
        overview
    }

    /// Whether its tools are known: read, and if reading fails since then, still within the grace.
    pub fn ready(&self) -> bool {
        let (now, grace) = (Instant::now(), self.shared.lists.grace);
        // Its lists are its callers' alone: without a caller there is nothing to read.
        if self.spec.per_principal() {
            return true;
        }
        self.slots.lock().iter().filter(|((kind, _), _)| *kind == EntryKind::Tool).any(|(_, cell)| match cell
            .slot
            .lock()
            .last()
        {
            (Some(good), Some(_)) => now.duration_since(good.read) < good.ttl + grace,
            (good, _) => good.is_some(),
        })
    }
}

/// What `/status` shows of a server's lists.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// Usable tools; None before they were read.
    pub tools: Option<usize>,
    /// Usable prompts.
    pub prompts: Option<usize>,
    /// Usable resources.
    pub resources: Option<usize>,
    /// Usable resource templates.
    pub templates: Option<usize>,
    /// Entries left out and why.
    pub dropped: Vec<(String, &'static str)>,
    /// Why the last reading failed.
    pub failure: Option<String>,
}

fn found(manifest: Arc<Manifest>, name: Name<'_>) -> Option<Found> {
    let own = match name {
        Name::Own(own) => own,
        Name::Exposed(exposed) => manifest.by_exposed(exposed)?.own.as_str(),
    };
    let at = manifest.position(own)?;
    Some(Found { manifest, at })
}
