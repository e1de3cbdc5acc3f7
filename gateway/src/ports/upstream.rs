//! The port to a server: one call in, its events out, whatever era and transport the server speaks.
//! Never decides policy and never sees a client's credential.

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures_util::Stream;
use mcp::era::{Era, Revision};
use mcp::json::{Key, Kind, Raw};
use mcp::message::RpcError;
use mcp::trace::{BAGGAGE, PARENT, STATE};
use tokio::sync::broadcast;

use crate::digest::{mixed, sha256};
use crate::who::Who;

/// What one request asks of a server, independent of the era that either side speaks.
#[derive(Clone, Debug)]
pub struct Call {
    /// The JSON-RPC method.
    pub method: &'static str,
    /// The members of `params` without `_meta`, names and URIs already the server's own.
    pub params: Vec<(Key, Raw)>,
    /// Members of the client's `_meta` that are passed through as they are.
    pub meta: Vec<(Key, Raw)>,
    /// What the server is told about the client.
    pub client: Client,
    /// The log level that the client asked for, as its JSON value. None: no log notification is wanted.
    pub log_level: Option<Raw>,
    /// Whether the client wants progress notifications.
    pub progress: bool,
    /// Values mirrored into headers towards a modern server over HTTP (SEP-2243).
    pub mirrored: Mirrored,
    /// The trace context that the server gets.
    pub trace: Trace,
    /// Whose upstream session a legacy server is called in.
    pub session: SessionKey,
    /// The largest answer accepted, in bytes.
    pub answer_bytes: usize,
    /// The gateway's id of the call, for log lines.
    pub call_id: Arc<str>,
}

/// An answer to `roots/list` (MCP `ListRootsResult`).
pub type Roots = Raw;

/// The client as a server is told of it: its own capabilities and name, never the gateway's.
#[derive(Clone, Debug)]
pub struct Client {
    /// `clientCapabilities`, narrowed to what the task lets through.
    pub capabilities: Raw,
    /// `clientInfo`, when the client gave one.
    pub info: Option<Raw>,
    /// SHA-256 over the capabilities with their keys sorted: two clients that declared the same have the same.
    pub variant: [u8; 32],
    /// What `roots/list` of a legacy server is answered with: the task's roots, never the client's own. None: nothing.
    pub roots: Option<Roots>,
    /// Who is behind it. No server is told, save by the credential that its configuration asks for.
    pub behalf: Behalf,
}

/// On whose behalf a server is called.
#[derive(Clone, Debug)]
pub struct Behalf {
    /// The caller, or nobody in particular: the gateway itself.
    pub who: Arc<Who>,
    /// The task.
    pub task: Arc<str>,
    /// The run.
    pub run: Arc<str>,
}

impl Behalf {
    /// The gateway itself.
    pub fn gateway() -> Behalf {
        static OWN: LazyLock<Behalf> =
            LazyLock::new(|| Behalf { who: Who::anonymous(), task: Arc::from(""), run: Arc::from("") });
        OWN.clone()
    }

    /// SHA-256 over all that a credential on this behalf depends on: what a server says to one is not shown to another.
    pub fn variant(&self) -> [u8; 32] {
        let scopes = self.who.principal.scopes().map(|scopes| scopes.text()).unwrap_or_default();
        let parts = [self.who.owner.as_slice(), scopes.as_bytes(), b"\0", self.task.as_bytes()];
        sha256(&parts.concat())
    }
}

impl Client {
    /// A client with these capabilities.
    pub fn new(capabilities: Raw, info: Option<Raw>) -> Client {
        static NONE: LazyLock<[u8; 32]> = LazyLock::new(|| sha256(b"{}"));
        // What many clients declare: nothing.
        if capabilities.bytes() == "{}" {
            return Client { capabilities, info, variant: *NONE, roots: None, behalf: Behalf::gateway() };
        }
        let mut text = Vec::with_capacity(capabilities.len());
        canonical(&capabilities, &mut text);
        Client { capabilities, info, variant: sha256(&text), roots: None, behalf: Behalf::gateway() }
    }

