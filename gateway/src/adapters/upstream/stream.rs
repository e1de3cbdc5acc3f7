//! The event stream that answers one POST: notifications of this call, then its answer. A notification of another
//! call, a second answer and a modern server's own requests never get past it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use http_body_util::BodyExt as _;
use mcp::era::Era;
use mcp::message::{Message, Notification};
use mcp::meta::LogLevel;
use mcp::method;
use mcp::sse::{Decoder, SseEvent};
use tokio::sync::broadcast;

use super::answer::{message, ours, too_large};
use super::back::{Back, CancelGuard};
use super::compose::Ticket;
use super::core::Core;
use super::sessions::Session;
use crate::adapters::outbound::{Body, chain};
use crate::adapters::pipe::{list_change, without_token};
use crate::ports::upstream::{Answer, Change, Event, Events, Fault, FaultKind};

/// A stream that is broken so often without an answer is given up.
const RESUMES: u8 = 8;
/// The longest that a server's `retry` is obeyed: the caller's deadline is running.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// The wait before a stream is resumed when the server said nothing.
const RETRY_DEFAULT: Duration = Duration::from_millis(500);
/// What is still read behind an answer, so that the connection can be used again.
const DRAIN_BYTES: usize = 64 << 10;
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// What a call wants to hear and how much of it.
pub(super) struct Want {
    /// Its id and progress token.
    pub(super) ticket: Ticket,
    /// The largest event, in bytes.
    pub(super) cap: usize,
    /// Whether progress is wanted.
    pub(super) progress: bool,
    /// The least severe log message wanted; none: no log at all.
    pub(super) log: Option<LogLevel>,
    /// The server's era.
    pub(super) era: Era,
    /// The server's id, for log lines.
    pub(super) server: Arc<str>,
    /// Where list changes go that a legacy server announces on any stream.
    pub(super) changes: broadcast::Sender<Change>,
}

impl Want {
    /// For a request of the gateway's own: nothing but the answer.
    pub(super) fn bare(core: &Core, ticket: Ticket, era: Era, cap: usize) -> Want {
        Want {
            ticket,
            cap,
            progress: false,
            log: None,
            era,
            server: Arc::clone(&core.server),
            changes: core.changes.clone(),
        }
    }
}

/// A stream being read.
pub(super) struct Run {
    body: Option<Body>,
    decoder: Decoder,
    /// Where a broken stream goes on, and when: remembered across connections.
    last_id: Option<String>,
    retry: Option<u64>,
    want: Want,
    back: Option<Arc<Back>>,
    guard: CancelGuard,
    /// The session is not closed as idle while its stream is read.
    held: Option<Arc<Session>>,
    /// Where the end is noted; none for the gateway's own requests, whose makers judge the whole of them.
    noted: Option<Arc<Core>>,
    resumes: u8,
    over: bool,
}

impl Run {
    /// Reads `body`. `back` is the way back to a legacy server.
    pub(super) fn new(body: Body, want: Want, back: Option<Arc<Back>>, guard: CancelGuard) -> Run {
        let decoder = Decoder::new(want.cap);
        Run {
            body: Some(body),
            decoder,
            last_id: None,
            retry: None,
            want,
            back,
            guard,
            held: None,
            noted: None,
            resumes: 0,
            over: false,
        }
    }

    /// Keeps the call's session until the end.
    pub(super) fn holding(mut self, session: Arc<Session>) -> Run {
        self.held = Some(session);
        self
    }

    /// Has its end noted.
    pub(super) fn noted_in(mut self, core: &Arc<Core>) -> Run {
        self.noted = Some(Arc::clone(core));
        self
    }

    /// As the port's stream of events.
    pub(super) fn into_events(self) -> Events {
        Box::pin(stream::unfold(self, |mut run| async move { run.next().await.map(|item| (item, run)) }))
    }

    /// The answer alone; everything before it is dropped.
    pub(super) async fn answer(mut self) -> Result<Answer, Fault> {
        loop {
            match self.next().await {
                Some(Ok(Event::Done(answer))) => return Ok(answer),
                Some(Ok(_)) => {}
                Some(Err(fault)) => return Err(fault),
                None => return Err(dropped("the stream ended without an answer")),
            }
        }
    }

