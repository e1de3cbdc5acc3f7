//! Scripted servers on port 0 for the tests of the client: they answer bytes exactly as told and remember what they
//! were sent. Every wait is for a condition, with a deadline far above what it takes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use mcp::json::{Key, Limits, Raw};
use metrics::Metrics;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use super::{Deps, ServerClient};
use crate::adapters::child::Slots;
use crate::adapters::credentials::Issue;
use crate::adapters::outbound::Fetcher;
use crate::config::{HttpKind, HttpServer, Server, Timeouts, ToolRules, Transport};
use crate::ports::clock::{Clock, SystemClock};
use crate::ports::upstream::{
    Answer, Call, Client, Event, Events, Fault, Mirrored, SessionKey, Trace, Upstream as _,
};

mod changes;
mod conns;
mod era;
mod faults;
mod hostile;
mod http2;
mod legacy;
mod logs;
mod modern;
mod old_sse;
mod script;
mod stdio;
mod tls;

use script::*;

/// A request that a scripted server got.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) verb: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Value,
}

impl Seen {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// The JSON-RPC method, or the HTTP one when there is no body.
    pub(super) fn method(&self) -> &str {
        self.body.get("method").and_then(Value::as_str).unwrap_or(&self.verb)
    }

    pub(super) fn id(&self) -> &Value {
        self.body.get("id").unwrap_or(&Value::Null)
    }

    /// An answer to this request.
    pub(super) fn result(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id(), "result": result})
    }

    pub(super) fn error(&self, code: i64, message: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": self.id(), "error": {"code": code, "message": message}})
    }
}

type Script = Arc<dyn Fn(&Seen) -> Vec<Do> + Send + Sync>;

/// A scripted server.
pub(super) struct Fake {
    pub(super) address: SocketAddr,
    log: Arc<Log>,
}

#[derive(Default)]
struct Log {
    seen: Mutex<Vec<Seen>>,
    connections: Mutex<usize>,
    left: Mutex<usize>,
    news: Notify,
}

impl Fake {
    pub(super) async fn start(script: impl Fn(&Seen) -> Vec<Do> + Send + Sync + 'static) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (log, script): (_, Script) = (Arc::new(Log::default()), Arc::new(script));
        let shared = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                *shared.connections.lock() += 1;
                stream.set_nodelay(true).unwrap();
                tokio::spawn(serve(stream, Arc::clone(&shared), Arc::clone(&script)));
            }
        });
        Fake { address, log }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.log.seen.lock().clone()
    }

    pub(super) fn methods(&self) -> Vec<String> {
        self.seen().iter().map(|seen| seen.method().to_owned()).collect()
    }

    pub(super) fn count(&self, method: &str) -> usize {
        self.methods().iter().filter(|m| *m == method).count()
    }

    pub(super) fn last(&self, method: &str) -> Seen {
        self.seen().into_iter().rev().find(|seen| seen.method() == method).unwrap()
    }

    pub(super) fn connections(&self) -> usize {
        *self.log.connections.lock()
    }

    /// Waits until so many requests of this method have come.
    pub(super) async fn wait_for(&self, method: &str, times: usize) {
        self.until(|| self.count(method) >= times).await;
    }

    /// Waits until a client has left a hanging answer.
    pub(super) async fn wait_left(&self, times: usize) {
        self.until(|| *self.log.left.lock() >= times).await;
    }

    async fn until(&self, holds: impl Fn() -> bool) {
        let waiting = async {
            loop {
                let news = self.log.news.notified();
                if holds() {
                    return;
                }
                let _ = tokio::time::timeout(Duration::from_millis(50), news).await;
            }
        };
        if tokio::time::timeout(Duration::from_secs(20), waiting).await.is_err() {
            panic!("not in time; seen: {:?}", self.methods());
        }
    }
}

async fn serve(mut stream: TcpStream, log: Arc<Log>, script: Script) {
    let mut buffer = Vec::new();
    while let Some(seen) = read_request(&mut stream, &mut buffer).await {
        log.seen.lock().push(seen.clone());
        log.news.notify_waiters();
        for step in script(&seen) {
            match step {
                Do::Send(bytes) => {
                    if stream.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                Do::Wait(time) => tokio::time::sleep(time).await,
                Do::Close => return,
                Do::Pipe(from) => {
                    let (mut from, mut rest) = (from.lock().await, [0; 64]);
                    loop {
                        tokio::select! {
                            Some(bytes) = from.recv() => stream.write_all(&bytes).await.unwrap_or_default(),
                            got = stream.read(&mut rest) => match got {
                                Ok(1..) => {}
                                _ => break,
                            },
                        }
                    }
                    *log.left.lock() += 1;
                    log.news.notify_waiters();
                    return;
                }
                Do::Hang => {
                    let mut rest = [0; 64];
                    while !matches!(stream.read(&mut rest).await, Ok(0) | Err(_)) {}
                    *log.left.lock() += 1;
                    log.news.notify_waiters();
                    return;
                }
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Seen> {
    loop {
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
            let mut lines = head.split("\r\n");
            let mut first = lines.next()?.split(' ');
            let (verb, path) = (first.next()?.to_owned(), first.next()?.to_owned());
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(':'))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
                .collect();
            let length =
                headers.iter().find(|(n, _)| n == "content-length").map_or(0, |(_, v)| v.parse().unwrap());
            while buffer.len() < end + 4 + length {
                if stream.read_buf(buffer).await.ok()? == 0 {
                    return None;
                }
            }
            let body = serde_json::from_slice(&buffer[end + 4..end + 4 + length]).unwrap_or(Value::Null);
            buffer.drain(..end + 4 + length);
            return Some(Seen { verb, path, headers, body });
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

/// What a modern server says of itself.
pub(super) fn discovered() -> Value {
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "logging": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "1"}}})
}

/// What a legacy server says of itself.
pub(super) fn initialized() -> Value {
    json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}, "logging": {}},
        "serverInfo": {"name": "old", "version": "1"}})
}