    /// The same with these roots. Who has others shares no session and no list with it.
    #[must_use]
    pub fn with_roots(mut self, roots: Roots) -> Client {
        self.variant = mixed(self.variant, sha256(roots.bytes()));
        self.roots = Some(roots);
        self
    }

    /// The same with somebody behind it.
    #[must_use]
    pub fn on_behalf(mut self, behalf: Behalf) -> Client {
        self.behalf = behalf;
        self
    }
}

/// The value without spaces and with the members of every object sorted by key: the same for all spellings of it.
/// Recurses as deep as the value, which its parser has bounded.
fn canonical(raw: &Raw, out: &mut Vec<u8>) {
    match raw.kind() {
        Kind::Object => {
            let mut members: Vec<(Key, Raw)> = raw.members().collect();
            members.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
            out.push(b'{');
            for (key, value) in &members {
                out.extend_from_slice(Raw::from_str_value(key.as_str()).bytes());
                out.push(b':');
                canonical(value, out);
                out.push(b',');
            }
            out.push(b'}');
        }
        Kind::Array => {
            out.push(b'[');
            for value in raw.elements() {
                canonical(&value, out);
                out.push(b',');
            }
            out.push(b']');
        }
        _ => out.extend_from_slice(raw.bytes()),
    }
}

/// Values for the mirrored headers of a modern HTTP request.
#[derive(Clone, Debug, Default)]
pub struct Mirrored {
    /// The value of `Mcp-Name`, not yet encoded.
    pub name: Option<String>,
    /// `Mcp-Param-*` headers, already encoded.
    pub params: Vec<(String, String)>,
}

/// A trace context: in `_meta` towards every server, and in headers towards those over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// `traceparent`: the gateway's span is the parent.
    pub parent: Option<String>,
    /// `tracestate`.
    pub state: Option<String>,
    /// `baggage`.
    pub baggage: Option<String>,
}

impl Trace {
    /// What is there, under the names of the keys and headers.
    pub fn members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [(PARENT, &self.parent), (STATE, &self.state), (BAGGAGE, &self.baggage)];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

/// Owner of a legacy upstream session; two owners never share one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SessionKey {
    /// The gateway's own session for reading lists.
    Catalog,
    /// A caller's: the principal's digest and the conversation (client session, or one derived for modern clients).
    Caller {
        /// SHA-256 over the principal.
        principal: [u8; 32],
        /// The client's session or, in the modern era, zero.
        conversation: [u8; 16],
    },
}

/// One thing that a server says during a call.
#[derive(Clone, Debug)]
pub enum Event {
    /// `notifications/progress`: its params without the token, which was the gateway's own.
    Progress(Raw),
    /// `notifications/message`: its params.
    Log(Raw),
    /// The call's end.
    Done(Answer),
}

/// The server's answer as it sent it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The era that the server speaks.
    pub era: Era,
    /// The result object or the error.
    pub outcome: Result<Raw, RpcError>,
}

/// A call under way. It ends after [`Event::Done`] or a [`Fault`]; dropping it earlier cancels the call at
/// the server in the way that the server's era and transport ask for.
pub type Events = Pin<Box<dyn Stream<Item = Result<Event, Fault>> + Send>>;

/// Why a server gave no answer. `detail` is for the log alone.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{kind:?}: {detail}")]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// Internal detail, never shown to a client.
    pub detail: String,
    /// Whether any byte of the request may have reached the server: then it is never repeated by itself.
    pub dispatched: bool,
}

impl Fault {
    /// A fault before any byte was sent.
    pub fn early(kind: FaultKind, detail: impl Into<String>) -> Fault {
        Fault { kind, detail: detail.into(), dispatched: false }
    }

