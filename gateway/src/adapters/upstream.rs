//! The client of one server: HTTP, old HTTP+SSE or a child process, either era. It connects when it is first needed,
//! remembers how the server is spoken to, and never passes a client's credential or an answer's headers on.

#![warn(clippy::large_futures)]

mod answer;
mod back;
mod compose;
mod core;
mod flight;
mod greet;
mod handshake;
mod heads;
mod http;
mod level;
mod logs;
mod net;
mod odd;
mod pipes;
mod pool;
mod probe;
mod server;
mod sessions;
mod sse;
mod stdio;
mod stream;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast;

use self::core::{Core, Known, Way};
use self::pipes::Pipes;
use self::server::HttpSide;
use crate::adapters::child::Slots;
use crate::adapters::credentials::Issue;
use crate::config::{self, Transport};
use crate::ports::clock::Clock;
use crate::ports::upstream::{
    Behalf, Call, Change, Client, Events, Facts, Fault, SessionKey, Upstream, UpstreamStatus,
};

/// What the clients of all servers share.
#[derive(Clone)]
pub struct Deps {
    /// The cap on child processes over all servers.
    pub slots: Arc<Slots>,
    /// The wall clock, for what is shown of a server.
    pub clock: Arc<dyn Clock>,
    /// Makes servers' credentials.
    pub issue: Issue,
    /// Told whether a server works, whenever that changes.
    pub metrics: Arc<metrics::Metrics>,
}

/// The client of one server.
pub struct ServerClient {
    core: Arc<Core>,
    side: Side,
}

enum Side {
    Http(Arc<HttpSide>),
    Stdio(Arc<Pipes>),
    /// The configuration cannot be used; every call says why.
    Broken(Fault),
}

impl ServerClient {
    /// Makes the client. Nothing is connected or started before the first call; what cannot be used at all (an
    /// unreadable file of authorities) is said by every call.
    pub fn new(spec: Arc<config::Server>, deps: Deps) -> Arc<ServerClient> {
        let core = Core::new(Arc::clone(&spec), Arc::clone(&deps.clock), deps.metrics);
        let side = match &spec.transport {
            Transport::Http(http) => match HttpSide::new(&core, http, &deps.issue) {
                Ok(side) => Side::Http(side),
                Err(fault) => {
                    core.note(Some(&fault), false);
                    Side::Broken(fault)
                }
            },
            Transport::Stdio(stdio) => Side::Stdio(stdio::pipes(&core, stdio, &deps.slots)),
        };
        Arc::new(ServerClient { core, side })
    }

    async fn known(&self, behalf: &Behalf) -> Result<Arc<Known>, Fault> {
        match &self.side {
            Side::Http(side) => side.known(behalf).await,
            Side::Stdio(pipes) => pipes.known().await,
            Side::Broken(fault) => Err(fault.clone()),
        }
    }
}

#[async_trait]
impl Upstream for ServerClient {
    async fn call(self: Arc<Self>, call: Arc<Call>) -> Result<Events, Fault> {
        self.core.running()?;
        match &self.side {
            Side::Http(side) => side.call(&call).await,
            Side::Stdio(pipes) => {
                let known = Box::pin(pipes.known()).await?;
                Box::pin(pipes.call(&call, &known)).await
            }
            Side::Broken(fault) => Err(fault.clone()),
        }
    }

    async fn facts(&self, client: &Client, session: &SessionKey) -> Result<Arc<Facts>, Fault> {
        let known = self.known(&client.behalf).await?;
        if let (Side::Http(side), Way::Modern, true) = (&self.side, known.way, known.is_old()) {
            let (side, behalf) = (Arc::clone(side), client.behalf.clone());
            tokio::spawn(async move { side.ask(&behalf).await });
        }
        match (&self.side, known.way) {
            (Side::Http(side), Way::Legacy) => {
                let session = side.session(session, client).await.map_err(|failed| failed.fault)?;
                Ok(Arc::clone(&session.facts))
            }
            (Side::Http(side), Way::OldSse) => {
                Ok(Arc::clone(&side.old.conn(session, client, known.way).await?.facts))
            }
            (Side::Stdio(pipes), Way::Legacy) => {
                Ok(Arc::clone(&pipes.conn(session, client, known.way).await?.facts))
            }
            _ => Ok(Arc::clone(&known.facts)),
        }
    }

    fn overdue(&self, client: &Client, session: &SessionKey) {
        // A connection of streamable HTTP ends with its call; only what is shared or stays can hang on.
        match &self.side {
            Side::Http(side) => side.old.check(client, session),
            Side::Stdio(pipes) => pipes.check(client, session),
            Side::Broken(_) => {}
        }
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.core.changes.subscribe()
    }

    fn status(&self) -> UpstreamStatus {
        let (known, health) = (self.core.known(), self.core.health.state());
        let way = known.as_ref().map(|known| known.way);
        let (transport, sessions, connections) = match &self.side {
            Side::Http(side) if way == Some(Way::OldSse) => ("sse", side.old.pool.len(), side.net.open()),
            Side::Http(side) => ("http", side.sessions.len(), side.net.open()),
            Side::Stdio(pipes) => ("stdio", pipes.pool.len(), pipes.pool.len()),
            Side::Broken(_) => ("http", 0, 0),
        };
        UpstreamStatus {
            transport,
            era: way.map(Way::era),
            revision: known.map(|known| known.facts.revision),
            connected: health.connected,
            last_error: health.last_error,
            since: health.since,
            sessions,
            connections,
        }
    }

    async fn end_session(&self, key: &SessionKey) {
        let within = Duration::from_secs(10);
        match &self.side {
            Side::Http(side) => side.end(Some(key), within).await,
            Side::Stdio(pipes) => pipes.end(Some(key), within).await,
            Side::Broken(_) => {}
        }
    }

    async fn shutdown(&self, within: Duration) {
        self.core.stop.cancel();
        match &self.side {
            Side::Http(side) => side.end(None, within).await,
            Side::Stdio(pipes) => pipes.end(None, within).await,
            Side::Broken(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