/// A modern server that answers everything but discovery by `script`.
pub(super) async fn modern(script: impl Fn(&Seen) -> Vec<Do> + Send + Sync + 'static) -> Fake {
    Fake::start(move |seen| match seen.method() {
        "server/discover" => reply(200, &seen.result(discovered())),
        _ => script(seen),
    })
    .await
}

/// A legacy server with numbered sessions that answers everything but the handshake by `script`.
pub(super) async fn legacy(script: impl Fn(&Seen) -> Vec<Do> + Send + Sync + 'static) -> Fake {
    let sessions = Mutex::new(0);
    Fake::start(move |seen| match seen.method() {
        "server/discover" => reply(
            400,
            &json!({"jsonrpc": "2.0", "id": null, "error":
            {"code": -32000, "message": "Bad Request: Server not initialized"}}),
        ),
        "initialize" => {
            *sessions.lock() += 1;
            let id = format!("s{}", sessions.lock());
            let headers = [("content-type", "application/json"), ("mcp-session-id", id.as_str())];
            http(200, &headers, seen.result(initialized()).to_string().as_bytes())
        }
        "notifications/initialized" | "notifications/cancelled" => accepted(),
        "DELETE" => http(200, &[], b""),
        "GET" => http(405, &[], b""),
        _ => script(seen),
    })
    .await
}

pub(super) fn spec(url: &str) -> Server {
    Server {
        id: "fake".into(),
        transport: Transport::Http(HttpServer {
            credential: None,
            url: url.parse().unwrap(),
            kind: HttpKind::Auto,
            headers: Vec::new(),
            ca: None,
        }),
        required: false,
        timeouts: Timeouts::default(),
        tools: ToolRules::default(),
        answer_bytes: 64 << 10,
        policy: crate::config::ServerPolicy::default(),
        line: 1,
    }
}

pub(super) fn client_of(spec: Server) -> Arc<ServerClient> {
    client_with(spec, Arc::new(SystemClock), Arc::new(metrics()))
}

pub(super) fn client_with(spec: Server, clock: Arc<dyn Clock>, metrics: Arc<Metrics>) -> Arc<ServerClient> {
    let fetcher = Fetcher::new(&auth::egress::Egress::default(), None).unwrap();
    let issue = Issue { fetcher, clock: Arc::clone(&clock) };
    let slots = Arc::new(Slots::new(8));
    ServerClient::new(Arc::new(spec), Deps { slots, clock, metrics, issue })
}

pub(super) fn metrics() -> Metrics {
    Metrics::new(metrics::Registry::new(), "test").unwrap()
}

pub(super) fn client(fake: &Fake) -> Arc<ServerClient> {
    client_of(spec(&fake.url()))
}

pub(super) fn raw(value: &Value) -> Raw {
    Raw::parse(Bytes::from(value.to_string()), &Limits::REQUEST).unwrap()
}

pub(super) fn who(capabilities: &Value) -> Client {
    Client::new(raw(capabilities), Some(raw(&json!({"name": "host", "version": "9"}))))
}

pub(super) fn owner(number: u8) -> SessionKey {
    SessionKey::Caller { principal: [number; 32], conversation: [0; 16] }
}

pub(super) fn a_call(method: &'static str, params: &Value) -> Call {
    let params = params.as_object().unwrap().iter().map(|(k, v)| (Key::new(k), raw(v))).collect();
    Call {
        method,
        params,
        meta: Vec::new(),
        client: who(&json!({})),
        log_level: None,
        progress: false,
        mirrored: Mirrored::default(),
        trace: Trace::default(),
        session: owner(1),
        answer_bytes: 64 << 10,
        call_id: Arc::from("call"),
    }
}

pub(super) fn tool_call() -> Call {
    let mut call = a_call("tools/call", &json!({"name": "echo", "arguments": {"a": 1.0}}));
    call.mirrored.name = Some("echo".into());
    call
}

/// Makes a call.
pub(super) async fn begin(client: &Arc<ServerClient>, call: Call) -> Result<Events, Fault> {
    Arc::clone(client).call(Arc::new(call)).await
}

/// Makes a call and waits for its answer.
pub(super) async fn run(client: &Arc<ServerClient>, call: Call) -> Result<Answer, Fault> {
    finish(begin(client, call).await?).await.1
}

/// Reads a call to its end: what it heard, and how it ended.
pub(super) async fn finish(mut events: Events) -> (Vec<Event>, Result<Answer, Fault>) {
    let mut heard = Vec::new();
    let reading = async {
        let mut end = None;
        while let Some(event) = events.next().await {
            assert!(end.is_none(), "something after the end");
            match event {
                Ok(Event::Done(answer)) => end = Some(Ok(answer)),
                Ok(event) => heard.push(event),
                Err(fault) => end = Some(Err(fault)),
            }
        }
        end.expect("a call ends with an answer or a fault")
    };
    let end = tokio::time::timeout(Duration::from_secs(30), reading).await.expect("the call hangs");
    (heard, end)
}

pub(super) fn text(answer: &Answer) -> String {
    answer.outcome.as_ref().unwrap().as_str().to_owned()
}
