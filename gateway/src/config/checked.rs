//! The configuration after all checks: every value has its final type, default and meaning. Nothing here comes
//! from serde and nothing here can be wrong any more; reading files and variables is already behind us.

mod audit;
mod auth;
mod meter;
mod policy;
mod task;
mod tools;
mod tracing;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use jiff::civil::Date;
use url::Url;

pub use self::auth::{
    Assertion, Auth, ClientCertificates, FixedToken, Grantor, Held, HeldClient, Introspection, KeySource,
    Outgoing, Trusted,
};
pub use audit::{Archive, Audit, Durability};
pub use meter::{Meter, Placement};
pub use policy::ServerPolicy;
pub(crate) use task::Origin;
pub use task::Task;
pub use tools::{ByTool, ToolRules, ToolTimeouts};
pub use tracing::{Tracing, TracingProtocol};

use super::problem::Problem;
use super::secret::Secret;

/// The whole file, checked. `config::load` is the only maker.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Data listener; another than a loopback address only with credentials and tasks.
    pub listen: SocketAddr,
    /// What clients see when a load balancer stands in front; http or https, no query, fragment or userinfo.
    pub public_url: Option<Url>,
    /// Admin listener; `None` when switched off. Never the data listener's address.
    pub admin: Option<SocketAddr>,
    /// Certificate and key of the data listener.
    pub tls: Option<TlsFiles>,
    /// HTTP/2 without TLS (prior knowledge) on the data listener.
    pub h2c: bool,
    /// Values of `Host`/`:authority` that are served, lower case, `name:port`, or `name` for any port. Holds the
    /// loopback names of `listen` and the host of `public_url` besides what the file names.
    pub hosts: Vec<String>,
    /// Values of `Origin` that are served, exactly as browsers send them. The gateway's own origins are not in it.
    pub origins: Vec<String>,
    /// What proves callers.
    pub auth: Auth,
    /// In the order of the file.
    pub servers: Vec<Server>,
    /// Named policy profiles, in the order of the file; never empty.
    pub tasks: Vec<Task>,
    /// Task of a caller who names none; one of `tasks`.
    pub default_task: Option<String>,
    /// Bounds of the data listener.
    pub limits: FrontLimits,
    /// Longest exposed tool or prompt name in bytes.
    pub names_max: usize,
    /// How servers' lists are read, kept and paged.
    pub lists: Lists,
    /// The compatibility window for clients of the legacy era.
    pub legacy: Legacy,
    /// Keys of everything that the gateway seals.
    pub keys: Keys,
    /// The journal.
    pub audit: Audit,
    /// What answers to tool calls say of their cost.
    pub meter: Meter,
    /// Where spans go, if anywhere.
    pub tracing: Option<Tracing>,
    /// SHA-256 of the file: the policy in force.
    pub digest: [u8; 32],
    /// How and how much is logged.
    pub log: Log,
    /// Longest wait for calls in flight at the end; then they are cut.
    pub drain: Duration,
    /// What is allowed and still worth saying, at every start.
    pub warnings: Vec<Problem>,
}

/// PEM files of a listener, resolved against the configuration file's folder. They are read by the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificate chain, leaf first.
    pub cert: PathBuf,
    /// Private key (PKCS#8, PKCS#1 or SEC1).
    pub key: PathBuf,
}

/// One upstream MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// `[a-z][a-z0-9-]{0,31}`, unique.
    pub id: String,
    /// How it is reached.
    pub transport: Transport,
    /// When true its failure fails whole lists and readiness instead of costing its own entries only.
    pub required: bool,
    /// Deadlines of every exchange with it.
    pub timeouts: Timeouts,
    /// Other deadlines for single tools.
    pub tools: ToolRules,
    /// Largest answer of one call, in bytes.
    pub answer_bytes: usize,
    /// What policies need to know of it.
    pub policy: ServerPolicy,
    /// Line of the file that names it, from 1.
    pub line: usize,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Over HTTP.
    Http(HttpServer),
    /// As a child process, over its stdin and stdout.
    Stdio(StdioServer),
}

/// A server behind a URL.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpServer {
    /// http or https; no userinfo, no fragment. Its query may be a credential: show [`HttpServer::shown_url`].
    pub url: Url,
    /// Which of the HTTP transports it speaks.
    pub kind: HttpKind,
    /// Sent with every request. None of those that the protocol or HTTP itself sets.
    pub headers: Vec<(HeaderName, Secret)>,
    /// The credential that it gets.
    pub credential: Option<Outgoing>,
    /// PEM file of authorities that are trusted for this server instead of the system's.
    pub ca: Option<PathBuf>,
}

/// The HTTP transports that MCP has had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpKind {
    /// Streamable HTTP first; the old transport if the server answers as those servers do.
    Auto,
    /// Streamable HTTP only.
    StreamableHttp,
    /// The HTTP+SSE transport of 2024-11-05 only.
    Sse,
}

/// A server that the gateway starts itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdioServer {
    /// Program: a name looked up in the child's `PATH`, or a path (already resolved when it was relative).
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set for the child. Together with `inherit_env` they are its whole environment.
    pub env: Vec<(String, Secret)>,
    /// Names of the gateway's own variables that the child gets too, where set. `PATH` and the like must be here
    /// to be passed; the default holds them.
    pub inherit_env: Vec<String>,
    /// Working directory; the gateway's own when absent.
    pub cwd: Option<PathBuf>,
    /// Who shares a process; absent: as the server's era wants it (modern shared, legacy one a session).
    pub isolation: Option<Isolation>,
    /// A process that served nothing for so long is ended.
    pub idle: Duration,
    /// Most processes of this server at once.
    pub max_processes: usize,
}

