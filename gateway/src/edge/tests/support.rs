//! A server with a scripted handler, and a client that sends exactly what it is told.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::edge::{
    self, BodyFault, Counters, Drained, Full, Handler, Head, Options, Reply, StreamReply, Work,
};
use crate::wire::End;

/// The cap on bodies, small enough for a test to pass.
pub(super) const BODY_CAP: usize = 100_000;

/// An answer that no socket's buffers take whole.
pub(super) const LARGE: usize = 16 * 1024 * 1024;

/// When the streams of `/ends` give up.
pub(super) const ENDS: Duration = Duration::from_millis(500);

/// What the handler saw.
#[derive(Debug)]
pub(super) enum Event {
    Head(Box<Head>),
    Body(Bytes),
    Refused(BodyFault),
    /// A stream was started: its frames are what is sent here.
    Stream(mpsc::Sender<Bytes>),
    /// `gone` was cancelled while `run` waited.
    Gone,
    /// A stream's frames were dropped, whether at their end or before.
    Dropped,
}

struct Script(UnboundedSender<Event>);

impl Handler for Script {
    fn admit(&self, head: Head) -> Result<Box<dyn Work>, Reply> {
        let path = head.path.clone();
        let refused = path == "/refuse";
        self.0.send(Event::Head(Box::new(head))).ok();
        if refused {
            return Err(Full::new(StatusCode::FORBIDDEN, "text/plain", "no").into());
        }
        Ok(Box::new(Job { path, events: self.0.clone() }))
    }
}

struct Job {
    path: String,
    events: UnboundedSender<Event>,
}

/// Says when it is dropped.
struct Guard(UnboundedSender<Event>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.send(Event::Dropped).ok();
    }
}

#[async_trait]
impl Work for Job {
    fn body_limit(&self) -> usize {
        BODY_CAP
    }

    fn wants_body(&self) -> bool {
        self.path != "/bodyless"
    }

    async fn run(self: Box<Self>, body: Bytes, gone: CancellationToken) -> Reply {
        self.events.send(Event::Body(body.clone())).ok();
        match self.path.as_str() {
            "/wait" => {
                gone.cancelled().await;
                self.events.send(Event::Gone).ok();
                Full::empty(StatusCode::OK).into()
            }
            "/large" => {
                let body: Vec<u8> = (0..LARGE).map(|n| (n % 251) as u8).collect();
                Full::new(StatusCode::OK, "application/octet-stream", body).into()
            }
            "/empty" => Full::empty(StatusCode::NO_CONTENT).into(),
            "/stream" | "/ends" | "/lifted" => {
                let end = (self.path != "/stream").then(|| End::new(Instant::now() + ENDS));
                if let (Some(end), "/lifted") = (&end, self.path.as_str()) {
                    end.lift();
                }
                let (sender, receiver) = mpsc::channel::<Bytes>(1);
                let guard = Guard(self.events.clone());
                self.events.send(Event::Stream(sender)).ok();
                let frames = stream::unfold((receiver, guard), |(mut receiver, guard)| async move {
                    receiver.recv().await.map(|frame| (frame, (receiver, guard)))
                });
                let headers = Full::new(StatusCode::OK, "text/event-stream", "").headers;
                StreamReply { status: StatusCode::OK, headers, frames: Box::pin(frames), end }.into()
            }
            "/ready" => {
                let frames = stream::iter([Bytes::from_static(b"one"), Bytes::from_static(b"two")]);
                let headers = http::HeaderMap::new();
                StreamReply { status: StatusCode::OK, headers, frames: Box::pin(frames), end: None }.into()
            }
            _ => Full::new(StatusCode::OK, "text/plain", body).into(),
        }
    }

    fn refuse(self: Box<Self>, fault: BodyFault) -> Full {
        self.events.send(Event::Refused(fault)).ok();
        Full::closing(fault.status())
    }
}

/// A listener under test.
pub(super) struct Server {
    pub(super) addr: SocketAddr,
    pub(super) events: UnboundedReceiver<Event>,
    pub(super) counters: Arc<Counters>,
    pub(super) shutdown: CancellationToken,
    task: JoinHandle<std::io::Result<Drained>>,
}

impl Server {
    pub(super) fn start(options: Options) -> Server {
        let (listener, addr) = edge::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let (sender, events) = mpsc::unbounded_channel();
        let shutdown = CancellationToken::new();
        let counters = options.counters.clone();
        let task = tokio::spawn(edge::serve(listener, options, Arc::new(Script(sender)), shutdown.clone()));
        Server { addr, events, counters, shutdown, task }
    }

    pub(super) fn plain() -> Server {
        Server::start(Options::default())
    }

