//! What the gateway answers itself: discovery, the handshake, lists, its capability card. Everything here speaks
//! for the gateway alone; servers are only asked through the catalog.

pub mod card;
mod identity;
mod lists;
pub mod oauth;
pub mod stream;

use std::sync::Arc;
use std::time::SystemTime;

use mcp::era::Era;
use mcp::json::{ArrayWriter, ObjectWriter, Raw};
use mcp::message::Message;

use crate::catalog::member::Member;
use crate::gate::Snapshot;
use crate::ports::journal::Journal;
use crate::reject::{Reject, Why};
use crate::sessions::Session;
use crate::stages::route::{self, CARD_URI, Local};
use crate::stages::session::Bound;

/// The gateway's name in `serverInfo` and `clientInfo`.
pub const NAME: &str = "tollgate";
/// The gateway's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Who asks, and under which configuration.
pub struct Asking<'a> {
    /// The configuration in force.
    pub snap: &'a Snapshot,
    /// The message with its caller and session.
    pub bound: &'a Bound,
    /// The journal, for its head.
    pub journal: &'a dyn Journal,
    /// Now.
    pub now: SystemTime,
}

impl Asking<'_> {
    fn era(&self) -> Era {
        self.bound.identified.decoded.era
    }

    fn params(&self) -> Option<&Raw> {
        match &self.bound.identified.decoded.message {
            Message::Request(request) => request.params.as_ref(),
            Message::Notification(note) => note.params.as_ref(),
            Message::Response(_) => None,
        }
    }

    fn card(&self) -> Raw {
        let identified = &self.bound.identified;
        let admitted = Some(&*identified.decoded.admitted);
        let reader = card::Reader { task: identified.party.task(), admitted, now: self.now };
        card::card(self.snap, &reader, self.journal)
    }

    fn only(&self) -> Result<Option<&Arc<Member>>, Reject> {
        let identified = &self.bound.identified;
        route::endpoint(&self.snap.catalog, &identified.party, &identified.decoded.admitted.endpoint)
    }
}

/// An answer and, from `initialize`, the session that it opens.
pub struct Answer {
    /// The result.
    pub result: Raw,
    /// The session.
    pub session: Option<Session>,
    /// Its sealed id, where ids are given out.
    pub session_id: Option<String>,
}

impl From<Raw> for Answer {
    fn from(result: Raw) -> Answer {
        Answer { result, session: None, session_id: None }
    }
}

/// Answers.
///
/// # Errors
/// Parameters that are wrong, a cursor that is not one of ours, a server that everybody needs and that failed.
pub async fn answer(asking: &Asking<'_>, local: Local) -> Result<Answer, Reject> {
    match local {
        Local::Discover => identity::discover(asking).await.map(Answer::from),
        Local::Initialize => identity::initialize(asking).await,
        Local::List(kind) => lists::list(asking, kind).await.map(Answer::from),
        Local::SetLevel(level) => match asking.bound.session.as_ref().filter(|session| session.named) {
            Some(session) => {
                session.state.set_level(level);
                Ok(Raw::empty_object().into())
            }
            None => Err(Reject::new(Why::Method, "a log level needs a session, and none is given out here")),
        },
        Local::Card => Ok(card_contents(asking).into()),
        Local::Ping | Local::Cancelled(_) | Local::Nothing => Ok(Raw::empty_object().into()),
    }
}

fn card_contents(asking: &Asking<'_>) -> Raw {
    let mut content = ObjectWriter::new();
    content.string("uri", CARD_URI).string("mimeType", "application/json");
    content.string("text", asking.card().as_str());
    let mut contents = ArrayWriter::new();
    contents.push(&content.finish());
    let mut result = ObjectWriter::new();
    complete(&mut result, asking.era(), Some(0));
    result.raw("contents", &contents.finish());
    result.finish()
}

/// The members that the modern era asks for in every result; `ttl_ms` for those that can be cached.
fn complete(result: &mut ObjectWriter, era: Era, ttl_ms: Option<u64>) {
    if era == Era::Legacy {
        return;
    }
    result.string("resultType", "complete");
    if let Some(ttl) = ttl_ms {
        result.integer("ttlMs", i64::try_from(ttl).unwrap_or(i64::MAX));
        result.string("cacheScope", "private");
    }
}
