//! What a well-behaved MCP server says, whatever carries it: used over HTTP and over stdio, in both eras.
//! It notes every way in which its client breaks the specification and answers all the same.

mod answers;
mod fixtures;
mod tools;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

pub use fixtures::{ECHO, simple_tool};

use crate::client::{LEGACY, MODERN};
use crate::json;

/// The two eras.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Era {
    /// 2026-07-28.
    Modern,
    /// 2025-11-25 and before.
    Legacy,
}

/// One JSON-RPC message received, with its parts as text.
#[derive(Clone, Debug)]
pub struct Rpc {
    /// The whole message.
    pub raw: String,
    /// The id's text; None for notifications.
    pub id: Option<String>,
    /// The method; empty for responses.
    pub method: String,
    /// The params' text, `{}` when absent.
    pub params: String,
}

impl Rpc {
    /// Takes a message apart.
    pub fn parse(raw: &str) -> Rpc {
        let method =
            json::at(raw, &["method"]).and_then(|m| m.as_str().map(str::to_owned)).unwrap_or_default();
        let params = json::raw(raw, &["params"]).unwrap_or_else(|| "{}".into());
        Rpc { raw: raw.into(), id: json::raw(raw, &["id"]), method, params }
    }

    /// A param, parsed.
    pub fn param(&self, path: &[&str]) -> Option<Value> {
        json::at(&self.params, path)
    }

    /// A param as text.
    pub fn text(&self, path: &[&str]) -> String {
        self.param(path).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The response that carries this result.
    pub fn result(&self, result: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.id.as_deref().unwrap_or("null"))
    }

    /// The response that carries this error.
    pub fn error(&self, code: i64, message: &str) -> String {
        let id = self.id.as_deref().unwrap_or("null");
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{}}}}}"#,
            Value::from(message)
        )
    }
}

/// Where a peer's messages go.
pub trait Sink {
    /// One message; the last one is the response.
    fn emit(&mut self, message: String);
    /// Whether the other side has gone away.
    fn gone(&mut self) -> bool;
}

#[derive(Default)]
struct State {
    violations: Vec<String>,
    levels: HashMap<String, String>,
    cancelled: Vec<String>,
    stopped: Vec<String>,
    counters: HashMap<String, u64>,
    lists: u64,
    ready: HashMap<String, bool>,
}

/// A server's content and memory.
pub struct Peer {
    /// The era that it speaks.
    pub era: Era,
    /// Its own name.
    pub name: String,
    /// The legacy revision that it agrees to.
    pub revision: String,
    /// Entries a page; 0 = one page.
    pub page: usize,
    /// `ttlMs` of a modern server's lists.
    pub ttl_ms: u64,
    /// Its capabilities as JSON text.
    pub capabilities: String,
    tools: Mutex<Vec<String>>,
    prompts: Mutex<Vec<String>>,
    resources: Mutex<Vec<String>>,
    templates: Mutex<Vec<String>>,
    state: Mutex<State>,
}

impl Peer {
    /// A modern server with the usual content.
    pub fn modern(name: &str) -> Peer {
        Peer::new(Era::Modern, name)
    }

    /// A legacy server with the usual content.
    pub fn legacy(name: &str) -> Peer {
        Peer::new(Era::Legacy, name)
    }

    /// A server of either era.
    pub fn new(era: Era, name: &str) -> Peer {
        Peer {
            era,
            name: name.into(),
            revision: LEGACY.into(),
            page: 0,
            ttl_ms: 60_000,
            capabilities: fixtures::CAPABILITIES.into(),
            tools: Mutex::new(fixtures::tools()),
            prompts: Mutex::new(fixtures::prompts()),
            resources: Mutex::new(fixtures::resources()),
            templates: Mutex::new(fixtures::templates()),
            state: Mutex::new(State::default()),
        }
    }

    /// With these tool entries instead of the usual ones.
    #[must_use]
    pub fn tools(self, entries: Vec<String>) -> Peer {
        *self.tools.lock() = entries;
        self
    }

    /// With these resource entries.
    #[must_use]
    pub fn resources(self, entries: Vec<String>) -> Peer {
        *self.resources.lock() = entries;
        self
    }

    /// In pages of this size.
    #[must_use]
    pub fn page(mut self, size: usize) -> Peer {
        self.page = size;
        self
    }

