//! The journal on disk behind its port: makes records of what the stages tell, with digests in the place of bodies.
//! Nothing that a credential holds and no body gets into a record.

mod accounts;
mod figures;
mod flood;
mod open;
mod spans;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use async_trait::async_trait;
use audit::costs::{Principal, RunKey};
use audit::entry::{Entry, Int, Kind, Text};
use audit::hash::Digest;
use audit::span::Body;
use audit::writer::{self, OutcomeSlot, Ticket};
use auth::CertificateName;
use futures_util::FutureExt as _;
use mcp::method::TOOLS_CALL;
use parking_lot::Mutex;

pub use open::{Place, fork, open};

use crate::adapters::archive::Archiver;
use crate::ports::accounts::Accounts;
use crate::ports::journal::{
    About, Archive, End, Figures, Head, Ids, Intent, Journal, Kept, Note, Receipt, Slot, SyncTimer,
    Unavailable, Written,
};
use crate::who::Who;
use flood::Flood;
use spans::Spans;

/// The reason under which answered lists are counted that get no record of their own.
const LISTED: &str = "list_answered";

/// The journal of this process.
pub struct OnDisk {
    journal: Arc<writer::Journal>,
    spans: Spans,
    strict: bool,
    policy: Digest,
    denied: Mutex<Flood>,
    lists: Mutex<Flood>,
    archive: Option<Archiver>,
    syncs: Arc<figures::Syncs>,
}

impl OnDisk {
    /// A record about a message; `run` names whose it is.
    fn entry(&self, kind: Kind, about: &About<'_>, RunKey { run, task, principal }: RunKey) -> Entry {
        let Principal { iss, sub, client, tenant } = principal;
        let some = |text: Text| (!text.is_empty()).then_some(text);
        Entry {
            call: some(about.call_id.into()),
            iss: some(iss),
            sub: some(sub),
            client: some(client),
            tenant: some(tenant),
            task: some(task),
            run: some(run),
            method: some(method(about.method)),
            server: some(about.server.into()),
            tool: some(about.name.into()),
            ..Entry::new(kind)
        }
    }

    fn first(&self, intent: &Intent<'_>, ids: &Ids, run: &spans::Run) -> Entry {
        let about = &intent.about;
        let mut entry = self.entry(Kind::Intent, about, run.key.clone());
        entry.trace = Some((&ids.trace).into());
        entry.span = Some((&ids.span).into());
        entry.index = ids.index.map(Int);
        entry.args_mac = Some(run.bodies.body(Body::Args, intent.args));
        entry.args_bytes = Some(length(intent.args));
        entry.tool_digest = intent.tool_digest.map(Digest);
        entry.policy_digest = Some(self.policy);
        entry.decision = Some(Text::Borrowed("allowed"));
        entry.rule = Some(intent.rule.into());
        entry.traceparent = traceparent(about);
        if let Some(held) = &intent.held {
            entry.reserved_nanousd = Some(Int(held.nanousd));
            if let Some((day, bytes)) = held.counted {
                (entry.day, entry.reserved_bytes) = (Some(day.into()), Some(Int(bytes)));
            }
        }
        entry
    }
}

/// The usual method is a constant.
fn method(name: &str) -> Text {
    if name == TOOLS_CALL { Text::Borrowed(TOOLS_CALL) } else { name.into() }
}

fn traceparent(about: &About<'_>) -> Option<Text> {
    about.traceparent.map(Text::from)
}

