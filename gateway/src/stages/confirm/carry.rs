//! What holds the rounds of one call together: when a server asks for input, its own state is put inside one of ours,
//! which counts for this principal, task, run and call alone, once and for a time. So does a person's agreement. Made of
//! what is there anyway: the usual call has one round and pays for none of it.

use std::sync::Arc;
use std::time::SystemTime;

use mcp::json::{ObjectWriter, Raw};
use policies::confirm::rounds::{self, Waiting};
use policies::confirm::{Call, Mismatch, Stage, State};

use crate::digest::{hex, sha256};
use crate::lanes::off_worker;
use crate::ports::clock::{Clock, unix_seconds};
use crate::profiles::Party;
use crate::reject::Reject;
use crate::seal::{Sealer, Use};
use crate::stages::authorize::Permitted;
use crate::stages::confirm::{RESPONSES, STATE};
use crate::stages::route::Target;
use crate::stages::session::Bound;

/// One round of a call.
#[derive(Clone)]
pub struct Carry {
    party: Party,
    run: Arc<str>,
    /// As the client sent them: what is taken out of them for the server changes nothing here.
    arguments: Option<Raw>,
    stage: Stage,
    round: u8,
    /// The replica that alone remembers what a person has agreed to.
    replica: Option<String>,
}

/// Seals what a server's round leaves behind.
pub struct Rounds {
    /// The round.
    pub carry: Carry,
    /// What seals.
    pub sealer: Sealer,
    /// When it is sealed.
    pub clock: Arc<dyn Clock>,
}

impl Carry {
    /// The first round of a call that nobody has to agree to.
    pub(super) fn of(bound: &Bound, permitted: &Permitted) -> Carry {
        Carry {
            party: bound.identified.party.clone(),
            run: Arc::clone(&bound.run.id),
            arguments: permitted.target().arguments().cloned(),
            stage: Stage::Open,
            round: 0,
            replica: None,
        }
    }

    /// Whether a state is one of this call.
    pub(super) fn owns(
        &self,
        state: &State,
        target: &Target,
        (now, replica): (i64, Option<&str>),
    ) -> Result<(), Mismatch> {
        let arguments = self.digest();
        let call = Call {
            principal: &self.party.who.key,
            task: self.party.task(),
            run: &self.run,
            server: &target.member.spec.id,
            tool: &target.own,
            method: target.method,
            arguments: &arguments,
        };
        state.goes_with(&call, now, replica)
    }

    /// The round after this state was spent.
    pub(super) fn after(self, state: &State) -> Carry {
        let stage = if state.stage == Stage::Open { Stage::Open } else { Stage::Agreed };
        Carry { round: state.round, stage, replica: state.replica.clone(), ..self }
    }

    /// The state of the question for a person's agreement.
    pub(super) fn question(
        self,
        target: &Target,
        sealer: &Sealer,
        (now, replica): (SystemTime, Option<&str>),
    ) -> Option<String> {
        let asking = Carry { stage: Stage::Asked, replica: replica.map(str::to_owned), ..self };
        asking.seal(target, (sealer, now), Vec::new(), None)
    }

    /// A digest of the arguments, byte for byte.
    fn digest(&self) -> String {
        hex(&sha256(self.arguments.as_ref().map_or(b"{}".as_slice(), |raw| raw.bytes())))
    }

    /// A sealed state for the next round. None when it grows too large, or the system gives no random bytes.
    fn seal(
        &self,
        target: &Target,
        (sealer, now): (&Sealer, SystemTime),
        asked: Vec<Waiting>,
        inner: Option<String>,
    ) -> Option<String> {
        let nonce: [u8; 16] = sealer.random()?;
        let within = i64::try_from(self.party.profile.confirm_within.as_secs()).unwrap_or(i64::MAX);
        let state = State {
            principal: self.party.who.key.to_string(),
            task: self.party.task().to_owned(),
            run: self.run.to_string(),
            server: target.member.spec.id.clone(),
            tool: target.own.clone(),
            method: target.method.to_owned(),
            arguments: self.digest(),
            expires: unix_seconds(now).saturating_add(within),
            nonce: hex(&nonce),
            replica: self.replica.clone(),
            stage: self.stage,
            asked,
            round: self.round.saturating_add(1),
            inner,
        };
        let text = state.encode();
        State::decode(&text).ok()?;
        sealer.seal(Use::Confirm, text.as_bytes())
    }
}

impl Rounds {
    /// A server's `input_required` result with a state of ours, also where the server gave none: what it has asked is
    /// remembered in it.
    ///
    /// # Errors
    /// The server asks or remembers too much.
    pub fn sealed(
        &self,
        target: &Target,
        result: &Raw,
        requests: Option<&Raw>,
        state: Option<&Raw>,
    ) -> Result<Raw, Reject> {
        let broken = |what: &str| Reject::broken(&target.member.spec.id, what);
        let requests = requests.map_or("{}", Raw::as_str);
        let requests =
            serde_json::from_str(requests).map_err(|_| broken("its inputRequests can't be read"))?;
        let asked = rounds::asked(&requests).ok_or_else(|| broken("it asks too much at once"))?;
        let inner = state.and_then(Raw::string);
        let sealed = self.carry.seal(target, (&self.sealer, self.clock.now()), asked, inner);
        let sealed = sealed.ok_or_else(|| broken("its requestState is too large"))?;
        Ok(result.with(STATE, &Raw::from_str_value(&sealed)))
    }
}

/// The answers that a state has asked for, and the first that is none with what is wrong.
pub(super) fn answers(asked: &[Waiting], responses: &Raw) -> Result<Option<Raw>, String> {
    if !responses.is_object() {
        return Err(format!("params.{RESPONSES} must be an object"));
    }
    let mut kept = ObjectWriter::with_capacity(responses.len());
    let mut any = false;
    for (key, answer) in responses.members() {
        let value = serde_json::from_str(answer.as_str()).unwrap_or_default();
        // The schema is the server's, and has to be compiled first.
        match off_worker(true, || rounds::worth(asked, &key, &value)) {
            rounds::Worth::Fits => {
                kept.raw_key(&key, &answer);
                any = true;
            }
            rounds::Worth::NeverAsked => {}
            // The key is one that was asked for, so it is the server's own word.
            rounds::Worth::Unfit(what) => {
                return Err(format!("an answer in params.{RESPONSES} is none to its question: {what}"));
            }
        }
    }
    Ok(any.then(|| kept.finish()))
}

/// What a client has said ahead to all that this result asks, when it is so: as the next round would bring it.
pub fn ahead(result: &Raw, responses: &Raw, capabilities: &Raw) -> Option<Raw> {
    let requests = result.get("inputRequests").filter(Raw::is_object)?;
    // What the screen refuses is not answered either.
    let ours = requests.view().any(|one| one.name().starts_with("dev.tollgate/"));
    if ours || !requests.members().all(|(_, request)| declared(capabilities, &request)) {
        return None;
    }
    let asked = rounds::asked(&serde_json::from_str(requests.as_str()).ok()?)?;
    let kept = answers(&asked, responses).ok()??;
    (kept.view().count() == asked.len()).then_some(kept)
}

/// Whether a client has declared that it can be asked this.
pub fn declared(capabilities: &Raw, request: &Raw) -> bool {
    let needed = match request.get("method").and_then(|method| method.string()).as_deref() {
        Some("elicitation/create") => "elicitation",
        Some("sampling/createMessage") => "sampling",
        Some("roots/list") => "roots",
        _ => return false,
    };
    capabilities.get(needed).is_some()
}