/// Who shares a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// One process for everybody.
    Shared,
    /// One process for each session.
    Session,
}

/// Deadlines of the exchanges with one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// TCP and TLS, or the start of the process.
    pub connect: Duration,
    /// `initialize`, `server/discover`, the probe of the era.
    pub initialize: Duration,
    /// One page of a list.
    pub lists: Duration,
    /// `resources/read`, `prompts/get`, `completion/complete`, `ping`.
    pub reads: Duration,
    /// `tools/call` without any sign of life; progress starts it anew.
    pub call_idle: Duration,
    /// `tools/call` as a whole; nothing extends it.
    pub call_total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            initialize: Duration::from_secs(10),
            lists: Duration::from_secs(15),
            reads: Duration::from_secs(30),
            call_idle: Duration::from_secs(120),
            call_total: Duration::from_secs(600),
        }
    }
}

/// Bounds of the data listener. Sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontLimits {
    /// Largest request body.
    pub request_bytes: usize,
    /// Largest header block, names and values together.
    pub header_bytes: usize,
    /// Deepest nesting of a request's JSON.
    pub depth: u16,
    /// Total time for a request's header (and for a TLS handshake before it).
    pub header_timeout: Duration,
    /// Total time for a request's body.
    pub body_timeout: Duration,
    /// A kept-alive connection without a request is closed after this.
    pub idle_timeout: Duration,
    /// Most client connections at once.
    pub connections: usize,
    /// Most event streams open to clients at once, over all connections.
    pub streams: usize,
    /// Most requests being served at once, over all connections.
    pub requests: usize,
    /// Most concurrent streams of one HTTP/2 connection.
    pub h2_streams: u32,
}

impl Default for FrontLimits {
    fn default() -> Self {
        Self {
            request_bytes: 4 << 20,
            header_bytes: 32 << 10,
            depth: 64,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            connections: 16_384,
            streams: 16_384,
            requests: 16_384,
            h2_streams: 128,
        }
    }
}

/// How servers' lists are read, kept and paged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lists {
    /// How long a list is fresh whose server says nothing about it.
    pub ttl: Duration,
    /// How long the last good list of a failing server is still shown.
    pub grace: Duration,
    /// Entries of one page towards clients.
    pub page_size: usize,
    /// Most pages read of one list of one server.
    pub max_pages: usize,
    /// Most entries kept of one list of one server.
    pub max_entries: usize,
    /// Most bytes kept of one list of one server.
    pub max_bytes: usize,
}

impl Default for Lists {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(60),
            grace: Duration::from_secs(600),
            page_size: 1_000,
            max_pages: 100,
            max_entries: 10_000,
            max_bytes: 32 << 20,
        }
    }
}

/// The compatibility window for clients of the legacy era.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Legacy {
    /// Last day (UTC) on which legacy clients are served; `None`: no end (`never` in the file).
    pub until: Option<Date>,
    /// Life of a session id.
    pub session_ttl: Duration,
    /// Whether ids are given out.
    pub session_ids: SessionIds,
    /// A call whose connection is lost goes on for so long.
    pub resume_grace: Duration,
}

/// What an `initialize` over HTTP gives out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionIds {
    /// A sealed id that any replica with the key can serve.
    Sealed,
    /// None; any that is sent is ignored.
    None,
}

/// Keys of what the gateway seals: session ids, cursors, event ids.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The first seals, all open. Never empty.
    pub seal: Vec<[u8; 32]>,
    /// True when the file names none: the key was made at this load and dies with the process. A reload must keep
    /// the running one.
    pub made: bool,
    /// Key of digests over arguments and results.
    pub digest: Option<[u8; 32]>,
    /// Key of run tokens.
    pub run_token: Option<[u8; 32]>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys")
            .field("seal", &self.seal.len())
            .field("made", &self.made)
            .finish_non_exhaustive()
    }
}

/// How and how much is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Shape of a line.
    pub format: LogFormat,
    /// A level, or a `tracing` filter such as `info,tollgate=debug`.
    pub level: String,
}

/// Shape of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

impl Checked {
    /// The server of this id.
    pub fn server(&self, id: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.id == id)
    }
}

impl Server {
    /// Deadlines (idle, total) of a call of this tool, given by the server's own name. An exact name wins over
    /// globs, and of globs the longest; each deadline is looked for on its own.
    pub fn call_timeouts(&self, tool: &str) -> (Duration, Duration) {
        let idle = self.tools.first(tool, |t| t.call_idle).unwrap_or(self.timeouts.call_idle);
        let total = self.tools.first(tool, |t| t.call_total).unwrap_or(self.timeouts.call_total);
        (idle, total)
    }
}

impl fmt::Debug for HttpServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("HttpServer");
        shown.field("url", &self.shown_url()).field("kind", &self.kind);
        shown
            .field("headers", &self.headers)
            .field("credential", &self.credential)
            .field("ca", &self.ca)
            .finish()
    }
}

impl HttpServer {
    /// The URL for people and logs: without its query, since some servers want a credential in it.
    pub fn shown_url(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        let query = if self.url.query().is_some() { "?…" } else { "" };
        format!("{url}{query}")
    }

    /// The configured headers as header values, marked sensitive so that HTTP/2 never indexes them.
    pub fn header_values(&self) -> Vec<(HeaderName, HeaderValue)> {
        let value = |secret: &Secret| {
            let mut value = HeaderValue::from_str(secret.expose()).ok()?;
            value.set_sensitive(true);
            Some(value)
        };
        // The check has already refused values that are none.
        self.headers.iter().filter_map(|(name, secret)| Some((name.clone(), value(secret)?))).collect()
    }
}

#[cfg(test)]
mod tests;
