//! Stage 10: what happened is recorded exactly once, for answers, refusals and departed clients alike: journal,
//! metrics and one log line. The ledger is made at the beginning and, if nobody closes it, closes itself as
//! cancelled when it is dropped. Closing never waits; what is waited for is the intent before a call, and where the
//! journal is strict its outcome before the answer.

pub mod dress;
mod observe;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use mcp::era::Era;
use mcp::json::Raw;
use metrics::Metrics;
use policies::By;
use policies::budget::Standing;
use policies::flaw::Path;
use policies::money::NanoUsd;
use policies::price::{Measured, Price, Reported};
use tokio::time::Instant;
use uuid::Uuid;

use crate::config::Meter;
use crate::partials::Partials;
use crate::ports::clock::Clock;
use crate::ports::journal::{
    About, End, Ending, Ids, Intent, Journal, Kept, Note, Receipt, Slot, Unavailable,
};
use crate::ports::traces::Traces;
use crate::profiles::Party;
use crate::reject::{Reject, Why};
use crate::stages::authorize::Permitted;
use crate::stages::limit;
use crate::stages::limit::spending::{self, Fate, Spending};

/// When the journal may take records again: it tries by itself.
const RETRY: Duration = Duration::from_secs(1);

/// Where records go.
pub struct Book {
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The journal.
    pub journal: Arc<dyn Journal>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// What cancelled calls had given so far.
    pub partials: Arc<Partials>,
    /// Where spans go, if anywhere.
    pub traces: Option<Arc<dyn Traces>>,
}

/// The record of one message in the making.
pub struct Ledger {
    book: Arc<Book>,
    /// The gateway's id of the call, UUIDv7.
    pub call_id: Arc<str>,
    started: Instant,
    /// The JSON-RPC method, if the specification knows it; else `other`.
    pub method: &'static str,
    /// The sender's era.
    pub era: Option<Era>,
    /// The server called, once known.
    pub server: String,
    /// Tool, prompt or URI as the client named it.
    pub name: String,
    /// The server's own name of it, once it is known which one is meant.
    pub own: Option<String>,
    /// The run, once known.
    pub run: Option<Arc<str>>,
    /// The caller's `traceparent`.
    pub traceparent: Option<String>,
    /// What the answer says of the cost; nothing while it is not known whose message it is.
    pub meter: Option<Meter>,
    /// What the call has given so far, for when it is cancelled.
    pub partial: Option<Raw>,
    /// Names the newest record of the message.
    pub receipt: Option<Receipt>,
    party: Option<Party>,
    sent: Option<Instant>,
    spending: Option<Spending>,
    price: Option<Price>,
    fate: Fate,
    slot: Option<Box<dyn Slot>>,
    ids: Ids,
    seen: observe::Seen,
    standing: Standing,
    shown: NanoUsd,
    ended: Option<Ending>,
    noted: bool,
    asked: bool,
    reason: Option<&'static str>,
    detail: Option<String>,
}

impl Ledger {
    /// Opens the record of a message; its sender may not be known yet. Boxed, because it goes from stage to stage.
    pub fn open(book: &Arc<Book>, party: Option<&Party>) -> Box<Ledger> {
        let mut call_id = Uuid::encode_buffer();
        let call_id: &str = Uuid::now_v7().as_hyphenated().encode_lower(&mut call_id);
        Box::new(Ledger {
            book: Arc::clone(book),
            call_id: call_id.into(),
            started: Instant::now(),
            method: "",
            era: None,
            server: String::new(),
            name: String::new(),
            own: None,
            run: None,
            traceparent: None,
            meter: None,
            partial: None,
            receipt: None,
            party: party.cloned(),
            sent: None,
            spending: None,
            price: None,
            fate: Fate::Unsent,
            slot: None,
            ids: Ids::default(),
            seen: observe::Seen::default(),
            standing: Standing::default(),
            shown: NanoUsd::ZERO,
            ended: None,
            noted: false,
            asked: false,
            reason: None,
            detail: None,
        })
    }

    /// When the message came.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Holds what the call has of limits: it is settled when the record is closed.
    pub fn hold(&mut self, spending: Spending) {
        self.spending = Some(spending);
    }

    /// The call did not reach the server after all.
    pub fn unsent(&mut self) {
        self.fate = Fate::Unsent;
    }

