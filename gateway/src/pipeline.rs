//! The path of one message: `decode → identify → session → route → authorize → limit → forward → screen → record`
//! (`admit` stands before the body, in `front`). Each step takes what the one before made, so none can be left
//! out; a refusal anywhere goes to the record like an answer.

pub mod front;
mod last;
mod linger;
pub mod live;
pub mod reply;
mod start;
pub mod tags;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use mcp::era::Era;
use mcp::json::Raw;
use mcp::message::{self, Id, Message, Request};
use mcp::method;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout_at;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::live::Live;
use self::start::Starter;
use crate::answers;
use crate::gate::{Gate, Host, Snapshot};
use crate::inflight::Entry;
use crate::ports::journal::{Ending, Note};
use crate::questions::{Asked, Full, Most, Open};
use crate::reject::{Reject, Why};
use crate::stages::admit::Via;
use crate::stages::authorize;
use crate::stages::confirm::ask::Pending;
use crate::stages::confirm::{self, Next};
use crate::stages::decode::{Decoded, id_of};
use crate::stages::forward;
use crate::stages::identify::Identified;
use crate::stages::limit::{self, Caller, Metered};
use crate::stages::record::Ledger;
use crate::stages::route::{self, Local, Routed};
use crate::stages::screen::Screen;
use crate::stages::session::{self, Bound};
use crate::stages::trace;

/// What became of one message.
pub enum Outcome {
    /// Nothing to say: 202.
    Accepted,
    /// The gateway's own answer, with the session id that it mints.
    Answer(Bytes, Option<String>),
    /// A call under way.
    Live(Box<Live>),
    /// Refused; the status is for the sender's era.
    Refused(Reject, StatusCode, Arc<str>),
}

/// A message that belongs to somebody and can be cancelled by its id.
pub struct Begun {
    ledger: Box<Ledger>,
    era: Era,
    id: Option<Id>,
    taken: Result<Box<Taken>, Reject>,
}

struct Taken {
    bound: Bound,
    entry: Entry,
    place: Option<OwnedSemaphorePermit>,
}

/// What the stages before `forward` come to.
enum Checked {
    /// The gateway answers itself.
    Local(Box<Outcome>),
    /// The call may go.
    Call(Box<(Starter, Metered)>),
    /// A person is asked, and the client calls again.
    Again(Raw),
    /// A person is asked while the call waits.
    Wait(Box<Pending>, Open),
}

impl Gate {
    /// Takes one message through the stages that follow on whose it is.
    pub async fn message(&self, snap: &Snapshot, identified: Identified, host: Option<&Host>) -> Outcome {
        let begun = self.begin(snap, identified, host);
        self.proceed(snap, begun, host).await
    }

    /// The part that does not wait: whose message it is. From here on its id can be cancelled, so messages that
    /// must be seen in their order are begun in their order.
    pub fn begin(&self, snap: &Snapshot, identified: Identified, host: Option<&Host>) -> Begun {
        let party = identified.party.clone();
        let mut ledger = Ledger::open(&self.book, Some(&party));
        ledger.meter = Some(snap.config.meter);
        describe(&mut ledger, &identified.decoded);
        let (era, id) = (identified.decoded.era, id_of(&identified.decoded.message));
        let session = host.and_then(Host::session);
        let bound = session::bind(&self.desk(snap, &party, session.as_ref()), identified);
        let taken = bound.and_then(|bound| {
            let place = id.as_ref().map(|_| limit::place(&self.means.places)).transpose()?;
            let entry = self.enter(&bound, id.as_ref());
            Ok(Box::new(Taken { bound, entry, place }))
        });
        Begun { ledger, era, id, taken }
    }

    /// Requests of a session, or of the host on stdin, are known by their ids. Modern requests over HTTP are
    /// cancelled by closing their stream: an id names no one's call there.
    fn enter(&self, bound: &Bound, id: Option<&Id>) -> Entry {
        let stdio = bound.identified.decoded.admitted.via == Via::Stdio;
        match (&bound.session, id) {
            (Some(session), Some(id)) if session.named || stdio => {
                self.inflight.enter(bound.conversation, id, session.state.closed().child_token())
            }
            (None, Some(id)) if stdio => {
                self.inflight.enter(bound.conversation, id, CancellationToken::new())
            }
            _ => Entry::unknown(),
        }
    }

