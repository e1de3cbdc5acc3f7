//! Between rates and budgets: a person agrees, where the task asks for that. The gateway's question and its state never
//! reach a server; a call that was agreed to goes out once. Whether a person is asked at all is `authorize`'s decision,
//! made afresh each time. A server's own questions in the middle of a call are held to the same: what comes back counts
//! for the caller and the call that were asked.

pub mod ask;
mod carry;

use std::time::SystemTime;

use mcp::era::Era;
use mcp::json::{Key, Raw};
use mcp::method;
use policies::confirm::{Answer, KEY, Mismatch, Stage, State};
use policies::task::Fallback;

pub use self::carry::{Carry, Rounds, ahead, declared};
use crate::ports::clock::unix_seconds;
use crate::ports::nonces::{Forgetful, Nonces};
use crate::reject::{Reject, Why};
use crate::seal::{Sealer, Use};
use crate::stages::authorize::Permitted;
use crate::stages::limit::Rated;
use crate::stages::session::Bound;

/// The member of a call's `params` with the answers to a server's questions.
pub const RESPONSES: &str = "inputResponses";
/// The member of a call's `params`, and of a result, that holds a round together.
pub const STATE: &str = "requestState";

/// A call that nobody has to agree to any more.
pub struct Confirmed {
    permitted: Permitted,
    /// How the agreement is carried through later rounds of the call.
    pub carry: Option<Carry>,
    /// Answers that came before any question. No server sees them unless it asks for them.
    pub ahead: Option<Raw>,
}

impl Confirmed {
    /// The call.
    pub fn into_permitted(self) -> Permitted {
        self.permitted
    }

    /// The members of its `params`.
    pub fn params_mut(&mut self) -> &mut Vec<(Key, Raw)> {
        self.permitted.params_mut()
    }
}

/// What comes next.
pub enum Next {
    /// The call may go on.
    Go(Box<Confirmed>),
    /// The client is asked and calls again with the answer: this is the result.
    Again(Raw),
    /// The client is asked while its call waits.
    Wait(Box<ask::Pending>),
}

/// What confirming needs besides the message.
pub struct Desk<'a> {
    /// Seals states.
    pub sealer: &'a Sealer,
    /// Used states of confirmations.
    pub nonces: &'a dyn Nonces,
    /// Used states of servers' rounds.
    pub rounds: &'a dyn Nonces,
    /// Now.
    pub now: SystemTime,
    /// Whether the client can be asked on the stream of this very call.
    pub streams: bool,
}

/// Looks for a person's agreement, and asks for it where there is none.
///
/// # Errors
/// A state that is void or belongs to another call, an answer that is none or no yes, a client that can't ask.
pub async fn confirm(desk: &Desk<'_>, bound: &Bound, rated: Rated) -> Result<Next, Reject> {
    let mut permitted = rated.into_permitted();
    let method = permitted.target().method;
    if !matches!(method, method::TOOLS_CALL | method::PROMPTS_GET | method::RESOURCES_READ) {
        forget(&mut permitted);
        return Ok(Next::Go(Box::new(Confirmed { permitted, carry: None, ahead: None })));
    }
    if bound.identified.decoded.era == Era::Legacy {
        // Rounds are the modern era's: what a legacy client calls so is nothing that a server has asked for.
        forget(&mut permitted);
        return match permitted.must_confirm() {
            true => ask::legacy(desk, bound, permitted),
            false => Ok(Next::Go(Box::new(Confirmed { permitted, carry: None, ahead: None }))),
        };
    }
    let state = permitted.target().param(STATE);
    let opened = state.and_then(|state| desk.sealer.open(Use::Confirm, &state.string()?));
    match (opened, state.is_some()) {
        // Boxed: most calls are no answers, and would carry what only answers need.
        (Some(plain), _) => Box::pin(answered(desk, bound, permitted, &plain)).await,
        (None, true) => Err(foreign(permitted.must_confirm(), Mismatch::Unreadable)),
        (None, false) if permitted.must_confirm() => ask::modern(desk, bound, permitted),
        (None, false) => {
            let ahead = permitted.target().param(RESPONSES).cloned();
            forget(&mut permitted);
            let carry = Some(Carry::of(bound, &permitted));
            Ok(Next::Go(Box::new(Confirmed { permitted, carry, ahead })))
        }
    }
}

/// A state that does not count: of a confirmation a tool error, that a model can act on; of a server's round a wrong
/// parameter.
fn foreign(confirming: bool, why: Mismatch) -> Reject {
    if confirming {
        return void(why.public());
    }
    Reject::new(Why::Params, format!("params.requestState is not valid here: {}", why.public()))
}

