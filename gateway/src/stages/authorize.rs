//! Stage 6: may this caller do this. Default deny; the same function filters every list. Only this file can make
//! a [`Permitted`], and `forward` takes nothing else.

use mcp::entry::EntryKind;
use mcp::json::{Key, ObjectWriter, Raw};
use policies::{Entry, Hints, Kind, Subject};

use crate::catalog::manifest::Listed;
use crate::catalog::member::{Found, Member, Name};
use crate::profiles::Party;
use crate::reject::{Reject, Why};
use crate::stages::route::{Target, unknown};
use crate::stages::session::Bound;

/// A call that the task allows, with the manifest entry that it is held to.
pub struct Permitted {
    target: Target,
    found: Option<Found>,
}

impl Permitted {
    /// The call.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The entry that the call is held to; resources have none, since servers need not list them.
    pub fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// Holds the call to the entry as it was read anew, where there is one.
    pub fn hold_to(&mut self, found: Option<Found>) {
        if found.is_some() {
            self.found = found;
        }
    }
}

/// Whether the caller is shown an entry: the list's side of the one decision.
pub fn visible(party: &Party, kind: EntryKind, member: &Member, entry: &Listed) -> bool {
    let about = Entry {
        server: &member.spec.id,
        kind: kind_of(kind),
        exposed: &entry.exposed,
        own: &entry.own,
        hints: Hints::default(),
    };
    allowed(party, &about)
}

fn kind_of(kind: EntryKind) -> Kind {
    match kind {
        EntryKind::Tool => Kind::Tool,
        EntryKind::Prompt => Kind::Prompt,
        EntryKind::Resource | EntryKind::Template => Kind::Resource,
    }
}

fn allowed(party: &Party, entry: &Entry<'_>) -> bool {
    let subject = Subject { caller: &party.who.caller, run: "", now: 0 };
    party.profile.task.decide(&subject, entry, None).shown()
}

/// Decides on a call and finds the entry that it is held to.
///
/// # Errors
/// What is hidden and what does not exist are refused with the same words; a server whose list can't be had is
/// that server's failure.
pub async fn authorize(bound: &Bound, mut target: Target) -> Result<Permitted, Reject> {
    let (party, client) = (&bound.identified.party, &bound.client);
    let member = &target.member;
    let exposed = if target.merged { target.name.clone() } else { member.exposed(target.kind, &target.own) };
    let about = Entry {
        server: &member.spec.id,
        kind: kind_of(target.kind),
        exposed: &exposed,
        own: &target.own,
        hints: Hints::default(),
    };
    if !allowed(party, &about) {
        return Err(unknown(target.era, target.kind, &target.name));
    }
    if !matches!(target.kind, EntryKind::Tool | EntryKind::Prompt) {
        return Ok(Permitted { target, found: None });
    }
    let name = if target.merged { Name::Exposed(&target.name) } else { Name::Own(&target.own) };
    let found = member.find(target.kind, client, name).await;
    let found = found.map_err(|fault| Reject::fault(&fault, &member.spec.id))?;
    let Some(found) = found else {
        return Err(missing(&target));
    };
    // A shortened name stands for the one in the list.
    if let Some(entry) = found.entry()
        && entry.own != target.own
    {
        target.own.clone_from(&entry.own);
        rename(&mut target.params, &entry.own);
    }
    Ok(Permitted { target, found: Some(found) })
}

fn rename(params: &mut [(Key, Raw)], own: &str) {
    for (_, value) in params.iter_mut().filter(|(key, _)| &**key == "name") {
        *value = Raw::from_str_value(own);
    }
}

/// The task allows the name and the server does not have it.
fn missing(target: &Target) -> Reject {
    let reject = unknown(target.era, target.kind, &target.name);
    if target.kind != EntryKind::Tool {
        return reject;
    }
    let mut data = ObjectWriter::new();
    data.string("reason", "capability_missing");
    if let Some(digest) = target.member.digest(target.kind) {
        data.string("manifest_digest", &digest);
    }
    Reject { why: Why::Missing, ..reject.data(data.finish()) }
}
