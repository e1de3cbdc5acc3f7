//! The path of one request: `admit → decode → identify → session → route → authorize → limit → forward → screen →
//! record`. Each step takes what the one before made, so none can be left out; a refusal anywhere goes to the
//! record like an answer.

pub mod live;
pub mod reply;

use std::sync::Arc;

use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderName, HeaderValue, StatusCode};
use mcp::json::{ArrayWriter, Limits, Raw};
use mcp::message::{self, Id, Message};
use mcp::meta::LogLevel;
use mcp::method;
use parking_lot::Mutex;
use policies::Task;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::live::{Gauge, Live, Parts};
use crate::answers;
use crate::catalog::Catalog;
use crate::config::Checked;
use crate::inflight::{self, Inflight};
use crate::ports::clock::Clock;
use crate::ports::journal::Ending;
use crate::reject::{Reject, Why};
use crate::seal::Sealer;
use crate::sessions::{Session, Sessions};
use crate::stages::admit::{self, Admitted, Verb, Via};
use crate::stages::decode::{self, Body, Decoded};
use crate::stages::forward::{self, Ask};
use crate::stages::record::{Book, Ledger};
use crate::stages::route::{self, Local, Routed};
use crate::stages::screen::Screen;
use crate::stages::session::{self, Bound, Desk};
use crate::stages::{authorize, identify, limit};
use crate::wire::{BodyFault, Full, Handler, Head, Reply, Work};

/// The compiled configuration. Swapped as a whole; a request keeps the one that it began with.
pub struct Snapshot {
    /// The checked configuration.
    pub config: Arc<Checked>,
    /// The task that everybody works under.
    pub task: Task,
    /// All servers' lists.
    pub catalog: Arc<Catalog>,
    /// Legacy sessions.
    pub sessions: Sessions,
    /// Seals cursors.
    pub sealer: Sealer,
}

/// The gateway between the listeners and the servers.
pub struct Gate {
    /// The configuration in force.
    pub snapshot: ArcSwap<Snapshot>,
    /// Journal and metrics.
    pub book: Book,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Calls that can be cancelled by id.
    pub inflight: Inflight,
    /// Places for calls under way.
    pub places: Arc<Semaphore>,
    /// Cancelled when the process is to end: new requests are refused, open streams end.
    pub draining: CancellationToken,
    /// Cancelled when every server was asked once.
    pub warm: CancellationToken,
}

/// The host of `tollgate stdio`: one session as long as the process.
#[derive(Default)]
pub struct Host(Mutex<Option<Session>>);

impl Host {
    /// The session, once `initialize` was answered.
    pub fn session(&self) -> Option<Session> {
        self.0.lock().clone()
    }
}

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

impl Gate {
    /// Takes one message through the stages.
    pub async fn message(&self, snap: &Snapshot, decoded: Decoded, host: Option<&Host>) -> Outcome {
        let mut ledger = Ledger::open(&self.book, snap.task.name());
        describe(&mut ledger, &decoded);
        let (era, id) = (decoded.era, id_of(&decoded.message));
        let call_id = Arc::clone(&ledger.call_id);
        match self.stages(snap, decoded, host, ledger).await {
            Ok(outcome) => outcome,
            Err((reject, mut ledger)) => {
                ledger.blame(&reject);
                ledger.close(Ending::Refused);
                let status = reject.why.status(era);
                Outcome::Refused(reject.id(id), status, call_id)
            }
        }
    }

    async fn stages(
        &self,
        snap: &Snapshot,
        decoded: Decoded,
        host: Option<&Host>,
        mut ledger: Ledger,
    ) -> Result<Outcome, (Reject, Ledger)> {
        match self.checks(snap, decoded, host, &mut ledger).await {
            Ok(Checks::Local(bound, local)) => match self.local(snap, &bound, local, host).await {
                Ok(outcome) => {
                    ledger.close(Ending::Ok);
                    Ok(outcome)
                }
                Err(reject) => Err((reject, ledger)),
            },
            Ok(Checks::Call(bound, metered)) => {
                Ok(Outcome::Live(Box::new(self.call(snap, &bound, *metered, ledger))))
            }
            Err(reject) => Err((reject, ledger)),
        }
    }

    /// Everything before a byte goes to a server.
    async fn checks(
        &self,
        snap: &Snapshot,
        decoded: Decoded,
        host: Option<&Host>,
        ledger: &mut Ledger,
    ) -> Result<Checks, Reject> {
        let identified = identify::identify(decoded);
        let session = host.and_then(Host::session);
        let bound = session::bind(&self.desk(snap, session.as_ref()), identified)?;
        let target = match route::route(&snap.catalog, &bound)? {
            Routed::Local(local) => return Ok(Checks::Local(Box::new(bound), local)),
            Routed::Call(target) => target,
        };
        ledger.server.clone_from(&target.member.spec.id);
        ledger.name.clone_from(&target.name);
        let permitted = authorize::authorize(&snap.task, &bound.client, *target).await?;
        if let Some(entry) = permitted.found().and_then(|found| found.entry()) {
            decode::check_params(&bound.identified.decoded, &entry.params)?;
        }
        let metered = limit::limit(&self.places, permitted)?;
        ledger.intent(&metered.permitted.target().own).await?;
        Ok(Checks::Call(Box::new(bound), Box::new(metered)))
    }