/// Goes on without a person, where the task lets a client that can't ask do so.
fn unasked(bound: &Bound, mut permitted: Permitted, reject: Reject) -> Result<Next, Reject> {
    match bound.identified.party.profile.task.confirm_fallback() {
        Fallback::Allow => {
            let ahead = permitted.target().param(RESPONSES).cloned();
            forget(&mut permitted);
            let carry = Some(Carry::of(bound, &permitted));
            Ok(Next::Go(Box::new(Confirmed { permitted, carry, ahead })))
        }
        Fallback::Refuse => Err(reject),
    }
}

/// A call that comes back with a state of ours.
async fn answered(
    desk: &Desk<'_>,
    bound: &Bound,
    mut permitted: Permitted,
    plain: &[u8],
) -> Result<Next, Reject> {
    let carry = Carry::of(bound, &permitted);
    let confirming = permitted.must_confirm();
    let state = std::str::from_utf8(plain).unwrap_or_default();
    let state = State::decode(state).map_err(|why| foreign(confirming, why))?;
    // Of a call that nobody had to agree to when it began. Now somebody has to.
    if confirming && state.stage == Stage::Open && !ask::excused(bound) {
        forget(&mut permitted);
        return ask::modern(desk, bound, permitted);
    }
    let (confirming, now) = (state.stage != Stage::Open, unix_seconds(desk.now));
    let owned = carry.owns(&state, permitted.target(), (now, desk.nonces.replica()));
    owned.map_err(|why| foreign(confirming, why))?;
    let responses = permitted.target().param(RESPONSES).cloned();
    let kept = if state.stage == Stage::Asked {
        let answer = responses.as_ref().and_then(|all| all.get(KEY));
        let answer =
            answer.ok_or_else(|| void("inputResponses holds no answer to the question; call again"))?;
        let answer = read(&answer)?;
        spend(desk, &state, now).await?;
        agreed(answer)?;
        // Nothing else was asked, so nothing else is an answer.
        None
    } else {
        let kept = responses.as_ref().map(|responses| carry::answers(&state.asked, responses)).transpose();
        let kept = kept.map_err(|what| Reject::new(Why::Params, what))?.flatten();
        spend(desk, &state, now).await?;
        kept
    };
    forget(&mut permitted);
    let params = permitted.params_mut();
    params.extend(kept.map(|kept| (Key::new(RESPONSES), kept)));
    params.extend(state.inner.as_deref().map(|inner| (Key::new(STATE), Raw::from_str_value(inner))));
    let carry = Some(carry.after(&state));
    Ok(Next::Go(Box::new(Confirmed { permitted, carry, ahead: None })))
}

fn read(answer: &Raw) -> Result<Answer, Reject> {
    let value = serde_json::from_str(answer.as_str()).unwrap_or_default();
    Answer::read(&value).map_err(|why| {
        let text = format!("inputResponses[\"{KEY}\"] is no answer to the question");
        Reject::new(Why::Params, text).detail(format!("{why:?}"))
    })
}

fn agreed(answer: Answer) -> Result<(), Reject> {
    match answer {
        Answer::Accepted => Ok(()),
        Answer::Declined => Err(Reject::new(
            Why::Declined,
            "The user declined this call. It was not made; do not repeat it unless the user asks for it.",
        )),
        Answer::Cancelled => Err(Reject::new(
            Why::Declined,
            "The user closed the question without an answer. The call was not made.",
        )),
    }
}

async fn spend(desk: &Desk<'_>, state: &State, now: i64) -> Result<(), Reject> {
    let used = if state.stage == Stage::Open { desk.rounds } else { desk.nonces };
    match used.spend(&state.principal, &state.nonce, (state.expires, now)).await {
        Ok(true) => Ok(()),
        Ok(false) if state.stage == Stage::Open => {
            Err(Reject::new(Why::Params, "params.requestState was used before; call again without it"))
        }
        Ok(false) => Err(void("the answer was used before; call again")),
        Err(Forgetful(detail)) => {
            Err(Reject::new(Why::LimitsAway, "confirmations can't be checked at present").detail(detail))
        }
    }
}

fn void(why: &str) -> Reject {
    Reject::new(Why::Confirm, format!("The confirmation does not count: {why}. The call was not made."))
}

/// Takes answers and states out of what goes to a server. Every question reaches its client with a state of ours, so
/// what comes without one answers none yet, and what comes with one is put back once it was looked at.
fn forget(permitted: &mut Permitted) {
    permitted.params_mut().retain(|(key, _)| !(key.is(RESPONSES) || key.is(STATE)));
}