fn length(bytes: &[u8]) -> Int {
    Int(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
}

/// The members of a record that name a caller. Issuers are URLs, so that no subject of one can be taken for another's.
fn principal(who: &Who) -> Principal {
    let text = |text: &str| Text::from(text);
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

fn receipt(of: writer::Receipt) -> Receipt {
    Receipt { log: of.log, seq: of.seq, leaf: of.leaf.0 }
}

fn unavailable(why: audit::error::Unavailable) -> Unavailable {
    Unavailable(why.to_string())
}

struct Open {
    slot: OutcomeSlot,
    run: Arc<spans::Run>,
    strict: bool,
}

impl Slot for Open {
    fn finish(self: Box<Self>, end: End) -> Kept {
        let Open { slot, run, strict } = *self;
        let ticket = slot.end(|entry| {
            entry.outcome = Some(Text::Borrowed(end.ending.label()));
            entry.reason = end.reason.map(Text::Borrowed);
            entry.cost_nanousd = end.cost_nanousd.map(Int);
            entry.charged_bytes = end.charged_bytes.map(Int);
            entry.ms = Some(Int(end.ms));
            let given = end.result.as_ref().map(|result| (Body::Result, result));
            if let Some((kind, body)) = given.or(end.partial.as_ref().map(|part| (Body::Partial, part))) {
                entry.result_mac = Some(run.bodies.body(kind, body.bytes()));
                entry.result_bytes = Some(length(body.bytes()));
            }
        });
        if strict {
            return Kept::Later(Box::pin(on_disk(ticket)));
        }
        // Written by whoever submits it, as a rule: then it is known at once. Another caller may be writing it at this
        // moment; an answer that left before would survive what its record does not.
        if !ticket.attempted() {
            return Kept::Later(Box::pin(async move { Ok(ticket.attempt().await.map(receipt)) }));
        }
        Kept::Now(ticket.now_or_never().and_then(Result::ok).map(receipt))
    }
}

/// Waits for the sync, but not for a disk that is full: the record is kept until there is space, and whoever waited for
/// that would wait for somebody to come and make some.
async fn on_disk(mut ticket: Ticket) -> Result<Option<Receipt>, Unavailable> {
    let kept = poll_fn(|cx| match Pin::new(&mut ticket).poll(cx) {
        Poll::Pending if ticket.attempted() => {
            let why = "the record could not be written and is kept until it can be";
            Poll::Ready(Err(audit::error::Unavailable::Write(why.into())))
        }
        polled => polled,
    });
    kept.await.map(|kept| Some(receipt(kept))).map_err(unavailable)
}

#[async_trait]
impl Journal for OnDisk {
    async fn intent(&self, intent: &Intent<'_>) -> Result<Written, Unavailable> {
        let known = |run: &_| self.journal.totals(|totals| totals.next_index(run));
        let (ids, run) = self.spans.ids(intent, known);
        let entry = Box::new(self.first(intent, &ids, &run));
        let (written, slot) = self.journal.intent(entry).await.map_err(unavailable)?;
        let open = Open { slot, run, strict: self.strict };
        Ok(Written { ids, receipt: Some(receipt(written)), slot: Box::new(open) })
    }

    async fn note(&self, about: &About<'_>, note: Note<'_>) -> Result<Option<Receipt>, Unavailable> {
        let run = || spans::run_key(about);
        let entry = match note {
            Note::Denied(reason) if !self.denied.lock().room(&about.who.key) => {
                self.journal.count_denied(reason);
                return Ok(None);
            }
            Note::List(_) if !self.lists.lock().room(&about.who.key) => {
                self.journal.count_denied(LISTED);
                return Ok(None);
            }
            Note::Denied(reason) => Entry {
                decision: Some(Text::Borrowed("refused")),
                reason: Some(Text::Borrowed(reason)),
                policy_digest: Some(self.policy),
                ..self.entry(Kind::Denied, about, run())
            },
            Note::Question => Entry {
                decision: Some(Text::Borrowed("needs_confirm")),
                policy_digest: Some(self.policy),
                ..self.entry(Kind::Question, about, run())
            },
            Note::List(list) => {
                Entry { digest: Some(Digest::sha256(&[list])), ..self.entry(Kind::List, about, run()) }
            }
        };
        let entry = Entry { traceparent: traceparent(about), ..entry };
        self.journal.record(entry).await.map(|written| Some(receipt(written))).map_err(unavailable)
    }

    fn head(&self) -> Option<Head> {
        let writer::HeadOfLog { log, size, leaf } = self.journal.head();
        Some(Head { log, size, leaf: leaf.0 })
    }

    fn count_denied(&self, reason: &'static str) {
        self.journal.count_denied(reason);
    }

    fn accounts(&self) -> Option<&dyn Accounts> {
        Some(self)
    }

    fn archive(&self) -> Option<Archive> {
        self.archive.as_ref().map(Archiver::state)
    }

    fn figures(&self) -> Option<Figures> {
        Some(figures::of(&self.journal.stats()))
    }

    fn time_syncs(&self, with: SyncTimer) {
        self.syncs.tell(with);
    }

    fn close(&self) {
        self.journal.close();
        if let Some(why) = self.journal.stats().fault {
            tracing::error!(
                why,
                "the journal was closed while it could not be written: what it still held is lost"
            );
        }
        if let Some(archive) = &self.archive {
            archive.stop();
        }
    }
}
