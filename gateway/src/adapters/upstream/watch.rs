//! Listens for what an HTTP server announces outside every call: the GET stream of a legacy session, or a modern
//! server's `subscriptions/listen`. A server that offers neither is left in peace; one that breaks the stream off is
//! asked again with growing pauses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use http::StatusCode;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use mcp::era::{Era, Revision};
use mcp::json::{ObjectWriter, Raw};
use mcp::message::{Id, Message};
use mcp::sse::Decoder;
use mcp::{meta, method};

use super::answer::message;
use super::back::Back;
use super::compose;
use super::core::{Core, Way};
use super::handshake::GREETING_BYTES;
use super::http::{Got, exchange, is_event_stream};
use super::server::{HttpSide, modern_headers};
use super::sessions::Session;
use super::stream::list_change;
use crate::ports::upstream::{Call, Facts, Mirrored, SessionKey};

/// The first pause before a broken stream is opened again.
const FIRST: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST: Duration = Duration::from_secs(60);

/// At most one listener for each server.
#[derive(Default)]
pub(super) struct Watching(AtomicBool);

/// Gives the place back when the listener ends.
struct Place(Arc<Watching>);

impl Place {
    fn take(watching: &Arc<Watching>) -> Option<Place> {
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

/// Follows a legacy session of the catalog, when its server announces anything. Ends with the session.
pub(super) fn follow(core: &Arc<Core>, watching: &Arc<Watching>, session: &Arc<Session>) {
    if announced(&session.facts).is_empty() {
        return;
    }
    let Some(place) = Place::take(watching) else { return };
    let (core, back, gone) = (Arc::clone(core), Arc::clone(&session.back), session.gone.clone());
    tokio::spawn(async move {
        let _place = place;
        let stop = core.stop.clone();
        tokio::select! {
            () = get_stream(&core, &back) => {}
            () = gone.cancelled() => {}
            () = stop.cancelled() => {}
        }
    });
}

async fn get_stream(core: &Arc<Core>, back: &Arc<Back>) {
    let mut pause = FIRST;
    loop {
        match tokio::time::timeout(back.within, back.net.get(back.headers.clone())).await {
            Ok(Ok(answer)) if answer.status() == StatusCode::OK && is_event_stream(answer.headers()) => {
                let heard = read(core, answer.into_body(), Some(back), None).await;
                pause = if heard { FIRST } else { pause };
            }
            // 405: no such stream. Whatever else it says, it will say again.
            Ok(Ok(answer)) if answer.status().is_client_error() => return,
            _ => {}
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
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
    let mut pause = FIRST;
    loop {
        let Some(side) = side.upgrade() else { return };
        if side.core.known().is_none_or(|known| known.way != Way::Modern) {
            return;
        }
        let ticket = side.core.ticket();
        let body = compose::call(&call, Era::Modern, revision, &ticket.id, &ticket.token());
        let Ok(headers) = modern_headers(side.net.headers(), &call, revision) else { return };
        let (core, net, within) =
            (Arc::clone(&side.core), Arc::clone(&side.net), side.core.spec.timeouts.initialize);
        // A stream that stays open must not keep the client alive.
        drop(side);
        let opening = exchange(&net, headers, body, &ticket.id, GREETING_BYTES);
        match tokio::time::timeout(within, opening).await {
            Ok(Ok(reply)) => match reply.got {
                Got::Stream(body) => {
                    let heard = read(&core, body, None, Some(&ticket.id)).await;
                    pause = if heard { FIRST } else { pause };
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
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

/// `subscriptions/listen` for changes of these lists.
pub(super) fn listen_call(lists: &[&str]) -> Call {
    let mut wanted = ObjectWriter::new();
    for list in lists {
        wanted.boolean(&format!("{list}ListChanged"), true);
    }
    Call {
        method: method::LISTEN.to_owned(),
        params: vec![("notifications".into(), wanted.finish())],
        meta: Vec::new(),
        client: compose::nobody(),
        log_level: None,
        progress: false,
        mirrored: Mirrored::default(),
        session: SessionKey::Catalog,
        answer_bytes: GREETING_BYTES,
        call_id: Arc::from("listen"),
    }
}

/// Reads until the stream ends. Returns whether it brought any message, so that it was worth opening.
async fn read(core: &Arc<Core>, mut body: Incoming, back: Option<&Arc<Back>>, id: Option<&Id>) -> bool {
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
                Message::Notification(notification) => {
                    let ours = id.is_none_or(|id| names(notification.params.as_ref(), id));
                    if let (true, Some(change)) = (ours, list_change(&notification.method)) {
                        core.announce(change);
                    }
                }
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
