//! The configuration as it is written: what serde reads and what the shipped JSON Schema is made of. Holds no
//! defaults and no rules beyond types and names; those are in `check`.

pub(crate) mod amounts;
pub(crate) mod audit;
pub(crate) mod auth;
pub(crate) mod meter;
pub(crate) mod tasks;
pub(crate) mod tracing;

use std::borrow::Cow;

use amounts::{Cost, Rate};
pub(crate) use amounts::{Size, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::Map;

/// The configuration file of Tollgate.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Address and port of the data listener. Another than a loopback address needs `auth` and `tasks`.
    /// Default 127.0.0.1:8080.
    pub(crate) listen: Option<String>,
    /// What clients see when a load balancer stands in front, such as https://mcp.example.com.
    pub(crate) public_url: Option<String>,
    /// Admin listener (health, status, metrics), or `off`. Default 127.0.0.1:9090.
    pub(crate) admin: Option<Admin>,
    /// Certificate and key of the data listener. Absent: plain HTTP.
    pub(crate) tls: Option<Tls>,
    /// HTTP/2 without TLS on the data listener; only on a loopback address. Default false.
    pub(crate) h2c: Option<bool>,
    /// Further values of the Host header that are served, `name` or `name:port`. The loopback names and the host
    /// of `public_url` always are.
    pub(crate) hosts: Option<Vec<String>>,
    /// Values of the Origin header that are served, exactly as browsers send them, such as https://app.example.com.
    pub(crate) origins: Option<Vec<String>>,
    /// Who may call, and how it is proven. Absent: only callers on this machine, nobody in particular.
    pub(crate) auth: Option<auth::Auth>,
    /// The journal. Absent: in ./var/audit beside this file.
    pub(crate) audit: Option<audit::Audit>,
    /// What answers to tool calls say of their cost.
    pub(crate) meter: Option<meter::Meter>,
    /// Traces for an OpenTelemetry collector. Absent here and in the environment: none.
    pub(crate) tracing: Option<tracing::Tracing>,
    /// The MCP servers behind the gateway, by id: `[a-z][a-z0-9-]{0,31}`.
    pub(crate) servers: Option<Servers>,
    /// Names shown to clients.
    pub(crate) names: Option<Names>,
    /// How servers' lists are read, kept and paged.
    pub(crate) lists: Option<Lists>,
    /// Bounds of the data listener.
    pub(crate) limits: Option<Limits>,
    /// The compatibility window for clients of the revisions 2024-11-05 to 2025-11-25.
    pub(crate) legacy: Option<Legacy>,
    /// Keys of what the gateway seals. Absent: made at start, so sessions end with the process.
    pub(crate) keys: Option<Keys>,
    /// Logging.
    pub(crate) log: Option<Log>,
    /// Longest wait for calls in flight at the end. Default 30s.
    pub(crate) drain: Option<Time>,
    /// Task of callers who name none. Absent: with `tasks` they are refused.
    pub(crate) default_task: Option<String>,
    /// The tasks by name: `[a-z][a-z0-9-]{0,31}`. Absent: the one task `default`, which allows everything.
    pub(crate) tasks: Option<Ordered<tasks::Task>>,
}

/// Servers in the order of the file.
pub(crate) type Servers = Ordered<Server>;

/// A listener, or `off`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum Admin {
    On(AdminOn),
    /// The word, or `false`, which other readers of YAML make of it; the schema lets nothing else through.
    Off(serde::de::IgnoredAny),
}

/// The admin listener.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AdminOn {
    /// Address and port; loopback only. Default 127.0.0.1:9090.
    pub(crate) listen: Option<String>,
}

/// PEM files; relative paths are relative to this file.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tls {
    /// Certificate chain, leaf first.
    pub(crate) cert: String,
    /// Private key.
    pub(crate) key: String,
}

