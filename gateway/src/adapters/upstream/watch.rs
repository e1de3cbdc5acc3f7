//! Listens for what an HTTP server announces outside every call: the GET stream of a legacy session, or a modern
//! server's `subscriptions/listen`. A server that offers neither is left in peace; one that breaks the stream off, or
//! forgets the session, is asked again with growing pauses. Child processes end at their own `idle`, heard or not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use http::StatusCode;
use http_body_util::BodyExt as _;
use mcp::era::{Era, Revision};
use mcp::json::{ObjectWriter, Raw};
use mcp::message::{Id, Message, Notification};
use mcp::sse::Decoder;
use mcp::{meta, method};
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::answer::message;
use super::back::Back;
use super::compose;
use super::core::{Core, Way};
use super::handshake::GREETING_BYTES;
use super::heads;
use super::http::{Got, exchange, is_event_stream};
use super::server::HttpSide;
use super::sessions::Session;
use crate::adapters::child::Backoff;
use crate::adapters::outbound::Body;
use crate::adapters::pipe::list_change;
use crate::ports::upstream::{Call, Change, Client, Facts, Mirrored, SessionKey, Trace};

/// At most one listener for each server; none when it has nothing to announce, or does not offer to.
#[derive(Default)]
pub(super) struct Watching(AtomicBool);

/// Whether what a session announces is wanted: while somebody follows the server's changes through it, it stays open
/// although nobody calls.
#[derive(Default)]
pub(super) struct Heard(Mutex<Option<broadcast::Sender<Change>>>);

impl Heard {
    /// From now on, for whoever follows the changes of `core`.
    pub(super) fn start(&self, core: &Core) {
        *self.0.lock() = Some(core.changes.clone());
    }

    fn stop(&self) {
        *self.0.lock() = None;
    }

    /// Whether anybody wants it now.
    pub(super) fn is_wanted(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|changes| changes.receiver_count() > 0)
    }
}

/// Gives the place back when the listener ends.
pub(super) struct Place(Arc<Watching>);

