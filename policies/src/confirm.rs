//! Asking a person before a call, the pure half: the question, the form that goes with it, what an answer means, and the
//! state that ties the answer to the question. Sealing the state and spending its nonce are the caller's.

mod question;
pub mod rounds;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use question::{Asked, MAX_QUESTION, Mask, question};

/// The key of the gateway's own question among `inputRequests` and `inputResponses` (MCP 2026-07-28, multi round-trip
/// requests). It never goes to a server, and no server's key is let through under it.
pub const KEY: &str = "dev.tollgate/confirm";

/// Bytes of a state that is read.
const MAX_STATE: usize = 64 * 1024;
/// Rounds of questions, a server's own included, that one call may take.
pub const MAX_ROUNDS: u8 = 8;

/// The `requestedSchema` of the question's form (MCP elicitation: a flat object of primitive members). Agreeing is to
/// accept; the member is there for clients that show no form without one, and `false` in it declines.
pub fn requested_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "confirm": {
                "type": "boolean",
                "title": "Run it",
                "description": "Whether the tool may run with these arguments",
                "default": true
            }
        }
    })
}

/// The params of the `elicitation/create` request. `mode` is left to its default, `form`, which all revisions know.
pub fn elicitation(message: &str) -> Value {
    json!({ "message": message, "requestedSchema": requested_schema() })
}

/// Whether a client's declared capabilities allow the question: `elicitation` with `form`, or with nothing in it, which
/// means the same.
pub fn can_ask(capabilities: &Value) -> bool {
    match capabilities.get("elicitation") {
        Some(Value::Object(modes)) => modes.is_empty() || modes.get("form").is_some_and(Value::is_object),
        _ => false,
    }
}

/// What a person answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Yes.
    Accepted,
    /// No.
    Declined,
    /// Nothing.
    Cancelled,
}

/// Why an answer is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// It is no object.
    NoObject,
    /// Its `action` is none of accept, decline and cancel.
    UnknownAction,
    /// Its `content` does not fit the requested schema.
    BadContent,
}

impl Answer {
    /// Reads an `ElicitResult`. Nothing but a plain yes is one.
    ///
    /// # Errors
    /// See [`NoAnswer`]: such an answer is refused, not guessed at.
    pub fn read(result: &Value) -> Result<Answer, NoAnswer> {
        let result = result.as_object().ok_or(NoAnswer::NoObject)?;
        match result.get("action").and_then(Value::as_str) {
            Some("accept") => {}
            Some("decline") => return Ok(Answer::Declined),
            Some("cancel") => return Ok(Answer::Cancelled),
            _ => return Err(NoAnswer::UnknownAction),
        }
        let content = match result.get("content") {
            None => return Ok(Answer::Accepted),
            Some(content) => content.as_object().ok_or(NoAnswer::BadContent)?,
        };
        match (content.get("confirm"), content.len()) {
            (None, 0) | (Some(Value::Bool(true)), 1) => Ok(Answer::Accepted),
            (Some(Value::Bool(false)), 1) => Ok(Answer::Declined),
            _ => Err(NoAnswer::BadContent),
        }
    }
}

/// What a `requestState` of the gateway says. It is sealed before it is given out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The principal's key, or a digest of it.
    pub principal: String,
    /// The task.
    pub task: String,
    /// The run.
    pub run: String,
    /// The server.
    pub server: String,
    /// The server's own name of the tool, its prompt or URI.
    pub tool: String,
    /// A digest of the arguments.
    pub arguments: String,
    /// The Unix second from which it is void.
    pub expires: i64,
    /// Spent once.
    pub nonce: String,
    /// The replica that remembers spent nonces, where replicas don't share them.
    pub replica: Option<String>,
    /// The JSON-RPC method.
    pub method: String,
    /// What the state waits for.
    pub stage: Stage,
    /// What a server has asked, for answers to be held against.
    pub asked: Vec<rounds::Waiting>,
    /// Rounds so far, this one included.
    pub round: u8,
    /// The server's own `requestState`, as it was; none when it gave none.
    pub inner: Option<String>,
}

/// What a state waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// A person's agreement.
    Asked,
    /// A server's next round of a call that was agreed to.
    Agreed,
    /// A server's next round of a call that nobody had to agree to.
    Open,
}

/// The call that an answer comes with.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The principal's key, or a digest of it.
    pub principal: &'a str,
    /// The task.
    pub task: &'a str,
    /// The run.
    pub run: &'a str,
    /// The server.
    pub server: &'a str,
    /// The server's own name of the tool, its prompt or URI.
    pub tool: &'a str,
    /// The JSON-RPC method.
    pub method: &'a str,
    /// A digest of the arguments.
    pub arguments: &'a str,
}

/// Why a state does not go with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// It can't be read.
    Unreadable,
    /// It is another principal's.
    Principal,
    /// It is for another task or run.
    Work,
    /// It is for another tool.
    Tool,
    /// The arguments have changed.
    Arguments,
    /// It is too old.
    Expired,
    /// Another replica remembers whether it was used.
    Replica,
    /// There were too many rounds.
    Rounds,
}

impl Mismatch {
    /// What a caller is told. Whose a state is, is not told.
    pub fn public(self) -> &'static str {
        match self {
            Mismatch::Unreadable | Mismatch::Principal | Mismatch::Work | Mismatch::Tool => {
                "the requestState does not belong to this call"
            }
            Mismatch::Arguments => "the arguments have changed since the question was asked",
            Mismatch::Expired => "the question is too old; call again",
            Mismatch::Replica => "the question was asked elsewhere; call again",
            Mismatch::Rounds => "the call has taken too many rounds",
        }
    }
}

impl State {
    /// The text that is sealed.
    pub fn encode(&self) -> String {
        // A struct of texts and numbers has always a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a text that was unsealed.
    ///
    /// # Errors
    /// [`Mismatch::Unreadable`] for anything but exactly what [`State::encode`] gives.
    pub fn decode(text: &str) -> Result<State, Mismatch> {
        if text.len() > MAX_STATE {
            return Err(Mismatch::Unreadable);
        }
        serde_json::from_str(text).map_err(|_| Mismatch::Unreadable)
    }

    /// Whether the state goes with a call, at this Unix second and on this replica. Its nonce is still to be spent, and
    /// the call to be decided on afresh: an answer is no permission.
    ///
    /// # Errors
    /// See [`Mismatch`].
    pub fn goes_with(&self, call: &Call<'_>, now: i64, replica: Option<&str>) -> Result<(), Mismatch> {
        let checks = [
            (self.principal == call.principal, Mismatch::Principal),
            (self.task == call.task && self.run == call.run, Mismatch::Work),
            (
                self.server == call.server && self.tool == call.tool && self.method == call.method,
                Mismatch::Tool,
            ),
            (self.arguments == call.arguments, Mismatch::Arguments),
            (now < self.expires, Mismatch::Expired),
            (self.replica.as_deref().is_none_or(|at| Some(at) == replica), Mismatch::Replica),
            (self.round <= MAX_ROUNDS, Mismatch::Rounds),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err(why))
    }
}

#[cfg(test)]
mod tests;
