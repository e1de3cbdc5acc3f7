//! The first words over a pipe: which era its server speaks, and the handshake where there is one. A server that ends
//! itself over the first question gets a fresh pipe for the next.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use mcp::era::{Era, Revision};
use mcp::json::Raw;
use mcp::message::{Id, RpcError};
use mcp::method;

use super::answer::{broken, printable};
use super::compose;
use super::core::Way;
use super::handshake::{facts, newest, supported};
use super::pipes::{Conn, Pipes};
use super::probe::{Verdict, judge};
use crate::adapters::pipe::{Mux, MuxEvent, Pending};
use crate::ports::upstream::{Client, Facts, Fault, FaultKind};

/// Opens a pipe and finds the way to speak over it. `expected` is how the server was spoken to before; a legacy server
/// is then not asked again, while a modern one is, since a new process may be another program.
pub(super) async fn establish(
    pipes: &Pipes,
    client: &Client,
    shared: bool,
    expected: Option<Way>,
) -> Result<Conn, Fault> {
    match expected {
        None | Some(Way::Modern) => probe(pipes, client, shared).await,
        Some(Way::OldSse) => {
            let mux = pipes.fresh(shared, client).await?;
            shake(pipes, mux, client, Way::OldSse).await
        }
        Some(Way::Legacy) => {
            let mux = pipes.fresh(shared, client).await?;
            match shake(pipes, mux, client, Way::Legacy).await {
                // It answered, and not as before.
                Err(fault) if fault.kind == FaultKind::Protocol => {
                    probe(pipes, client, shared).await.map_err(|_| fault)
                }
                done => done,
            }
        }
    }
}

async fn probe(pipes: &Pipes, client: &Client, shared: bool) -> Result<Conn, Fault> {
    let mux = pipes.fresh(shared, client).await?;
    let within = pipes.core.spec.timeouts.initialize;
    let asked = tokio::time::timeout(within, ask(&mux, compose::discover)).await;
    let verdict = match asked {
        Ok(Ok(outcome)) => judge(&pipes.core, outcome),
        // Broken framing is no answer of a legacy server either; it would break the next answer too.
        Ok(Err(fault)) if matches!(fault.kind, FaultKind::Protocol | FaultKind::TooLarge) => {
            return Err(fault);
        }
        Ok(Err(_)) | Err(_) => Verdict::Legacy,
    };
    match verdict {
        Verdict::Modern(facts) => {
            mux.set_era(Era::Modern);
            let conn = Conn::new(mux, facts, Way::Modern);
            pipes.core.learn(Way::Modern, Arc::clone(&conn.facts));
            Ok(conn)
        }
        Verdict::Nothing => {
            close(mux);
            Err(broken("the server speaks no protocol version that is spoken here"))
        }
        Verdict::Legacy => {
            if !mux.is_closed() {
                match shake(pipes, mux, client, Way::Legacy).await {
                    Ok(conn) => return Ok(conn),
                    Err(fault) => {
                        tracing::debug!(server = %pipes.core.server, %fault, "tried in a fresh process")
                    }
                }
            }
            // The question has spoilt the process, or ended it.
            let mux = pipes.fresh(shared, client).await?;
            shake(pipes, mux, client, Way::Legacy).await
        }
    }
}

async fn shake(pipes: &Pipes, mux: Arc<Mux>, client: &Client, way: Way) -> Result<Conn, Fault> {
    let within = pipes.core.spec.timeouts.initialize;
    match tokio::time::timeout(within, initialize(&mux, client)).await {
        Ok(Ok(facts)) => {
            mux.set_era(Era::Legacy);
            let conn = Conn::new(mux, facts, way);
            if pipes.core.known().is_none_or(|known| known.way != way) {
                pipes.core.learn(way, Arc::clone(&conn.facts));
            }
            Ok(conn)
        }
        Ok(Err(fault)) => {
            close(mux);
            Err(fault)
        }
        Err(_) => {
            close(mux);
            Err(Fault::late(FaultKind::Timeout, format!("no handshake within {within:?}")))
        }
    }
}

async fn initialize(mux: &Arc<Mux>, client: &Client) -> Result<Facts, Fault> {
    let mut revision = Revision::NEWEST_LEGACY;
    let mut refused: Option<RpcError> = None;
    for _ in 0..2 {
        let sent = mux.initialize(|id| compose::initialize(id, client, revision)).await?;
        match answer(sent).await? {
            Ok(result) => {
                let facts = facts(&result)?;
                mux.notify(method::INITIALIZED, None).await?;
                return Ok(facts);
            }
            Err(error) => {
                let other = newest(&supported(&error), Era::Legacy).filter(|other| *other != revision);
                refused = Some(error);
                let Some(other) = other else { break };
                revision = other;
            }
        }
    }
    let said = refused.map(|error| format!(": {} {}", error.code, printable(&error.message)));
    Err(broken(format!("the handshake was refused{}", said.unwrap_or_default())))
}

/// Sends a request of the gateway's own and waits for its answer.
pub(super) async fn ask(
    mux: &Arc<Mux>,
    body: impl FnOnce(&Id) -> Bytes + Send,
) -> Result<Result<Raw, RpcError>, Fault> {
    answer(mux.request(|id, _| body(id), false).await?).await
}

async fn answer(mut pending: Pending) -> Result<Result<Raw, RpcError>, Fault> {
    while let Some(event) = pending.next().await {
        if let MuxEvent::Done(response) = event? {
            return Ok(response.outcome);
        }
    }
    Err(Fault::late(FaultKind::Dropped, "the pipe ended without an answer"))
}

/// In the background: whoever waits for the server need not wait for this.
fn close(mux: Arc<Mux>) {
    tokio::spawn(async move { mux.close(std::time::Duration::from_secs(1)).await });
}
