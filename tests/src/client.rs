//! Clients of both eras, each as its specification wants it. Tests that want a wrong one change the request.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use serde_json::{Value, json};

use crate::http::{Answer, Request};
use crate::json;

/// The modern revision.
pub const MODERN: &str = "2026-07-28";
/// The newest legacy revision.
pub const LEGACY: &str = "2025-11-25";

static IDS: AtomicU64 = AtomicU64::new(1);

/// A request id that no other test of this process uses.
pub fn next_id() -> u64 {
    IDS.fetch_add(1, Ordering::Relaxed)
}

/// The `_meta` of a modern request as JSON text, with more members behind.
pub fn meta(capabilities: &Value, more: &[(String, String)]) -> String {
    let mut text = format!(
        r#"{{"io.modelcontextprotocol/protocolVersion":"{MODERN}","io.modelcontextprotocol/clientInfo":{{"name":"probe","version":"1"}},"io.modelcontextprotocol/clientCapabilities":{capabilities}"#
    );
    for (key, value) in more {
        text.push_str(&format!(",{}:{value}", Value::from(key.as_str())));
    }
    text + "}"
}

/// `params` with one more member at the end, everything else byte for byte.
pub fn with_member(params: &str, key: &str, value: &str) -> String {
    let open = params.trim_end().strip_suffix('}').expect("params are an object");
    let comma = if open.trim_end().ends_with('{') { "" } else { "," };
    format!("{open}{comma}{}:{value}}}", Value::from(key))
}

/// A request's envelope around params given as text.
pub fn envelope(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":{},"params":{params}}}"#, Value::from(method))
}

/// A value as a mirrored header carries it.
pub fn mirrored(value: &str) -> String {
    let plain = value.bytes().all(|b| (0x20..0x7f).contains(&b) || b == b'\t')
        && value.trim() == value
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if plain { value.to_owned() } else { sentinel(value.as_bytes()) }
}

/// The base64 form of a mirrored header.
pub fn sentinel(value: &[u8]) -> String {
    format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(value))
}

/// What both eras can do.
pub trait Client {
    /// The request as it would be sent; `params` is JSON text.
    fn request(&self, method: &str, params: &str) -> Request;

    /// Where it goes.
    fn addr(&self) -> SocketAddr;

    /// Sends it and reads the whole answer.
    fn send(&self, method: &str, params: &str) -> Answer {
        self.request(method, params).send(self.addr())
    }

    /// Calls a tool with arguments given as JSON text.
    fn call(&self, tool: &str, arguments: &str) -> Answer {
        self.send("tools/call", &call_params(tool, arguments))
    }

    /// The names in a list.
    fn names(&self, method: &str) -> Vec<String> {
        let member = match method {
            "tools/list" => ("tools", "name"),
            "prompts/list" => ("prompts", "name"),
            "resources/list" => ("resources", "uri"),
            _ => ("resourceTemplates", "uriTemplate"),
        };
        let result = self.send(method, "{}").result();
        let list =
            result[member.0].as_array().unwrap_or_else(|| panic!("no {} in {result}", member.0)).clone();
        list.iter().map(|e| e[member.1].as_str().unwrap_or_default().to_owned()).collect()
    }
}

/// The params of a tools/call.
pub fn call_params(tool: &str, arguments: &str) -> String {
    format!(r#"{{"name":{},"arguments":{arguments}}}"#, Value::from(tool))
}

/// A client of revision 2026-07-28.
#[derive(Clone)]
pub struct Modern {
    addr: SocketAddr,
    path: String,
    capabilities: Value,
    more: Vec<(String, String)>,
}

impl Modern {
    /// A client of `/mcp` without capabilities.
    pub fn new(addr: SocketAddr) -> Modern {
        Modern { addr, path: "/mcp".into(), capabilities: json!({}), more: Vec::new() }
    }

    /// Of another endpoint.
    #[must_use]
    pub fn at(mut self, path: &str) -> Modern {
        self.path = path.into();
        self
    }

    /// Of one server.
    #[must_use]
    pub fn server(self, server: &str) -> Modern {
        self.at(&format!("/servers/{server}/mcp"))
    }

    /// Declares capabilities.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Value) -> Modern {
        self.capabilities = capabilities;
        self
    }

    /// Another member of `_meta`, as JSON text.
    #[must_use]
    pub fn meta(mut self, key: &str, value: &str) -> Modern {
        self.more.push((key.into(), value.into()));
        self
    }

    /// Asks for log notifications.
    #[must_use]
    pub fn log_level(self, level: &str) -> Modern {
        self.meta("io.modelcontextprotocol/logLevel", &Value::from(level).to_string())
    }

    /// A notification.
    pub fn notification(&self, method: &str, params: &str) -> Request {
        let params = with_member(params, "_meta", &meta(&self.capabilities, &self.more));
        let body = format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, Value::from(method));
        self.head(method, &params, body)
    }

    /// The right headers around a body of any kind.
    pub fn head(&self, method: &str, params: &str, body: impl Into<Vec<u8>>) -> Request {
        let mut request = Request::post(&self.path, body)
            .header("MCP-Protocol-Version", MODERN)
            .header("Mcp-Method", method);
        let key = match method {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _ => return request,
        };
        if let Some(Value::String(name)) = json::at(params, &[key]) {
            request = request.header("Mcp-Name", &mirrored(&name));
        }
        request
    }
}