    /// With this `ttlMs`.
    #[must_use]
    pub fn ttl(mut self, ms: u64) -> Peer {
        self.ttl_ms = ms;
        self
    }

    /// With these capabilities.
    #[must_use]
    pub fn can(mut self, capabilities: &str) -> Peer {
        self.capabilities = capabilities.into();
        self
    }

    /// Agreeing to this legacy revision.
    #[must_use]
    pub fn revision(mut self, revision: &str) -> Peer {
        self.revision = revision.into();
        self
    }

    /// Changes the tools of a running server.
    pub fn set_tools(&self, entries: Vec<String>) {
        *self.tools.lock() = entries;
    }

    /// How its clients broke the specification so far.
    pub fn violations(&self) -> Vec<String> {
        self.state.lock().violations.clone()
    }

    /// Notes a broken rule.
    pub fn violated(&self, what: impl Into<String>) {
        self.state.lock().violations.push(what.into());
    }

    /// The tools whose calls were stopped because the client cancelled or left.
    pub fn stopped(&self) -> Vec<String> {
        self.state.lock().stopped.clone()
    }

    /// How many list requests it has answered.
    pub fn lists(&self) -> u64 {
        self.state.lock().lists
    }

    /// Ids named by `notifications/cancelled`.
    pub fn cancelled(&self) -> Vec<String> {
        self.state.lock().cancelled.clone()
    }

    /// Handles one message of the session (or connection) `session`.
    pub fn handle(&self, rpc: &Rpc, session: &str, sink: &mut dyn Sink) {
        if !self.check(rpc, session) {
            sink.emit(rpc.error(-32602, "Invalid params: _meta is incomplete"));
            return;
        }
        if rpc.id.is_none() {
            self.notified(rpc, session);
            return;
        }
        if rpc.method == "tools/call" {
            self.call(rpc, session, sink);
            return;
        }
        let answer = self.answer(rpc, session);
        sink.emit(answer);
    }

    /// Whether the request can be served at all.
    fn check(&self, rpc: &Rpc, session: &str) -> bool {
        if let Some(duplicate) = duplicate_key(&rpc.raw).or_else(|| duplicate_key(&rpc.params)) {
            self.violated(format!("{}: key {duplicate} twice", rpc.method));
        }
        let declared = rpc.param(&["_meta", "io.modelcontextprotocol/protocolVersion"]);
        let capable = rpc.param(&["_meta", "io.modelcontextprotocol/clientCapabilities"]);
        match self.era {
            Era::Modern if rpc.id.is_some() && rpc.method != "initialize" => {
                let complete =
                    declared == Some(Value::from(MODERN)) && capable.is_some_and(|c| c.is_object());
                if !complete {
                    self.violated(format!("{}: _meta incomplete: {}", rpc.method, rpc.params));
                }
                return complete;
            }
            Era::Legacy if rpc.method != "server/discover" => {
                if declared.is_some() || capable.is_some() {
                    self.violated(format!("{}: modern _meta at a legacy server", rpc.method));
                }
                let ready = self.state.lock().ready.get(session).copied();
                let early =
                    matches!(rpc.method.as_str(), "initialize" | "ping" | "notifications/initialized");
                if !early && ready != Some(true) {
                    self.violated(format!("{}: before the handshake was over", rpc.method));
                }
            }
            _ => {}
        }
        true
    }

    fn notified(&self, rpc: &Rpc, session: &str) {
        match rpc.method.as_str() {
            "notifications/cancelled" => {
                let id = json::raw(&rpc.params, &["requestId"]).unwrap_or_default();
                self.state.lock().cancelled.push(id);
            }
            "notifications/initialized" => {
                self.state.lock().ready.insert(session.into(), true);
            }
            _ => {}
        }
    }

    /// Sleeps while the call is wanted; false when it was cancelled meanwhile.
    fn pause(&self, rpc: &Rpc, time: Duration, sink: &mut dyn Sink) -> bool {
        let end = Instant::now() + time;
        let id = rpc.id.clone().unwrap_or_default();
        loop {
            if sink.gone() || self.state.lock().cancelled.contains(&id) {
                self.state.lock().stopped.push(rpc.text(&["name"]));
                return false;
            }
            if Instant::now() >= end {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn duplicate_key(raw: &str) -> Option<String> {
    let mut seen = std::collections::HashSet::new();
    json::members(raw).into_iter().map(|(k, _)| k).find(|k| !seen.insert(k.clone()))
}