    /// The server's answer: what it is charged by.
    pub fn answered(&mut self, price: Option<&Price>, result: Option<&Raw>) {
        self.seen.answered();
        let ms = self.sent.map_or(0, |sent| u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX));
        let bytes = result.map_or(0, |result| u64::try_from(result.len()).unwrap_or(u64::MAX));
        let reported = price.map_or(Reported::NotAsked, |price| spending::reported(price, result));
        self.fate = Fate::Answered(Measured { ms, bytes, reported });
    }

    /// What names the call in traces, once its intent is written.
    pub fn ids(&self) -> &Ids {
        &self.ids
    }

    fn settle(&mut self) {
        let settled = self.spending.as_mut().map(|spending| spending.settle(&self.fate)).unwrap_or_default();
        let (cost, standing) = settled;
        self.standing = standing;
        if let Some(flag) = cost.and_then(|cost| cost.flag) {
            self.book.metrics.bad_price(&self.server);
            tracing::warn!(call_id = &*self.call_id, server = &*self.server, ?flag, "no usable price");
        }
    }

    /// Writes the intent: from here on the call counts as sent.
    ///
    /// # Errors
    /// The journal takes no record: then the call must not be sent.
    pub async fn intent(&mut self, permitted: &Permitted) -> Result<(), Reject> {
        // Who leaves meanwhile is recorded by the journal.
        self.noted |= self.party.is_some();
        let target = permitted.target();
        let args = target.arguments();
        let rule = rule(permitted.by());
        let intent = |about| Intent {
            about,
            args: args.map_or(&[], |args| args.bytes().as_ref()),
            tool_digest: permitted.found().and_then(|found| Some(found.entry()?.digest)),
            rule: &rule,
            held: self.spending.as_ref().and_then(Spending::held),
        };
        if let Some(about) = self.about(&target.own) {
            let written = self.book.journal.intent(&intent(about)).await.map_err(unavailable)?;
            (self.slot, self.ids, self.receipt) = (Some(written.slot), written.ids, written.receipt);
        }
        self.seen.permitted(permitted);
        self.price = limit::price_of(permitted).cloned();
        self.sent = Some(Instant::now());
        self.fate = Fate::Unknown;
        Ok(())
    }

    /// Whose message it is; none when that is not known.
    fn about<'a>(&'a self, name: &'a str) -> Option<About<'a>> {
        let party = self.party.as_ref()?;
        Some(About {
            call_id: &self.call_id,
            who: &party.who,
            task: party.task(),
            run: self.run.as_deref(),
            method: self.method,
            server: &self.server,
            name,
            traceparent: self.traceparent.as_deref(),
        })
    }

    /// Records what is no call: a question to a person, a list.
    ///
    /// # Errors
    /// The journal takes no record.
    pub async fn note(&mut self, note: Note<'_>) -> Result<(), Reject> {
        self.noted = true;
        self.asked |= matches!(note, Note::Question);
        if let Some(about) = self.about(self.own.as_deref().unwrap_or(&self.name)) {
            self.receipt = self.book.journal.note(&about, note).await.map_err(unavailable)?;
        }
        Ok(())
    }

    /// Records a refusal and closes. A refusal that can't be recorded is still one.
    pub async fn refuse(&mut self, reject: &Reject) {
        self.blame(reject);
        let label = reject.why.row().label;
        // Without its caller, and when the journal is what refuses, it is only counted.
        if self.slot.is_none() && self.party.is_some() && reject.why != Why::Journal {
            if let Err(why) = self.note(Note::Denied(label)).await {
                tracing::error!(call_id = &*self.call_id, detail = why.detail, "a refusal is not recorded");
            }
        } else if self.slot.is_none() {
            self.book.journal.count_denied(label);
        }
        self.close(Ending::Refused);
    }

    /// Says why the message was refused or failed.
    pub fn blame(&mut self, reject: &Reject) {
        self.reason = Some(reject.why.row().label);
        self.detail.clone_from(&reject.detail);
        self.seen.blame(reject);
    }

    /// Closes the record.
    pub fn close(&mut self, ending: Ending) {
        drop(self.finish(ending, None));
    }

    /// Closes the record of a call that was sent and of which no answer is passed on: the server failed, or the gateway
    /// keeps back what it gave.
    pub fn fail(&mut self, reject: &Reject) -> Kept {
        self.blame(reject);
        let ending = if reject.why.is_upstream() { Ending::Failed } else { Ending::Refused };
        self.finish(ending, None)
    }

    /// Closes the record of a call with its result as the client gets it, before anything of the gateway's own is put
    /// in. What is to be awaited is awaited before the answer leaves.
    pub fn finish(&mut self, ending: Ending, result: Option<Raw>) -> Kept {
        if self.ended.replace(ending).is_some() {
            return Kept::Now(None);
        }
        let (cost_nanousd, shown) = self.cost().unzip();
        self.shown = shown.unwrap_or_default();
        let charged_bytes = self.spending.as_ref().and_then(|spending| spending.charged_bytes(&self.fate));
        self.settle();
        let partial = self.partial.take().filter(|_| ending == Ending::Cancelled);
        if let (Some(partial), Some(about)) = (&partial, self.about(&self.name)) {
            self.book.partials.keep(&about, partial.clone());
        }
        let ms = self.sent.map_or(0, |sent| u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX));
        self.observe(ending, result.as_ref().map_or(0, Raw::len), cost_nanousd);
        let end = End { ending, reason: self.reason, result, partial, cost_nanousd, charged_bytes, ms };
        let kept = match self.slot.take() {
            Some(slot) => slot.finish(end),
            None => {
                // Left before anything was sent or refused.
                if ending == Ending::Cancelled && !self.noted && !self.method.is_empty() {
                    self.book.journal.count_denied("cancelled");
                }
                Kept::Now(None)
            }
        };
        if let Kept::Now(Some(receipt)) = &kept {
            self.receipt = Some(receipt.clone());
        }
        self.log(ending);
        kept
    }

    /// What the call costs in nano-dollars, whether or not a budget is charged, and what the meter shows; none when it
    /// has no price.
    fn cost(&self) -> Option<(u64, NanoUsd)> {
        let price = self.price.as_ref()?;
        let (charge, shown) = match &self.fate {
            Fate::Unsent => return None,
            Fate::Unknown => (price.unknown().charge, price.unknown().charge),
            Fate::Answered(measured) => {
                let cost = price.cost(measured);
                (cost.charge, cost.meter)
            }
        };
        Some((charge.nanos(), shown))
    }

    fn log(&self, ending: Ending) {
        let total = self.started.elapsed();
        let upstream = self.sent.map_or(Duration::ZERO, |sent| sent.elapsed());
        tracing::info!(
            target: "tollgate::request",
            call_id = &*self.call_id,
            span = &*self.ids.span,
            method = self.method,
            era = self.era.map_or("", Era::as_str),
            server = &*self.server,
            name = &*printable(&self.name),
            task = self.party.as_ref().map_or("", Party::task),
            outcome = ending.label(),
            reason = self.reason.unwrap_or_default(),
            detail = &*printable(self.detail.as_deref().unwrap_or_default()),
            total_us = u64::try_from(total.as_micros()).unwrap_or(u64::MAX),
            upstream_us = u64::try_from(upstream.as_micros()).unwrap_or(u64::MAX),
            "request"
        );
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.close(Ending::Cancelled);
    }
}

fn unavailable(Unavailable(why): Unavailable) -> Reject {
    let text = "calls can't be recorded at present, so none are let through";
    Reject::new(Why::Journal, text).detail(why).after(RETRY)
}

/// The part of the task that decided, as a path below it; `open` when there are no tasks.
fn rule(by: By) -> Cow<'static, str> {
    match by.path().as_slice() {
        [] => "open".into(),
        path => Path(path).to_string().into(),
    }
}

/// A call whose outcome can't be recorded: what it gave is withheld.
pub fn withheld(Unavailable(why): Unavailable) -> Reject {
    let text = "the call was made, and its outcome can't be recorded: its answer is withheld";
    Reject::new(Why::Withheld, text).detail(why)
}

/// Text of a stranger in a log line: control characters and line separators escaped, cut at 256 characters.
fn printable(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 256;
    if text.len() <= LONGEST && text.bytes().all(|byte| matches!(byte, 0x20..=0x7e)) {
        return Cow::Borrowed(text);
    }
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
    };
    let mut shown = String::with_capacity(text.len().min(LONGEST * 4));
    for c in text.chars().take(LONGEST) {
        match steers(c) {
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}
