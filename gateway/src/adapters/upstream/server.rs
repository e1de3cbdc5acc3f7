//! A server behind a URL: which way it is spoken to, and one call each way. The era is asked once and remembered; an
//! answer that does not fit it is reason to ask again, never reason to guess.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{join, join_all};
use futures_util::stream;
use mcp::era::Era;
use mcp::json::Raw;
use mcp::message::RpcError;
use mcp::meta::LogLevel;
use mcp::method;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::back::{CancelGuard, SIDE_POSTS};
use super::compose::{self, Ticket};
use super::core::{Core, Known, Way};
use super::handshake::{Failed, GREETING_BYTES, handshake, is_modern};
use super::heads;
use super::http::{Got, exchange, refusal};
use super::logs;
use super::net::Net;
use super::odd::{is_gone, is_odd_for_legacy, is_odd_for_modern, is_untouched, is_wrong_door};
use super::pipes::Pipes;
use super::pool::{Key, Pool};
use super::probe;
use super::sessions::{IDLE, Session};
use super::sse;
use super::stream::{Run, Want};
use super::watch::{self, Watching};
use crate::adapters::credentials::Issue;
use crate::config::{HttpKind, HttpServer, Outgoing};
use crate::ports::upstream::{Answer, Behalf, Call, Client, Event, Events, Fault, FaultKind, SessionKey};

/// From here on a failed attempt to connect was expensive.
const HANGING: Duration = Duration::from_secs(1);

/// A call's way so far.
pub(super) enum Sent {
    /// Its events. Whoever reads the last of them notes the outcome.
    Events(Events),
    /// An answer that does not fit the era. `outcome` is what the caller gets when the era is as it was; `untouched`
    /// is [`is_untouched`].
    Odd { outcome: Result<Events, Fault>, untouched: bool },
    /// The session was gone.
    Expired,
    /// There is no session, which is noted already.
    Unopened(Fault),
}

/// The client of one HTTP server.
pub(super) struct HttpSide {
    pub(super) core: Arc<Core>,
    pub(super) net: Arc<Net>,
    pub(super) kind: HttpKind,
    /// Whether each caller has its own credential: nothing of one caller is then shown to another.
    per_principal: bool,
    pub(super) sessions: Arc<Pool<Session>>,
    /// Whether somebody listens to what the server announces.
    pub(super) watching: Arc<Watching>,
    /// The server as an old HTTP+SSE one.
    pub(super) old: Arc<Pipes>,
    gate: Arc<Semaphore>,
}

impl HttpSide {
    /// # Errors
    /// The URL or the file of authorities is unusable.
    pub(super) fn new(core: &Arc<Core>, spec: &HttpServer, issue: &Issue) -> Result<Arc<HttpSide>, Fault> {
        let credential = issue.credential(&core.server, spec.credential.as_ref());
        let credential = credential.map_err(|what| Fault::early(FaultKind::Auth, what))?;
        let net = Arc::new(Net::new(spec, &core.spec.timeouts, credential)?);
        Ok(Arc::new(HttpSide {
            old: sse::pipes(core, &net),
            core: Arc::clone(core),
            net,
            kind: spec.kind,
            per_principal: spec.credential.as_ref().is_some_and(Outgoing::per_principal),
            sessions: Pool::new(IDLE),
            watching: Arc::default(),
            gate: Arc::new(Semaphore::new(SIDE_POSTS)),
        }))
    }

    /// Whose session: where callers have their own credentials, the catalog's is each caller's own too.
    fn key(&self, owner: &SessionKey, client: &Client) -> Key {
        let key = Key::new(*owner, client);
        if self.per_principal { key.of(client.behalf.variant()) } else { key }
    }

    /// Whether a failure says something about the server, not about one caller's credential.
    fn is_everyones(&self, fault: Option<&Fault>) -> bool {
        !(self.per_principal && fault.is_some_and(|fault| fault.kind == FaultKind::Auth))
    }

    /// What is known of the server; asks it once.
    pub(super) async fn known(self: &Arc<Self>, behalf: &Behalf) -> Result<Arc<Known>, Fault> {
        match self.core.known() {
            Some(known) => Ok(known),
            None => Box::pin(self.ask(behalf)).await,
        }
    }

    /// Asks the server for its era, once for all who wait.
    pub(super) async fn ask(self: &Arc<Self>, behalf: &Behalf) -> Result<Arc<Known>, Fault> {
        self.core.running()?;
        self.core.gate.check()?;
        let (side, behalf) = (Arc::clone(self), behalf.clone());
        let probing = self.core.probe.join(|| {
            async move {
                let found = probe::over_http(&side, &behalf).await;
                side.core.note(found.as_ref().err(), side.is_everyones(found.as_ref().err()));
                if let Some(known) =
                    found.as_ref().ok().filter(|known| known.way == Way::Modern && !side.per_principal)
                {
                    watch::subscribe(&side, &known.facts);
                }
                found
            }
            .boxed()
        });
        probing.await
    }

