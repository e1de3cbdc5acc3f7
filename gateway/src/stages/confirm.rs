//! Between rates and budgets: a person agrees, where the task asks for that. The gateway's question and its state never
//! reach a server; a call that was agreed to goes out once. Whether a person is asked at all is `authorize`'s decision,
//! made afresh each time.

pub mod ask;
mod carry;

use std::time::SystemTime;

use mcp::era::Era;
use mcp::json::{Key, Raw};
use mcp::method;
use policies::confirm::{Answer, Call, KEY, State};
use policies::task::Fallback;

pub use self::carry::Carry;
use crate::digest::{hex, sha256};
use crate::ports::clock::unix_seconds;
use crate::ports::nonces::{Forgetful, Nonces};
use crate::reject::{Reject, Why};
use crate::seal::{Sealer, Use};
use crate::stages::authorize::Permitted;
use crate::stages::limit::Rated;
use crate::stages::session::Bound;

const RESPONSES: &str = "inputResponses";
const STATE: &str = "requestState";

/// A call that nobody has to agree to any more.
pub struct Confirmed {
    permitted: Permitted,
    /// How the agreement is carried through later rounds of the call.
    pub carry: Option<Carry>,
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
    /// Used states.
    pub nonces: &'a dyn Nonces,
    /// Now.
    pub now: SystemTime,
    /// Whether the client can be asked on the stream of this very call.
    pub streams: bool,
}

/// Looks for a person's agreement, and asks for it where there is none.
///
/// # Errors
/// A state that is void or belongs to another call, an answer that is no yes, a client that can't ask.
pub async fn confirm(desk: &Desk<'_>, bound: &Bound, rated: Rated) -> Result<Next, Reject> {
    let mut permitted = rated.into_permitted();
    if permitted.target().method != method::TOOLS_CALL || bound.identified.decoded.era == Era::Legacy {
        return match permitted.must_confirm() {
            true => ask::legacy(desk, bound, permitted),
            false => Ok(Next::Go(Box::new(Confirmed { permitted, carry: None }))),
        };
    }
    let text = permitted.target().param(STATE).and_then(|state| state.string());
    let state = text.as_ref().and_then(|text| desk.sealer.open(Use::Confirm, text));
    match (state, text) {
        (Some(plain), _) => {
            let carry = answered(desk, bound, &mut permitted, &plain).await?;
            Ok(Next::Go(Box::new(Confirmed { permitted, carry: Some(carry) })))
        }
        (None, Some(_)) if permitted.must_confirm() => {
            Err(void("the requestState does not belong to this call"))
        }
        (None, _) if permitted.must_confirm() => ask::modern(desk, bound, permitted),
        (None, _) => {
            strip(&mut permitted);
            Ok(Next::Go(Box::new(Confirmed { permitted, carry: None })))
        }
    }
}

/// Goes on without a person, where the task lets a client that can't ask do so.
fn unasked(bound: &Bound, mut permitted: Permitted, reject: Reject) -> Result<Next, Reject> {
    match bound.identified.party.profile.task.confirm_fallback() {
        Fallback::Allow => {
            strip(&mut permitted);
            Ok(Next::Go(Box::new(Confirmed { permitted, carry: None })))
        }
        Fallback::Refuse => Err(reject),
    }
}

/// A call that comes back with a state of ours.
async fn answered(
    desk: &Desk<'_>,
    bound: &Bound,
    permitted: &mut Permitted,
    plain: &[u8],
) -> Result<Carry, Reject> {
    let carry = Carry::of(bound, permitted);
    let state = std::str::from_utf8(plain).unwrap_or_default();
    let state = State::decode(state).map_err(|why| void(why.public()))?;
    let now = unix_seconds(desk.now);
    state.goes_with(&carry.call(), now, desk.nonces.replica()).map_err(|why| void(why.public()))?;
    let responses = permitted.target().param(RESPONSES);
    if state.confirmed {
        spend(desk, &state, now).await?;
        strip(permitted);
    } else {
        let answer = responses.as_ref().and_then(|all| all.get(KEY));
        let answer =
            answer.ok_or_else(|| void("inputResponses holds no answer to the question; call again"))?;
        let answer = read(&answer)?;
        spend(desk, &state, now).await?;
        agreed(answer)?;
        // Nothing else was asked, so nothing else is an answer.
        permitted.params_mut().retain(|(key, _)| &**key != RESPONSES);
    }
    permitted.params_mut().retain(|(key, _)| &**key != STATE);
    if let Some(inner) = &state.inner {
        permitted.params_mut().push((Key::new(STATE), Raw::from_str_value(inner)));
    }
    Ok(carry.after(&state).until(until(bound, now), desk.nonces.replica()))
}

/// The Unix second from which a question asked now is void.
fn until(bound: &Bound, now: i64) -> i64 {
    let within = bound.identified.party.profile.confirm_within;
    now.saturating_add(i64::try_from(within.as_secs()).unwrap_or(i64::MAX))
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
    match desk.nonces.spend(&state.nonce, state.expires, now).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(void("the answer was used before; call again")),
        Err(Forgetful(detail)) => {
            Err(Reject::new(Why::LimitsAway, "confirmations can't be checked at present").detail(detail))
        }
    }
}

fn void(why: &str) -> Reject {
    Reject::new(Why::Confirm, format!("The confirmation does not count: {why}. The call was not made."))
}

/// Takes the gateway's own key out of the answers: no server ever asked for it.
fn strip(permitted: &mut Permitted) {
    permitted.params_mut().retain_mut(|(key, value)| {
        if &**key != RESPONSES || value.get(KEY).is_none() {
            return true;
        }
        *value = value.without(KEY);
        value.view().next().is_some()
    });
}

/// A digest of the arguments, byte for byte.
fn digest(permitted: &Permitted) -> String {
    let arguments = permitted.target().arguments();
    hex(&sha256(arguments.map_or(b"{}".as_slice(), |raw| raw.bytes())))
}

/// The parts of a call that a state is bound to.
fn call<'a>(carry: &'a Carry) -> Call<'a> {
    Call {
        principal: &carry.principal,
        task: &carry.task,
        run: &carry.run,
        server: &carry.server,
        tool: &carry.tool,
        arguments: &carry.arguments,
    }
}