    /// A fault after the request may have reached the server.
    pub fn late(kind: FaultKind, detail: impl Into<String>) -> Fault {
        Fault { kind, detail: detail.into(), dispatched: true }
    }
}

/// Classes of transport failure (DESIGN section 6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// No connection, or the child did not start: 7001.
    Unreachable,
    /// A deadline ran out: 7002.
    Timeout,
    /// The stream or process ended before the answer: 7003.
    Dropped,
    /// Broken JSON, framing, envelope or an answer over its size limit: 7004.
    Protocol,
    /// The answer is larger than the limit: 7004 with its own reason.
    TooLarge,
    /// The server refused the gateway's credential: 7006.
    Auth,
}

/// What a server said of itself.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Its era.
    pub era: Era,
    /// The revision agreed with it.
    pub revision: Revision,
    /// `capabilities` as sent.
    pub capabilities: Raw,
    /// `serverInfo` as sent, when given.
    pub info: Option<Raw>,
    /// `instructions` as sent, when given.
    pub instructions: Option<Raw>,
}

/// Something changed at a server without a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// `notifications/tools/list_changed`.
    Tools,
    /// `notifications/prompts/list_changed`.
    Prompts,
    /// `notifications/resources/list_changed`.
    Resources,
    /// The server was restarted or its era changed: everything known of it is stale.
    Restarted,
}

/// What `/status` shows of a server.
#[derive(Clone, Debug)]
pub struct UpstreamStatus {
    /// `http`, `sse` or `stdio`.
    pub transport: &'static str,
    /// The probed era; none while the server is only configured.
    pub era: Option<Era>,
    /// The agreed revision.
    pub revision: Option<Revision>,
    /// Whether the last contact succeeded; None before the first.
    pub connected: Option<bool>,
    /// The last failure and when.
    pub last_error: Option<(String, SystemTime)>,
    /// Since when `connected` has its value.
    pub since: Option<SystemTime>,
    /// Live legacy sessions or child processes.
    pub sessions: usize,
    /// Open connections; of child processes, their number.
    pub connections: usize,
}

/// A server behind the gateway.
#[async_trait]
pub trait Upstream: Send + Sync {
    /// Sends one call; connects, probes the era and shakes hands as needed.
    async fn call(self: Arc<Self>, call: Arc<Call>) -> Result<Events, Fault>;

    /// What the server says of itself to this client; probes once and remembers.
    async fn facts(&self, client: &Client, session: &SessionKey) -> Result<Arc<Facts>, Fault>;

    /// A call of this client in this session ran into its deadline: perhaps the server hangs. Does not wait.
    fn overdue(&self, _client: &Client, _session: &SessionKey) {}

    /// Changes that the server announces.
    fn changes(&self) -> broadcast::Receiver<Change>;

    /// What is known of the server, without asking it.
    fn status(&self) -> UpstreamStatus;

    /// Ends the upstream sessions of one owner (DELETE, or the child is ended).
    async fn end_session(&self, key: &SessionKey);

    /// Ends everything within the time given: sessions are closed before children are ended.
    async fn shutdown(&self, within: Duration);
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mcp::json::Limits;

    use super::*;

    #[test]
    fn capabilities_are_told_apart_by_what_they_say_not_by_how() {
        let variant = |text: &'static str| {
            Client::new(Raw::parse(Bytes::from(text), &Limits::REQUEST).unwrap(), None).variant
        };
        let one = variant(r#"{"roots":{"a":1,"b":[1,2]},"sampling":{}}"#);
        assert_eq!(one, variant(r#"{ "sampling": {}, "roots": {"b": [1, 2], "\u0061": 1} }"#));
        assert_ne!(one, variant(r#"{"roots":{"a":1,"b":[2,1]},"sampling":{}}"#));
        assert_ne!(one, variant(r#"{"roots":{"a":1,"b":[1,2],"sampling":{}}}"#));
        assert_ne!(variant("{}"), variant(r#"{"roots":{}}"#));
    }
}