    /// One call; an answer that does not fit what is known leads to one new probe and one repetition at most. What may
    /// be repeated: a method that is safe to repeat, after any of these failures, and any other only when
    /// [`is_untouched`] proves that the server has another era and executed nothing. An expired session proves it too,
    /// but its state is lost, and whether that matters only the caller knows: there the method alone decides.
    pub(super) async fn call(self: &Arc<Self>, call: &Call) -> Result<Events, Fault> {
        let mut again = method::safe_to_repeat(call.method);
        let mut first = true;
        loop {
            let known = self.known(&call.client.behalf).await?;
            if known.way != Way::OldSse {
                self.core.gate.check()?;
            }
            let start = Instant::now();
            let sent = match known.way {
                Way::Modern => self.modern(call, &known).await,
                Way::Legacy => self.legacy(call).await,
                Way::OldSse => return Box::pin(self.old.call(call, &known)).await,
            };
            // A refused connection is cheap and soon over; one that hangs must not cost every caller its time.
            let early = |fault: &Fault| !fault.dispatched && fault.kind != FaultKind::Auth;
            let hung = sent.as_ref().is_err_and(early) && start.elapsed() >= HANGING;
            match sent {
                Ok(Sent::Events(events)) => return Ok(events),
                Ok(Sent::Odd { outcome, untouched }) => {
                    self.core.note(outcome.as_ref().err(), false);
                    let changed = first
                        && self.core.may_suspect()
                        && Box::pin(self.changed(known.way, &call.client.behalf)).await;
                    if !changed || !(again || untouched) {
                        return outcome;
                    }
                }
                Ok(Sent::Expired) if again => {}
                Ok(Sent::Expired) => {
                    let fault = Fault::late(FaultKind::Dropped, "the upstream session expired");
                    self.core.note(Some(&fault), false);
                    return Err(fault);
                }
                Ok(Sent::Unopened(fault)) if again && fault.kind == FaultKind::Dropped => {}
                Ok(Sent::Unopened(fault)) => return Err(fault),
                Err(fault) => {
                    self.core.note(Some(&fault), hung);
                    // An idle connection that the server was just closing.
                    if !again || fault.kind != FaultKind::Dropped {
                        return Err(fault);
                    }
                }
            }
            (again, first) = (false, false);
        }
    }

    async fn changed(self: &Arc<Self>, before: Way, behalf: &Behalf) -> bool {
        self.ask(behalf).await.is_ok_and(|known| known.way != before)
    }

    async fn modern(&self, call: &Call, known: &Known) -> Result<Sent, Fault> {
        let ticket = self.core.ticket();
        let body = compose::call(call, Era::Modern, known.facts.revision, &ticket.id, ticket.token());
        let headers = self.net.call_headers(&call.client.behalf);
        let headers = heads::modern(headers, call, known.facts.revision)?;
        let reply = exchange(&self.net, headers, body, &ticket.id, call.answer_bytes).await?;
        Ok(match reply.got {
            Got::Answer { status, outcome } => {
                let odd = outcome.as_ref().err().filter(|error| is_odd_for_modern(status, error));
                match odd.map(|error| is_untouched(status, Some(error))) {
                    Some(untouched) => Sent::Odd { outcome: Ok(done(Era::Modern, outcome)), untouched },
                    None => self.answered(Era::Modern, outcome),
                }
            }
            Got::Stream(body) => {
                let guard = CancelGuard::new(None, &ticket.id);
                let run = Run::new(body, self.want(call, ticket, Era::Modern), None, guard);
                Sent::Events(run.noted_in(&self.core).into_events())
            }
            Got::Refused { status, error } => {
                let fault = refusal(status, error.as_ref());
                if !is_wrong_door(status) || error.as_ref().is_some_and(is_modern) {
                    return Err(fault);
                }
                Sent::Odd { outcome: Err(fault), untouched: is_untouched(status, error.as_ref()) }
            }
        })
    }

