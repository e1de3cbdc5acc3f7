//! Stage 8: the call goes to its server and its events come back, under the idle deadline (which progress starts
//! anew) and the total deadline (which nothing extends). Only a [`Metered`] call is taken. No client header and
//! no client credential is in what is sent.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use mcp::bridge::{self, ResultType};
use mcp::code;
use mcp::era::Era;
use mcp::json::{Key, Raw};
use mcp::method;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::catalog::member::{Found, Name};
use crate::ports::upstream::{
    Answer, Call, Client, Event, Events, Fault, FaultKind, Mirrored, SessionKey, Trace,
};
use crate::profiles::Profile;
use crate::stages::authorize::Permitted;
use crate::stages::confirm;
use crate::stages::limit::Metered;
use crate::stages::route::Target;

/// What a call takes from its message besides what was permitted.
pub struct Ask {
    /// `_meta` members that are passed through.
    pub meta: Vec<(mcp::json::Key, Raw)>,
    /// The trace context that the server gets.
    pub trace: Trace,
    /// What the server is told of the client.
    pub client: Client,
    /// The log level asked for, as JSON.
    pub log_level: Option<Raw>,
    /// Whether progress is wanted.
    pub progress: bool,
    /// Whose upstream session.
    pub session: SessionKey,
    /// The gateway's id of the call.
    pub call_id: Arc<str>,
    /// `Mcp-Param-*` headers of the client that mirror nothing the tool declares: passed on as they are.
    pub extra: Vec<(String, String)>,
    /// When the request came: the total time runs from here.
    pub started: Instant,
    /// The idle and the total time.
    pub times: (Duration, Duration),
}

/// The idle and the total time of a call: the server's, or the task's where they are shorter.
pub fn times(target: &Target, profile: &Profile) -> (Duration, Duration) {
    let spec = &target.member.spec;
    match target.method {
        method::TOOLS_CALL => {
            let (idle, total) = spec.call_timeouts(&target.own);
            let least = |ours: Duration, task: Option<Duration>| task.map_or(ours, |task| ours.min(task));
            (least(idle, profile.call_idle), least(total, profile.call_total))
        }
        _ => (spec.timeouts.reads, spec.timeouts.reads),
    }
}

/// A call under way. Dropping it cancels it at the server.
pub struct Exchange {
    permitted: Permitted,
    call: Arc<Call>,
    /// See [`Ask::extra`].
    extra: Vec<(String, String)>,
    state: State,
    /// Answers that the client gave before any question.
    ahead: Option<Raw>,
    idle: Duration,
    idle_until: Instant,
    end: Instant,
    repeated: bool,
    _place: OwnedSemaphorePermit,
}

type Starting = Pin<Box<dyn Future<Output = Result<Events, Fault>> + Send>>;

enum State {
    Starting(Starting),
    Running(Events),
    Rereading(Pin<Box<dyn Future<Output = Option<Found>> + Send>>),
    Over,
}

/// Starts a call.
pub fn forward(metered: Metered, ask: Ask) -> Exchange {
    let Metered { permitted, place, ahead, .. } = metered;
    let (idle, total) = ask.times;
    let (now, end) = (Instant::now(), ask.started + total);
    let (call, extra) = call(&permitted, ask);
    let call = Arc::new(call);
    let state = State::Starting(start(&permitted, &call));
    let idle_until = now + idle;
    Exchange { permitted, call, extra, state, ahead, idle, idle_until, end, repeated: false, _place: place }
}

fn call(permitted: &Permitted, ask: Ask) -> (Call, Vec<(String, String)>) {
    let target = permitted.target();
    let call = Call {
        method: target.method,
        params: target.params.clone(),
        meta: ask.meta,
        trace: ask.trace,
        client: ask.client,
        log_level: ask.log_level,
        progress: ask.progress,
        mirrored: Mirrored {
            name: method::mirrored_name(target.method).map(|_| target.own.clone()),
            params: mirrored(permitted, &ask.extra),
        },
        session: ask.session,
        answer_bytes: target.member.spec.answer_bytes,
        call_id: ask.call_id,
    };
    (call, ask.extra)
}

/// The mirrored parameters, and what of the client's headers mirrors nothing that is declared.
fn mirrored(permitted: &Permitted, extra: &[(String, String)]) -> Vec<(String, String)> {
    let entry = permitted.found().and_then(|found| found.entry());
    let arguments = permitted.target().arguments();
    let mut params = entry.map(|entry| entry.params.build(arguments)).unwrap_or_default();
    let built = params.len();
    for (name, value) in extra {
        let ours = params.iter().take(built).any(|(ours, _)| ours.eq_ignore_ascii_case(name));
        if !ours {
            params.push((name.clone(), value.clone()));
        }
    }
    params
}

