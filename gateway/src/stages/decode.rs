//! Stage 2: the body becomes exactly one JSON-RPC message of one era. Strict JSON (no duplicate keys, bounded
//! depth), strict envelope, and on the modern era the mirrored headers must say what the body says. The body is
//! what counts: no header is used in place of something missing in it.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use mcp::era::{Era, Revision};
use mcp::json::{ArrayWriter, Limits, ObjectWriter, Outer, Raw};
use mcp::message::{self, EnvelopeError, Id, Message};
use mcp::meta::Meta;
use mcp::param::ParamHeaders;
use mcp::{method, mirror};
use smallvec::SmallVec;

use crate::config::{Checked, Legacy};
use crate::reject::{Reject, Why};
use crate::stages::admit::{Admitted, Via};

/// The header that names the revision.
pub static VERSION_HEADER: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The header that mirrors `method`.
pub static METHOD_HEADER: HeaderName = HeaderName::from_static("mcp-method");
/// The header that mirrors `params.name` or `params.uri`.
pub static NAME_HEADER: HeaderName = HeaderName::from_static("mcp-name");

/// Bodies above this are parsed off the worker thread.
const OFFLOAD: usize = 256 * 1024;
/// Messages of one batch (2025-03-26).
const MAX_BATCH: usize = 64;

/// One message that may be acted upon.
pub struct Decoded {
    /// How it came.
    pub admitted: Arc<Admitted>,
    /// The era that its sender speaks.
    pub era: Era,
    /// The revision that it names; none on legacy messages without the header.
    pub revision: Option<Revision>,
    /// The message.
    pub message: Message,
    /// Its `_meta`.
    pub meta: Meta,
    /// Whether it came in a batch: that is only allowed in sessions of 2025-03-26.
    pub batched: bool,
}

/// What a body holds.
pub enum Body {
    /// One message.
    One(Box<Decoded>),
    /// A batch, each with its own verdict.
    Batch(Vec<Result<Box<Decoded>, Reject>>),
}

impl Body {
    /// The id of a single request.
    pub fn id(&self) -> Option<Id> {
        match self {
            Body::One(decoded) => id_of(&decoded.message),
            Body::Batch(_) => None,
        }
    }
}

/// Decodes a body.
///
/// # Errors
/// -32700, -32600, -32602, -32020, -32022 and, for methods unknown to the modern era, -32601.
pub async fn decode(
    config: &Checked,
    now: SystemTime,
    admitted: Arc<Admitted>,
    body: Bytes,
) -> Result<Body, Reject> {
    let outer = parse(config, body).await?;
    let window = Window { legacy: &config.legacy, now };
    if outer.raw().is_array() {
        return batch(window, admitted, outer.raw()).map(Body::Batch);
    }
    one(window, admitted, message::decode_outer(&outer), false).map(Body::One)
}

/// Which revisions are served now.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// Until when the handshake era is.
    pub legacy: &'a Legacy,
    /// Now.
    pub now: SystemTime,
}

impl Window<'_> {
    /// The last day of the handshake era, once it is over.
    pub fn closed(self) -> Option<Date> {
        let today = || jiff::Timestamp::try_from(self.now).unwrap_or_default().to_zoned(TimeZone::UTC).date();
        self.legacy.until.filter(|until| today() > *until)
    }

    /// The revisions that are served, newest first.
    pub fn supported(self) -> &'static [Revision] {
        if self.closed().is_some() { &[Revision::MODERN] } else { Revision::SUPPORTED }
    }
}

async fn parse(config: &Checked, body: Bytes) -> Result<Outer, Reject> {
    let limits = Limits { depth: config.limits.depth, ..Limits::REQUEST };
    let parsed = if body.len() > OFFLOAD {
        let work = tokio::task::spawn_blocking(move || Outer::parse(body, &limits));
        work.await.map_err(|e| Reject::new(Why::Internal, "the gateway failed").detail(e.to_string()))?
    } else {
        Outer::parse(body, &limits)
    };
    parsed.map_err(|error| {
        // What is JSON but not acceptable as a message is an invalid request, the rest does not parse.
        let why = match error.fault {
            mcp::json::Fault::Duplicate | mcp::json::Fault::Depth | mcp::json::Fault::Nodes => Why::Invalid,
            _ => Why::Parse,
        };
        Reject::new(why, error.to_string())
    })
}