    /// The rest of the way.
    pub async fn proceed(&self, snap: &Snapshot, begun: Begun, host: Option<&Host>) -> Outcome {
        let Begun { mut ledger, era, id, taken } = begun;
        let reject = match taken {
            Err(reject) => reject,
            Ok(mut taken) => {
                ledger.run = Some(Arc::clone(&taken.bound.run.id));
                ledger.trace_session(&taken.bound);
                let token = taken.entry.cancelled().clone();
                let checked = tokio::select! {
                    biased;
                    () = token.wait() => {
                        ledger.close(Ending::Cancelled);
                        return cancelled(&taken.bound, id, &ledger);
                    }
                    checked = self.checks(snap, &mut taken, host, &mut ledger) => checked,
                };
                match checked {
                    Ok(Checked::Call(ready)) => {
                        let (starter, metered) = *ready;
                        let parts = starter.call(*taken, metered, ledger);
                        return Outcome::Live(Box::new(Live::new(parts)));
                    }
                    Ok(Checked::Wait(pending, open)) => {
                        let asking = Starter::new(self, snap).ask(*taken, (*pending, open), ledger);
                        return Outcome::Live(Box::new(Live::asking(asking)));
                    }
                    Ok(Checked::Again(result)) => {
                        ledger.close(Ending::Asked);
                        let id = id.unwrap_or_else(|| Id::from_number(0));
                        return Outcome::Answer(last::own(&result, &id, &ledger), None);
                    }
                    Ok(Checked::Local(outcome)) => {
                        ledger.close(Ending::Ok);
                        return *outcome;
                    }
                    Err(reject) => reject,
                }
            }
        };
        ledger.refuse(&reject).await;
        if let (Some(id), true) = (&id, reject.why.is_tool_error() && ledger.method == method::TOOLS_CALL) {
            return Outcome::Answer(last::refusal(&reject, id, era, &ledger), None);
        }
        let status = reject.why.status(era);
        let data = ledger.dress(None).error(reject.error(&ledger.call_id)).data;
        let reject = Reject { data, ..reject };
        Outcome::Refused(reject.id(id), status, Arc::clone(&ledger.call_id))
    }

    /// Everything before a byte goes to a server. The call's total time has begun.
    async fn checks(
        &self,
        snap: &Snapshot,
        taken: &mut Taken,
        host: Option<&Host>,
        ledger: &mut Ledger,
    ) -> Result<Checked, Reject> {
        let bound = &taken.bound;
        let target = match route::route(&snap.catalog, bound)? {
            Routed::Local(local) => {
                let list = matches!(local, Local::List(_));
                let outcome = self.local(snap, bound, local, host).await?;
                if let (true, Outcome::Answer(message, _)) = (list, &outcome) {
                    ledger.note(Note::List(message)).await?;
                }
                return Ok(Checked::Local(Box::new(outcome)));
            }
            Routed::Call(target) => target,
        };
        ledger.server.clone_from(&target.member.spec.id);
        ledger.name.clone_from(&target.name);
        ledger.own = Some(target.own.clone());
        let party = &bound.identified.party;
        let end = ledger.started() + forward::times(&target, &party.profile).1;
        let permitted = authorize::authorize(bound, target, self.means.clock.now());
        let permitted = timeout_at(end, permitted).await.map_err(|_| start::late(&ledger.server))??;
        let rated = self.means.limits.rate(Caller { party, run: &bound.run }, permitted).await?;
        let decoded = &bound.identified.decoded;
        // A batch is answered as a whole, and `initialize` may not come with it.
        let streams = !decoded.batched;
        let (sealer, now) = (&snap.sealer, self.means.clock.now());
        let desk = confirm::Desk { sealer, nonces: &*self.nonces, rounds: &*self.rounds, now, streams };
        match confirm::confirm(&desk, bound, rated).await? {
            Next::Again(result) => {
                ledger.note(Note::Question).await?;
                Ok(Checked::Again(result))
            }
            Next::Wait(pending) => {
                let open = self.question(snap, bound)?;
                ledger.note(Note::Question).await?;
                Ok(Checked::Wait(pending, open))
            }
            Next::Go(confirmed) => {
                let starter = Starter::new(self, snap);
                let metered = starter.metered(taken, *confirmed, ledger).await?;
                Ok(Checked::Call(Box::new((starter, metered))))
            }
        }
    }

