//! The journal on disk behind its port: makes records of what the stages tell, with digests in the place of bodies.
//! Nothing that a credential holds and no body gets into a record.

mod open;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use audit::costs::{Principal, RunKey};
use audit::entry::{Entry, Int, Kind, Text};
use audit::hash::Digest;
use audit::span::{Body, Call, DigestKey, Run};
use audit::writer::{self, OutcomeSlot};
use auth::CertificateName;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

pub use open::{Place, fork, open};

use crate::adapters::archive::Archiver;
use crate::ports::journal::{
    About, Archive, End, Intent, Journal, Note, Settling, Slot, Unavailable, Written,
};
use crate::who::Who;

/// Runs whose next index is remembered; that of others is taken from the journal's totals.
const RUNS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// Refusals of one second that get records of their own; more are counted, so that no flood fills the disk.
const DENIED: u32 = 200;

/// The journal of this process.
pub struct OnDisk {
    journal: Arc<writer::Journal>,
    digest: Arc<DigestKey>,
    strict: bool,
    policy: Digest,
    next: Mutex<LruCache<RunKey, u64>>,
    denied: Mutex<(Instant, u32)>,
    archive: Option<Archiver>,
}

impl OnDisk {
    /// The place of a call among those of its run. Given before the intent is written: a call that can't be recorded
    /// leaves a gap.
    fn index(&self, key: RunKey) -> u64 {
        let mut next = self.next.lock();
        if let Some(known) = next.get_mut(&key) {
            *known += 1;
            return *known - 1;
        }
        let index = self.journal.totals(|totals| totals.runs.get(&key).map_or(0, |run| run.next_index));
        next.put(key, index + 1);
        index
    }

    fn entry(&self, kind: Kind, about: &About<'_>) -> Entry {
        let Principal { iss, sub, client, tenant } = principal(about.who);
        let some = |text: Text| (!text.is_empty()).then_some(text);
        let own = |text: &str| some(Text::Owned(text.to_owned()));
        Entry {
            call: own(about.call_id),
            iss: some(iss),
            sub: some(sub),
            client: some(client),
            tenant: some(tenant),
            task: own(about.task),
            run: about.run.and_then(own),
            method: own(about.method),
            server: own(about.server),
            tool: own(about.name),
            ..Entry::new(kind)
        }
    }

    fn first(&self, intent: &Intent<'_>) -> Entry {
        let about = &intent.about;
        let canonical = about.who.principal.canonical();
        let run = Run { principal: &canonical, task: about.task, run: about.run.unwrap_or_default() };
        let mut entry = self.entry(Kind::Intent, about);
        let index = entry.run.clone().map(|run| {
            let principal = Principal::of(&entry);
            self.index(RunKey { principal, task: entry.task.clone().unwrap_or_default(), run })
        });
        let call = Call { method: about.method, server: about.server, name: about.name, args: intent.args };
        let trace = about.traceparent.and_then(trace_of);
        entry.trace = Some(trace.map_or_else(|| self.digest.trace_id(run), str::to_owned).into());
        entry.span = Some(self.digest.span_id(run, call, index.unwrap_or_default()).into());
        entry.index = index.map(Int);
        let tenant = entry.tenant.clone().unwrap_or_default();
        entry.args_mac = Some(self.digest.body(&tenant, Body::Args, intent.args));
        entry.args_bytes = Some(length(intent.args));
        entry.tool_digest = intent.tool_digest.map(Digest);
        entry.policy_digest = Some(self.policy);
        entry.decision = Some(Text::Borrowed("allowed"));
        entry.rule = Some(Text::Owned(intent.rule.to_owned()));
        entry.traceparent = about.traceparent.map(|text| Text::Owned(text.to_owned()));
        entry
    }

    /// Whether another refusal of this second gets a record.
    fn room(&self) -> bool {
        let mut denied = self.denied.lock();
        if denied.0.elapsed() >= Duration::from_secs(1) {
            *denied = (Instant::now(), 0);
        }
        denied.1 = denied.1.saturating_add(1);
        denied.1 <= DENIED
    }
}

