//! What every transport reads and says in the same words: texts checked strictly, progress without our token, answers
//! to a server's own requests, cancellations. Nothing that did not parse whole is ever handed on.

use bytes::Bytes;
use mcp::json::{Limits, ObjectWriter, Outer, Raw};
use mcp::message::{self, Id, Request, RpcError};
use mcp::{code, meta, method};

use crate::ports::upstream::{Change, Fault, FaultKind};

/// Larger texts are checked on a blocking thread, so that they hold up nobody else's call.
const INLINE: usize = 256 << 10;

/// Parses one JSON document strictly.
async fn parse(bytes: Bytes) -> Result<Outer, Fault> {
    let parsed = if bytes.len() > INLINE {
        tokio::task::spawn_blocking(move || Outer::parse(bytes, &Limits::ANSWER))
            .await
            .map_err(|_| Fault::late(FaultKind::Dropped, "the gateway is ending"))?
    } else {
        Outer::parse(bytes, &Limits::ANSWER)
    };
    parsed.map_err(|e| broken(format!("not JSON: {e}")))
}

/// The one JSON-RPC message that `bytes` hold.
pub(crate) async fn message(bytes: Bytes) -> Result<message::Message, Fault> {
    let outer = parse(bytes).await?;
    message::decode_outer(&outer).map_err(|e| broken(format!("not a JSON-RPC message: {}", e.what)))
}

/// A server that broke the protocol. `detail` holds nothing of what it sent.
pub(crate) fn broken(detail: impl Into<String>) -> Fault {
    Fault::late(FaultKind::Protocol, detail)
}

/// The params of a progress notification without the token, which is ours and never goes back (U13).
pub(crate) fn without_token(params: &Raw) -> Raw {
    params.without(meta::PROGRESS_TOKEN)
}

/// The change that a notification announces.
pub(crate) fn list_change(notified: &str) -> Option<Change> {
    match notified {
        method::TOOLS_CHANGED => Some(Change::Tools),
        method::PROMPTS_CHANGED => Some(Change::Prompts),
        method::RESOURCES_CHANGED => Some(Change::Resources),
        _ => None,
    }
}

/// The answer to a request of a legacy server: to `ping` an empty result, to `roots/list` the task's roots where it has
/// any, to everything else "method not found", since questions to clients are not carried yet. Never silence, which would
/// hang the server's call.
pub(crate) fn answer(request: &Request, roots: Option<&Raw>) -> Bytes {
    match (request.method.as_str(), roots) {
        (method::PING, _) => return message::result(&request.id, &Raw::empty_object()),
        (method::ROOTS_LIST, Some(roots)) => return message::result(&request.id, roots),
        _ => {}
    }
    let message = "Method not found: this client takes no requests".to_owned();
    message::error(Some(&request.id), &RpcError { code: code::METHOD_NOT_FOUND, message, data: None })
}

/// `notifications/cancelled` for one of our requests.
pub(crate) fn cancelled(id: &Id) -> Bytes {
    let mut params = ObjectWriter::with_capacity(64);
    params.raw("requestId", &id.raw());
    params.string("reason", "the client has left or cancelled");
    message::notification(method::CANCELLED, Some(&params.finish()))
}
