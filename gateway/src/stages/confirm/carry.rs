//! What a state says of its call, kept while the call is under way: when the server asks for input itself, its own state
//! is put inside one of ours, so that the agreement holds for the rounds that follow and for nothing else.

use policies::confirm::{Call, State};

use crate::digest::hex;
use crate::seal::{Sealer, Use};
use crate::stages::authorize::Permitted;
use crate::stages::session::Bound;

/// The call that a person agreed to.
#[derive(Clone, Debug)]
pub struct Carry {
    pub(super) principal: String,
    pub(super) task: String,
    pub(super) run: String,
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) arguments: String,
    expires: i64,
    replica: Option<String>,
    round: u8,
}

impl Carry {
    /// The call as it is now.
    pub(super) fn of(bound: &Bound, permitted: &Permitted) -> Carry {
        let (party, target) = (&bound.identified.party, permitted.target());
        Carry {
            principal: party.who.key.to_string(),
            task: party.task().to_owned(),
            run: bound.run.id.to_string(),
            server: target.member.spec.id.clone(),
            tool: target.own.clone(),
            arguments: super::digest(permitted),
            expires: 0,
            replica: None,
            round: 0,
        }
    }

    pub(super) fn call(&self) -> Call<'_> {
        super::call(self)
    }

    /// After this state was spent.
    pub(super) fn after(self, state: &State) -> Carry {
        Carry { round: state.round, ..self }
    }

    /// The next question, good until this Unix second.
    pub(super) fn until(self, expires: i64, replica: Option<&str>) -> Carry {
        Carry { expires, replica: replica.map(str::to_owned), ..self }
    }

    /// A sealed state for the next round. None when it grows too large, or the system gives no random bytes.
    pub fn seal(&self, sealer: &Sealer, confirmed: bool, inner: Option<String>) -> Option<String> {
        let nonce: [u8; 16] = sealer.random()?;
        let state = State {
            principal: self.principal.clone(),
            task: self.task.clone(),
            run: self.run.clone(),
            server: self.server.clone(),
            tool: self.tool.clone(),
            arguments: self.arguments.clone(),
            expires: self.expires,
            nonce: hex(&nonce),
            replica: self.replica.clone(),
            confirmed,
            round: self.round.saturating_add(1),
            inner,
        };
        let text = state.encode();
        State::decode(&text).ok()?;
        sealer.seal(Use::Confirm, text.as_bytes())
    }
}