    async fn legacy(self: &Arc<Self>, call: &Call) -> Result<Sent, Fault> {
        let session = match self.session(&call.session, &call.client).await {
            Ok(session) => session,
            // A refused handshake: perhaps it knows none any more. The call itself was not even sent.
            Err(failed) if failed.modern || failed.status.is_some() => {
                return Ok(Sent::Odd { outcome: Err(failed.fault), untouched: true });
            }
            Err(failed) => return Ok(Sent::Unopened(failed.fault)),
        };
        let of = &session;
        let set = |level: Raw| async move { self.set_level(of, &level).await };
        session.level.tell(&self.core, call, session.back.within, set).await;
        let hearing = match wanted_level(call) {
            Some(level) => Box::pin(logs::hear(&self.core, &session, level)).await,
            None => None,
        };
        let ticket = self.core.ticket();
        let body = compose::call(call, Era::Legacy, session.facts.revision, &ticket.id, ticket.token());
        let mut guard = CancelGuard::new(Some(&session.back), &ticket.id);
        let headers = heads::traced(session.back.headers.clone().on_behalf(&call.client.behalf), call);
        let sent = exchange(&self.net, headers, body, &ticket.id, call.answer_bytes).await;
        if !matches!(&sent, Ok(reply) if matches!(reply.got, Got::Stream(_))) {
            guard.disarm();
        }
        let sent = match sent?.got {
            Got::Answer { status, outcome } => {
                if is_gone(&session, status, outcome.as_ref().err()) {
                    session.expire();
                    return Ok(Sent::Expired);
                }
                let odd = outcome.as_ref().err().filter(|error| is_odd_for_legacy(status, error));
                match odd.map(|error| is_untouched(status, Some(error))) {
                    Some(untouched) => Sent::Odd { outcome: Ok(done(Era::Legacy, outcome)), untouched },
                    None => self.answered(Era::Legacy, outcome),
                }
            }
            Got::Stream(body) => {
                let (want, back) = (self.want(call, ticket, Era::Legacy), Arc::clone(&session.back));
                let run = Run::new(body, want, Some(back), guard).holding(session);
                Sent::Events(run.noted_in(&self.core).into_events())
            }
            Got::Refused { status, error } => {
                if is_gone(&session, status, error.as_ref()) {
                    session.expire();
                    return Ok(Sent::Expired);
                }
                let fault = refusal(status, error.as_ref());
                if !is_wrong_door(status) && !error.as_ref().is_some_and(is_modern) {
                    return Err(fault);
                }
                Sent::Odd { outcome: Err(fault), untouched: is_untouched(status, error.as_ref()) }
            }
        };
        Ok(match (sent, hearing) {
            (Sent::Events(events), Some(hearing)) => Sent::Events(hearing.join(events)),
            (sent, _) => sent,
        })
    }

    /// An answer that is whole, and the end of its exchange.
    fn answered(&self, era: Era, outcome: Result<Raw, RpcError>) -> Sent {
        self.core.note(None, false);
        Sent::Events(done(era, outcome))
    }

    /// The owner's session, shaking hands where there is none.
    pub(super) async fn session(
        self: &Arc<Self>,
        owner: &SessionKey,
        client: &Client,
    ) -> Result<Arc<Session>, Failed> {
        let slot = self.sessions.slot(self.key(owner, client));
        if let Some(session) = slot.ready() {
            return Ok(session);
        }
        self.core.running()?;
        self.core.gate.check()?;
        let (side, client, place, owner) = (Arc::clone(self), client.clone(), Arc::clone(&slot), *owner);
        let shaking = slot.flight.join(|| {
            async move {
                if let Some(session) = place.ready() {
                    return Ok(session);
                }
                let shaken = handshake(&side.core, &side.net, &side.gate, &client).await;
                // A probe judges its own attempts: a refusal may lead it to the older transport.
                if side.core.known().is_some() {
                    let fault = shaken.as_ref().err().map(|failed| &failed.fault);
                    side.core.note(fault, side.is_everyones(fault));
                }
                let session = place.fill(shaken?);
                if owner == SessionKey::Catalog && !side.per_principal {
                    watch::follow(&side, &client, &session);
                }
                Ok(session)
            }
            .boxed()
        });
        shaking.await
    }

    /// Takes a session in that the probe has opened.
    pub(super) async fn open_for_probe(self: &Arc<Self>, behalf: &Behalf) -> Result<Arc<Session>, Failed> {
        self.session(&SessionKey::Catalog, &compose::nobody().on_behalf(behalf.clone())).await
    }

    /// `logging/setLevel` in a session.
    async fn set_level(&self, session: &Session, level: &Raw) -> Result<(), Fault> {
        let ticket = self.core.ticket();
        let body = compose::set_level(&ticket.id, level);
        let headers = session.back.headers.clone();
        let reply = exchange(&self.net, headers, body, &ticket.id, GREETING_BYTES).await?;
        if let Got::Stream(body) = reply.got {
            let guard = CancelGuard::new(None, &ticket.id);
            let want = Want::bare(&self.core, ticket, Era::Legacy, GREETING_BYTES);
            Run::new(body, want, Some(Arc::clone(&session.back)), guard).answer().await?;
        }
        Ok(())
    }

    /// Closes the sessions of one owner, or all. What is not closed in time is left to the server's own time-out.
    pub(super) async fn end(&self, owner: Option<&SessionKey>, within: Duration) {
        let sessions = self.sessions.take(owner);
        let closing = join_all(sessions.iter().map(|session| session.close()));
        let _ = tokio::time::timeout(within, join(closing, self.old.end(owner, within))).await;
    }

    fn want(&self, call: &Call, ticket: Ticket, era: Era) -> Want {
        let log = wanted_level(call);
        Want { progress: call.progress, log, ..Want::bare(&self.core, ticket, era, call.answer_bytes) }
    }
}

fn wanted_level(call: &Call) -> Option<LogLevel> {
    call.log_level.as_ref().and_then(|level| LogLevel::parse(&level.string()?))
}

/// An answer that is all there already.
fn done(era: Era, outcome: Result<Raw, RpcError>) -> Events {
    Box::pin(stream::iter([Ok(Event::Done(Answer { era, outcome }))]))
}