    pub(super) async fn connect(&self) -> Client {
        Client { tcp: TcpStream::connect(self.addr).await.unwrap(), read: Vec::new() }
    }

    /// Sends `bytes` on a connection of their own.
    pub(super) async fn send(&self, bytes: impl AsRef<[u8]>) -> Client {
        let mut client = self.connect().await;
        client.send(bytes).await;
        client
    }

    pub(super) async fn event(&mut self) -> Event {
        soon(self.events.recv()).await.expect("the handler is gone")
    }

    pub(super) async fn head(&mut self) -> Head {
        match self.event().await {
            Event::Head(head) => *head,
            other => panic!("expected a head, got {other:?}"),
        }
    }

    pub(super) async fn body(&mut self) -> Bytes {
        match self.event().await {
            Event::Body(body) => body,
            other => panic!("expected a body, got {other:?}"),
        }
    }

    pub(super) async fn stream(&mut self) -> mpsc::Sender<Bytes> {
        match self.event().await {
            Event::Stream(sender) => sender,
            other => panic!("expected a stream, got {other:?}"),
        }
    }

    /// Nothing has reached the handler. Call it after the client has seen the connection's end.
    pub(super) fn nothing_more(&mut self) {
        if let Ok(event) = self.events.try_recv() {
            panic!("unexpected {event:?}");
        }
    }

    pub(super) async fn stop(self) -> Drained {
        self.shutdown.cancel();
        soon(self.task).await.unwrap().unwrap()
    }

    /// Waits for the end that a test has asked for by itself.
    pub(super) async fn ended(self) -> Drained {
        soon(self.task).await.unwrap().unwrap()
    }
}

/// Fails the test when `what` takes far too long.
pub(super) async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("nothing happened")
}

/// Waits until a counter has reached `value`.
pub(super) async fn reached(counter: &AtomicU64, value: u64) {
    soon(async {
        while counter.load(Ordering::Relaxed) != value {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// An answer as the client read it.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HashMap<String, String>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
}

/// A client that knows no manners.
pub(super) struct Client {
    pub(super) tcp: TcpStream,
    read: Vec<u8>,
}

impl Client {
    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        soon(self.tcp.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Reads more; false at the end (an orderly one or a reset).
    async fn more(&mut self) -> bool {
        let mut space = [0; 16384];
        match soon(self.tcp.read(&mut space)).await {
            Ok(n) if n > 0 => {
                self.read.extend_from_slice(&space[..n]);
                true
            }
            _ => false,
        }
    }

    /// Reads until `text` has come, and takes all up to its end.
    pub(super) async fn until(&mut self, text: &str) -> String {
        loop {
            let at = self.read.windows(text.len()).position(|w| w == text.as_bytes());
            if let Some(at) = at {
                let rest = self.read.split_off(at + text.len());
                return String::from_utf8(std::mem::replace(&mut self.read, rest)).unwrap();
            }
            assert!(self.more().await, "ended before {text:?}: {:?}", String::from_utf8_lossy(&self.read));
        }
    }

    /// The next final answer, whole (a HEAD answer: see `head_answer`).
    pub(super) async fn answer(&mut self) -> Answer {
        let mut answer = self.head_answer().await;
        if answer.header("transfer-encoding").is_some() {
            answer.body = self.chunks().await;
        } else if let Some(length) = answer.header("content-length") {
            let length = length.parse().unwrap();
            while self.read.len() < length {
                assert!(self.more().await, "the body ended early");
            }
            answer.body = self.read.drain(..length).collect();
        }
        answer
    }

    pub(super) async fn head_answer(&mut self) -> Answer {
        let text = self.until("\r\n\r\n").await;
        let mut lines = text.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        });
        Answer { status, headers: headers.collect(), body: Vec::new() }
    }

    /// One chunk of a chunked body; empty at its end.
    pub(super) async fn chunk(&mut self) -> Vec<u8> {
        let line = self.until("\r\n").await;
        let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
        while self.read.len() < size + 2 {
            assert!(self.more().await, "the body ended early");
        }
        let chunk = self.read.drain(..size).collect();
        assert_eq!(self.read.drain(..2).collect::<Vec<u8>>(), b"\r\n");
        chunk
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let chunk = self.chunk().await;
            if chunk.is_empty() {
                return body;
            }
            body.extend(chunk);
        }
    }

    /// Everything up to the connection's end.
    pub(super) async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    /// The connection ends, and nothing more came.
    pub(super) async fn closed(&mut self) {
        assert_eq!(self.rest().await, "");
    }
}

/// A POST with a length.
pub(super) fn post(path: &str, body: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}
