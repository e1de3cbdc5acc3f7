//! Stage 10: what happened is recorded exactly once, for answers, refusals and departed clients alike: journal,
//! metrics and one log line. The ledger is made at the beginning and, if nobody closes it, closes itself as
//! cancelled when it is dropped. Nothing here waits and nothing here can fail the call.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use mcp::era::Era;
use mcp::json::Raw;
use metrics::Metrics;
use policies::price::{Measured, Price, Reported};
use tokio::time::Instant;
use uuid::Uuid;

use crate::ports::journal::{Ending, Intent, Journal, Unavailable};
use crate::profiles::Party;
use crate::reject::{Reject, Why};
use crate::spending::{self, Fate, Spending};

/// Where records go.
#[derive(Clone)]
pub struct Book {
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The journal.
    pub journal: Arc<dyn Journal>,
}

/// The record of one message in the making.
pub struct Ledger {
    book: Book,
    /// The gateway's id of the call, UUIDv7.
    pub call_id: Arc<str>,
    started: Instant,
    /// The JSON-RPC method, if the specification knows it; else `other`.
    pub method: String,
    /// The sender's era.
    pub era: Option<Era>,
    /// The server called, once known.
    pub server: String,
    /// Tool, prompt or URI as the client named it.
    pub name: String,
    party: Option<Party>,
    sent: Option<Instant>,
    spending: Option<Spending>,
    fate: Fate,
    journalled: bool,
    reason: Option<&'static str>,
    detail: Option<String>,
    closed: bool,
}

impl Ledger {
    /// Opens the record of a message; its sender may not be known yet.
    pub fn open(book: &Book, party: Option<&Party>) -> Ledger {
        Ledger {
            book: book.clone(),
            call_id: Uuid::now_v7().to_string().into(),
            started: Instant::now(),
            method: String::new(),
            era: None,
            server: String::new(),
            name: String::new(),
            party: party.cloned(),
            sent: None,
            spending: None,
            fate: Fate::Unsent,
            journalled: false,
            reason: None,
            detail: None,
            closed: false,
        }
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
        let ms = self.sent.map_or(0, |sent| u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX));
        let bytes = result.map_or(0, |result| u64::try_from(result.len()).unwrap_or(u64::MAX));
        let reported = price.map_or(Reported::NotAsked, |price| spending::reported(price, result));
        self.fate = Fate::Answered(Measured { ms, bytes, reported });
    }

    fn settle(&mut self) {
        let cost = self.spending.as_mut().and_then(|spending| spending.settle(&self.fate));
        if let Some(flag) = cost.and_then(|cost| cost.flag) {
            self.book.metrics.bad_price(&self.server);
            tracing::warn!(call_id = &*self.call_id, server = &*self.server, ?flag, "no usable price");
        }
    }

    /// Writes the intent: from here on the call counts as sent.
    ///
    /// # Errors
    /// The journal takes no record: then the call must not be sent.
    pub async fn intent(&mut self, own_name: &str) -> Result<(), Reject> {
        let intent = Intent {
            call_id: &self.call_id,
            task: self.party.as_ref().map_or("", Party::task),
            server: &self.server,
            method: &self.method,
            name: own_name,
        };
        self.book.journal.intent(&intent).await.map_err(|Unavailable(why)| {
            Reject::new(Why::Journal, "calls can't be recorded at present, so none are let through")
                .detail(why)
        })?;
        self.journalled = true;
        self.sent = Some(Instant::now());
        self.fate = Fate::Unknown;
        Ok(())
    }

    /// Says why the message was refused or failed.
    pub fn blame(&mut self, reject: &Reject) {
        self.reason = Some(reject.why.row().label);
        self.detail.clone_from(&reject.detail);
        self.book.metrics.reject(reject.why.row().label);
    }

    /// Closes the record.
    pub fn close(&mut self, ending: Ending) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        self.settle();
        if self.journalled {
            self.book.journal.outcome(&self.call_id, ending);
        }
        let total = self.started.elapsed();
        self.book.metrics.request(&self.method, &self.server, ending.label(), total.as_secs_f64());
        let upstream = self.sent.map_or(Duration::ZERO, |sent| sent.elapsed());
        tracing::info!(
            target: "tollgate::request",
            call_id = &*self.call_id,
            method = &*self.method,
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
