//! `tollgate stdio`: one host over stdin and stdout, through the same stages as a request over HTTP. One message a
//! line; the era is decided per message; nothing but protocol is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use mcp::entry::EntryKind;
use mcp::era::Revision;
use mcp::message::{self, Message};
use mcp::method;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{timeout, timeout_at};

use crate::answers::stream::{ANY_LIST, announcement};
use crate::gate::{Gate, Host, Snapshot};
use crate::pipeline::live::{Live, Step};
use crate::pipeline::{Begun, Outcome, reply};
use crate::profiles::Party;
use crate::reject::{Reject, Why};
use crate::stages::admit::{Admitted, Endpoint, Verb, Via};
use crate::stages::decode::{self, Body, Decoded};
use crate::stages::identify::{self, Identified};
use crate::who::Who;

/// Messages that wait for a slow reader of stdout.
const QUEUE: usize = 256;
/// Requests of one host under way at once; more wait in the pipe.
const MAX_REQUESTS: usize = 256;
/// A host that does not read a message for so long is taken for dead.
const WRITE_TIME: std::time::Duration = std::time::Duration::from_secs(60);

/// At the end of stdin: what is under way is answered within this time, or cancelled. A list waits half as long for
/// a slow server.
const GRACE: std::time::Duration = std::time::Duration::from_secs(10);

/// Serves until stdin ends, stdout breaks, or the gateway is told to go down.
pub async fn serve(
    gate: Arc<Gate>,
    input: impl AsyncBufRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) {
    let (messages, queue) = mpsc::channel(QUEUE);
    let mut writer = tokio::spawn(write(queue, output));
    let out = Out { messages, greeted: Arc::default() };
    let reading = Reading { gate, host: Arc::default(), out };
    tokio::select! {
        () = reading.run(input) => {}
        _ = &mut writer => return,
    }
    // What was answered before the end still goes out.
    timeout(WRITE_TIME, writer).await.ok();
}

/// The way to stdout.
#[derive(Clone)]
struct Out {
    messages: mpsc::Sender<Bytes>,
    /// The answer to `initialize` is on its way: from now on changed lists may be told of.
    greeted: Arc<AtomicBool>,
}

impl Out {
    async fn send(&self, message: Bytes) -> Result<(), mpsc::error::SendError<Bytes>> {
        self.messages.send(message).await
    }
}

type Batch = Vec<Result<Box<Decoded>, Reject>>;

struct Reading {
    gate: Arc<Gate>,
    host: Arc<Host>,
    out: Out,
}

impl Reading {
    async fn run(self, input: impl AsyncBufRead + Unpin) {
        let snap = self.gate.snapshot.load_full();
        let draining = self.gate.draining.clone();
        let mut running = JoinSet::new();
        let admitted = Arc::new(head());
        let party = match identify::party(&snap, &admitted, Who::anonymous()) {
            Ok(party) => party,
            Err(reject) => return tracing::error!(reason = %reject.public, "this host has no task"),
        };
        let mut announcer = JoinSet::new();
        announcer.spawn(announce(Arc::clone(&snap), party.clone(), self.out.clone()));
        let told = tokio::select! {
            () = self.read(&snap, &mut running, (&admitted, &party), input) => false,
            () = draining.cancelled() => true,
        };
        // Nothing is read any more, so no question is answered any more.
        self.gate.questions.close();
        announcer.shutdown().await;
        let grace = if told { snap.config.drain } else { GRACE };
        let last = async { while running.join_next().await.is_some() {} };
        tokio::select! {
            _ = timeout(grace, last) => {}
            // The host has closed stdin and still wants an end at once.
            () = draining.cancelled(), if !told => {}
        }
        running.shutdown().await;
    }

    async fn read(
        &self,
        snap: &Arc<Snapshot>,
        running: &mut JoinSet<()>,
        (admitted, party): (&Arc<Admitted>, &Party),
        mut input: impl AsyncBufRead + Unpin,
    ) {
        let limit = snap.config.limits.request_bytes;
        while let Some(line) = read_line(&mut input, limit).await {
            let body = match line {
                Line::Message(body) => body,
                Line::TooLong => {
                    let text = format!("the message is larger than {limit} bytes");
                    self.refuse(Reject::new(Why::BodySize, text)).await;
                    continue;
                }
            };
            match decode::decode(&snap.config, self.gate.means.clock.now(), Arc::clone(admitted), body).await
            {
                Err(reject) => self.refuse(reject).await,
                Ok(Body::Batch(batch)) => self.batch(snap, running, (party, batch)).await,
                Ok(Body::One(decoded)) => {
                    self.take(snap, running, Identified { decoded, party: party.clone() }).await
                }
            }
            while running.try_join_next().is_some() {}
        }
    }

    async fn refuse(&self, reject: Reject) {
        let call_id = self.gate.refused(None, &reject);
        let message = message::error(reject.id.as_ref(), &reject.error(&call_id));
        self.out.send(message).await.ok();
    }

    /// Requests run side by side; the handshake and notifications are dealt with in their order.
    async fn take(&self, snap: &Arc<Snapshot>, running: &mut JoinSet<()>, identified: Identified) {
        let (alone, initialize) = match &identified.decoded.message {
            Message::Request(request) => {
                let initialize = request.method == method::INITIALIZE;
                (initialize, initialize)
            }
            Message::Notification(_) | Message::Response(_) => (true, false),
        };
        let (gate, host, out) = (Arc::clone(&self.gate), Arc::clone(&self.host), self.out.clone());
        let snap = Arc::clone(snap);
        // Begun here, so that a cancellation that comes next finds it.
        let begun = gate.begin(&snap, identified, Some(&host));
        let work = async move {
            let said = answer(&gate, &snap, begun, &host).await;
            one(said, initialize && host.session().is_some(), &out).await;
        };
        if alone {
            work.await;
            return;
        }
        while running.len() > MAX_REQUESTS {
            running.join_next().await;
        }
        running.spawn(work);
    }

