//! What the gateway adds to an answer: the meter, the receipt that names the call's record, the span. Made when the record
//! is closed, so that the record's digest covers what the server gave alone. Nothing here can fail a call.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use audit::clock::rfc3339;
use bytes::Bytes;
use mcp::dress::{self, Meta};
use mcp::json::{ObjectWriter, Raw};
use mcp::message::{self, Id, RpcError};
use mcp::method;
use policies::budget::Notice;
use policies::money::NanoUsd;
use tokio::time::Instant;

use super::Ledger;
use crate::config::{Meter, Placement};
use crate::digest::hex;
use crate::ports::clock::Clock;
use crate::ports::journal::{Ending, Ids, Receipt};
use crate::reject::Why;

/// The meter beside a result's members, and in an error's `data`.
const METER: &str = "_meter";
/// The meter in a result's `_meta`.
const METER_META: &str = "dev.tollgate/meter";
/// Names the record of the call.
const RECEIPT: &str = "dev.tollgate/receipt";
/// The call's span id.
const SPAN: &str = "dev.tollgate/span";
/// Longest name that is repeated, in bytes.
const MAX_NAME: usize = 512;
/// Bytes of text that make about one token of a language model.
const BYTES_PER_TOKEN: u64 = 4;
/// After this no date has four digits for its year, in milliseconds since 1970.
const LAST_DATE: u64 = 253_402_300_799_999;

/// What is put into one answer.
#[derive(Default)]
pub struct Dress {
    placement: Option<Placement>,
    meter: Option<Raw>,
    receipt: Option<Receipt>,
    span: Option<Arc<str>>,
}

/// What the meter tells.
struct Facts<'a> {
    tool: &'a str,
    server: &'a str,
    call_id: &'a str,
    latency: Duration,
    cost: NanoUsd,
    ok: bool,
    at: SystemTime,
    notice: Option<&'a Notice>,
    /// Size of the result and what is left of the budget, where that is asked for.
    detail: Option<(Option<usize>, Option<u64>)>,
}

/// The wall clock shows no date that can be written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the clock shows no date between 1970 and 9999")]
struct NoDate;

impl Facts<'_> {
    fn write(&self) -> Result<Raw, NoDate> {
        let since = self.at.duration_since(SystemTime::UNIX_EPOCH).map_err(|_| NoDate)?;
        let ms = u64::try_from(since.as_millis()).ok().filter(|ms| *ms <= LAST_DATE).ok_or(NoDate)?;
        let cut = self.tool.floor_char_boundary(MAX_NAME);
        let mut out = ObjectWriter::with_capacity(288);
        out.string("tool", self.tool.get(..cut).unwrap_or_default());
        if !self.server.is_empty() {
            out.string("server", self.server);
        }
        out.string("call_id", self.call_id);
        out.decimal("latency_ms", u64::try_from(self.latency.as_micros()).unwrap_or(u64::MAX), 3);
        out.decimal("cost_usd", self.cost.nanos(), 9);
        out.boolean("ok", self.ok);
        out.string("ts", &rfc3339(ms));
        if let Some((bytes, left)) = self.detail {
            if let Some(bytes) = bytes.and_then(|bytes| u64::try_from(bytes).ok()) {
                out.decimal("result_bytes", bytes, 0);
                out.decimal("est_tokens", bytes.div_ceil(BYTES_PER_TOKEN), 0);
            }
            if let Some(left) = left {
                out.decimal("budget_remaining_usd", left, 9);
            }
        }
        if let Some(notice) = self.notice {
            out.object("budget", |out| budget(notice, out));
        }
        Ok(out.finish())
    }

    /// The meter, or nothing and a line in the log.
    fn meter(&self) -> Option<Raw> {
        let written = self.write();
        written.inspect_err(|why| tracing::error!(call_id = self.call_id, %why, "a call is not metered")).ok()
    }
}

fn budget(notice: &Notice, out: &mut ObjectWriter) {
    out.string("name", &notice.name).decimal("spent_ratio", notice.spent, 3);
    match &notice.renews {
        Some(at) => out.string("renews", at),
        None => out.raw("renews", &Raw::null()),
    };
}

impl Ledger {
    /// What goes into the answer, once the record is closed; `bytes` is the length of a result.
    pub fn dress(&self, bytes: Option<usize>) -> Dress {
        let Some(Meter { placement, detail }) = self.meter else { return Dress::default() };
        // What is not shown to the caller reads like what does not exist.
        let hidden = self.reason == Some(Why::Unknown.row().label);
        let facts = || Facts {
            tool: &self.name,
            server: if hidden { "" } else { &self.server },
            call_id: &self.call_id,
            latency: self.started.elapsed(),
            cost: self.shown,
            ok: matches!(self.ended, Some(Ending::Ok | Ending::Asked)),
            at: self.book.clock.now(),
            notice: self.standing.notice.as_ref(),
            detail: detail.then_some((bytes, self.standing.usd_left)),
        };
        let metered = placement != Placement::Off && self.method == method::TOOLS_CALL;
        Dress {
            placement: Some(placement),
            meter: if metered { facts().meter() } else { None },
            receipt: self.receipt.clone(),
            span: self.span(),
        }
    }