fn start(permitted: &Permitted, call: &Arc<Call>) -> Starting {
    Arc::clone(&permitted.target().member.upstream).call(Arc::clone(call))
}

impl Exchange {
    /// The next event, or none until `quiet`. After [`Event::Done`] or a fault there is none. May be dropped and asked
    /// again.
    ///
    /// # Errors
    /// The server's failure, or a deadline.
    pub async fn next(&mut self, quiet: Instant) -> Result<Option<Event>, Fault> {
        loop {
            let deadline = self.end.min(self.idle_until);
            // One timer for both: most calls are over before either.
            let step = match timeout_at(deadline.min(quiet), self.state.step()).await {
                Ok(step) => step,
                Err(_) if quiet < deadline => return Ok(None),
                Err(_) => {
                    self.permitted.target().member.upstream.overdue(&self.call.client, &self.call.session);
                    Err(Fault::late(FaultKind::Timeout, "a deadline of the call ran out"))
                }
            };
            match step {
                Ok(Step::Again) => {}
                Ok(Step::Reread(found)) => {
                    self.permitted.hold_to(found);
                    self.again();
                }
                Ok(Step::Event(Event::Done(answer))) if self.answered(&answer) => self.again(),
                Ok(Step::Event(Event::Done(answer))) => match self.stale_headers(&answer) {
                    true => self.reread(),
                    false => {
                        self.state = State::Over;
                        return Ok(Some(Event::Done(answer)));
                    }
                },
                Ok(Step::Event(event)) => {
                    if matches!(event, Event::Progress(_)) {
                        self.idle_until = Instant::now() + self.idle;
                    }
                    return Ok(Some(event));
                }
                Err(fault) => {
                    self.state = State::Over;
                    return Err(fault);
                }
            }
        }
    }

    /// Starts the call anew, with what is permitted by now.
    fn again(&mut self) {
        let call = Arc::make_mut(&mut self.call);
        call.params.clone_from(&self.permitted.target().params);
        call.mirrored.params = mirrored(&self.permitted, &self.extra);
        self.state = State::Starting(start(&self.permitted, &self.call));
    }

    /// A modern server that wants other mirrored headers than its list said has changed its schema and has not
    /// executed the call: the list is read anew and the call made once more (SEP-2243).
    fn stale_headers(&self, answer: &Answer) -> bool {
        let mismatch = answer.outcome.as_ref().is_err_and(|error| error.code == code::HEADER_MISMATCH);
        mismatch && answer.era == Era::Modern && !self.repeated
    }

    /// A modern server's first question that the client has answered ahead, in all its parts and as its schema wants: the
    /// call goes on with that, once. What was not asked for stays here.
    fn answered(&mut self, answer: &Answer) -> bool {
        let (Era::Modern, Ok(result)) = (answer.era, &answer.outcome) else { return false };
        let Some(responses) = self.ahead.take() else { return false };
        let asks = bridge::result_type(result) == ResultType::InputRequired;
        let Some(kept) =
            asks.then(|| confirm::ahead(result, &responses, &self.call.client.capabilities)).flatten()
        else {
            return false;
        };
        let state = result.get(confirm::STATE).filter(Raw::is_string);
        let params = self.permitted.params_mut();
        params.push((Key::new(confirm::RESPONSES), kept));
        params.extend(state.map(|state| (Key::new(confirm::STATE), state)));
        true
    }

    fn reread(&mut self) {
        self.repeated = true;
        let target = self.permitted.target();
        let (member, kind, own) = (Arc::clone(&target.member), target.kind, target.own.clone());
        let client = self.call.client.clone();
        self.state = State::Rereading(Box::pin(async move {
            member.reread(kind, &client).await;
            member.find(kind, &client, Name::Own(&own)).await.ok().flatten()
        }));
    }

    /// When it ends at the latest.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// What was permitted.
    pub fn permitted(&self) -> &Permitted {
        &self.permitted
    }
}

enum Step {
    Again,
    Reread(Option<Found>),
    Event(Event),
}

impl State {
    async fn step(&mut self) -> Result<Step, Fault> {
        match self {
            State::Starting(starting) => {
                let events = starting.as_mut().await?;
                *self = State::Running(events);
                Ok(Step::Again)
            }
            State::Running(events) => match events.next().await {
                Some(event) => event.map(Step::Event),
                None => Err(Fault::late(FaultKind::Dropped, "the answer broke off")),
            },
            State::Rereading(reading) => Ok(Step::Reread(reading.as_mut().await)),
            State::Over => Err(Fault::late(FaultKind::Dropped, "the call is over")),
        }
    }
}
