//! The legacy era's `GET` and `DELETE`: the stream of announcements of a session, and its end. The modern era has
//! neither.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream;
use http::StatusCode;
use mcp::entry::EntryKind;
use mcp::{message, method, sse};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::catalog::Changed;
use crate::config::SessionIds;
use crate::gate::{Gate, Snapshot};
use crate::pipeline::live::{self, Gauge, KEEP_ALIVE};
use crate::pipeline::reply;
use crate::ports::upstream::SessionKey;
use crate::profiles::{Party, Profile};
use crate::reject::{Reject, Why};
use crate::sessions::Session;
use crate::stages::admit::{self, Admitted, Endpoint, Verb};
use crate::stages::session::{self, SESSION_HEADER};
use crate::stages::{challenge, identify, route};
use crate::wire::{Full, Reply};

/// Opens a session's stream of announcements.
pub async fn open(gate: &Gate, snap: &Snapshot, admitted: &Admitted) -> Reply {
    let (party, session) = match session_of(gate, snap, admitted).await {
        Ok(found) => found,
        Err(reject) => {
            return gate.refusal(None, &challenge::dress(&snap.config, admitted, reject)).into();
        }
    };
    let Ok(place) = Arc::clone(&gate.streams).try_acquire_owned() else {
        return gate.refusal(Some(&party), &Reject::new(Why::Busy, "too many streams are open")).into();
    };
    let only = match &admitted.endpoint {
        Endpoint::All => None,
        Endpoint::One(server) => Some(server.clone()),
    };
    let listener = Listener {
        changes: snap.catalog.changes(),
        only,
        profile: Arc::clone(&party.profile),
        closed: session.state.closed().clone(),
        draining: gate.draining.clone(),
        waiting: VecDeque::new(),
        ends: live::ends(&party.who, gate.means.clock.now(), snap.config.auth.stream_grace),
        _held: (place, Gauge::stream(&gate.book.metrics)),
    };
    // The first comment goes out at once, so that the client sees the stream open.
    let state = Some((listener, Some(sse::comment())));
    let frames = stream::unfold(state, |state| async move {
        let (mut listener, first) = state?;
        if let Some(first) = first {
            return Some((first, Some((listener, None))));
        }
        let frame = listener.next().await?;
        Some((frame, Some((listener, None))))
    });
    reply::events(Box::pin(frames)).into()
}

/// Closes a session; its sessions at servers are closed with it.
pub async fn close(gate: &Gate, snap: &Arc<Snapshot>, admitted: &Admitted) -> Reply {
    if snap.config.legacy.session_ids == SessionIds::None {
        return Full::empty(StatusCode::OK).into();
    }
    let (party, session) = match session_of(gate, snap, admitted).await {
        Ok(found) => found,
        Err(reject) => {
            return gate.refusal(None, &challenge::dress(&snap.config, admitted, reject)).into();
        }
    };
    // Here it ends at once; what servers take to end theirs is not the client's to wait for.
    snap.sessions.close(&session);
    tokio::spawn(end(Arc::clone(snap), party, session));
    Full::empty(StatusCode::OK).into()
}

/// Ends a session at all servers.
async fn end(snap: Arc<Snapshot>, party: Party, session: Session) {
    let key = SessionKey::Caller { principal: party.who.owner, conversation: session.sid };
    let ends = snap.catalog.members().iter().map(|member| member.upstream.end_session(&key));
    join_all(ends).await;
}

async fn session_of(gate: &Gate, snap: &Snapshot, admitted: &Admitted) -> Result<(Party, Session), Reject> {
    // Without a session the request is of the modern era, which has neither method.
    if !admitted.headers.contains_key(&SESSION_HEADER) || snap.config.legacy.session_ids == SessionIds::None {
        return Err(Reject::new(Why::MethodNotAllowed, "use POST; GET and DELETE belong to legacy sessions"));
    }
    if admitted.verb == Verb::Get {
        admit::check_accept(&admitted.headers, &["text/event-stream"])?;
    }
    let party = identify::identify(snap, admitted, gate.means.clock.now()).await?;
    route::endpoint(&snap.catalog, &party, &admitted.endpoint)?;
    let session = session::open(&gate.desk(snap, &party, None), &admitted.headers)?;
    Ok((party, session))
}

/// Waits for changes that one client is to be told of.
pub struct Listener {
    changes: Receiver<Changed>,
    only: Option<String>,
    profile: Arc<Profile>,
    closed: CancellationToken,
    draining: CancellationToken,
    waiting: VecDeque<EntryKind>,
    ends: Option<Instant>,
    _held: reply::Held,
}

impl Listener {
    /// The next frame; None at the end of session or process.
    async fn next(&mut self) -> Option<Bytes> {
        let quiet = Instant::now() + KEEP_ALIVE;
        loop {
            if let Some(kind) = self.waiting.pop_front() {
                return Some(reply::event(&announcement(kind)));
            }
            let change = tokio::select! {
                biased;
                () = self.closed.cancelled() => return None,
                () = self.draining.cancelled() => return None,
                () = live::ended(self.ends) => return None,
                change = self.changes.recv() => change,
                () = sleep_until(quiet) => return Some(sse::comment()),
            };
            match change {
                Ok(change) if self.only.as_ref().is_some_and(|only| *only != change.server) => {}
                Ok(change) if !self.profile.reaches(&change.server) => {}
                Ok(change) => return Some(reply::event(&announcement(change.kind))),
                Err(RecvError::Lagged(_)) => self.waiting = ANY_LIST.into(),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

/// The lists that a listener is told of when it missed something: any may have changed.
pub const ANY_LIST: [EntryKind; 3] = [EntryKind::Tool, EntryKind::Prompt, EntryKind::Resource];

/// The notification that a list has changed.
pub fn announcement(kind: EntryKind) -> Bytes {
    let method = match kind {
        EntryKind::Tool => method::TOOLS_CHANGED,
        EntryKind::Prompt => method::PROMPTS_CHANGED,
        EntryKind::Resource | EntryKind::Template => method::RESOURCES_CHANGED,
    };
    message::notification(method, None)
}
