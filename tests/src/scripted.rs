//! A scripted HTTP server on threads and plain sockets, so that any wrong byte can be sent. It records every
//! request as received. Never helps a client that framed its request wrongly.

mod mcp;
mod out;
mod read;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::Value;

pub use mcp::Carrier;
pub use out::Out;

use crate::json;
use crate::peer::{Peer, Rpc};

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// The request target.
    pub path: String,
    /// Header lines in order, names as sent.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
    /// Which connection of this server it came on.
    pub connection: usize,
}

impl Seen {
    /// A header's first value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// The JSON-RPC message in it.
    pub fn rpc(&self) -> Rpc {
        Rpc::parse(&self.body)
    }

    /// Whether it carries this JSON-RPC method.
    pub fn is(&self, method: &str) -> bool {
        json::at(&self.body, &["method"]) == Some(Value::from(method))
    }

    /// Everything received, for searches.
    pub fn text(&self) -> String {
        let head: Vec<String> = self.headers.iter().map(|(n, v)| format!("{n}: {v}")).collect();
        format!("{} {}\n{}\n\n{}", self.method, self.path, head.join("\n"), self.body)
    }
}

/// What a handler does with a request.
pub type Handler = dyn Fn(&Seen, &mut Out<'_>) + Send + Sync;

#[derive(Default)]
pub(crate) struct Shared {
    seen: Mutex<Vec<Seen>>,
    stop: AtomicBool,
    connections: AtomicUsize,
    streams: Mutex<Vec<TcpStream>>,
    alive: Mutex<Vec<TcpStream>>,
}

/// The server; its listener closes when dropped.
pub struct Scripted {
    /// Where it listens.
    pub addr: SocketAddr,
    /// The peer behind it, when it has one.
    pub peer: Option<Arc<Peer>>,
    pub(crate) shared: Arc<Shared>,
}

impl Scripted {
    /// Answers with this handler.
    pub fn start(handler: impl Fn(&Seen, &mut Out<'_>) + Send + Sync + 'static) -> Scripted {
        Scripted::listen("127.0.0.1:0".parse().expect("an address"), None, None, Arc::new(handler))
    }

    /// A well-behaved peer that answers with JSON.
    pub fn json(peer: Peer) -> Scripted {
        Scripted::carried(peer, Carrier::Json, |_, _| false)
    }

    /// A well-behaved peer that answers with event streams.
    pub fn sse(peer: Peer) -> Scripted {
        Scripted::carried(peer, Carrier::Sse, |_, _| false)
    }

    /// A well-behaved peer, save what `first` says it has handled.
    pub fn carried(
        peer: Peer,
        carrier: Carrier,
        first: impl Fn(&Seen, &mut Out<'_>) -> bool + Send + Sync + 'static,
    ) -> Scripted {
        Scripted::at("127.0.0.1:0".parse().expect("an address"), peer, carrier, first)
    }

    /// The same on a given address.
    pub fn at(
        addr: SocketAddr,
        peer: Peer,
        carrier: Carrier,
        first: impl Fn(&Seen, &mut Out<'_>) -> bool + Send + Sync + 'static,
    ) -> Scripted {
        let peer = Arc::new(peer);
        let endpoint = mcp::Endpoint::new(Arc::clone(&peer), carrier);
        let handler = move |seen: &Seen, out: &mut Out<'_>| {
            if !first(seen, out) {
                endpoint.handle(seen, out);
            }
        };
        Scripted::listen(addr, None, Some(peer), Arc::new(handler))
    }

    /// A peer behind TLS.
    pub fn tls(identity: &crate::tls::Identity, peer: Peer) -> Scripted {
        let peer = Arc::new(peer);
        let endpoint = mcp::Endpoint::new(Arc::clone(&peer), Carrier::Json);
        let handler = move |seen: &Seen, out: &mut Out<'_>| endpoint.handle(seen, out);
        let addr = "127.0.0.1:0".parse().expect("an address");
        Scripted::listen(addr, Some(identity.server()), Some(peer), Arc::new(handler))
    }

    fn listen(
        addr: SocketAddr,
        tls: Option<Arc<rustls::ServerConfig>>,
        peer: Option<Arc<Peer>>,
        handler: Arc<Handler>,
    ) -> Scripted {
        let listener = bind(addr);
        let addr = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared::default());
        let inside = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if inside.stop.load(Ordering::SeqCst) {
                    return;
                }
                let number = inside.connections.fetch_add(1, Ordering::SeqCst);
                inside.alive.lock().extend(stream.try_clone());
                let (shared, handler, tls) = (Arc::clone(&inside), Arc::clone(&handler), tls.clone());
                std::thread::spawn(move || read::serve(stream, number, tls, &shared, &handler));
            }
        });
        Scripted { addr, peer, shared }
    }

    /// Its MCP endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.addr)
    }

    /// The peer behind it.
    pub fn peer(&self) -> &Peer {
        self.peer.as_deref().expect("a peer")
    }

    /// Everything received so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().clone()
    }

    /// The requests that carry this JSON-RPC method.
    pub fn seen_of(&self, method: &str) -> Vec<Seen> {
        self.seen().into_iter().filter(|s| s.is(method)).collect()
    }

    /// How many requests carried this JSON-RPC method.
    pub fn count(&self, method: &str) -> usize {
        self.seen_of(method).len()
    }

    /// Requests other than the gateway's own probing and list reading.
    pub fn calls(&self) -> usize {
        let own = [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "ping",
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
            "subscriptions/listen",
        ];
        self.seen().iter().filter(|s| s.method == "POST" && !own.iter().any(|m| s.is(m))).count()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Sends a message on every open GET stream; gives the number of streams.
    pub fn push(&self, message: &str) -> usize {
        use std::io::Write;
        let frame = crate::sse::frame(message);
        let chunk = format!("{:x}\r\n{frame}\r\n", frame.len());
        let mut streams = self.shared.streams.lock();
        streams.retain_mut(|s| s.write_all(chunk.as_bytes()).is_ok());
        streams.len()
    }

    /// Stops listening and cuts every connection, as a dying process does.
    pub fn die(&self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.addr);
        self.cut();
    }

    /// Cuts every connection and goes on listening.
    pub fn cut(&self) {
        for stream in self.shared.alive.lock().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Fails if the gateway broke a rule as a client.
    pub fn assert_clean(&self) {
        let violations = self.peer().violations();
        assert!(violations.is_empty(), "the gateway as a client: {violations:#?}");
    }
}

/// The port of a server that has just died is free a moment later.
fn bind(addr: SocketAddr) -> TcpListener {
    let end = std::time::Instant::now() + crate::wait::LONG;
    loop {
        match TcpListener::bind(addr) {
            Ok(listener) => return listener,
            Err(e) => assert!(std::time::Instant::now() < end, "{addr}: {e}"),
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.die();
    }
}
