//! Asking: the question in words, with its secrets masked, and the two ways in which it goes to a client. On the modern
//! era the call is answered with it and comes again; on the legacy era it is a request on the call's own stream.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use mcp::json::{Limits, ObjectWriter, Raw};
use mcp::message::{self, Id};
use policies::confirm::{self, Asked, KEY};
use policies::redact::{Redactor, Spec};
use policies::task::Fallback;
use serde_json::{Value, json};

use super::{Carry, Confirmed, Desk, Next, agreed, unasked};
use crate::questions::Open;
use crate::reject::{Reject, Why};
use crate::stages::authorize::Permitted;
use crate::stages::session::Bound;

const ELICIT: &str = "elicitation/create";

/// A legacy call that waits for a person.
pub struct Pending {
    /// The call.
    pub permitted: Permitted,
    /// The question's parameters.
    params: Raw,
    /// How long the answer is waited for.
    pub within: Duration,
}

/// Asks by answering with the question.
pub(super) fn modern(desk: &Desk<'_>, bound: &Bound, permitted: Permitted) -> Result<Next, Reject> {
    if !declared(bound) {
        let text = "this call must be confirmed by a person, for which the client must declare elicitation";
        let mut data = ObjectWriter::new();
        data.raw("requiredCapabilities", &raw(&json!({ "elicitation": { "form": {} } })));
        return unasked(bound, permitted, Reject::new(Why::Capability, text).data(data.finish()));
    }
    let at = (desk.now, desk.nonces.replica());
    let state = Carry::of(bound, &permitted).question(permitted.target(), desk.sealer, at);
    let state = state.ok_or_else(|| Reject::new(Why::Internal, "the gateway failed"))?;
    let params = confirm::elicitation(&words(bound, &permitted));
    let mut result = ObjectWriter::new();
    result.string("resultType", "input_required");
    result.raw("inputRequests", &raw(&json!({ KEY: { "method": ELICIT, "params": params } })));
    result.string("requestState", &state);
    Ok(Next::Again(result.finish()))
}

fn declared(bound: &Bound) -> bool {
    bound.identified.decoded.meta.client_capabilities.as_ref().is_some_and(can_ask)
}

/// Whether a modern client's calls go ahead unasked, since it can't ask.
pub(super) fn excused(bound: &Bound) -> bool {
    bound.identified.party.profile.task.confirm_fallback() == Fallback::Allow && !declared(bound)
}

/// Asks on the call's own stream.
pub(super) fn legacy(desk: &Desk<'_>, bound: &Bound, permitted: Permitted) -> Result<Next, Reject> {
    let declared = bound.session.as_ref().filter(|session| session.named);
    if !desk.streams || !declared.is_some_and(|session| can_ask(&session.client.capabilities)) {
        let text = "This call must be confirmed by a person, and this client has not declared that it can ask one \
                    (elicitation). It was not made.";
        return unasked(bound, permitted, Reject::new(Why::Unasked, text));
    }
    let params = raw(&confirm::elicitation(&words(bound, &permitted)));
    let within = bound.identified.party.profile.confirm_within;
    Ok(Next::Wait(Box::new(Pending { permitted, params, within })))
}

impl Pending {
    /// The request to the client.
    pub fn request(&self, id: &Id) -> Bytes {
        message::request(id, ELICIT, Some(&self.params))
    }

    /// Waits for the answer. The call is not made without a yes.
    ///
    /// # Errors
    /// No, nothing in time, or no answer at all.
    pub async fn answer(self, open: Open) -> Result<Confirmed, Reject> {
        let answer = tokio::time::timeout(self.within, open.wait()).await.map_err(|_| {
            Reject::new(Why::Confirm, "Nobody answered the question in time. The call was not made.")
        })?;
        let failed = || Reject::new(Why::Declined, "The client could not ask. The call was not made.");
        let answer = super::read(&answer.ok_or_else(failed)?).map_err(|reject| Reject {
            public: "The client's answer is none. The call was not made.".into(),
            why: Why::Declined,
            ..reject
        })?;
        agreed(answer)?;
        Ok(Confirmed { permitted: self.permitted, carry: None, ahead: None })
    }
}

fn can_ask(capabilities: &Raw) -> bool {
    serde_json::from_str(capabilities.as_str()).is_ok_and(|value: Value| confirm::can_ask(&value))
}

fn raw(value: &Value) -> Raw {
    Raw::parse(Bytes::from(value.to_string()), &Limits::ANSWER).unwrap_or_else(|_| Raw::empty_object())
}

fn words(bound: &Bound, permitted: &Permitted) -> String {
    static DEFAULT: LazyLock<Option<Redactor>> = LazyLock::new(|| Redactor::compile(&Spec::default()).ok());
    let (party, target) = (&bound.identified.party, permitted.target());
    let redactor = party.profile.redactor.as_deref().or(DEFAULT.as_ref());
    let arguments = target.arguments();
    let asked = Asked {
        server: &target.member.spec.id,
        tool: &target.own,
        task: party.task(),
        arguments: arguments.map_or("{}", Raw::as_str),
    };
    confirm::question(&asked, &|key, text| match redactor {
        Some(redactor) => mask(redactor, key, text),
        None => Some("[masked]".to_owned()),
    })
}

/// The text without its secrets, when it has any. A member with a telling name is one as a whole.
fn mask(redactor: &Redactor, key: Option<&str>, text: &str) -> Option<String> {
    let Some(key) = key else {
        let redacted = redactor.text(text);
        return (!redacted.counts.is_empty()).then(|| redacted.text.into_owned());
    };
    let member = json!({ key: text }).to_string();
    let Ok(redacted) = redactor.json(&member) else { return Some("[masked]".to_owned()) };
    if redacted.counts.is_empty() {
        return None;
    }
    let shown: Option<serde_json::Map<String, Value>> = serde_json::from_str(&redacted.text).ok();
    let shown = shown.and_then(|members| Some(members.into_iter().next()?.1.as_str()?.to_owned()));
    Some(shown.unwrap_or_else(|| "[masked]".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x3_secrets_are_masked_by_their_form_and_by_their_name() {
        let redactor = Redactor::compile(&Spec::default()).unwrap();
        let token = format!("ghp_{}a13tNSQc", "a1B2".repeat(7));
        assert!(!mask(&redactor, None, &format!("x {token}")).is_some_and(|shown| shown.contains("a1B2")));
        assert_eq!(mask(&redactor, Some("password"), "hunter2").as_deref(), Some("[redacted:key]"));
        assert_eq!(mask(&redactor, Some("name"), "hunter2"), None);
    }
}
