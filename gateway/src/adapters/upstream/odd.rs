//! What an answer that does not fit says of its server: another era, a lost session, a request that was never
//! executed. It only judges; what follows from it is up to the caller.

use http::StatusCode;
use mcp::code;
use mcp::message::RpcError;

use super::handshake::is_modern;
use super::sessions::Session;

/// Statuses with which servers say that this is not how they are spoken to.
pub(super) fn is_wrong_door(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
}

/// Whether an error looks like a server that is no longer modern.
pub(super) fn is_odd_for_modern(status: StatusCode, error: &RpcError) -> bool {
    match error.code {
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY => false,
        code::UNSUPPORTED_VERSION | code::INVALID_REQUEST | code::METHOD_NOT_FOUND => true,
        // Invalid params may come from the tool itself.
        code::INVALID_PARAMS => status == StatusCode::BAD_REQUEST,
        _ => is_wrong_door(status),
    }
}

/// Whether an error looks like a server that is no longer legacy. A modern one may say with nothing but -32602 and its
/// status that it misses the modern `_meta`.
pub(super) fn is_odd_for_legacy(status: StatusCode, error: &RpcError) -> bool {
    is_modern(error) || (status == StatusCode::BAD_REQUEST && error.code == code::INVALID_PARAMS)
}

/// Whether a server that turned out to have another era certainly executed nothing: it knows no such place, no such
/// method, or no such version. A 400 is no proof, a proxy or the tool itself may have sent it.
pub(super) fn is_untouched(status: StatusCode, error: Option<&RpcError>) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
        || error.is_some_and(|error| matches!(error.code, code::METHOD_NOT_FOUND | code::UNSUPPORTED_VERSION))
}

/// Whether the server no longer knows the session. 404 is the specified sign; many servers send 400 and say it.
pub(super) fn is_gone(session: &Session, status: StatusCode, error: Option<&RpcError>) -> bool {
    if !session.named {
        return false;
    }
    let says_so = |error: &RpcError| {
        let text = error.message.to_ascii_lowercase();
        text.contains("session") || text.contains("not initialized")
    };
    status == StatusCode::NOT_FOUND || (status == StatusCode::BAD_REQUEST && error.is_some_and(says_so))
}
