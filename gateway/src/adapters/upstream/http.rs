//! One POST and its answer's head, both eras. Of an answer's headers only the content type, the content encoding and
//! the session id are looked at; a redirect is never followed.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use mcp::json::Raw;
use mcp::message::{Id, Message, RpcError};

use super::answer::{broken, collect, message, ours, printable};
use super::net::{Headers, Net};
use crate::adapters::outbound::Body;
use crate::ports::upstream::{Fault, FaultKind};

/// Made once: a name that is given as text is parsed for each answer.
static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// What is read of an answer that is an error.
const ERROR_BODY: usize = 16 << 10;

/// A server's answer to a POSTed request.
pub(super) struct Reply {
    /// What came.
    pub(super) got: Got,
    /// `Mcp-Session-Id`, when sent once and well-formed.
    pub(super) session: Option<HeaderValue>,
}

/// What came back.
pub(super) enum Got {
    /// The answer itself. `status` tells more than the body when it is an error.
    Answer { status: StatusCode, outcome: Result<Raw, RpcError> },
    /// A stream that holds the answer.
    Stream(Body),
    /// An HTTP error without an answer to our id; perhaps with a JSON-RPC error to nobody.
    Refused { status: StatusCode, error: Option<RpcError> },
}

/// POSTs a request. The caller sets the deadline.
///
/// # Errors
/// The connection failed, the credential was refused, or the answer breaks HTTP's or JSON-RPC's rules.
pub(super) async fn exchange(
    net: &Net,
    headers: Headers,
    body: Bytes,
    id: &Id,
    cap: usize,
) -> Result<Reply, Fault> {
    let response = net.post(headers, body).await?;
    let status = response.status();
    let session = session_id(response.headers());
    if status.is_redirection() {
        return Err(broken(format!("redirect not followed: {}", status.as_u16())));
    }
    if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
        return Err(Fault::late(FaultKind::Auth, format!("the server answered {}", status.as_u16())));
    }
    if is_encoded(response.headers()) {
        return Err(broken("an encoded answer, which was not asked for"));
    }
    let got =
        if status.is_success() { success(response, id, cap).await? } else { failure(response, id).await };
    Ok(Reply { got, session })
}

async fn success(response: Response<Body>, id: &Id, cap: usize) -> Result<Got, Fault> {
    let status = response.status();
    if status == StatusCode::ACCEPTED || status == StatusCode::NO_CONTENT {
        return Err(broken(format!("{} to a request", status.as_u16())));
    }
    if !is_json(response.headers()) {
        if is_event_stream(response.headers()) {
            return Ok(Got::Stream(response.into_body()));
        }
        return Err(broken("the answer is neither JSON nor an event stream"));
    }
    let answer = ours(message(collect(response, cap).await?).await?, id)?;
    Ok(Got::Answer { status, outcome: answer.outcome })
}

/// Looks for a JSON-RPC error in a failed answer. Whatever else it holds is dropped unread.
async fn failure(response: Response<Body>, id: &Id) -> Got {
    let status = response.status();
    if !is_json(response.headers()) {
        return Got::Refused { status, error: None };
    }
    let Ok(bytes) = collect(response, ERROR_BODY).await else {
        return Got::Refused { status, error: None };
    };
    match message(bytes).await {
        Ok(Message::Response(answer)) if answer.id.as_ref() == Some(id) => {
            Got::Answer { status, outcome: answer.outcome }
        }
        Ok(Message::Response(answer)) => Got::Refused { status, error: answer.outcome.err() },
        _ => Got::Refused { status, error: None },
    }
}

/// The fault that a refusal is, when it is nothing better.
pub(super) fn refusal(status: StatusCode, error: Option<&RpcError>) -> Fault {
    let mut detail = format!("the server answered {}", status.as_u16());
    if let Some(error) = error {
        detail.push_str(&format!(": {} {}", error.code, printable(&error.message)));
    }
    let unreachable = status.is_server_error()
        || matches!(
            status,
            StatusCode::NOT_FOUND
                | StatusCode::METHOD_NOT_ALLOWED
                | StatusCode::GONE
                | StatusCode::TOO_MANY_REQUESTS
        );
    Fault::late(if unreachable { FaultKind::Unreachable } else { FaultKind::Protocol }, detail)
}

/// Whether the content type is `text/event-stream`.
pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|essence| essence.eq_ignore_ascii_case(b"text/event-stream"))
}

fn is_json(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|essence| essence.eq_ignore_ascii_case(b"application/json"))
}

/// The one content type, without its parameters.
fn media_type(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let essence = value.as_bytes().split(|byte| *byte == b';').next();
    essence.map(<[u8]>::trim_ascii)
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Visible ASCII, at most 1 KiB, exactly once (2025-11-25, session management).
fn session_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut values = headers.get_all(&SESSION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let bytes = value.as_bytes();
    let fine = !bytes.is_empty() && bytes.len() <= 1024 && bytes.iter().all(|b| (0x21..=0x7e).contains(b));
    fine.then(|| {
        let mut value = value.clone();
        value.set_sensitive(true);
        value
    })
}
