//! Reads one list of one server to its end: cursors are followed, bounded in pages, entries, bytes and time, and
//! a cursor that comes twice ends the list. What was read until a bound is kept and the cut is said.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use mcp::code;
use mcp::entry::EntryKind;
use mcp::era::Era;
use mcp::json::{Key, Raw};
use tokio::time::{Instant, timeout_at};

use crate::config::Lists;
use crate::ports::upstream::{Call, Client, Event, Fault, FaultKind, Mirrored, SessionKey, Trace, Upstream};

/// Cursors longer than this end the list.
const MAX_CURSOR: usize = 8 * 1024;
/// A server's word on freshness is believed up to a day.
const MAX_TTL: Duration = Duration::from_secs(24 * 3600);
/// All pages of one list together may take this many times one page's time.
const TOTAL_PAGES_TIME: u32 = 4;

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Read {
    /// The entries in order, as sent.
    pub(super) entries: Vec<Raw>,
    /// The shortest freshness that a page named.
    pub(super) ttl: Option<Duration>,
    /// Why it is incomplete, if it is.
    pub(super) cut: Option<&'static str>,
}

/// Reads a list. `page` is the time for one page.
///
/// # Errors
/// The server's failure; nothing of a list that broke off is used.
pub(super) async fn read(
    upstream: &Arc<dyn Upstream>,
    kind: EntryKind,
    client: &Client,
    bounds: &Lists,
    page: Duration,
) -> Result<Read, Fault> {
    let end = Instant::now() + page * TOTAL_PAGES_TIME;
    let mut read = Read::default();
    let mut seen = HashSet::new();
    let mut bytes = 0;
    let mut cursor: Option<Raw> = None;
    for _ in 0..bounds.max_pages {
        let deadline = end.min(Instant::now() + page);
        let late = |_| {
            upstream.overdue(client, &SessionKey::Catalog);
            Fault::late(FaultKind::Timeout, format!("{} took too long", kind.list_method()))
        };
        let call = request(kind, client, cursor.take(), bounds);
        let Some(result) = timeout_at(deadline, one_page(upstream, call)).await.map_err(late)?? else {
            return Ok(read);
        };
        shorten(&mut read.ttl, &result);
        let member = result.get(kind.result_member());
        let Some(list) = member.filter(Raw::is_array) else {
            return Err(Fault::late(FaultKind::Protocol, format!("no array '{}'", kind.result_member())));
        };
        for entry in list.elements() {
            bytes += entry.len();
            if read.entries.len() >= bounds.max_entries || bytes > bounds.max_bytes {
                read.cut = Some("the list is longer than the configured bound");
                return Ok(read);
            }
            read.entries.push(entry);
        }
        match result.get("nextCursor").filter(|next| !next.is_null()) {
            None => return Ok(read),
            Some(next) if !next.is_string() || next.len() > MAX_CURSOR => {
                read.cut = Some("the server's cursor is not usable");
                return Ok(read);
            }
            Some(next) if !seen.insert(next.as_str().to_owned()) => {
                read.cut = Some("the server's cursors go round in a circle");
                return Ok(read);
            }
            Some(next) => cursor = Some(next),
        }
    }
    read.cut = Some("the list has more pages than the configured bound");
    Ok(read)
}

fn request(kind: EntryKind, client: &Client, cursor: Option<Raw>, bounds: &Lists) -> Call {
    Call {
        method: kind.list_method(),
        params: cursor.map(|cursor| vec![(Key::new("cursor"), cursor)]).unwrap_or_default(),
        meta: Vec::new(),
        client: client.clone(),
        log_level: None,
        progress: false,
        mirrored: Mirrored::default(),
        trace: Trace::default(),
        session: SessionKey::Catalog,
        answer_bytes: bounds.max_bytes,
        call_id: "list".into(),
    }
}

/// One page; None when the server does not have such lists at all.
async fn one_page(upstream: &Arc<dyn Upstream>, call: Call) -> Result<Option<Raw>, Fault> {
    let mut events = Arc::clone(upstream).call(Arc::new(call)).await?;
    while let Some(event) = events.next().await {
        let Event::Done(answer) = event? else { continue };
        return match answer.outcome {
            Ok(result) => Ok(Some(result)),
            Err(error) if error.code == code::METHOD_NOT_FOUND => Ok(None),
            Err(error) => {
                let era: Era = answer.era;
                Err(Fault::late(
                    FaultKind::Protocol,
                    format!("{era} error {}: {}", error.code, error.message),
                ))
            }
        };
    }
    Err(Fault::late(FaultKind::Dropped, "the list ended without an answer"))
}

fn shorten(ttl: &mut Option<Duration>, result: &Raw) {
    let Some(named) = result.get("ttlMs").and_then(|ms| ms.integer()) else { return };
    let named = Duration::from_millis(u64::try_from(named).unwrap_or(0)).min(MAX_TTL);
    *ttl = Some(ttl.map_or(named, |ttl| ttl.min(named)));
}
