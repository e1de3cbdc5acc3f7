//! The policy half of screening: invisible characters stripped, secrets taken out, results held to their caps, in this
//! order, so that nothing hides a secret and no half of one is left by a cut. A task that asks for none of it has no
//! filter. What can't be looked at is not passed on.

use std::sync::Arc;

use bytes::Bytes;
use mcp::json::{Limits, ObjectWriter, Raw};
use mcp::message::RpcError;
use metrics::Metrics;
use policies::caps::Capped;
use policies::controls;
use policies::redact::{Counts, Joint, Redactor};

use crate::lanes::off_worker;
use crate::profiles::Profile;
use crate::reject::{Reject, Why};

/// Results above this are looked at with the worker's other tasks moved away.
const OFFLOAD: usize = 256 * 1024;

/// What one task takes out of what one server says during one call.
pub struct Filter {
    profile: Arc<Profile>,
    metrics: Arc<Metrics>,
    joint: Joint,
    held: Option<Held>,
    /// A secret began in a text that has left: nothing more of the texts is shown.
    leaked: bool,
    taken: u64,
}

/// A notification that waits for the next one, since a secret may have begun in it.
struct Held {
    method: &'static str,
    params: Raw,
    member: &'static str,
    /// The text as it was given.
    given: String,
}

/// A notification that may leave.
pub type Note = (&'static str, Raw);

impl Filter {
    /// None when the task takes nothing out.
    pub fn new(profile: &Arc<Profile>, metrics: &Arc<Metrics>) -> Option<Filter> {
        if profile.redactor.is_none() && profile.strip.is_none() && profile.caps.is_none() {
            return None;
        }
        let (profile, metrics) = (Arc::clone(profile), Arc::clone(metrics));
        Some(Filter { profile, metrics, joint: Joint::default(), held: None, leaked: false, taken: 0 })
    }

    /// How much was taken out so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// A result as the client may see it. `promised`: the tool has an output schema.
    ///
    /// # Errors
    /// It is larger than the task allows, or can't be looked at.
    pub fn result(&mut self, result: &Raw, promised: bool) -> Result<Raw, Reject> {
        let caps = self.profile.caps;
        if let Some(caps) = caps.filter(|caps| caps.hopeless(result.len())) {
            // Told in the caps' own words.
            caps.apply(result.as_str(), promised).map_err(|why| too_large(&why))?;
        }
        aside(result.len(), || {
            let clean = self.clean(result).ok_or_else(unreadable)?;
            let Some(caps) = caps else { return Ok(clean) };
            match caps.apply(clean.as_str(), promised).map_err(|why| too_large(&why))? {
                Capped::Within(_) => Ok(clean.clone()),
                Capped::Cut(text, _) => parse(text).ok_or_else(unreadable),
            }
        })
    }

    /// A server's error without what the client must not see.
    pub fn error(&mut self, error: RpcError) -> RpcError {
        let message = self.text(&error.message);
        // What can't be looked at is left out.
        let data = error.data.and_then(|data| self.clean(&data));
        RpcError { code: error.code, message, data }
    }

    /// A notification with a text in `member`. What may leave now is given back: with redaction that is the one before,
    /// since a secret may go on in the next.
    pub fn note(&mut self, method: &'static str, params: &Raw, member: &'static str) -> Option<Note> {
        let Some(redactor) = self.profile.redactor.clone() else {
            return self.clean(params).map(|params| (method, params));
        };
        let given = params.get(member).and_then(|text| text.string()).unwrap_or_default();
        let given = self.stripped(&given);
        let chunk = self.joint.push(&redactor, &given);
        self.count(&redactor, &chunk.counts);
        let mut clean = self.clean(params)?;
        if chunk.text != given {
            clean = clean.with(member, &Raw::from_str_value(&chunk.text));
        }
        let mut before = self.held.take();
        if chunk.behind > 0 {
            self.leaked |= before.as_ref().is_none_or(|held| held.given.len() < chunk.behind);
            before = before.map(|held| held.without_end(&redactor, chunk.behind));
        }
        if self.leaked {
            clean = clean.with(member, &Raw::from_str_value("[redacted]"));
        }
        self.held = Some(Held { method, params: clean, member, given });
        before.map(Held::release)
    }

    /// The notification that still waits; after it nothing comes.
    pub fn last(&mut self) -> Option<Note> {
        self.held.take().map(Held::release)
    }

    fn stripped(&self, text: &str) -> String {
        match &self.profile.strip {
            Some(strip) => controls::text(text, strip).text.into_owned(),
            None => text.to_owned(),
        }
    }

    fn text(&mut self, text: &str) -> String {
        let visible = self.stripped(text);
        let Some(redactor) = self.profile.redactor.clone() else { return visible };
        let redacted = redactor.text(&visible);
        self.count(&redactor, &redacted.counts);
        redacted.text.into_owned()
    }

    /// The value without invisible characters and secrets; itself, when there are none.
    fn clean(&mut self, value: &Raw) -> Option<Raw> {
        let mut value = value.clone();
        if let Some(strip) = &self.profile.strip {
            let stripped = match controls::json(value.as_str(), strip).ok()? {
                controls::Visible { stripped, .. } if stripped.total() == 0 => None,
                visible => Some(visible.text.into_owned()),
            };
            value = stripped.map_or(Some(value), parse)?;
        }
        let Some(redactor) = self.profile.redactor.clone() else { return Some(value) };
        let redacted = redactor.json(value.as_str()).ok()?;
        if redacted.counts.is_empty() {
            return Some(value);
        }
        self.count(&redactor, &redacted.counts);
        parse(redacted.text.into_owned())
    }

    fn count(&mut self, redactor: &Redactor, counts: &Counts) {
        self.taken = self.taken.saturating_add(counted(&self.metrics, redactor, counts));
    }
}

impl Held {
    fn release(self) -> Note {
        (self.method, self.params)
    }

    /// The same without so many bytes at the end of its text, which belong to a secret.
    fn without_end(self, redactor: &Redactor, bytes: usize) -> Held {
        let kept = self.given.floor_char_boundary(self.given.len().saturating_sub(bytes));
        let text = redactor.text(self.given.get(..kept).unwrap_or_default()).text.into_owned();
        let params = self.params.with(self.member, &Raw::from_str_value(&text));
        Held { params, ..self }
    }
}

/// Counts redactions by rule, and gives their number.
pub fn counted(metrics: &Metrics, redactor: &Redactor, counts: &Counts) -> u64 {
    for (rule, times) in counts.iter() {
        let name = redactor.names().get(usize::from(rule)).map_or("other", String::as_str);
        metrics.redacted(name, times.into());
    }
    counts.total()
}

/// `value` without secrets: None when it has none.
///
/// # Errors
/// It can't be looked at.
pub fn redacted(redactor: &Redactor, metrics: &Metrics, value: &Raw) -> Result<Option<Raw>, Reject> {
    let redacted = aside(value.len(), || redactor.json(value.as_str())).map_err(|_| unreadable())?;
    if redacted.counts.is_empty() {
        return Ok(None);
    }
    counted(metrics, redactor, &redacted.counts);
    parse(redacted.text.into_owned()).map(Some).ok_or_else(unreadable)
}

fn aside<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    off_worker(bytes > OFFLOAD, work)
}

fn parse(text: String) -> Option<Raw> {
    Raw::parse(Bytes::from(text), &Limits::ANSWER).ok()
}

fn too_large(why: &policies::caps::TooLarge) -> Reject {
    Reject::new(Why::ResultSize, why.to_string()).detail(why.reason())
}

fn unreadable() -> Reject {
    Reject::new(Why::Unscreened, "The content could not be searched for secrets, so it is not passed on.")
}

/// A result whose parts that the gateway must not touch were put aside.
pub fn without_state(
    result: &Raw,
    state: Option<&Raw>,
    work: impl FnOnce(&Raw) -> Result<Raw, Reject>,
) -> Result<Raw, Reject> {
    let Some(state) = state else { return work(result) };
    let rest = work(&result.without("requestState"))?;
    let mut whole = ObjectWriter::with_capacity(rest.len() + state.len() + 32);
    for (key, value) in rest.members() {
        whole.raw_key(&key, &value);
    }
    whole.raw("requestState", state);
    Ok(whole.finish())
}

#[cfg(test)]
mod tests;
