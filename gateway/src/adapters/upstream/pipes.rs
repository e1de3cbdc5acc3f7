//! A server behind pipes: child processes, or connections of the old HTTP+SSE transport. Who shares a pipe follows the
//! configuration and the era; a pipe whose server breaks the framing is closed, never resynchronised.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use mcp::era::Era;
use mcp::json::Raw;
use mcp::message::Id;
use mcp::meta::LogLevel;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{broadcast, mpsc};
use tokio::time::Instant;

use super::compose;
use super::core::{Core, Known, Way};
use super::greet;
use super::handshake::Failed;
use super::level::{self, Level};
use super::pool::{Entry, Key, Pool, Slot};
use super::watch::{self, Heard, Place, Watching};
use crate::adapters::child::Backoff;
use crate::adapters::pipe::{Mux, MuxEvent, MuxOptions, Pipe};
use crate::config::Isolation;
use crate::ports::upstream::{Call, Change, Client, Events, Facts, Fault, FaultKind, SessionKey};

/// How long a pipe may take to end in order.
const GRACE: Duration = Duration::from_secs(5);

/// How soon a server that let a call run into its deadline must say anything at all.
const ALIVE: Duration = Duration::from_secs(5);

/// Makes pipes to one server.
#[async_trait]
pub(super) trait Open: Send + Sync {
    /// A new pipe; under a deadline of its own.
    async fn open(&self) -> Result<Opened, NotOpened>;
}

/// A new pipe and what comes out of it.
pub(super) type Opened = (Arc<dyn Pipe>, mpsc::Receiver<Result<Bytes, Fault>>);

/// Why there is no new pipe.
pub(super) enum NotOpened {
    /// As many as there may be; one less would help.
    Full(Fault),
    /// Anything else.
    Failed(Fault),
}

/// A pipe in use.
pub(super) struct Conn {
    pub(super) mux: Arc<Mux>,
    pub(super) facts: Arc<Facts>,
    pub(super) way: Way,
    level: Level,
    /// Set before the gateway ends the pipe itself.
    ending: Arc<AtomicBool>,
    /// Whether somebody wants what it announces.
    heard: Heard,
}

impl Conn {
    pub(super) fn new(mux: Arc<Mux>, facts: Facts, way: Way) -> Conn {
        let (level, facts, ending) = (Level::new(&facts), Arc::new(facts), Arc::default());
        Conn { mux, facts, way, level, ending, heard: Heard::default() }
    }

    /// Notes a failure of the pipe, unless it is the gateway that ends it.
    fn note(&self, core: &Core, fault: &Fault) {
        if !self.ending.load(Ordering::Acquire) {
            core.note(Some(fault), false);
        }
    }

    async fn end(&self, grace: Duration) {
        self.ending.store(true, Ordering::Release);
        self.mux.close(grace).await;
    }
}

impl Entry for Conn {
    fn usable(&self) -> bool {
        !self.mux.is_closed()
    }

    fn touch(&self) {}

    fn is_heard(&self) -> bool {
        self.heard.is_wanted()
    }

    fn idle(&self, now: Instant) -> Duration {
        if self.mux.in_flight() > 0 { Duration::ZERO } else { now.duration_since(self.mux.last_used()) }
    }
}

impl Drop for Conn {
    /// Whatever leaves the pool is ended once its last call has.
    fn drop(&mut self) {
        if let (false, Ok(runtime)) = (self.mux.is_closed(), Handle::try_current()) {
            self.ending.store(true, Ordering::Release);
            let mux = Arc::clone(&self.mux);
            runtime.spawn(async move { mux.close(GRACE).await });
        }
    }
}

/// The pipes of one server.
pub(super) struct Pipes {
    pub(super) core: Arc<Core>,
    pub(super) pool: Arc<Pool<Conn>>,
    opener: Box<dyn Open>,
    isolation: Option<Isolation>,
    /// The way of every pipe when there is no choice.
    only: Option<Way>,
    /// Whether a connection is kept open for what it announces, and how soon its successor is opened.
    watching: Arc<Watching>,
    reopening: Mutex<Backoff>,
}

impl Pipes {
    pub(super) fn new(
        core: &Arc<Core>,
        opener: Box<dyn Open>,
        isolation: Option<Isolation>,
        idle: Duration,
        only: Option<Way>,
    ) -> Arc<Pipes> {
        Arc::new(Pipes {
            core: Arc::clone(core),
            pool: Pool::new(idle),
            opener,
            isolation,
            only,
            watching: Arc::default(),
            reopening: Mutex::new(Backoff::new()),
        })
    }

    /// What is known of the server; asks it once.
    pub(super) async fn known(self: &Arc<Self>) -> Result<Arc<Known>, Fault> {
        if let Some(known) = self.core.known() {
            return Ok(known);
        }
        self.core.running()?;
        self.core.gate.check()?;
        let pipes = Arc::clone(self);
        let probing = self.core.probe.join(|| async move { pipes.probe().await }.boxed());
        probing.await
    }

