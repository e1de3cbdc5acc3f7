//! An in-memory pipe, the server's end of it, and waits that never hang a test.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use mcp::json::Raw;
use tokio::sync::{mpsc, watch};

use crate::adapters::pipe::{Mux, MuxEvent, MuxOptions, Pending, Pipe};
use crate::ports::upstream::Fault;

struct Wire {
    sent: mpsc::UnboundedSender<Bytes>,
    closed: watch::Sender<Option<Duration>>,
    blocked: bool,
}

#[async_trait]
impl Pipe for Wire {
    async fn send(&self, line: Bytes) -> Result<(), Fault> {
        let _ = self.sent.send(line);
        if self.blocked {
            std::future::pending::<()>().await;
        }
        Ok(())
    }

    async fn close(&self, grace: Duration) {
        self.closed.send_if_modified(|closed| closed.replace(grace).is_none());
    }
}

/// The server's end of the pipe.
pub(super) struct Peer {
    pub(super) sent: mpsc::UnboundedReceiver<Bytes>,
    pub(super) to: mpsc::Sender<Result<Bytes, Fault>>,
    pub(super) closed: watch::Receiver<Option<Duration>>,
}

impl Peer {
    pub(super) async fn say(&self, line: impl Into<Vec<u8>>) {
        soon(self.to.send(Ok(Bytes::from(line.into())))).await.unwrap();
    }

    pub(super) async fn answer(&self, id: u64, text: &str) {
        self.say(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"text":"{text}"}}}}"#)).await;
    }

    pub(super) async fn progress(&self, token: &str, value: &str) {
        self.say(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{value}}}}}"#
        ))
        .await;
    }

    pub(super) async fn log(&self, text: &str) {
        self.say(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":"{text}"}}}}"#
        ))
        .await;
    }

    /// The next message that the mux sent.
    pub(super) async fn heard(&mut self) -> String {
        String::from_utf8(soon(self.sent.recv()).await.unwrap().to_vec()).unwrap()
    }

    pub(super) async fn grace(&mut self) -> Duration {
        soon(self.closed.wait_for(Option::is_some)).await.unwrap().unwrap()
    }
}

pub(super) async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it never came")
}

pub(super) fn start(options: MuxOptions, blocked: bool) -> (Arc<Mux>, Peer) {
    let (sent, heard) = mpsc::unbounded_channel();
    let (closed, is_closed) = watch::channel(None);
    let (to, incoming) = mpsc::channel(8);
    let mux = Mux::start(Arc::new(Wire { sent, closed, blocked }), incoming, options);
    (mux, Peer { sent: heard, to, closed: is_closed })
}

pub(super) fn pair(shared: bool) -> (Arc<Mux>, Peer) {
    start(MuxOptions::new("s", shared, 4096), false)
}

pub(super) async fn call(mux: &Arc<Mux>) -> Pending {
    let body = |id: &mcp::message::Id, token: &Raw| {
        Bytes::from(format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"_meta":{{"progressToken":{}}}}}}}"#,
            id.raw().as_str(),
            token.as_str()
        ))
    };
    soon(mux.request(body, true)).await.unwrap()
}

pub(super) async fn next(pending: &mut Pending) -> Option<Result<MuxEvent, Fault>> {
    soon(pending.next()).await
}

/// The text of an answer made by [`Peer::answer`].
pub(super) async fn done(pending: &mut Pending) -> String {
    match next(pending).await {
        Some(Ok(MuxEvent::Done(response))) => {
            response.outcome.unwrap().get("text").unwrap().string().unwrap()
        }
        other => panic!("no answer: {other:?}"),
    }
}

/// Waits until the mux has taken everything that was said: pings are answered in order.
pub(super) async fn settled(peer: &mut Peer) {
    peer.say(r#"{"jsonrpc":"2.0","id":"settled","method":"ping"}"#).await;
    while !peer.heard().await.contains(r#""settled""#) {}
}