    /// The next event; None after the answer or a fault.
    pub(super) async fn next(&mut self) -> Option<Result<Event, Fault>> {
        if self.over {
            return None;
        }
        let item = self.step().await;
        if !matches!(item, Ok(Event::Progress(_) | Event::Log(_))) {
            self.over = true;
            if let Some(core) = &self.noted {
                core.note(item.as_ref().err(), false);
            }
        }
        Some(item)
    }

    async fn step(&mut self) -> Result<Event, Fault> {
        loop {
            while let Some(event) = self.decoder.next() {
                if let Some(event) = self.take(event).await? {
                    return Ok(event);
                }
            }
            let Some(body) = &mut self.body else { return Err(dropped("the stream is closed")) };
            match body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(&data).map_err(|_| too_large(self.want.cap))?;
                    }
                }
                Some(Err(e)) => self.resume(&chain(&e)).await?,
                None => self.resume("the stream ended without an answer").await?,
            }
        }
    }

    async fn take(&mut self, event: SseEvent) -> Result<Option<Event>, Fault> {
        let named = event.event.as_deref().unwrap_or("message");
        // Blocks without data carry an id or a retry time for resuming, nothing else.
        if named != "message" || event.data.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        match message(event.data).await? {
            Message::Notification(notification) => Ok(self.heard(&notification)),
            Message::Request(request) => {
                match &self.back {
                    Some(back) => back.answer(&request),
                    None => {
                        tracing::warn!(server = %self.want.server, "a modern server sent a request: dropped")
                    }
                }
                Ok(None)
            }
            answer @ Message::Response(_) => {
                let answer = ours(answer, &self.want.ticket.id)?;
                self.guard.disarm();
                self.drain();
                Ok(Some(Event::Done(Answer { era: self.want.era, outcome: answer.outcome })))
            }
        }
    }

    fn heard(&self, notification: &Notification) -> Option<Event> {
        match notification.method.as_str() {
            method::PROGRESS if self.want.progress => {
                let params = notification.params.as_ref()?;
                let ours = params.get(mcp::meta::PROGRESS_TOKEN)? == *self.want.ticket.token();
                ours.then(|| Event::Progress(without_token(params)))
            }
            method::LOG => {
                let (least, params) = (self.want.log?, notification.params.clone()?);
                let level = LogLevel::parse(&params.get("level")?.string()?)?;
                (level >= least).then_some(Event::Log(params))
            }
            other => {
                if let (Era::Legacy, Some(change)) = (self.want.era, list_change(other)) {
                    let _ = self.want.changes.send(change);
                }
                None
            }
        }
    }

    /// The stream broke. A legacy server that numbers its events may go on with it on a new connection.
    async fn resume(&mut self, why: &str) -> Result<(), Fault> {
        self.body = None;
        if let Some(id) = self.decoder.last_event_id() {
            self.last_id = Some(id.to_owned());
        }
        self.retry = self.decoder.retry().or(self.retry);
        let last = self.last_id.clone().filter(|id| !id.is_empty());
        let (Some(back), Some(last)) = (&self.back, last) else { return Err(dropped(why)) };
        if self.resumes >= RESUMES {
            return Err(dropped(format!("resumed {RESUMES} times: {why}")));
        }
        self.resumes += 1;
        let wait = self.retry.map_or(RETRY_DEFAULT, Duration::from_millis).min(RETRY_MAX);
        tokio::time::sleep(wait).await;
        self.body = Some(back.resume(&last).await.map_err(|f| dropped(format!("{why}; {}", f.detail)))?);
        // Half an event of the broken stream must not be joined to the new one.
        self.decoder = Decoder::new(self.want.cap);
        Ok(())
    }

    /// Reads what is left behind the answer, in the background where it is not there yet: an HTTP/1.1 connection is
    /// lost when its body is dropped before the end.
    fn drain(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        match body.frame().now_or_never() {
            Some(None | Some(Err(_))) => {}
            _ => {
                tokio::spawn(tokio::time::timeout(DRAIN_TIME, async move {
                    let mut left = DRAIN_BYTES;
                    while let Some(Ok(frame)) = body.frame().await {
                        left = left.saturating_sub(frame.data_ref().map_or(1, Bytes::len).max(1));
                        if left == 0 {
                            break;
                        }
                    }
                }));
            }
        }
    }
}

fn dropped(why: impl Into<String>) -> Fault {
    Fault::late(FaultKind::Dropped, why)
}