    fn call(&self, snap: &Snapshot, bound: &Bound, metered: limit::Metered, ledger: Ledger) -> Live {
        let decoded = &bound.identified.decoded;
        let id = id_of(&decoded.message).unwrap_or_else(|| Id::from_number(0));
        let wanted = match &bound.session {
            Some(session) => session.state.level(),
            None => decoded.meta.log_level.as_ref().and_then(Raw::string).and_then(|l| LogLevel::parse(&l)),
        };
        let via = decoded.admitted.via;
        // Modern requests over HTTP are cancelled by closing their stream: an id names no one's call there.
        let entry = match &bound.session {
            Some(session) => {
                self.inflight.enter(bound.conversation, &id, session.state.closed().child_token())
            }
            None if via == Via::Stdio => {
                self.inflight.enter(bound.conversation, &id, CancellationToken::new())
            }
            None => inflight::Entry::unknown(),
        };
        let ask = Ask {
            meta: decoded.meta.rest.clone(),
            client: bound.client.clone(),
            log_level: wanted.map(|level| Raw::from_str_value(level.as_str())),
            progress: decoded.meta.progress_token.is_some(),
            session: bound.key,
            call_id: Arc::clone(&ledger.call_id),
        };
        let mut screen = Screen::new(decoded.era, id, bound.client.capabilities.clone());
        screen.token.clone_from(&decoded.meta.progress_token);
        screen.level = wanted;
        let exchange = forward::forward(metered, ask);
        let grace = snap.config.legacy.resume_grace;
        let gauge = Gauge::call(&self.book.metrics);
        Live::new(Parts { exchange, screen, ledger, entry, via, grace, gauge })
    }

    async fn local(
        &self,
        snap: &Snapshot,
        bound: &Bound,
        local: Local,
        host: Option<&Host>,
    ) -> Result<Outcome, Reject> {
        let asking = answers::Asking { snap, bound, now: self.clock.now() };
        let Some(id) = id_of(&bound.identified.decoded.message) else {
            if let Local::Cancelled(Some(id)) = local {
                self.inflight.cancel(bound.conversation, &id);
            }
            return Ok(Outcome::Accepted);
        };
        let answer = answers::answer(&asking, local).await?;
        if let (Some(host), Some(session)) = (host, &answer.session) {
            *host.0.lock() = Some(session.clone());
        }
        Ok(Outcome::Answer(message::result(&id, &answer.result), answer.session_id))
    }

    /// What session checks need.
    pub fn desk<'a>(&self, snap: &'a Snapshot, host: Option<&'a Session>) -> Desk<'a> {
        Desk {
            legacy: &snap.config.legacy,
            sessions: &snap.sessions,
            task: snap.task.name(),
            host,
            now: self.clock.now(),
        }
    }

    /// Records a refusal that came before the message was known.
    pub fn refused(&self, snap: &Snapshot, reject: &Reject) -> Arc<str> {
        let mut ledger = Ledger::open(&self.book, snap.task.name());
        ledger.blame(reject);
        ledger.close(Ending::Refused);
        Arc::clone(&ledger.call_id)
    }

    /// The answer to a refusal that came before the message was known.
    pub fn refusal(&self, snap: &Snapshot, reject: &Reject) -> Full {
        let call_id = self.refused(snap, reject);
        reply::refusal(reject, reject.why.row().status, &call_id)
    }

    async fn post(
        &self,
        snap: &Snapshot,
        admitted: &Arc<Admitted>,
        body: Bytes,
        gone: &CancellationToken,
    ) -> Reply {
        let body = match decode::decode(&snap.config, Arc::clone(admitted), body).await {
            Ok(body) => body,
            Err(reject) => return self.refusal(snap, &reject).into(),
        };
        match body {
            Body::Batch(batch) => {
                let desk = self.desk(snap, None);
                match session::check_batch(&desk, &admitted.headers, &identify::anonymous()) {
                    Ok(()) => self.batch(snap, batch).await.into(),
                    Err(reject) => self.refusal(snap, &reject).into(),
                }
            }
            Body::One(decoded) => match self.message(snap, *decoded, None).await {
                Outcome::Accepted => Full::empty(StatusCode::ACCEPTED).into(),
                Outcome::Answer(message, session) => answered(message, session).into(),
                Outcome::Refused(reject, status, call_id) => reply::refusal(&reject, status, &call_id).into(),
                Outcome::Live(live) => reply::first(*live, gone, || Gauge::stream(&self.book.metrics)).await,
            },
        }
    }