/// One MCP server: `url` or `command`, exactly one of them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    /// Address of a server that is reached over HTTP.
    pub(crate) url: Option<String>,
    /// Which HTTP transport: `http` streamable HTTP, `sse` the one of 2024-11-05, `auto` the first that works.
    /// Default auto.
    #[serde(rename = "type")]
    pub(crate) kind: Option<Kind>,
    /// Headers sent with every request. A value is literal, or `env:NAME`, `file:PATH`, or a scheme before one of
    /// them (`Bearer env:NAME`). Credentials only by reference.
    pub(crate) headers: Option<Ordered<String>>,
    /// The credential that the server gets.
    pub(crate) auth: Option<auth::Outgoing>,
    /// PEM file of the authorities trusted for this server instead of the system's.
    pub(crate) ca: Option<String>,
    /// Program of a server that the gateway starts itself.
    pub(crate) command: Option<String>,
    /// Arguments of the program.
    pub(crate) args: Option<Vec<String>>,
    /// Environment of the program: literal values, `env:NAME` or `file:PATH`.
    pub(crate) env: Option<Ordered<String>>,
    /// Names of the gateway's own variables that the program gets too. Default: PATH HOME USER LOGNAME SHELL TERM
    /// LANG LC_ALL TZ TMPDIR.
    pub(crate) inherit_env: Option<Vec<String>>,
    /// Working directory of the program.
    pub(crate) cwd: Option<String>,
    /// Who shares a process. Default: shared for servers of revision 2026-07-28 and later, else session.
    pub(crate) isolation: Option<Isolation>,
    /// A process that served nothing for so long is ended. Default 10m.
    pub(crate) idle: Option<Time>,
    /// Most processes of this server at once. Default 32.
    pub(crate) max_processes: Option<u64>,
    /// A failure of this server is everybody's. Default false: it costs its own entries only.
    pub(crate) required: Option<bool>,
    /// Deadlines of every exchange with the server.
    pub(crate) timeouts: Option<Timeouts>,
    /// Settings of single tools, by the server's own tool name or a glob with `*` and `?`.
    pub(crate) tools: Option<Ordered<Tool>>,
    /// Bounds of this server.
    pub(crate) limits: Option<ServerLimits>,
    /// What its calls cost.
    pub(crate) cost: Option<Cost>,
    /// Whether its tools' hints (read-only, destructive) are believed where they loosen what a task asks for. Default
    /// false: they only tighten it.
    pub(crate) trusted_hints: Option<bool>,
    /// Whether arguments are checked against the tools' input schemas before a call. Default true.
    pub(crate) check_arguments: Option<bool>,
}

/// HTTP transport of a server.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Auto,
    Http,
    Sse,
}

/// Who shares a process.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Isolation {
    Shared,
    Session,
}

/// Deadlines of one server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Timeouts {
    /// TCP and TLS, or the start of the process. Default 5s.
    pub(crate) connect: Option<Time>,
    /// initialize, server/discover. Default 10s.
    pub(crate) initialize: Option<Time>,
    /// One page of a list. Default 15s.
    pub(crate) lists: Option<Time>,
    /// resources/read, prompts/get, completion/complete, ping. Default 30s.
    pub(crate) reads: Option<Time>,
    /// A tool call without any sign of life. Default 120s.
    pub(crate) call_idle: Option<Time>,
    /// A tool call as a whole. Default 600s.
    pub(crate) call_total: Option<Time>,
}

/// Settings of single tools.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    /// Deadlines where they differ from the server's.
    pub(crate) timeouts: Option<ToolTimeouts>,
    /// What its calls cost, in place of everything that the server's `cost` says.
    pub(crate) cost: Option<Cost>,
}

/// Deadlines of single tools.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolTimeouts {
    /// A call without any sign of life.
    pub(crate) call_idle: Option<Time>,
    /// A call as a whole.
    pub(crate) call_total: Option<Time>,
}

/// Bounds of one server.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServerLimits {
    /// Largest answer of one call. Default 16MiB.
    pub(crate) answer_bytes: Option<Size>,
    /// Calls of all callers under all tasks, such as 600/min.
    pub(crate) calls: Option<Rate>,
    /// Calls of all callers at the same time.
    pub(crate) concurrency: Option<u64>,
}

