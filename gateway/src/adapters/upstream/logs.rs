//! Log messages that a legacy HTTP server sends on the GET stream of a caller's session instead of its call's own stream
//! (the TypeScript SDK's `sendLoggingMessage` does). The stream is opened for a caller who asked for a level, at a
//! server that declares `logging`, and ends with the session; a message goes to a call of that session or nowhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use mcp::json::Raw;
use mcp::message::Notification;
use mcp::meta::LogLevel;
use mcp::method;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::core::Core;
use super::sessions::Session;
use super::watch::get_stream;
use crate::ports::upstream::{Event, Events, Fault};

/// Messages that wait for one call, and the largest of them; more, and larger ones, are dropped.
const QUEUE: usize = 32;
const LARGEST: usize = 64 << 10;
/// The longest that the first such call waits for the stream to be open: what was said before is not heard.
const OPENING: Duration = Duration::from_secs(2);
/// An answer waits so long for a message that was sent before it, on another connection (a delayed acknowledgement
/// holds one up for 40 ms); and how often in a row that is tried in vain.
const LAST_WORDS: Duration = Duration::from_millis(60);
const VAIN: u8 = 3;

/// The log messages of one session that come outside its calls' streams.
#[derive(Default)]
pub(super) struct Logs {
    /// Those who listen, the newest last.
    calls: Mutex<Vec<Listener>>,
    last: AtomicU64,
    started: AtomicBool,
    /// Whether the stream is open, once that is decided; false when the server has none.
    open: watch::Sender<Option<bool>>,
    vain: AtomicU8,
}

struct Listener {
    id: u64,
    least: LogLevel,
    to: mpsc::Sender<Raw>,
}

/// A call that listens.
pub(super) struct Hearing {
    logs: Arc<Logs>,
    id: u64,
    from: mpsc::Receiver<Raw>,
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.logs.calls.lock().retain(|call| call.id != self.id);
    }
}

/// Has a call listen that wants messages of this level; None when the server has no such stream. To be called before
/// the call is sent.
pub(super) async fn hear(core: &Arc<Core>, session: &Arc<Session>, least: LogLevel) -> Option<Hearing> {
    if !session.level.is_offered() {
        return None;
    }
    let logs = &session.logs;
    if !logs.started.swap(true, Ordering::AcqRel) {
        follow(core, session);
    }
    let mut open = logs.open.subscribe();
    let decided = timeout(OPENING, open.wait_for(Option::is_some)).await;
    if matches!(decided, Ok(Ok(open)) if *open == Some(false)) {
        return None;
    }
    let id = logs.last.fetch_add(1, Ordering::Relaxed);
    let (to, from) = mpsc::channel(QUEUE);
    logs.calls.lock().push(Listener { id, least, to });
    Some(Hearing { logs: Arc::clone(logs), id, from })
}

/// Reads the stream until the session ends or the server turns out to have none. Keeps nothing of the session alive.
fn follow(core: &Arc<Core>, session: &Arc<Session>) {
    let (core, back, logs) = (Arc::clone(core), Arc::clone(&session.back), Arc::clone(&session.logs));
    let gone = session.gone.clone();
    tokio::spawn(async move {
        let opened = || {
            logs.open.send_replace(Some(true));
        };
        let take = |notification: &Notification| logs.take(notification);
        tokio::select! {
            _ = get_stream(&back, &take, &opened) => {}
            () = gone.cancelled() => {}
            () = core.stop.cancelled() => {}
        }
        logs.open.send_replace(Some(false));
    });
}

impl Logs {
    /// To the newest call that wants it: the message names none.
    fn take(&self, notification: &Notification) {
        let (method::LOG, Some(params)) = (notification.method.as_str(), &notification.params) else {
            return;
        };
        let level = params.get("level").and_then(|level| LogLevel::parse(&level.string()?));
        let Some(level) = level.filter(|_| params.len() <= LARGEST) else { return };
        self.vain.store(0, Ordering::Relaxed);
        let calls = self.calls.lock();
        if let Some(call) = calls.iter().rev().find(|call| level >= call.least) {
            // A call that does not read loses what comes.
            let _ = call.to.try_send(params.clone());
        }
    }
}

impl Hearing {
    /// What is still on its way when the answer is there already.
    async fn last_words(&mut self) -> Option<Raw> {
        if let Ok(params) = self.from.try_recv() {
            return Some(params);
        }
        if self.logs.vain.load(Ordering::Relaxed) >= VAIN {
            return None;
        }
        let word = timeout(LAST_WORDS, self.from.recv()).await.ok().flatten();
        if word.is_none() {
            self.logs.vain.fetch_add(1, Ordering::Relaxed);
        }
        word
    }

    /// The call's own events, and what is heard meanwhile; the end stays the last.
    pub(super) fn join(self, events: Events) -> Events {
        let joining = Joining { hearing: Some(self), events, end: None };
        Box::pin(stream::unfold(joining, |mut joining| async move {
            let item = joining.next().await?;
            Some((item, joining))
        }))
    }
}

struct Joining {
    /// None once the end has been told.
    hearing: Option<Hearing>,
    events: Events,
    end: Option<Result<Event, Fault>>,
}

impl Joining {
    async fn next(&mut self) -> Option<Result<Event, Fault>> {
        let hearing = self.hearing.as_mut()?;
        if self.end.is_none() {
            tokio::select! {
                biased;
                Some(params) = hearing.from.recv() => return Some(Ok(Event::Log(params))),
                event = self.events.next() => match event? {
                    event @ (Ok(Event::Done(_)) | Err(_)) => self.end = Some(event),
                    event => return Some(event),
                },
            }
        }
        if let Some(params) = hearing.last_words().await {
            return Some(Ok(Event::Log(params)));
        }
        self.hearing = None;
        self.end.take()
    }
}