    /// Each message of a batch goes through all stages by itself; notifications of its calls are left out.
    async fn batch(&self, snap: &Snapshot, batch: Vec<Result<Box<Decoded>, Reject>>) -> Full {
        let answers = join_all(batch.into_iter().map(|decoded| async {
            let refused = |reject: &Reject, call_id: &str| {
                Some(message::error(reject.id.as_ref(), &reject.error(call_id)))
            };
            match decoded {
                Err(reject) => refused(&reject, &self.refused(snap, &reject)),
                Ok(decoded) => match self.message(snap, *decoded, None).await {
                    Outcome::Accepted => None,
                    Outcome::Answer(message, _) => Some(message),
                    Outcome::Refused(reject, _, call_id) => refused(&reject, &call_id),
                    Outcome::Live(live) => live.finish().await,
                },
            }
        }));
        let mut array = ArrayWriter::new();
        let mut some = false;
        for answer in answers.await.into_iter().flatten() {
            if let Ok(answer) = Raw::parse(answer, &Limits::ANSWER) {
                array.push(&answer);
                some = true;
            }
        }
        match some {
            true => reply::json(StatusCode::OK, array.finish().into_bytes()),
            false => Full::empty(StatusCode::ACCEPTED),
        }
    }
}

enum Checks {
    Local(Box<Bound>, Local),
    Call(Box<Bound>, Box<limit::Metered>),
}

fn answered(message: Bytes, session: Option<String>) -> Full {
    let mut full = reply::json(StatusCode::OK, message);
    if let Some(id) = session.and_then(|id| HeaderValue::from_str(&id).ok()) {
        full.headers.insert(HeaderName::from_static(session::SESSION_HEADER), id);
    }
    full
}

fn id_of(message: &Message) -> Option<Id> {
    match message {
        Message::Request(request) => Some(request.id.clone()),
        Message::Notification(_) | Message::Response(_) => None,
    }
}

/// Labels are from the protocol's own list, never the sender's text.
fn describe(ledger: &mut Ledger, decoded: &Decoded) {
    let name = match &decoded.message {
        Message::Request(request) => request.method.as_str(),
        Message::Notification(note) => note.method.as_str(),
        Message::Response(_) => "response",
    };
    let known = method::is_request(name, decoded.era) || method::is_notification(name, decoded.era);
    ledger.method.push_str(if known || name == "response" { name } else { "other" });
    ledger.era = Some(decoded.era);
}

/// The gateway as the edge sees it.
#[derive(Clone)]
pub struct Front(pub Arc<Gate>);

struct Admission {
    gate: Arc<Gate>,
    snap: Arc<Snapshot>,
    admitted: Arc<Admitted>,
}

impl Handler for Front {
    fn admit(&self, head: Head) -> Result<Box<dyn Work>, Reply> {
        let snap = self.0.snapshot.load_full();
        let admitted = match self.0.draining.is_cancelled() {
            true => Err(Reject::new(Why::Draining, "the gateway is going down; try another replica")),
            false => admit::admit(&snap.config, head),
        };
        match admitted {
            Ok(admitted) => {
                Ok(Box::new(Admission { gate: self.0.clone(), snap, admitted: Arc::new(admitted) }))
            }
            Err(reject) => Err(self.0.refusal(&snap, &reject).into()),
        }
    }
}

#[async_trait]
impl Work for Admission {
    fn body_limit(&self) -> usize {
        self.snap.config.limits.request_bytes
    }

    fn wants_body(&self) -> bool {
        self.admitted.verb == Verb::Post
    }

    async fn run(self: Box<Self>, body: Bytes, gone: CancellationToken) -> Reply {
        let mut reply = match self.admitted.verb {
            Verb::Post => self.gate.post(&self.snap, &self.admitted, body, &gone).await,
            Verb::Preflight => reply::preflight().into(),
            Verb::Get => answers::stream::open(&self.gate, &self.snap, &self.admitted),
            Verb::Delete => answers::stream::close(&self.gate, &self.snap, &self.admitted).await,
        };
        reply::share(&mut reply, &self.admitted);
        reply
    }

    fn refuse(self: Box<Self>, fault: BodyFault) -> Full {
        let reject = match fault {
            BodyFault::TooLarge => {
                let text = format!("the body is larger than {} bytes", self.body_limit());
                Reject::new(Why::BodySize, text)
            }
            BodyFault::Timeout => Reject::new(Why::BodyTime, "the body did not arrive in time"),
            BodyFault::Malformed | BodyFault::Gone => {
                Reject::new(Why::Invalid, "the body's framing is broken")
            }
        };
        let mut full = self.gate.refusal(&self.snap, &reject);
        full.close = true;
        full
    }
}
