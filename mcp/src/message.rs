//! The JSON-RPC 2.0 envelope: one checked JSON value to one message, and back. Never looks into `params`, `result` or
//! `data`: they travel as the bytes that were checked.

use std::hash::{Hash, Hasher};

use bytes::Bytes;

use crate::code;
use crate::json::{Member, ObjectWriter, Outer, Raw};

#[cfg(test)]
mod tests;

/// Longest string id, in bytes of its text.
pub const MAX_ID: usize = 256;
/// Longest method name, in bytes.
pub const MAX_METHOD: usize = 128;
/// Largest magnitude of an integer id: what a double holds exactly.
const MAX_SAFE: i64 = (1 << 53) - 1;

#[derive(Clone, PartialEq, Eq, Hash)]
enum IdValue {
    Integer(i64),
    Text(Box<str>),
}

/// A request id, kept in the spelling received. Two ids are equal when kind and value are: the string `"1"` is not the
/// integer `1`, but `"a"` is `"\u0061"`.
#[derive(Clone)]
pub struct Id {
    raw: Raw,
    value: IdValue,
}

impl Id {
    /// A non-empty string of at most [`MAX_ID`] bytes without control characters, or an integer within ±(2^53−1)
    /// spelled without fraction, exponent or minus zero.
    pub fn from_raw(raw: &Raw) -> Option<Id> {
        // Escapes make at most six bytes of one; longer than that is too long without looking.
        if raw.len() > MAX_ID * 6 + 2 {
            return None;
        }
        let value = match raw.string() {
            Some(text) if !text.is_empty() && text.len() <= MAX_ID && !text.chars().any(char::is_control) => {
                IdValue::Text(text.into_boxed_str())
            }
            Some(_) => return None,
            None => {
                let number = raw.integer().filter(|number| (-MAX_SAFE..=MAX_SAFE).contains(number))?;
                if number == 0 && raw.as_str() != "0" {
                    return None;
                }
                IdValue::Integer(number)
            }
        };
        Some(Id { raw: raw.clone(), value })
    }

    /// An id made here. Numbers beyond 2^53−1 are cut to it: a peer could not echo them exactly.
    pub fn from_number(number: u64) -> Id {
        let number = i64::try_from(number).unwrap_or(MAX_SAFE).min(MAX_SAFE);
        Id { raw: Raw::from_integer(number), value: IdValue::Integer(number) }
    }

    /// The id as received.
    pub fn raw(&self) -> Raw {
        self.raw.clone()
    }

    /// The same, looked at.
    pub fn text(&self) -> &Raw {
        &self.raw
    }

    /// The number of an integer id.
    pub fn number(&self) -> Option<i64> {
        match self.value {
            IdValue::Integer(number) => Some(number),
            IdValue::Text(_) => None,
        }
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Id) -> bool {
        self.value == other.value
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

/// Bounded and free of control characters by construction, so logs may have it.
impl std::fmt::Debug for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Id({})", self.raw.as_str())
    }
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its id.
    pub id: Id,
    /// Its method, at most [`MAX_METHOD`] bytes without control characters.
    pub method: String,
    /// Its params, an object.
    pub params: Option<Raw>,
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Its method, at most [`MAX_METHOD`] bytes without control characters.
    pub method: String,
    /// Its params, an object.
    pub params: Option<Raw>,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The request's id; none only on an error about a request whose id could not be read.
    pub id: Option<Id>,
    /// The result object, or the error.
    pub outcome: Result<Raw, RpcError>,
}

/// A JSON-RPC error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcError {
    /// The code, see [`crate::code`].
    pub code: i64,
    /// The text for people.
    pub message: String,
    /// Details of any kind.
    pub data: Option<Raw>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    /// The same with data.
    pub fn with_data(mut self, data: Raw) -> RpcError {
        self.data = Some(data);
        self
    }
}

/// One JSON-RPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Wants an answer.
    Request(Request),
    /// Wants none.
    Notification(Notification),
    /// Is one.
    Response(Response),
}

/// Why a value is no message. The text is fit for a client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct EnvelopeError {
    /// The message's id, when it could be read, for the error response.
    pub id: Option<Id>,
    /// Always [`code::INVALID_REQUEST`].
    pub code: i64,
    /// What is wrong.
    pub what: &'static str,
}

/// The members of an envelope as they were found.
#[derive(Default)]
struct Envelope {
    version: bool,
    id: Option<Raw>,
    method: Option<Raw>,
    params: Option<Raw>,
    result: Option<Raw>,
    error: Option<Raw>,
}

impl Envelope {
    fn take(&mut self, member: &Member<'_>) -> Result<(), &'static str> {
        let slot = match member.name().as_ref() {
            "jsonrpc" => {
                self.version = member.value().is_text("2.0");
                return if self.version { Ok(()) } else { Err("jsonrpc must be \"2.0\"") };
            }
            "id" => &mut self.id,
            "method" => &mut self.method,
            "params" => &mut self.params,
            "result" => &mut self.result,
            "error" => &mut self.error,
            _ => return Err("unknown member in the message"),
        };
        *slot = Some(member.value());
        Ok(())
    }

    fn message(self, id: Option<&Id>) -> Result<Message, &'static str> {
        if !self.version {
            return Err("jsonrpc must be \"2.0\"");
        }
        match (self.method, self.result, self.error) {
            (Some(method), None, None) => {
                let method = method_name(&method)?;
                let params = self.params;
                if params.as_ref().is_some_and(|params| !params.is_object()) {
                    return Err("params must be an object");
                }
                Ok(match id {
                    Some(id) => Message::Request(Request { id: id.clone(), method, params }),
                    None => Message::Notification(Notification { method, params }),
                })
            }
            (None, Some(_), None) | (None, None, Some(_)) if self.params.is_some() => {
                Err("a response has no params")
            }
            (None, Some(result), None) => match id {
                None => Err("a result needs the id of its request"),
                Some(_) if !result.is_object() => Err("result must be an object"),
                Some(id) => Ok(Message::Response(Response { id: Some(id.clone()), outcome: Ok(result) })),
            },
            (None, None, Some(error)) => {
                Ok(Message::Response(Response { id: id.cloned(), outcome: Err(rpc_error(&error)?) }))
            }
            (Some(_), _, _) => Err("a message is either a request or a response"),
            (None, Some(_), Some(_)) => Err("a response has either a result or an error"),
            (None, None, None) => Err("neither method nor result nor error"),
        }
    }
}