impl Place {
    /// None when somebody listens already.
    pub(super) fn take(watching: &Arc<Watching>) -> Option<Place> {
        (!watching.0.swap(true, Ordering::AcqRel)).then(|| Place(Arc::clone(watching)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

/// The lists that a server says it announces changes of.
pub(super) fn announced(facts: &Facts) -> Vec<&'static str> {
    let tells = |list: &&str| {
        facts.capabilities.at(&[list, "listChanged"]).and_then(|v| v.boolean()).unwrap_or_default()
    };
    ["tools", "prompts", "resources"].into_iter().filter(tells).collect()
}

/// What is needed to listen to a session without keeping it open.
struct Ear {
    session: Weak<Session>,
    back: Arc<Back>,
    gone: CancellationToken,
    heard: Arc<Heard>,
}

impl Ear {
    /// None when the session announces nothing.
    fn of(session: &Arc<Session>) -> Option<Ear> {
        (!announced(&session.facts).is_empty()).then(|| Ear {
            session: Arc::downgrade(session),
            back: Arc::clone(&session.back),
            gone: session.gone.clone(),
            heard: Arc::clone(&session.heard),
        })
    }
}

/// Follows a legacy session of the catalog, when its server announces anything; once that session is gone, its
/// successor. Ends when the server offers no stream, is spoken to in another way, or nobody follows its changes.
pub(super) fn follow(side: &Arc<HttpSide>, client: &Client, session: &Arc<Session>) {
    let Some(ear) = Ear::of(session) else { return };
    let Some(place) = Place::take(&side.watching) else { return };
    let (core, weak, client) = (Arc::clone(&side.core), Arc::downgrade(side), client.clone());
    tokio::spawn(async move {
        let _place = place;
        tokio::select! {
            () = stay(&core, weak, &client, ear) => {}
            () = core.stop.cancelled() => {}
        }
    });
}

async fn stay(core: &Arc<Core>, side: Weak<HttpSide>, client: &Client, mut ear: Ear) {
    let mut pause = Backoff::new();
    let take = |heard: &Notification| changed(core, heard);
    loop {
        let since = Instant::now();
        ear.heard.start(core);
        let offered = tokio::select! {
            offered = get_stream(&ear.back, &take, &|| {}) => offered,
            () = ear.gone.cancelled() => true,
        };
        ear.heard.stop();
        if !offered {
            return;
        }
        if let Some(session) = ear.session.upgrade() {
            session.expire();
        }
        let session = loop {
            tokio::time::sleep(pause.failed(since.elapsed(), Instant::now())).await;
            let legacy = core.known().is_some_and(|known| known.way == Way::Legacy);
            let Some(side) = side.upgrade().filter(|_| legacy && core.changes.receiver_count() > 0) else {
                return;
            };
            if let Ok(session) = side.session(&SessionKey::Catalog, client).await {
                break session;
            }
        };
        let Some(next) = Ear::of(&session) else { return };
        ear = next;
        // Nobody knows what was announced meanwhile.
        core.announce(Change::Restarted);
    }
}

/// Passes a changed list on.
fn changed(core: &Core, notification: &Notification) {
    if let Some(change) = list_change(&notification.method) {
        core.announce(change);
    }
}

/// Reads the session's stream, again and again, until the server no longer knows the session; false when it has no
/// such stream. `take` gets its notifications; `open` is called whenever the stream is open.
pub(super) async fn get_stream(
    back: &Arc<Back>,
    take: &(dyn Fn(&Notification) + Sync),
    open: &(dyn Fn() + Sync),
) -> bool {
    let (mut pause, mut opened) = (Backoff::new(), false);
    loop {
        let since = Instant::now();
        match tokio::time::timeout(back.within, back.net.get(back.headers.clone())).await {
            Ok(Ok(answer)) if answer.status() == StatusCode::OK && is_event_stream(answer.headers()) => {
                opened = true;
                open();
                if read(answer.into_body(), Some(back), take).await {
                    pause = Backoff::new();
                }
            }
            Ok(Ok(answer)) => match answer.status() {
                StatusCode::METHOD_NOT_ALLOWED => return false,
                StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND if opened => return true,
                // Whatever else it says to the first question, it will say again.
                status if status.is_client_error() && !opened => return false,
                _ => {}
            },
            _ => {}
        }
        tokio::time::sleep(pause.failed(since.elapsed(), Instant::now())).await;
    }
}

/// Subscribes with a modern server, when it announces anything. Ends when its era changes.
pub(super) fn subscribe(side: &Arc<HttpSide>, facts: &Facts) {
    let lists = announced(facts);
    if lists.is_empty() {
        return;
    }
    let Some(place) = Place::take(&side.watching) else { return };
    let (weak, stop, revision) = (Arc::downgrade(side), side.core.stop.clone(), facts.revision);
    tokio::spawn(async move {
        let _place = place;
        tokio::select! {
            () = listen(weak, &lists, revision) => {}
            () = stop.cancelled() => {}
        }
    });
}

async fn listen(side: Weak<HttpSide>, lists: &[&str], revision: Revision) {
    let call = listen_call(lists);
    let mut pause = Backoff::new();
    loop {
        let since = Instant::now();
        let Some(side) = side.upgrade() else { return };
        if side.core.known().is_none_or(|known| known.way != Way::Modern) {
            return;
        }
        let ticket = side.core.ticket();
        let body = compose::call(&call, Era::Modern, revision, &ticket.id, ticket.token());
        let Ok(headers) = heads::modern(side.net.headers(&call.client.behalf), &call, revision) else {
            return;
        };
        let (core, net, within) =
            (Arc::clone(&side.core), Arc::clone(&side.net), side.core.spec.timeouts.initialize);
        // A stream that stays open must not keep the client alive.
        drop(side);
        let opening = exchange(&net, headers, body, &ticket.id, GREETING_BYTES);
        match tokio::time::timeout(within, opening).await {
            Ok(Ok(reply)) => match reply.got {
                Got::Stream(body) => {
                    let ours = |heard: &Notification| {
                        if names(heard.params.as_ref(), &ticket.id) {
                            changed(&core, heard);
                        }
                    };
                    if read(body, None, &ours).await {
                        pause = Backoff::new();
                    }
                }
                Got::Answer { outcome: Ok(_), .. } => {}
                // It does not do this after all.
                Got::Answer { outcome: Err(_), .. } => return,
                Got::Refused { status, .. } if status.is_client_error() => return,
                Got::Refused { .. } => {}
            },
            Ok(Err(fault)) => tracing::debug!(server = %core.server, %fault, "no subscription"),
            Err(_) => tracing::debug!(server = %core.server, "no subscription in time"),
        }
        tokio::time::sleep(pause.failed(since.elapsed(), Instant::now())).await;
    }
}

/// `subscriptions/listen` for changes of these lists.
pub(super) fn listen_call(lists: &[&str]) -> Call {
    let mut wanted = ObjectWriter::new();
    for list in lists {
        wanted.boolean(&format!("{list}ListChanged"), true);
    }
    Call {
        method: method::LISTEN,
        params: vec![("notifications".into(), wanted.finish())],
        meta: Vec::new(),
        client: compose::nobody(),
        log_level: None,
        progress: false,
        mirrored: Mirrored::default(),
        trace: Trace::default(),
        session: SessionKey::Catalog,
        answer_bytes: GREETING_BYTES,
        call_id: Arc::from("listen"),
    }
}

/// Reads until the stream ends. Returns whether it brought any message, so that it was worth opening.
async fn read(mut body: Body, back: Option<&Arc<Back>>, take: &(dyn Fn(&Notification) + Sync)) -> bool {
    let mut decoder = Decoder::new(GREETING_BYTES);
    let mut heard = false;
    loop {
        for event in decoder.by_ref() {
            if event.event.as_deref().unwrap_or("message") != "message" || event.data.is_empty() {
                continue;
            }
            let Ok(message) = message(event.data).await else { return heard };
            heard = true;
            match message {
                Message::Notification(notification) => take(&notification),
                Message::Request(request) => {
                    if let Some(back) = back {
                        back.answer(&request);
                    }
                }
                // The orderly end of a subscription. Nothing of ours waits on a GET stream.
                Message::Response(_) => {}
            }
        }
        match body.frame().await {
            Some(Ok(frame)) => {
                let pushed = frame.into_data().map(|data| decoder.push(&data));
                if let Ok(Err(_)) = pushed {
                    return heard;
                }
            }
            _ => return heard,
        }
    }
}

/// Whether a notification names this subscription.
fn names(params: Option<&Raw>, id: &Id) -> bool {
    params
        .and_then(|params| params.at(&["_meta", meta::SUBSCRIPTION_ID]))
        .is_some_and(|named| named == id.raw())
}