    /// Opens a question to a legacy caller, before it is asked, so that the quickest answer finds it. Nobody is asked more
    /// at once than they may do at once.
    fn question(&self, snap: &Snapshot, bound: &Bound) -> Result<Open, Reject> {
        let party = &bound.identified.party;
        let who = Caller { party, run: &bound.run }.who();
        let calls = party.profile.rates.concurrency(&who).map(|(_, most)| most);
        let most = Most {
            task: calls.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX),
            all: snap.config.limits.requests,
        };
        let id = Id::from_raw(&Raw::from_str_value(&format!("tollgate-{}", Uuid::now_v7().simple())));
        let id = id.unwrap_or_else(|| Id::from_number(0));
        let asked = Asked { principal: party.who.owner, session: bound.conversation, task: party.task() };
        self.questions.open(&asked, id, &most).map_err(|full| match full {
            Full::Caller(most) => {
                let text = format!(
                    "{most} calls of yours wait for a person's answer, and no more are allowed at once. Wait for one \
                     to be answered."
                );
                Reject::new(Why::Concurrency, text).after(Duration::from_secs(1))
            }
            Full::All => limit::busy(),
        })
    }

    async fn local(
        &self,
        snap: &Snapshot,
        bound: &Bound,
        local: Local,
        host: Option<&Host>,
    ) -> Result<Outcome, Reject> {
        let asking =
            answers::Asking { snap, bound, journal: &*self.book.journal, now: self.means.clock.now() };
        if let Message::Response(response) = &bound.identified.decoded.message {
            self.questions.answer(bound.identified.party.who.owner, bound.conversation, response);
        }
        let Some(id) = id_of(&bound.identified.decoded.message) else {
            if let Local::Cancelled(Some(id)) = local {
                self.inflight.cancel(bound.conversation, &id);
            }
            return Ok(Outcome::Accepted);
        };
        let answer = answers::answer(&asking, local).await?;
        if let (Some(host), Some(session)) = (host, &answer.session) {
            host.begin(session.clone());
        }
        Ok(Outcome::Answer(message::result(&id, &answer.result), answer.session_id))
    }
}

/// A request that was cancelled before anything went to a server. A legacy client that waits on its connection is
/// told; nobody else is.
fn cancelled(bound: &Bound, id: Option<Id>, ledger: &Ledger) -> Outcome {
    let decoded = &bound.identified.decoded;
    match (decoded.era, decoded.admitted.via, id) {
        (Era::Legacy, Via::Http, Some(id)) => {
            let result = Screen::new(Era::Legacy, id.clone(), Raw::empty_object()).cancelled();
            Outcome::Answer(last::own(&result, &id, ledger), None)
        }
        _ => Outcome::Accepted,
    }
}

/// Labels are from the protocol's own list, never the sender's text.
fn describe(ledger: &mut Ledger, decoded: &Decoded) {
    let era = decoded.era;
    let known = |name: &str| method::request(name, era).or_else(|| method::notification(name, era));
    ledger.method = match &decoded.message {
        Message::Request(request) => known(&request.method).unwrap_or("other"),
        Message::Notification(note) => known(&note.method).unwrap_or("other"),
        Message::Response(_) => "response",
    };
    ledger.era = Some(decoded.era);
    ledger.trace(decoded);
    ledger.traceparent = trace::parent(decoded).map(Cow::into_owned);
    if let Message::Request(Request { params: Some(params), .. }) = &decoded.message
        && ledger.method == method::TOOLS_CALL
    {
        ledger.name = params.get("name").and_then(|name| name.string()).unwrap_or_default();
    }
}