fn batch(
    window: Window<'_>,
    admitted: Arc<Admitted>,
    raw: &Raw,
) -> Result<Vec<Result<Box<Decoded>, Reject>>, Reject> {
    let refuse = |text: &'static str| Err(Reject::new(Why::Invalid, text));
    let named = header(&admitted.headers, &VERSION_HEADER);
    // On stdio the session alone tells, and that is not known here.
    let allowed = named.is_none_or(|v| v == Revision::V2025_03_26.as_str());
    if !allowed {
        return refuse("send one message per request; batches exist in revision 2025-03-26 alone");
    }
    let messages: Vec<Raw> = raw.elements().take(MAX_BATCH + 1).collect();
    if messages.is_empty() || messages.len() > MAX_BATCH {
        return refuse("a batch holds 1 to 64 messages");
    }
    Ok(messages.iter().map(|m| one(window, Arc::clone(&admitted), message::decode(m), true)).collect())
}

fn one(
    window: Window<'_>,
    admitted: Arc<Admitted>,
    message: Result<Message, EnvelopeError>,
    batched: bool,
) -> Result<Box<Decoded>, Reject> {
    let message = message.map_err(|e| Reject::new(Why::Invalid, e.what).id(e.id))?;
    let id = id_of(&message);
    checked(window, admitted, message, batched).map_err(|reject| reject.id(id))
}

/// The id of a request.
pub fn id_of(message: &Message) -> Option<Id> {
    match message {
        Message::Request(request) => Some(request.id.clone()),
        Message::Notification(_) | Message::Response(_) => None,
    }
}

fn checked(
    window: Window<'_>,
    admitted: Arc<Admitted>,
    message: Message,
    batched: bool,
) -> Result<Box<Decoded>, Reject> {
    let (name, params) = match &message {
        Message::Request(request) => (request.method.as_str(), request.params.as_ref()),
        Message::Notification(note) => (note.method.as_str(), note.params.as_ref()),
        Message::Response(_) => ("", None),
    };
    let meta = Meta::parse(params).map_err(|e| Reject::new(Why::Params, e.what))?;
    let (era, revision) = era_of(window, &admitted, name, &meta)?;
    if era == Era::Modern {
        modern(window, &admitted, &message, &meta)?;
    }
    check_kind(&message, era)?;
    Ok(Box::new(Decoded { admitted, era, revision, message, meta, batched }))
}

/// Modern when `_meta` names a version or the header names a modern one; `initialize` without the
/// former is legacy.
fn era_of(
    window: Window<'_>,
    admitted: &Admitted,
    name: &str,
    meta: &Meta,
) -> Result<(Era, Option<Revision>), Reject> {
    let named = header(&admitted.headers, &VERSION_HEADER);
    if meta.version.is_some() {
        return Ok((Era::Modern, Some(Revision::MODERN)));
    }
    if name == method::INITIALIZE {
        return Ok((Era::Legacy, None));
    }
    match named.map(|text| (text, Revision::parse(text))) {
        None => Ok((Era::Legacy, None)),
        Some((_, Some(revision))) => Ok((revision.era(), Some(revision))),
        Some((text, None)) => Err(unsupported(text, window.supported())),
    }
}

fn modern(window: Window<'_>, admitted: &Admitted, message: &Message, meta: &Meta) -> Result<(), Reject> {
    let (name, params, required) = match message {
        Message::Request(request) => (&request.method, request.params.as_ref(), true),
        Message::Notification(note) => (&note.method, note.params.as_ref(), false),
        Message::Response(_) => {
            return Err(Reject::new(Why::Invalid, "clients of 2026-07-28 send no responses"));
        }
    };
    if required && meta.version.is_none() {
        let text = "params._meta must hold io.modelcontextprotocol/protocolVersion";
        return Err(Reject::new(Why::Params, text));
    }
    let http = matches!(admitted.via, Via::Http);
    if http {
        let (versions, methods, names) = (
            values(&admitted.headers, &VERSION_HEADER),
            values(&admitted.headers, &METHOD_HEADER),
            values(&admitted.headers, &NAME_HEADER),
        );
        let received = mirror::Received { version: &versions, method: &methods, name: &names };
        let body = mirror::Body { version: meta.version.as_deref(), method: name, params, required };
        mirror::check_standard(&received, &body).map_err(|e| Reject::new(Why::Mirror, e.to_string()))?;
    }
    if let Some(version) = &meta.version
        && Revision::parse(version).is_none_or(|revision| revision.era() != Era::Modern)
    {
        return Err(unsupported(version, window.supported()));
    }
    if required && !meta.client_capabilities.as_ref().is_some_and(Raw::is_object) {
        let text = "params._meta must hold io.modelcontextprotocol/clientCapabilities, an object";
        return Err(Reject::new(Why::Params, text));
    }
    Ok(())
}