    /// Opens the first pipe and puts it where it will be looked for.
    async fn probe(self: &Arc<Self>) -> Result<Arc<Known>, Fault> {
        let client = compose::nobody();
        let conn = greet::establish(self, &client, self.isolation == Some(Isolation::Shared), None).await;
        self.core.note(conn.as_ref().err(), true);
        let conn = conn?;
        let key = self.key(&SessionKey::Catalog, &client, conn.way);
        let slot = self.pool.slot(key);
        let conn = slot.fill(conn);
        self.follow(&conn, key, &client);
        self.watch_end(&conn, &slot);
        Ok(self.core.known().unwrap_or_else(|| self.core.learn(conn.way, Arc::clone(&conn.facts))))
    }

    /// Shakes hands for the catalog: the probe of a server that has no choice of ways.
    pub(super) async fn greet(self: &Arc<Self>) -> Result<Arc<Facts>, Fault> {
        let way = self.only.unwrap_or(Way::Legacy);
        let conn = self.conn(&SessionKey::Catalog, &compose::nobody(), way).await?;
        Ok(Arc::clone(&conn.facts))
    }

    /// A new multiplexed pipe.
    pub(super) async fn fresh(&self, shared: bool, client: &Client) -> Result<Arc<Mux>, Fault> {
        let opened = match self.opener.open().await {
            Err(NotOpened::Full(fault)) => {
                // One that nobody uses makes room.
                let Some(oldest) = self.pool.take_oldest() else { return Err(fault) };
                oldest.end(GRACE).await;
                drop(oldest);
                self.opener.open().await
            }
            other => other,
        };
        let (pipe, incoming) = opened.map_err(|e| match e {
            NotOpened::Full(fault) | NotOpened::Failed(fault) => fault,
        })?;
        let options = MuxOptions::new(&self.core.server, shared, self.core.spec.answer_bytes);
        let options = MuxOptions { roots: client.roots.clone(), ..options };
        Ok(Mux::start(pipe, incoming, options))
    }

    fn key(&self, owner: &SessionKey, client: &Client, way: Way) -> Key {
        let shared = match self.isolation {
            Some(isolation) => isolation == Isolation::Shared,
            None => way == Way::Modern,
        };
        if shared { Key::shared() } else { Key::new(*owner, client) }
    }

    /// The owner's pipe, opening it where there is none.
    pub(super) async fn conn(
        self: &Arc<Self>,
        owner: &SessionKey,
        client: &Client,
        way: Way,
    ) -> Result<Arc<Conn>, Fault> {
        let key = self.key(owner, client, way);
        let slot = self.pool.slot(key);
        if let Some(conn) = slot.ready() {
            return Ok(conn);
        }
        self.core.running()?;
        // The old transport is tried while the gate is shut by the newer one's failure.
        if self.only.is_none() {
            self.core.gate.check()?;
        }
        if let Some(left) = slot.pause.lock().left(Instant::now()) {
            let detail = format!("the server ended by itself; not started again for {left:?}");
            return Err(Fault::early(FaultKind::Unreachable, detail));
        }
        let (pipes, place, client) = (Arc::clone(self), Arc::clone(&slot), client.clone());
        let opening = slot.flight.join(|| async move { pipes.open(&place, key, &client, way).await }.boxed());
        opening.await.map_err(|failed| failed.fault)
    }

    async fn open(
        self: &Arc<Self>,
        slot: &Arc<Slot<Conn>>,
        key: Key,
        client: &Client,
        way: Way,
    ) -> Result<Arc<Conn>, Failed> {
        if let Some(conn) = slot.ready() {
            return Ok(conn);
        }
        let replaced = slot.was_filled();
        let owner = key.owner.unwrap_or(SessionKey::Catalog);
        // Everybody's pipe is told of nobody's capabilities.
        let client = if key.owner.is_none() { compose::nobody() } else { client.clone() };
        let conn = greet::establish(self, &client, key.owner.is_none(), Some(way)).await;
        self.core.note(conn.as_ref().err(), true);
        let conn = conn?;
        // A server that has changed its era meanwhile is perhaps no longer for everybody.
        let right = self.key(&owner, &client, conn.way);
        let slot = if right == key { Arc::clone(slot) } else { self.pool.slot(right) };
        let conn = slot.fill(conn);
        self.follow(&conn, right, &client);
        self.watch_end(&conn, &slot);
        if replaced && key.is_for_lists() {
            self.core.announce(Change::Restarted);
        }
        Ok(conn)
    }

