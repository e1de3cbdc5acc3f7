//! `tollgate stdio`: one host over stdin and stdout, through the same stages as a request over HTTP. One message a
//! line; the era is decided per message; nothing but protocol is written.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use mcp::message::{self, Message};
use mcp::method;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::answers::stream::announcement;
use crate::gate::{Gate, Host, Snapshot};
use crate::pipeline::live::{Live, Step};
use crate::pipeline::{Begun, Outcome};
use crate::reject::{Reject, Why};
use crate::stages::admit::{Admitted, Endpoint, Verb, Via};
use crate::stages::decode::{self, Body, Decoded};

/// Messages that wait for a slow reader of stdout.
const QUEUE: usize = 256;
/// Requests of one host under way at once; more wait in the pipe.
const MAX_REQUESTS: usize = 256;
/// A host that does not read a message for so long is taken for dead.
const WRITE_TIME: std::time::Duration = std::time::Duration::from_secs(60);

/// Serves until stdin ends, stdout breaks, or the gateway is told to go down.
pub async fn serve(
    gate: Arc<Gate>,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) {
    let (out, messages) = mpsc::channel(QUEUE);
    let mut writer = tokio::spawn(write(messages, output));
    let reading = Reading { gate: Arc::clone(&gate), host: Arc::default(), out };
    tokio::select! {
        () = reading.run(input) => {}
        _ = &mut writer => return,
        () = gate.draining.cancelled() => {}
    }
    // What was answered before the end still goes out.
    timeout(WRITE_TIME, writer).await.ok();
}

struct Reading {
    gate: Arc<Gate>,
    host: Arc<Host>,
    out: mpsc::Sender<Bytes>,
}

impl Reading {
    async fn run(self, mut input: impl AsyncBufRead + Unpin) {
        let snap = self.gate.snapshot.load_full();
        let limit = snap.config.limits.request_bytes;
        let admitted = Arc::new(Admitted {
            verb: Verb::Post,
            endpoint: Endpoint::All,
            headers: HeaderMap::new(),
            via: Via::Stdio,
            origin: None,
        });
        let mut running = JoinSet::new();
        running.spawn(announce(Arc::clone(&snap), Arc::clone(&self.host), self.out.clone()));
        while let Some(line) = read_line(&mut input, limit).await {
            let body = match line {
                Line::Message(body) => body,
                Line::TooLong => {
                    let text = format!("the message is larger than {limit} bytes");
                    self.refuse(&snap, Reject::new(Why::BodySize, text)).await;
                    continue;
                }
            };
            match decode::decode(&snap.config, Arc::clone(&admitted), body).await {
                Err(reject) => self.refuse(&snap, reject).await,
                Ok(Body::Batch(_)) => {}
                Ok(Body::One(decoded)) => self.take(&snap, &mut running, *decoded).await,
            }
            while running.try_join_next().is_some() {}
        }
        // Stdin is closed: nobody waits for what is under way.
        running.shutdown().await;
    }

    async fn refuse(&self, snap: &Snapshot, reject: Reject) {
        let call_id = self.gate.refused(snap, &reject);
        let message = message::error(reject.id.as_ref(), &reject.error(&call_id));
        self.out.send(message).await.ok();
    }

    /// Requests run side by side; the handshake and notifications are dealt with in their order.
    async fn take(&self, snap: &Arc<Snapshot>, running: &mut JoinSet<()>, decoded: Decoded) {
        let alone = match &decoded.message {
            Message::Request(request) => request.method == method::INITIALIZE,
            Message::Notification(_) | Message::Response(_) => true,
        };
        let (gate, host, out) = (Arc::clone(&self.gate), Arc::clone(&self.host), self.out.clone());
        let snap = Arc::clone(snap);
        // Begun here, so that a cancellation that comes next finds it.
        let begun = gate.begin(&snap, decoded, Some(&host));
        let work = async move { one(&gate, &snap, begun, &host, &out).await };
        if alone {
            work.await;
            return;
        }
        while running.len() > MAX_REQUESTS {
            running.join_next().await;
        }
        running.spawn(work);
    }
}

async fn one(gate: &Gate, snap: &Snapshot, begun: Begun, host: &Host, out: &mpsc::Sender<Bytes>) {
    let answer = match gate.proceed(snap, begun, Some(host)).await {
        Outcome::Accepted => return,
        Outcome::Answer(message, _) => message,
        // A notification is never answered.
        Outcome::Refused(reject, _, _) if reject.id.is_none() => return,
        Outcome::Refused(reject, _, call_id) => message::error(reject.id.as_ref(), &reject.error(&call_id)),
        Outcome::Live(live) => return pump(*live, out).await,
    };
    out.send(answer).await.ok();
}

async fn pump(mut live: Live, out: &mpsc::Sender<Bytes>) {
    loop {
        let sent = match live.step().await {
            Step::Message(message) => out.send(message).await,
            Step::Quiet => Ok(()),
            Step::Final(message, _) => {
                out.send(message).await.ok();
                return;
            }
            Step::Silent => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Tells a host with a session that a list has changed.
async fn announce(snap: Arc<Snapshot>, host: Arc<Host>, out: mpsc::Sender<Bytes>) {
    let mut changes = snap.catalog.changes();
    loop {
        match changes.recv().await {
            Ok(change) if host.session().is_some() => {
                if out.send(announcement(change.kind)).await.is_err() {
                    return;
                }
            }
            Ok(_) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {}
            Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
        }
    }
}

enum Line {
    Message(Bytes),
    TooLong,
}

/// The next line that is not empty; None at the end of the input. What is longer than `limit` is read over.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin), limit: usize) -> Option<Line> {
    let mut line = BytesMut::new();
    let mut too_long = false;
    loop {
        let chunk = input.fill_buf().await.ok()?;
        if chunk.is_empty() {
            return None;
        }
        let (part, used, end) = match chunk.iter().position(|b| *b == b'\n') {
            Some(at) => (chunk.get(..at).unwrap_or_default(), at + 1, true),
            None => (chunk, chunk.len(), false),
        };
        too_long |= line.len() + part.len() > limit;
        if !too_long {
            line.extend_from_slice(part);
        }
        input.consume(used);
        if !end {
            continue;
        }
        if too_long {
            return Some(Line::TooLong);
        }
        if line.iter().any(|b| !b.is_ascii_whitespace()) {
            return Some(Line::Message(line.freeze()));
        }
        line.clear();
    }
}

async fn write(mut messages: mpsc::Receiver<Bytes>, mut output: impl AsyncWrite + Unpin) {
    while let Some(message) = messages.recv().await {
        let written = async {
            output.write_all(&message).await?;
            output.write_all(b"\n").await?;
            output.flush().await
        };
        if !matches!(timeout(WRITE_TIME, written).await, Ok(Ok(()))) {
            return;
        }
    }
}