/// A notification with an id and a request without one are both refused, so that nothing is done unasked.
fn check_kind(message: &Message, era: Era) -> Result<(), Reject> {
    match message {
        Message::Request(r) if r.method.starts_with("notifications/") => {
            Err(Reject::new(Why::Invalid, "a notification has no id"))
        }
        Message::Notification(n) if method::is_request(&n.method, era) => {
            Err(Reject::new(Why::Invalid, "a request needs an id"))
        }
        Message::Request(r) if era == Era::Modern && !method::is_request(&r.method, era) => {
            Err(Reject::new(Why::Method, "no such method in revision 2026-07-28"))
        }
        _ => Ok(()),
    }
}

/// The arguments that a tool wants mirrored must be mirrored by clients that speak 2026-07-28 over HTTP.
///
/// # Errors
/// -32020 when a header is missing, differs or can't be read.
pub fn check_params(decoded: &Decoded, wanted: &ParamHeaders) -> Result<(), Reject> {
    let http = matches!(decoded.admitted.via, Via::Http);
    let Message::Request(request) = &decoded.message else { return Ok(()) };
    if decoded.era == Era::Legacy || !http || wanted.is_empty() {
        return Ok(());
    }
    let mut received: Vec<(String, Vec<String>)> = Vec::new();
    for (name, value) in param_headers(&decoded.admitted) {
        let value = String::from_utf8_lossy(value).into_owned();
        // Values of one name come one after the other.
        match received.last_mut() {
            Some((last, values)) if last == name => values.push(value),
            _ => received.push((name.to_owned(), vec![value])),
        }
    }
    let arguments = request.params.as_ref().and_then(|params| params.get("arguments"));
    wanted.check(arguments.as_ref(), &received).map_err(|e| Reject::new(Why::Mirror, e.to_string()))
}

/// Extra mirrored parameters that are passed on, and their length.
const MAX_EXTRA: (usize, usize) = (32, 1024);

/// The `Mcp-Param-*` headers of a modern request over HTTP. Those that no tool declares are passed on and otherwise
/// ignored, as HTTP asks of intermediaries; they decide nothing here.
pub fn extra_params(admitted: &Admitted, era: Era) -> Vec<(String, String)> {
    if era == Era::Legacy || !matches!(admitted.via, Via::Http) {
        return Vec::new();
    }
    let text = param_headers(admitted)
        .filter_map(|(name, value)| Some((name.to_owned(), std::str::from_utf8(value).ok()?.to_owned())));
    text.filter(|(_, value)| value.len() <= MAX_EXTRA.1 && is_visible(value)).take(MAX_EXTRA.0).collect()
}

/// Whether a value is text that every server takes in a header.
fn is_visible(value: &str) -> bool {
    value.bytes().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e))
}

/// The `Mcp-Param-*` headers as they came.
fn param_headers(admitted: &Admitted) -> impl Iterator<Item = (&str, &[u8])> {
    let all = admitted.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    all.filter(|(name, _)| name.starts_with("mcp-param-"))
}

/// -32022 with what is served and what was asked for.
fn unsupported(requested: &str, supported: &[Revision]) -> Reject {
    let mut list = ArrayWriter::new();
    for revision in supported {
        list.push_str(revision.as_str());
    }
    let mut data = ObjectWriter::new();
    data.raw("supported", &list.finish());
    data.string("requested", requested.get(..64).unwrap_or(requested));
    Reject::new(Why::Version, "Unsupported protocol version").data(data.finish())
}

/// The first value of a header, when it is text.
pub fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim)
}

fn values<'a>(headers: &'a HeaderMap, name: &HeaderName) -> SmallVec<[&'a [u8]; 2]> {
    headers.get_all(name).iter().map(http::HeaderValue::as_bytes).collect()
}
