//! `initialize` over streamable HTTP: from a client's own capabilities to a session. It is never cancelled, has one
//! deadline, and takes no revision that this gateway does not speak.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use mcp::code;
use mcp::era::{Era, Revision};
use mcp::json::Raw;
use mcp::message::{self, RpcError};
use mcp::method;
use tokio::sync::Semaphore;

use super::answer::{broken, printable};
use super::back::{Back, CancelGuard};
use super::compose;
use super::core::Core;
use super::http::{Got, exchange, refusal};
use super::net::{Headers, Net};
use super::sessions::Session;
use super::stream::{Run, Want};
use crate::ports::upstream::{Client, Facts, Fault, FaultKind};

/// The answer of a handshake or a probe; more is not read.
pub(super) const GREETING_BYTES: usize = 1 << 20;

/// Why there is no session.
#[derive(Clone)]
pub(super) struct Failed {
    pub(super) fault: Fault,
    /// The HTTP status, when the server answered with an error.
    pub(super) status: Option<StatusCode>,
    /// Whether the server said in its modern way that it knows no handshake.
    pub(super) modern: bool,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Failed {
        Failed { fault, status: None, modern: false }
    }
}

/// Opens a session for `client`.
pub(super) async fn handshake(
    core: &Arc<Core>,
    net: &Arc<Net>,
    gate: &Arc<Semaphore>,
    client: &Client,
) -> Result<Session, Failed> {
    let within = core.spec.timeouts.initialize;
    match tokio::time::timeout(within, greet(core, net, gate, client)).await {
        Ok(done) => done,
        Err(_) => Err(Fault::late(FaultKind::Timeout, format!("no handshake within {within:?}")).into()),
    }
}

async fn greet(
    core: &Arc<Core>,
    net: &Arc<Net>,
    gate: &Arc<Semaphore>,
    client: &Client,
) -> Result<Session, Failed> {
    let mut revision = Revision::NEWEST_LEGACY;
    let mut refused = None;
    // A server that refuses the newest revision instead of offering its own names those that it speaks.
    for _ in 0..2 {
        match initialize(core, net, client, revision).await? {
            Hello::Session(result, id) => {
                let facts = facts(&result)?;
                let headers = headers(net, client, id.as_ref(), facts.revision);
                let back = back(core, net, gate, (headers, client));
                let session = Session::new(facts, back, id.is_some());
                opened(core, &session).await?;
                return Ok(session);
            }
            Hello::Refused(failed, other) => {
                let other = other.filter(|other| *other != revision);
                refused = Some(failed);
                let Some(other) = other else { break };
                revision = other;
            }
        }
    }
    Err(refused.unwrap_or_else(|| broken("no handshake").into()))
}

enum Hello {
    Session(Raw, Option<HeaderValue>),
    /// With the newest legacy revision that the server names instead.
    Refused(Failed, Option<Revision>),
}

async fn initialize(
    core: &Arc<Core>,
    net: &Arc<Net>,
    client: &Client,
    revision: Revision,
) -> Result<Hello, Failed> {
    let ticket = core.ticket();
    let body = compose::initialize(&ticket.id, client, revision);
    let reply = exchange(net, net.headers(&client.behalf), body, &ticket.id, GREETING_BYTES).await?;
    let (status, outcome) = match reply.got {
        Got::Answer { status, outcome } => (status, outcome),
        Got::Stream(body) => {
            let want = Want::bare(core, ticket, Era::Legacy, GREETING_BYTES);
            let guard = CancelGuard::new(None, &want.ticket.id);
            (StatusCode::OK, Run::new(body, want, None, guard).answer().await?.outcome)
        }
        Got::Refused { status, error } => {
            let modern = error.as_ref().is_some_and(is_modern);
            let fault = refusal(status, error.as_ref());
            return Ok(Hello::Refused(Failed { fault, status: Some(status), modern }, None));
        }
    };
    match outcome {
        Ok(result) => Ok(Hello::Session(result, reply.session)),
        Err(error) => {
            let detail = format!("the handshake was refused: {} {}", error.code, printable(&error.message));
            let modern = is_modern(&error);
            let failed = Failed { fault: broken(detail), status: Some(status), modern };
            Ok(Hello::Refused(failed, newest(&supported(&error), Era::Legacy)))
        }
    }
}

/// What the server said of itself.
pub(super) fn facts(result: &Raw) -> Result<Facts, Fault> {
    let version = result.get("protocolVersion").and_then(|v| v.string());
    let revision = version
        .as_deref()
        .and_then(Revision::parse)
        .filter(|revision| revision.era() == Era::Legacy)
        .ok_or_else(|| broken("the server chose a protocol version that is not spoken here"))?;
    Ok(Facts {
        era: Era::Legacy,
        revision,
        capabilities: object(result.get("capabilities")),
        info: result.get("serverInfo").filter(Raw::is_object),
        instructions: result.get("instructions").filter(Raw::is_string),
    })
}

/// The value when it is an object, else an empty one.
pub(super) fn object(value: Option<Raw>) -> Raw {
    value.filter(Raw::is_object).unwrap_or_else(Raw::empty_object)
}

/// The headers of a session's messages.
fn headers(net: &Net, client: &Client, id: Option<&HeaderValue>, revision: Revision) -> Headers {
    let mut headers = net.headers(&client.behalf);
    if revision >= Revision::V2025_06_18 {
        let version = HeaderValue::from_static(revision.as_str());
        headers.insert(HeaderName::from_static("mcp-protocol-version"), version);
    }
    if let Some(id) = id {
        headers.insert(HeaderName::from_static("mcp-session-id"), id.clone());
    }
    headers
}

fn back(core: &Core, net: &Arc<Net>, gate: &Arc<Semaphore>, (headers, client): (Headers, &Client)) -> Back {
    Back {
        net: Arc::clone(net),
        headers,
        within: core.spec.timeouts.initialize.min(Duration::from_secs(10)),
        gate: Arc::clone(gate),
        server: Arc::clone(&core.server),
        roots: client.roots.clone(),
    }
}

/// `notifications/initialized`. A server that dislikes it may still serve, so only a broken connection counts.
async fn opened(core: &Arc<Core>, session: &Session) -> Result<(), Fault> {
    let body = message::notification(method::INITIALIZED, None);
    let answer = session.back.net.post(session.back.headers.clone(), body).await?;
    if !answer.status().is_success() {
        tracing::debug!(server = %core.server, status = answer.status().as_u16(), "initialized was refused");
    }
    Ok(())
}

/// Whether only a server of the modern era sends this error.
pub(super) fn is_modern(error: &RpcError) -> bool {
    matches!(error.code, code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION)
}

/// The versions that an error names as supported.
pub(super) fn supported(error: &RpcError) -> Vec<Revision> {
    let named = error.data.as_ref().and_then(|data| data.get("supported"));
    named.map(|list| revisions(&list)).unwrap_or_default()
}

/// The revisions of a JSON array that are spoken here; bounded.
pub(super) fn revisions(list: &Raw) -> Vec<Revision> {
    list.elements().take(64).filter_map(|v| Revision::parse(&v.string()?)).collect()
}

/// The newest of an era.
pub(super) fn newest(list: &[Revision], era: Era) -> Option<Revision> {
    list.iter().copied().filter(|revision| revision.era() == era).max()
}