    /// A batch is answered by a batch, once all its requests are answered; notifications of its calls are left out.
    async fn batch(&self, snap: &Arc<Snapshot>, running: &mut JoinSet<()>, (party, batch): (&Party, Batch)) {
        let party = party.clone();
        if self.host.session().is_none_or(|session| session.revision != Revision::V2025_03_26) {
            let text = "send one message a line; batches exist in sessions of revision 2025-03-26 alone";
            return self.refuse(Reject::new(Why::Invalid, text)).await;
        }
        let (gate, host, out) = (Arc::clone(&self.gate), Arc::clone(&self.host), self.out.clone());
        let snap = Arc::clone(snap);
        let begin = |decoded: Box<Decoded>| {
            let identified = Identified { decoded, party: party.clone() };
            gate.begin(&snap, identified, Some(&host))
        };
        let begun: Vec<_> = batch.into_iter().map(|decoded| decoded.map(begin)).collect();
        let work = async move {
            let answers = reply::batch(begun.into_iter().map(|begun| async {
                match begun {
                    Ok(begun) => match answer(&gate, &snap, begun, &host).await {
                        Said::Nothing => None,
                        Said::Answer(message) => Some(message),
                        Said::Live(live) => live.finish().await,
                    },
                    Err(reject) => {
                        let call_id = gate.refused(Some(&party), &reject);
                        Some(message::error(reject.id.as_ref(), &reject.error(&call_id)))
                    }
                }
            }));
            let answer = answers.await.unwrap_or_else(|reject| {
                let call_id = gate.refused(Some(&party), &reject);
                Some(message::error(None, &reject.error(&call_id)))
            });
            if let Some(answer) = answer {
                out.send(answer).await.ok();
            }
        };
        while running.len() > MAX_REQUESTS {
            running.join_next().await;
        }
        running.spawn(work);
    }
}

enum Said {
    Nothing,
    Answer(Bytes),
    Live(Box<Live>),
}

async fn answer(gate: &Gate, snap: &Snapshot, begun: Begun, host: &Host) -> Said {
    match gate.proceed(snap, begun, Some(host)).await {
        Outcome::Accepted => Said::Nothing,
        Outcome::Answer(message, _) => Said::Answer(message),
        // A notification is never answered.
        Outcome::Refused(reject, _, _) if reject.id.is_none() => Said::Nothing,
        Outcome::Refused(reject, _, call_id) => {
            Said::Answer(message::error(reject.id.as_ref(), &reject.error(&call_id)))
        }
        Outcome::Live(live) => Said::Live(live),
    }
}

async fn one(said: Said, greeting: bool, out: &Out) {
    match said {
        Said::Nothing => {}
        Said::Answer(message) => {
            out.send(message).await.ok();
            if greeting {
                out.greeted.store(true, Ordering::Release);
            }
        }
        Said::Live(live) => pump(*live, out).await,
    }
}

async fn pump(mut live: Live, out: &Out) {
    loop {
        let sent = match live.step().await {
            // The call ends in time also while the host does not read.
            Step::Message(message) => match live.end() {
                Some(end) => timeout_at(end, out.send(message)).await.unwrap_or(Ok(())),
                None => out.send(message).await,
            },
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

/// What stands for the head of a request.
fn head() -> Admitted {
    Admitted {
        verb: Verb::Post,
        endpoint: Endpoint::All,
        task: None,
        query: None,
        certified: None,
        headers: HeaderMap::new(),
        via: Via::Stdio,
        origin: None,
    }
}

/// Tells a host with a session that a list has changed; after missing something, that all have.
async fn announce(snap: Arc<Snapshot>, party: Party, out: Out) {
    let mut changes = snap.catalog.changes();
    loop {
        let kinds: &[EntryKind] = match changes.recv().await {
            Ok(change) if !party.profile.reaches(&change.server) => continue,
            Ok(change) => &[change.kind],
            Err(RecvError::Lagged(_)) => &ANY_LIST,
            Err(RecvError::Closed) => return,
        };
        if !out.greeted.load(Ordering::Acquire) {
            continue;
        }
        for kind in kinds {
            if out.send(announcement(*kind)).await.is_err() {
                return;
            }
        }
    }
}

enum Line {
    Message(Bytes),
    TooLong,
}

/// The next line that is not empty; None at the end of the input, which ends a line too. What is longer than `limit`
/// is read over.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin), limit: usize) -> Option<Line> {
    let mut line = BytesMut::new();
    let mut too_long = false;
    loop {
        let chunk = input.fill_buf().await.ok()?;
        let over = chunk.is_empty();
        let (part, used, end) = match chunk.iter().position(|b| *b == b'\n') {
            Some(at) => (chunk.get(..at).unwrap_or_default(), at + 1, true),
            None => (chunk, chunk.len(), false),
        };
        too_long |= line.len() + part.len() > limit;
        if !too_long {
            line.extend_from_slice(part);
        }
        input.consume(used);
        if !end && !over {
            continue;
        }
        if too_long {
            return Some(Line::TooLong);
        }
        if line.iter().any(|b| !b.is_ascii_whitespace()) {
            return Some(Line::Message(line.freeze()));
        }
        if over {
            return None;
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
