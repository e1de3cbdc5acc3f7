//! Streamable HTTP as a well-behaved server of either era speaks it, around a [`Peer`]. Notes what a client
//! does wrong with headers and sessions.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine;
use parking_lot::Mutex;

use super::{Out, Seen};
use crate::client::MODERN;
use crate::peer::{Era, Peer, Rpc, Sink};

/// How answers are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Carrier {
    /// One JSON object, notifications dropped.
    Json,
    /// An event stream.
    Sse,
}

pub(super) struct Endpoint {
    peer: Arc<Peer>,
    carrier: Carrier,
    sessions: Mutex<HashSet<String>>,
    minted: AtomicU64,
}

struct Carried<'a, 'b> {
    out: &'a mut Out<'b>,
    carrier: Carrier,
    last: Option<String>,
    extra: Vec<(&'static str, String)>,
}

impl Carried<'_, '_> {
    fn headers(&self) -> Vec<(&str, &str)> {
        self.extra.iter().map(|(n, v)| (*n, v.as_str())).collect()
    }

    fn finish(mut self) {
        if self.out.is_streaming() {
            self.out.end();
        } else if let Some(last) = self.last.take() {
            let status = if last.contains(r#""code":-32601"#) && self.extra.is_empty() { 404 } else { 200 };
            let mut headers = self.headers();
            headers.push(("Content-Type", "application/json"));
            let headers: Vec<(String, String)> =
                headers.into_iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            let borrowed: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            self.out.reply(status, &borrowed, last);
        } else {
            self.out.close();
        }
    }
}

impl Sink for Carried<'_, '_> {
    fn emit(&mut self, message: String) {
        match self.carrier {
            Carrier::Json => self.last = Some(message),
            Carrier::Sse => {
                if !self.out.is_streaming() {
                    let headers: Vec<(String, String)> =
                        self.extra.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
                    let borrowed: Vec<(&str, &str)> =
                        headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
                    self.out.stream(&borrowed);
                }
                self.out.event(&message);
            }
        }
    }

    fn gone(&mut self) -> bool {
        self.out.gone()
    }
}

impl Endpoint {
    pub(super) fn new(peer: Arc<Peer>, carrier: Carrier) -> Endpoint {
        Endpoint { peer, carrier, sessions: Mutex::default(), minted: AtomicU64::new(1) }
    }

    pub(super) fn handle(&self, seen: &Seen, out: &mut Out<'_>) {
        match (self.peer.era, seen.method.as_str()) {
            (Era::Modern, "POST") => self.modern(seen, out),
            (Era::Legacy, "POST") => self.legacy(seen, out),
            (Era::Legacy, "GET") if self.known(seen) => {
                out.stream(&[]);
                out.park();
            }
            (Era::Legacy, "DELETE") => {
                let id = seen.header("mcp-session-id").unwrap_or_default();
                let status = if self.sessions.lock().remove(id) { 200 } else { 404 };
                out.reply(status, &[], "");
            }
            _ => out.reply(405, &[("Allow", "POST")], ""),
        }
    }

    fn known(&self, seen: &Seen) -> bool {
        seen.header("mcp-session-id").is_some_and(|id| self.sessions.lock().contains(id))
    }

    fn modern(&self, seen: &Seen, out: &mut Out<'_>) {
        let rpc = seen.rpc();
        if rpc.method == "initialize" {
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32022,"message":"Unsupported protocol version","data":{{"supported":["{MODERN}"],"requested":"x"}}}}}}"#,
                rpc.id.as_deref().unwrap_or("null")
            );
            out.json(400, body);
            return;
        }
        if rpc.method == "subscriptions/listen" && self.check_modern(seen, &rpc) {
            let id = rpc.id.as_deref().unwrap_or("null");
            out.stream(&[]);
            out.event(&format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{"notifications":{},"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#,
                crate::json::raw(&rpc.params, &["notifications"]).unwrap_or_else(|| "{}".into())
            ));
            out.park();
        } else if self.check_modern(seen, &rpc) {
            self.run(&rpc, "", Vec::new(), out);
        } else {
            out.json(400, rpc.error(-32020, "Header mismatch"));
        }
    }

    /// Whether the mirrored headers are those that a modern server must insist on.
    fn check_modern(&self, seen: &Seen, rpc: &Rpc) -> bool {
        let want = |name: &str, value: &str| {
            let got = seen.header(name).map(decoded);
            let right = got.as_deref() == Some(value);
            if !right {
                self.peer.violated(format!("{}: header {name} is {got:?}, not {value:?}", rpc.method));
            }
            right
        };
        let named = match rpc.method.as_str() {
            "tools/call" | "prompts/get" => want("Mcp-Name", &rpc.text(&["name"])),
            "resources/read" => want("Mcp-Name", &rpc.text(&["uri"])),
            _ => true,
        };
        let right = want("MCP-Protocol-Version", MODERN) && want("Mcp-Method", &rpc.method) && named;
        if seen.header("mcp-session-id").is_some() {
            self.peer.violated("a session id at a modern server");
        }
        self.check_common(seen, rpc);
        right
    }

    fn check_common(&self, seen: &Seen, rpc: &Rpc) {
        let accept = seen.header("accept").unwrap_or_default();
        if !accept.contains("application/json") || !accept.contains("text/event-stream") {
            self.peer.violated(format!("{}: Accept is {accept:?}", rpc.method));
        }
        if !seen.header("content-type").unwrap_or_default().starts_with("application/json") {
            self.peer.violated(format!("{}: wrong Content-Type", rpc.method));
        }
        if seen.body.contains('\n') {
            self.peer.violated(format!("{}: line breaks in the body", rpc.method));
        }
    }

    fn legacy(&self, seen: &Seen, out: &mut Out<'_>) {
        let rpc = seen.rpc();
        if rpc.method == "initialize" {
            let id = format!("up-{}-{}", self.peer.name, self.minted.fetch_add(1, Ordering::SeqCst));
            self.sessions.lock().insert(id.clone());
            self.run(&rpc, &id, vec![("Mcp-Session-Id", id.clone())], out);
            return;
        }
        let Some(session) = seen.header("mcp-session-id") else {
            let body = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}"#;
            out.json(400, body);
            return;
        };
        if !self.known(seen) {
            out.json(
                404,
                r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}"#,
            );
            return;
        }
        self.check_common(seen, &rpc);
        let version = seen.header("mcp-protocol-version");
        if self.peer.revision.as_str() >= "2025-06-18" && version != Some(&self.peer.revision) {
            self.peer.violated(format!("{}: MCP-Protocol-Version is {version:?}", rpc.method));
        }
        self.run(&rpc, session, vec![("X-Session", session.to_owned())], out);
    }

    fn run(&self, rpc: &Rpc, session: &str, extra: Vec<(&'static str, String)>, out: &mut Out<'_>) {
        if rpc.id.is_none() {
            self.peer.handle(
                rpc,
                session,
                &mut Carried { out, carrier: Carrier::Json, last: None, extra: Vec::new() },
            );
            out.reply(202, &[], "");
            return;
        }
        let mut carried = Carried { out, carrier: self.carrier, last: None, extra };
        self.peer.handle(rpc, session, &mut carried);
        carried.finish();
    }
}

fn decoded(value: &str) -> String {
    let inner = value.strip_prefix("=?base64?").and_then(|v| v.strip_suffix("?="));
    inner
        .and_then(|b| base64::engine::general_purpose::STANDARD.decode(b).ok())
        .map_or_else(|| value.to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}