impl Client for Modern {
    fn request(&self, method: &str, params: &str) -> Request {
        let params = with_member(params, "_meta", &meta(&self.capabilities, &self.more));
        self.head(method, &params, envelope(&next_id().to_string(), method, &params))
    }

    fn addr(&self) -> SocketAddr {
        self.addr
    }
}

/// A client of a revision with `initialize`.
#[derive(Clone)]
pub struct Legacy {
    addr: SocketAddr,
    path: String,
    version: String,
    /// The session id that the gateway gave.
    pub session: Option<String>,
    /// The result of `initialize`.
    pub welcome: Value,
}

impl Legacy {
    /// Initializes with the newest legacy revision and no capabilities.
    pub fn connect(addr: SocketAddr, path: &str) -> Legacy {
        Legacy::with(addr, path, LEGACY, json!({}))
    }

    /// Of one server.
    pub fn server(addr: SocketAddr, server: &str) -> Legacy {
        Legacy::connect(addr, &format!("/servers/{server}/mcp"))
    }

    /// Initializes with a revision and capabilities.
    pub fn with(addr: SocketAddr, path: &str, version: &str, capabilities: Value) -> Legacy {
        let answer = Legacy::initialize(path, version, &capabilities).send(addr);
        assert_eq!(answer.status, 200, "initialize: {}", answer.text());
        let welcome = answer.result();
        let session = answer.header("mcp-session-id").map(str::to_owned);
        let agreed = welcome["protocolVersion"].as_str().unwrap_or(version).to_owned();
        let client = Legacy { addr, path: path.into(), version: agreed, session, welcome };
        let ready = client.notify("notifications/initialized", "{}");
        assert_eq!(ready.status, 202, "initialized: {}", ready.text());
        client
    }

    /// The `initialize` request.
    pub fn initialize(path: &str, version: &str, capabilities: &Value) -> Request {
        let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "probe", "version": "1"}});
        Request::post(path, envelope(&next_id().to_string(), "initialize", &params.to_string()))
    }

    /// The same session seen at another gateway.
    #[must_use]
    pub fn moved(&self, addr: SocketAddr) -> Legacy {
        Legacy { addr, ..self.clone() }
    }

    /// With another session id.
    #[must_use]
    pub fn as_session(&self, id: Option<&str>) -> Legacy {
        Legacy { session: id.map(str::to_owned), ..self.clone() }
    }

    /// The session's id; panics where none was given.
    pub fn id(&self) -> &str {
        self.session.as_deref().expect("a session id")
    }

    /// Adds session and version to any request.
    pub fn dress(&self, mut request: Request) -> Request {
        if let Some(id) = &self.session {
            request = request.header("Mcp-Session-Id", id);
        }
        if self.version.as_str() >= "2025-06-18" {
            request = request.header("MCP-Protocol-Version", &self.version);
        }
        request
    }

    /// A POST of any body in this session.
    pub fn post(&self, body: impl Into<Vec<u8>>) -> Request {
        self.dress(Request::post(&self.path, body))
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: &str) -> Answer {
        let body = format!(r#"{{"jsonrpc":"2.0","method":{},"params":{params}}}"#, Value::from(method));
        self.post(body).send(self.addr)
    }

    /// Closes the session.
    pub fn delete(&self) -> Answer {
        self.dress(Request::new("DELETE", &self.path)).send(self.addr)
    }
}

impl Client for Legacy {
    fn request(&self, method: &str, params: &str) -> Request {
        self.post(envelope(&next_id().to_string(), method, params))
    }

    fn addr(&self) -> SocketAddr {
        self.addr
    }
}