    /// Passes on what the server announces; from the pipes that lists are read over, not from each session's. One
    /// connection stays open for it while somebody follows the changes; a process ends when it is idle, as configured.
    fn follow(self: &Arc<Self>, conn: &Arc<Conn>, key: Key, client: &Client) {
        if !key.is_for_lists() {
            return;
        }
        let (core, mut changes) = (Arc::clone(&self.core), conn.mux.changes());
        let (lists, revision) = (watch::announced(&conn.facts), conn.facts.revision);
        // Legacy servers announce unasked, modern ones want a subscription. It is `conn` that keeps the pipe open.
        let (mux, modern) = (Arc::clone(&conn.mux), conn.way == Way::Modern && !lists.is_empty());
        let place = Place::take(&self.watching).filter(|_| self.only.is_some() && !lists.is_empty());
        if place.is_some() {
            conn.heard.start(&core);
        }
        let (pipes, ending, client) = (Arc::downgrade(self), Arc::clone(&conn.ending), client.clone());
        tokio::spawn(async move {
            if modern {
                let call = watch::listen_call(&lists);
                let body = |id: &Id, token: &Raw| compose::call(&call, Era::Modern, revision, id, token);
                if let Err(fault) = mux.listen(body).await {
                    tracing::debug!(server = %core.server, %fault, "no subscription");
                }
            }
            let since = Instant::now();
            loop {
                let change = tokio::select! {
                    biased;
                    change = changes.recv() => change,
                    _ = mux.closed() => break,
                };
                match change {
                    Ok(change) => core.announce(change),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => break,
                }
            }
            if place.is_some() && !ending.load(Ordering::Acquire) {
                drop(place);
                tokio::select! {
                    () = reopen(&core, &pipes, &client, since.elapsed()) => {}
                    () = core.stop.cancelled() => {}
                }
            }
        });
    }

    /// One call.
    pub(super) async fn call(self: &Arc<Self>, call: &Call, known: &Known) -> Result<Events, Fault> {
        let mut conn = self.conn(&call.session, &call.client, known.way).await?;
        if conn.way != known.way {
            // Another era than a moment ago: then perhaps another pipe is this caller's.
            conn = self.conn(&call.session, &call.client, conn.way).await?;
        }
        if conn.way != Way::Modern {
            let mux = &conn.mux;
            let set = |level: Raw| async move {
                greet::ask(mux, |id| compose::set_level(id, &level)).await.map(drop)
            };
            conn.level.tell(&self.core, call, GRACE, set).await;
        }
        let (era, revision) = (conn.way.era(), conn.facts.revision);
        let sent =
            conn.mux.request(|id, token| compose::call(call, era, revision, id, token), call.progress).await;
        if let Err(fault) = &sent {
            conn.note(&self.core, fault);
        }
        let log = call.log_level.as_ref().and_then(|level| LogLevel::parse(&level.string()?));
        let core = Arc::clone(&self.core);
        // The pipe lives as long as its last call, which holds `conn`.
        Ok(Box::pin(sent?.filter_map(move |item| {
            match &item {
                Ok(MuxEvent::Done(_)) => core.note(None, false),
                Ok(_) => {}
                Err(fault) => conn.note(&core, fault),
            }
            ready(level::event(item, era, log))
        })))
    }

    /// Notes that a process ended by itself, and makes it wait for its successor. A connection may end as it likes.
    fn watch_end(&self, conn: &Conn, slot: &Arc<Slot<Conn>>) {
        if self.only.is_some() {
            return;
        }
        let (mux, ending, slot) = (Arc::clone(&conn.mux), Arc::clone(&conn.ending), Arc::downgrade(slot));
        let (core, start) = (Arc::clone(&self.core), Instant::now());
        tokio::spawn(async move {
            let fault = mux.closed().await;
            if let (false, Some(slot)) = (ending.load(Ordering::Acquire), slot.upgrade()) {
                let now = Instant::now();
                core.note(Some(&fault), false);
                slot.pause.lock().failed(now.duration_since(start), now);
            }
        });
    }

    /// Finds out whether the owner's server hangs, without anybody waiting for it; then its pipe ends.
    pub(super) fn check(&self, client: &Client, owner: &SessionKey) {
        let Some(way) = self.core.known().map(|known| known.way) else { return };
        let Some(conn) = self.pool.peek(&self.key(owner, client, way)) else { return };
        let (mux, core) = (Arc::clone(&conn.mux), Arc::clone(&self.core));
        // What the era has for it: any answer will do.
        let body = move |id: &Id| match conn.way {
            Way::Modern => compose::discover(id),
            Way::Legacy | Way::OldSse => compose::ping(id),
        };
        tokio::spawn(async move {
            tracing::debug!(server = %core.server, "a call ran into its deadline: does the server live?");
            mux.check(body, ALIVE).await;
        });
    }

    /// Ends the pipes of one owner, or all, within `grace`.
    pub(super) async fn end(&self, owner: Option<&SessionKey>, grace: Duration) {
        let ending = self.pool.take(owner);
        futures_util::future::join_all(ending.iter().map(|conn| conn.end(grace))).await;
    }
}

/// Opens the successor of the connection that was listened to, whose opening tells that something may have changed.
async fn reopen(core: &Core, pipes: &Weak<Pipes>, client: &Client, mut ran: Duration) {
    while let Some(pause) = pipes.upgrade().map(|p| p.reopening.lock().failed(ran, Instant::now())) {
        tokio::time::sleep(pause).await;
        let Some(pipes) = pipes.upgrade().filter(|_| core.changes.receiver_count() > 0) else { return };
        if pipes.conn(&SessionKey::Catalog, client, Way::OldSse).await.is_ok() {
            return;
        }
        ran = Duration::ZERO;
    }
}