fn method_name(raw: &Raw) -> Result<String, &'static str> {
    // As with ids: six bytes of escape stand for one at least.
    let method = if raw.len() > MAX_METHOD * 6 + 2 { None } else { raw.string() };
    method
        .filter(|method| {
            !method.is_empty() && method.len() <= MAX_METHOD && !method.chars().any(char::is_control)
        })
        .ok_or("method must be a string of 1 to 128 bytes without control characters")
}

/// Reads an error object. Members that JSON-RPC does not know are left behind: nothing would carry them on.
fn rpc_error(raw: &Raw) -> Result<RpcError, &'static str> {
    if !raw.is_object() {
        return Err("error must be an object");
    }
    let (mut code, mut message, mut data) = (None, None, None);
    for member in raw.view() {
        match member.name().as_ref() {
            "code" => code = member.value().integer(),
            "message" => message = member.value().string(),
            "data" => data = Some(member.value()),
            _ => {}
        }
    }
    let code = code.ok_or("error.code must be an integer")?;
    let message = message.ok_or("error.message must be a string")?;
    Ok(RpcError { code, message, data })
}

/// Reads one message: an object with `jsonrpc: "2.0"` and no member but `id`, `method`, `params`, `result`, `error`, their
/// names spelled exactly so. Arrays (batches) are refused; a caller that admits them decodes each element.
///
/// # Errors
/// What is wrong, with the message's id where it could be read.
pub fn decode(raw: &Raw) -> Result<Message, EnvelopeError> {
    decode_members(raw, raw.view())
}

/// [`decode`] for a text that was checked just now.
///
/// # Errors
/// As [`decode`].
pub fn decode_outer(outer: &Outer) -> Result<Message, EnvelopeError> {
    decode_members(outer.raw(), outer.members())
}

fn decode_members<'a>(
    raw: &Raw,
    members: impl Iterator<Item = Member<'a>>,
) -> Result<Message, EnvelopeError> {
    let fail = |id: Option<Id>, what| EnvelopeError { id, code: code::INVALID_REQUEST, what };
    if !raw.is_object() {
        return Err(fail(
            None,
            if raw.is_array() { "batches are not accepted" } else { "a message must be an object" },
        ));
    }
    let mut envelope = Envelope::default();
    // All members are looked at even after a fault, so that the error can carry the id.
    let mut fault = None;
    for member in members {
        if let Err(what) = envelope.take(&member) {
            fault = fault.or(Some(what));
        }
    }
    let id = match &envelope.id {
        None => None,
        // An error about an unreadable request has a null id (JSON-RPC 2.0 section 5).
        Some(id) if id.is_null() && envelope.error.is_some() => None,
        Some(id) => match Id::from_raw(id) {
            Some(id) => Some(id),
            None => return Err(fail(None, "id must be a short string or an integer")),
        },
    };
    let message = match fault {
        Some(what) => Err(what),
        None => envelope.message(id.as_ref()),
    };
    message.map_err(|what| fail(id, what))
}

/// The beginning of a message, with room for so many bytes of the rest.
pub(crate) fn envelope(capacity: usize) -> ObjectWriter {
    let mut out = ObjectWriter::with_capacity(capacity + 96);
    out.string("jsonrpc", "2.0");
    out
}

/// The text of a request.
pub fn request(id: &Id, method: &str, params: Option<&Raw>) -> Bytes {
    let mut out = envelope(method.len() + params.map_or(0, Raw::len));
    out.raw("id", &id.raw).string("method", method);
    if let Some(params) = params {
        out.raw("params", params);
    }
    out.finish().into_bytes()
}

/// The text of a notification.
pub fn notification(method: &str, params: Option<&Raw>) -> Bytes {
    let mut out = envelope(method.len() + params.map_or(0, Raw::len));
    out.string("method", method);
    if let Some(params) = params {
        out.raw("params", params);
    }
    out.finish().into_bytes()
}

/// The text of a successful response.
pub fn result(id: &Id, result: &Raw) -> Bytes {
    let mut out = envelope(result.len());
    out.raw("id", &id.raw).raw("result", result);
    out.finish().into_bytes()
}

/// The text of an error response; without an id when that of the request could not be read.
pub fn error(id: Option<&Id>, error: &RpcError) -> Bytes {
    let mut object =
        ObjectWriter::with_capacity(error.message.len() + error.data.as_ref().map_or(0, Raw::len) + 48);
    object.integer("code", error.code).string("message", &error.message);
    if let Some(data) = &error.data {
        object.raw("data", data);
    }
    let object = object.finish();
    let mut out = envelope(object.len());
    if let Some(id) = id {
        out.raw("id", &id.raw);
    }
    out.raw("error", &object);
    out.finish().into_bytes()
}