/// Names shown to clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Names {
    /// Longest tool or prompt name in bytes; longer ones are shortened with a stable suffix. Default 64.
    pub(crate) max: Option<u64>,
}

/// How servers' lists are read, kept and paged.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lists {
    /// How long a list is fresh whose server says nothing about it. Default 60s.
    pub(crate) ttl: Option<Time>,
    /// How long the last good list of a failing server is still shown. Default 10m.
    pub(crate) grace: Option<Time>,
    /// Entries of one page towards clients. Default 1000.
    pub(crate) page_size: Option<u64>,
    /// Most pages read of one list of one server. Default 100.
    pub(crate) max_pages: Option<u64>,
    /// Most entries kept of one list of one server. Default 10000.
    pub(crate) max_entries: Option<u64>,
    /// Most bytes kept of one list of one server. Default 32MiB.
    pub(crate) max_bytes: Option<Size>,
}

/// Bounds of the data listener.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    /// Largest request body. Default 4MiB.
    pub(crate) request_bytes: Option<Size>,
    /// Largest header block. Default 32KiB.
    pub(crate) header_bytes: Option<Size>,
    /// Deepest nesting of a request's JSON. Default 64.
    pub(crate) depth: Option<u64>,
    /// Total time for a request's header. Default 10s.
    pub(crate) header_timeout: Option<Time>,
    /// Total time for a request's body. Default 30s.
    pub(crate) body_timeout: Option<Time>,
    /// A kept-alive connection without a request is closed after this. Default 75s.
    pub(crate) idle_timeout: Option<Time>,
    /// Most client connections at once. Default 16384.
    pub(crate) connections: Option<u64>,
    /// Most event streams open to clients at once. Default 16384.
    pub(crate) streams: Option<u64>,
    /// Most requests being served at once. Default 16384.
    pub(crate) requests: Option<u64>,
    /// Most concurrent streams of one HTTP/2 connection. Default 128.
    pub(crate) h2_streams: Option<u64>,
}

/// The compatibility window for older clients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Legacy {
    /// Last day (UTC) on which they are served, or `never`. Default 2027-07-28.
    pub(crate) until: Option<String>,
    /// Life of a session id. Default 24h.
    pub(crate) session_ttl: Option<Time>,
    /// Whether session ids are given out. Default sealed.
    pub(crate) session_ids: Option<SessionIds>,
    /// A call whose connection is lost goes on for so long. Default 10s.
    pub(crate) resume_grace: Option<Time>,
}

/// Whether session ids are given out.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SessionIds {
    Sealed,
    None,
}

/// Keys of what the gateway seals.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Keys {
    /// 32 bytes in base64, each by `env:NAME` or `file:PATH`. The first seals, all open.
    pub(crate) seal: Option<Vec<String>>,
    /// Key of digests over arguments and results, by reference like those of `seal`.
    pub(crate) digest: Option<String>,
    /// Key of run tokens, by reference like those of `seal`.
    pub(crate) run_token: Option<String>,
}

/// Logging.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    /// Shape of a line. Default pretty.
    pub(crate) format: Option<LogFormat>,
    /// trace, debug, info, warn, error or off; also `info,tollgate=debug`. Default info.
    pub(crate) level: Option<String>,
}

/// Shape of a log line.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Pretty,
    Json,
}

/// A mapping in the order of the file.
#[derive(Debug)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: serde::de::DeserializeOwned> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Map::deserialize(deserializer)?;
        let pair = |(key, value)| serde_json::from_value(value).map(|value| (key, value));
        members.into_iter().map(pair).collect::<Result<_, _>>().map(Self).map_err(serde::de::Error::custom)
    }
}

impl<T: JsonSchema> JsonSchema for Ordered<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("MapOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": generator.subschema_for::<T>() })
    }
}

impl JsonSchema for Admin {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Admin".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [generator.subschema_for::<AdminOn>(), { "enum": ["off", false] }] })
    }
}
