//! The four lists, merged over all servers of the endpoint and paged with sealed cursors. The decision that
//! filters an entry is the one that a call of it would meet.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use mcp::entry::EntryKind;
use mcp::json::{ArrayWriter, Limits, ObjectWriter, Raw};

use super::{Asking, complete};
use crate::catalog::member::Member;
use crate::catalog::{Ask, Position};
use crate::reject::{Reject, Why};
use crate::seal::Use;
use crate::stages::authorize;
use crate::stages::route::CARD_URI;

/// Answers one page of a list.
pub(super) async fn list(asking: &Asking<'_>, kind: EntryKind) -> Result<Raw, Reject> {
    let only = asking.only()?;
    let endpoint = only.map_or("", |member| member.spec.id.as_str());
    let from = match asking.params().and_then(|p| p.get("cursor")).filter(|c| !c.is_null()) {
        None => None,
        Some(cursor) => Some(open(asking, kind, endpoint, &cursor).ok_or_else(bad_cursor)?),
    };
    let era = asking.era();
    let visible = |member: &Member, entry: &crate::catalog::manifest::Listed| {
        authorize::visible(&asking.bound.identified.party, kind, member, entry)
    };
    let profile = &asking.bound.identified.party.profile;
    let ask = Ask {
        kind,
        client: &asking.bound.client,
        era,
        only,
        from: from.as_ref(),
        size: asking.snap.config.lists.page_size,
        reached: &|member| profile.reaches(&member.spec.id),
        visible: &visible,
    };
    let page = asking.snap.catalog.list(&ask).await;
    let page = page.map_err(|(fault, server)| Reject::fault(&fault, &server))?;
    let mut entries = ArrayWriter::new();
    if kind == EntryKind::Resource && only.is_none() && from.is_none() {
        entries.push(&card_entry());
    }
    for entry in &page.entries {
        entries.push(entry);
    }
    let mut result = ObjectWriter::new();
    complete(&mut result, era, Some(millis(page.ttl)));
    result.raw(kind.result_member(), &entries.finish());
    if let Some(next) = &page.next {
        let cursor = seal(asking, kind, endpoint, next);
        result.string("nextCursor", &cursor.ok_or_else(|| Reject::new(Why::Internal, "the gateway failed"))?);
    }
    Ok(result.finish())
}

fn millis(ttl: Duration) -> u64 {
    u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
}

fn bad_cursor() -> Reject {
    Reject::new(Why::Unknown, "Invalid cursor: begin the list anew without one")
}

/// A cursor is bound to its caller, list and endpoint.
fn seal(asking: &Asking<'_>, kind: EntryKind, endpoint: &str, next: &Position) -> Option<String> {
    let mut plain = ObjectWriter::new();
    plain.string("k", kind.result_member()).string("e", endpoint);
    plain.string("p", &URL_SAFE_NO_PAD.encode(asking.bound.identified.party.who.owner));
    plain.string("s", &next.server);
    plain.integer("a", i64::try_from(next.at).ok()?);
    asking.snap.sealer.seal(Use::Cursor, plain.finish().bytes())
}

fn open(asking: &Asking<'_>, kind: EntryKind, endpoint: &str, cursor: &Raw) -> Option<Position> {
    let plain = asking.snap.sealer.open(Use::Cursor, &cursor.string()?)?;
    let plain = Raw::parse(Bytes::from(plain), &Limits::REQUEST).ok()?;
    let text = |key: &str| plain.get(key).and_then(|raw| raw.string());
    let ours = text("k")? == kind.result_member()
        && text("e")? == endpoint
        && text("p")? == URL_SAFE_NO_PAD.encode(asking.bound.identified.party.who.owner);
    let at = usize::try_from(plain.get("a")?.integer()?).ok()?;
    ours.then_some(Position { server: text("s")?, at })
}

fn card_entry() -> Raw {
    let mut entry = ObjectWriter::new();
    entry.string("uri", CARD_URI).string("name", "capability");
    entry.string("description", "What this gateway offers: eras, transports, limits, servers' catalogue.");
    entry.string("mimeType", "application/json");
    entry.finish()
}