fn length(bytes: &[u8]) -> Int {
    Int(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
}

/// The trace id of a `traceparent` (W3C Trace Context, version 00 and later ones that begin like it).
fn trace_of(traceparent: &str) -> Option<&str> {
    let mut parts = traceparent.split('-');
    let (version, trace, span, _flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let some = |text: &str| text.bytes().any(|b| b != b'0');
    let valid =
        hex(version, 2) && version != "ff" && hex(trace, 32) && some(trace) && hex(span, 16) && some(span);
    valid.then_some(trace)
}

/// The members of a record that name a caller. Issuers are URLs, so that no subject of one can be taken for another's.
fn principal(who: &Who) -> Principal {
    let text = |text: &str| Text::Owned(text.to_owned());
    match &who.principal {
        auth::Principal::Anonymous => Principal { sub: Text::Borrowed("anonymous"), ..Principal::default() },
        auth::Principal::Token { name } => {
            Principal { iss: Text::Borrowed("token"), sub: text(name), ..Principal::default() }
        }
        auth::Principal::Certificate { name } => {
            let (CertificateName::Uri(name) | CertificateName::Dns(name) | CertificateName::Email(name)) =
                name;
            Principal { iss: Text::Borrowed("certificate"), sub: text(name), ..Principal::default() }
        }
        auth::Principal::Oauth(oauth) => Principal {
            iss: text(&oauth.issuer),
            sub: text(&oauth.subject),
            client: oauth.client_id.as_deref().map(text).unwrap_or_default(),
            tenant: oauth.tenant.as_deref().map(text).unwrap_or_default(),
        },
    }
}

struct Open {
    slot: OutcomeSlot,
    /// Whose call it is, as the intent said.
    entry: Entry,
    digest: Arc<DigestKey>,
    strict: bool,
}

impl Slot for Open {
    fn finish(self: Box<Self>, end: End) -> Option<Settling> {
        let Open { slot, mut entry, digest, strict } = *self;
        entry.outcome = Some(Text::Borrowed(end.ending.label()));
        entry.reason = end.reason.map(Text::Borrowed);
        entry.cost_nanousd = end.cost_nanousd.map(Int);
        entry.ms = Some(Int(end.ms));
        if let Some(result) = &end.result {
            let tenant = entry.tenant.clone().unwrap_or_default();
            entry.result_mac = Some(digest.body(&tenant, Body::Result, result.bytes()));
            entry.result_bytes = Some(length(result.bytes()));
        }
        let ticket = slot.finish(entry);
        if strict {
            let durable = async move { ticket.await.map(drop).map_err(|why| Unavailable(why.to_string())) };
            return Some(Box::pin(durable));
        }
        // Another caller may be writing it at this moment; an answer that left before would survive what its record
        // does not.
        (!ticket.attempted()).then(|| -> Settling {
            Box::pin(async move {
                ticket.attempt().await;
                Ok(())
            })
        })
    }
}

#[async_trait]
impl Journal for OnDisk {
    async fn intent(&self, intent: &Intent<'_>) -> Result<Written, Unavailable> {
        let entry = self.first(intent);
        let span = Arc::from(entry.span.as_deref().unwrap_or_default());
        // An outcome repeats whose it is, and not what was asked.
        let rest = Entry {
            args_mac: None,
            args_bytes: None,
            tool_digest: None,
            policy_digest: None,
            decision: None,
            rule: None,
            traceparent: None,
            ..entry.clone()
        };
        let (_, slot) = self.journal.intent(entry).await.map_err(|why| Unavailable(why.to_string()))?;
        let open = Open { slot, entry: rest, digest: Arc::clone(&self.digest), strict: self.strict };
        Ok(Written { span, slot: Box::new(open) })
    }

    async fn note(&self, about: &About<'_>, note: Note<'_>) -> Result<(), Unavailable> {
        let entry = match note {
            Note::Denied(reason) if !self.room() => {
                self.journal.count_denied(reason);
                return Ok(());
            }
            Note::Denied(reason) => Entry {
                decision: Some(Text::Borrowed("refused")),
                reason: Some(Text::Borrowed(reason)),
                policy_digest: Some(self.policy),
                ..self.entry(Kind::Denied, about)
            },
            Note::Question => Entry {
                decision: Some(Text::Borrowed("needs_confirm")),
                policy_digest: Some(self.policy),
                ..self.entry(Kind::Question, about)
            },
            Note::List(list) => {
                Entry { digest: Some(Digest::sha256(&[list])), ..self.entry(Kind::List, about) }
            }
        };
        self.journal.record(entry).await.map(drop).map_err(|why| Unavailable(why.to_string()))
    }

    fn count_denied(&self, reason: &'static str) {
        self.journal.count_denied(reason);
    }

    fn archive(&self) -> Option<Archive> {
        self.archive.as_ref().map(Archiver::state)
    }

    fn close(&self) {
        self.journal.close();
        if let Some(archive) = &self.archive {
            archive.stop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::trace_of;

    #[test]
    fn only_a_valid_traceparent_names_a_trace() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        assert_eq!(trace_of(&format!("00-{trace}-00f067aa0ba902b7-01")), Some(trace));
        assert_eq!(trace_of(&format!("01-{trace}-00f067aa0ba902b7-01-more")), Some(trace));
        for wrong in [
            String::new(),
            format!("ff-{trace}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{}-00f067aa0ba902b7-01", trace.to_uppercase()),
            format!("00-{trace}-00f067aa0ba902b7"),
        ] {
            assert_eq!(trace_of(&wrong), None, "{wrong}");
        }
    }
}
