//! Asking a server for its era as each transport's specification says: a modern request first, then the handshake,
//! then the transport of 2024-11-05. Only a result or an error of the modern era makes a server modern.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};
use mcp::era::{Era, Revision};
use mcp::json::Raw;
use mcp::message::RpcError;
use mcp::meta;

use super::answer::broken;
use super::back::CancelGuard;
use super::compose;
use super::core::{Core, Known, Way};
use super::handshake::{Failed, GREETING_BYTES, is_modern, newest, object, revisions, supported};
use super::http::{Got, exchange};
use super::net::Headers;
use super::server::HttpSide;
use super::stream::{Run, Want};
use crate::config::HttpKind;
use crate::ports::upstream::{Behalf, Facts, Fault, FaultKind};

/// What an answer to `server/discover` says about the era.
pub(super) enum Verdict {
    /// Modern; with what it said of itself.
    Modern(Facts),
    /// No sign of the modern era.
    Legacy,
    /// Modern, and yet no revision in common.
    Nothing,
}

/// Finds out how an HTTP server is spoken to.
pub(super) async fn over_http(side: &Arc<HttpSide>, behalf: &Behalf) -> Result<Arc<Known>, Fault> {
    let core = &side.core;
    if side.kind == HttpKind::Sse {
        return old(side).await;
    }
    let within = core.spec.timeouts.initialize;
    let verdict = match tokio::time::timeout(within, discover(side, behalf)).await {
        Ok(Ok(verdict)) => verdict,
        // Neither era could be spoken.
        Ok(Err(fault)) if fault.kind == FaultKind::Auth || !fault.dispatched => return Err(fault),
        // No answer to a request that it does not know, or none that makes sense: perhaps it waits for a handshake.
        Ok(Err(_)) | Err(_) => Verdict::Legacy,
    };
    match verdict {
        Verdict::Modern(facts) => return Ok(core.learn(Way::Modern, Arc::new(facts))),
        Verdict::Nothing => return Err(broken("the server speaks no protocol version that is spoken here")),
        Verdict::Legacy => {}
    }
    match side.open_for_probe(behalf).await {
        Ok(session) => Ok(core.learn(Way::Legacy, Arc::clone(&session.facts))),
        Err(Failed { fault, status: Some(status), modern: false })
            if side.kind == HttpKind::Auto && is_old(status) =>
        {
            // What the newer transport said is the better story when the old one is not there either.
            old(side).await.map_err(|_| fault)
        }
        Err(failed) => Err(failed.fault),
    }
}

async fn old(side: &Arc<HttpSide>) -> Result<Arc<Known>, Fault> {
    let facts = side.old.greet().await?;
    Ok(side.core.learn(Way::OldSse, facts))
}

fn is_old(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
}

async fn discover(side: &Arc<HttpSide>, behalf: &Behalf) -> Result<Verdict, Fault> {
    let ticket = side.core.ticket();
    let body = compose::discover(&ticket.id);
    let headers = discover_headers(side.net.headers(behalf));
    let reply = exchange(&side.net, headers, body, &ticket.id, GREETING_BYTES).await?;
    let outcome = match reply.got {
        Got::Answer { outcome, .. } => outcome,
        Got::Stream(body) => {
            let want = Want::bare(&side.core, ticket, Era::Modern, GREETING_BYTES);
            let guard = CancelGuard::new(None, &want.ticket.id);
            Run::new(body, want, None, guard).answer().await?.outcome
        }
        Got::Refused { error: Some(error), .. } => Err(error),
        Got::Refused { error: None, .. } => return Ok(Verdict::Legacy),
    };
    Ok(judge(&side.core, outcome))
}

fn discover_headers(mut headers: Headers) -> Headers {
    let version = HeaderValue::from_static(Revision::MODERN.as_str());
    headers.insert(HeaderName::from_static("mcp-protocol-version"), version);
    headers.insert(HeaderName::from_static("mcp-method"), HeaderValue::from_static("server/discover"));
    headers
}

/// Judges the answer to `server/discover`.
pub(super) fn judge(core: &Core, outcome: Result<Raw, RpcError>) -> Verdict {
    match outcome {
        Ok(result) => match result.get("supportedVersions").filter(Raw::is_array) {
            Some(list) => pick(&revisions(&list), Some(&result)),
            None => Verdict::Legacy,
        },
        Err(error) if is_modern(&error) => {
            let list = supported(&error);
            tracing::debug!(server = %core.server, code = error.code, "modern by its error");
            // Without a list (a header or a capability was the matter) it takes the revision that was offered.
            if list.is_empty() && error.data.as_ref().and_then(|d| d.get("supported")).is_none() {
                return pick(&[Revision::MODERN], None);
            }
            pick(&list, None)
        }
        Err(_) => Verdict::Legacy,
    }
}

fn pick(list: &[Revision], said: Option<&Raw>) -> Verdict {
    let Some(revision) = newest(list, Era::Modern) else {
        // It answers modern requests and offers only revisions with a handshake: then a handshake it is.
        return if newest(list, Era::Legacy).is_some() { Verdict::Legacy } else { Verdict::Nothing };
    };
    Verdict::Modern(match said {
        Some(result) => Facts {
            era: Era::Modern,
            revision,
            capabilities: object(result.get("capabilities")),
            info: result.at(&["_meta", meta::SERVER_INFO]).filter(Raw::is_object),
            instructions: result.get("instructions").filter(Raw::is_string),
        },
        None => Facts { era: Era::Modern, revision, capabilities: assumed(), info: None, instructions: None },
    })
}

/// A modern server that would not describe itself is asked for everything; what it lacks it answers with an error.
fn assumed() -> Raw {
    let mut all = mcp::json::ObjectWriter::new();
    for name in ["tools", "prompts", "resources", "completions"] {
        all.raw(name, &Raw::empty_object());
    }
    all.finish()
}