    /// The span id of the call, once its intent is written.
    pub fn span(&self) -> Option<Arc<str>> {
        let Ids { span, .. } = &self.ids;
        (!span.is_empty()).then(|| Arc::clone(span))
    }

    /// What can be told of the call without its record.
    pub fn outlook(&self) -> Outlook {
        Outlook {
            meter: self.meter.filter(|_| self.method == method::TOOLS_CALL),
            tool: self.name.as_str().into(),
            server: self.server.as_str().into(),
            call_id: Arc::clone(&self.call_id),
            started: self.started,
            clock: Arc::clone(&self.book.clock),
        }
    }
}

/// A call that waits for a person, whose record is held by who waits for the answer.
pub struct Outlook {
    /// The gateway's id of the call.
    pub call_id: Arc<str>,
    meter: Option<Meter>,
    tool: Box<str>,
    server: Box<str>,
    started: Instant,
    clock: Arc<dyn Clock>,
}

impl Outlook {
    /// What goes into the answer when the call was never sent.
    pub fn unsent(&self) -> Dress {
        let Some(Meter { placement, detail }) = self.meter else { return Dress::default() };
        let facts = Facts {
            tool: &self.tool,
            server: &self.server,
            call_id: &self.call_id,
            latency: self.started.elapsed(),
            cost: NanoUsd::ZERO,
            ok: false,
            at: self.clock.now(),
            notice: None,
            detail: detail.then_some((None, None)),
        };
        let meter = if placement == Placement::Off { None } else { facts.meter() };
        Dress { placement: Some(placement), meter, receipt: None, span: None }
    }
}

impl Dress {
    /// The message with this result, whose bytes are copied once and stay as they are.
    pub fn result(&self, id: &Id, result: &Raw, meta: Meta) -> Bytes {
        let beside = match (&self.meter, self.placement) {
            (Some(meter), Some(Placement::Result)) => Some((METER, meter)),
            _ => None,
        };
        let inside = match self.placement {
            None | Some(Placement::Off) => Raw::empty_object(),
            Some(Placement::Result) => self.inside(None),
            Some(Placement::Meta) => self.inside(self.meter.as_ref()),
        };
        dress::result(id, result, meta, beside, &inside)
    }

    fn inside(&self, meter: Option<&Raw>) -> Raw {
        let mut out = ObjectWriter::with_capacity(256 + meter.map_or(0, Raw::len));
        if let Some(meter) = meter {
            out.raw(METER_META, meter);
        }
        if let Some(Receipt { log, seq, leaf }) = &self.receipt {
            out.object(RECEIPT, |out| {
                out.string("log", log).decimal("seq", *seq, 0).string("leaf", &hex(leaf));
            });
        }
        if let Some(span) = &self.span {
            out.string(SPAN, span);
        }
        out.finish()
    }

    /// The error with the meter in its `data`, unless that is something that holds no members.
    pub fn error(&self, mut error: RpcError) -> RpcError {
        let Some(meter) = &self.meter else { return error };
        let data = error.data.unwrap_or_else(Raw::empty_object);
        error.data = Some(if data.is_object() { data.with(METER, meter) } else { data });
        error
    }

    /// The message with this error.
    pub fn refusal(&self, id: &Id, error: RpcError) -> Bytes {
        message::error(Some(id), &self.error(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(at: SystemTime) -> Facts<'static> {
        Facts {
            tool: "docs__search",
            server: "docs",
            call_id: "c",
            latency: Duration::from_micros(1_482),
            cost: NanoUsd::from_nanos(2_000_000),
            ok: true,
            at,
            notice: None,
            detail: None,
        }
    }

    #[test]
    fn the_meter_is_exact() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1_796_040_731_005);
        let want = r#"{"tool":"docs__search","server":"docs","call_id":"c","latency_ms":1.482,"cost_usd":0.002,"ok":true,"ts":"2026-11-30T12:12:11.005Z"}"#;
        assert_eq!(facts(at).write().unwrap().as_str(), want);
        let notice = Notice { name: "run.usd".into(), spent: 842, renews: None };
        let more = Facts { notice: Some(&notice), detail: Some((Some(9), Some(1_500_000_000))), ..facts(at) };
        let more = more.write().unwrap();
        let rest = r#","result_bytes":9,"est_tokens":3,"budget_remaining_usd":1.5,"budget":{"name":"run.usd","spent_ratio":0.842,"renews":null}}"#;
        assert_eq!(more.as_str(), format!("{}{rest}", want.trim_end_matches('}')));
    }

    #[test]
    fn a_clock_without_a_date_costs_the_meter_and_nothing_else() {
        let early = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        let late = SystemTime::UNIX_EPOCH + Duration::from_millis(LAST_DATE + 1);
        for at in [early, late] {
            assert_eq!(facts(at).write().err(), Some(NoDate));
            assert_eq!(facts(at).meter(), None);
        }
        let dress = Dress { placement: Some(Placement::Result), ..Dress::default() };
        let message = dress.result(&Id::from_number(1), &Raw::empty_object(), Meta::Absent);
        assert_eq!(message, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let long = "\u{e9}".repeat(400);
        let written = Facts { tool: &long, ..facts(SystemTime::UNIX_EPOCH) }.write().unwrap();
        assert_eq!(written.get("tool").and_then(|tool| tool.string()).map(|tool| tool.len()), Some(512));
    }
}
