//! All servers' lists as one. Servers are asked side by side; one that fails or is slow costs its own entries
//! only. It decides nothing about who may see what: the caller passes that in.

pub mod manifest;
pub mod member;
mod owners;
mod reader;
mod slot;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mcp::entry::EntryKind;
use mcp::era::Era;
use mcp::json::Raw;
use tokio::sync::broadcast;
use tokio::time::Instant;

use self::manifest::{Listed, Manifest};
use self::member::Member;
pub use self::owners::Owners;
use crate::ports::upstream::{Client, Fault};

/// A merged list waits this long for servers whose list was never read; theirs come with the next one, which
/// `list_changed` announces. Hosts give up on a slow start after little more.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A list that clients see has changed.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Whose.
    pub server: String,
    /// Which.
    pub kind: EntryKind,
}

/// All servers.
pub struct Catalog {
    members: Vec<Arc<Member>>,
    by_id: HashMap<String, usize>,
    owners: Owners,
    changed: broadcast::Sender<Changed>,
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The server.
    pub server: String,
    /// The entry within its list.
    pub at: usize,
}

/// One question for a list.
pub struct Ask<'a> {
    /// What is listed.
    pub kind: EntryKind,
    /// What the client declared.
    pub client: &'a Client,
    /// The client's era.
    pub era: Era,
    /// The one server of the endpoint; None for all.
    pub only: Option<&'a Arc<Member>>,
    /// Where to begin.
    pub from: Option<&'a Position>,
    /// The most entries.
    pub size: usize,
    /// Whether the caller may know of a server: others are not asked, and whether they fail does not show.
    pub reached: &'a (dyn Fn(&Member) -> bool + Sync),
    /// Whether the caller may see an entry.
    pub visible: &'a (dyn Fn(&Member, &Listed) -> bool + Sync),
}

/// One page of a merged list.
#[derive(Debug, Default)]
pub struct Page {
    /// The entries.
    pub entries: Vec<Raw>,
    /// Where the next page begins.
    pub next: Option<Position>,
    /// For how long it is fresh.
    pub ttl: Duration,
}

impl Catalog {
    /// The servers in the configuration's order.
    pub fn new(members: Vec<Arc<Member>>, owners: Owners, changed: broadcast::Sender<Changed>) -> Catalog {
        let by_id = members.iter().enumerate().map(|(at, m)| (m.spec.id.clone(), at)).collect();
        Catalog { members, by_id, owners, changed }
    }

    /// All servers.
    pub fn members(&self) -> &[Arc<Member>] {
        &self.members
    }

    /// The server of this id.
    pub fn member(&self, id: &str) -> Option<&Arc<Member>> {
        self.by_id.get(id).and_then(|at| self.members.get(*at))
    }

    /// The server that listed this `https:` resource.
    pub fn owner(&self, uri: &str) -> Option<&Arc<Member>> {
        self.owners.of(uri).and_then(|order| self.members.get(order))
    }

    /// Changes that clients can see.
    pub fn changes(&self) -> broadcast::Receiver<Changed> {
        self.changed.subscribe()
    }

    /// One page of a list.
    ///
    /// # Errors
    /// The failure of the endpoint's one server, or of a server that everybody needs, with its id.
    pub async fn list(&self, ask: &Ask<'_>) -> Result<Page, (Fault, String)> {
        let members = match ask.only {
            Some(member) => std::slice::from_ref(member),
            None => self.members.as_slice(),
        };
        let members = members.iter().filter(|member| (ask.reached)(member));
        let lists = members.map(|member| async move {
            let required = member.spec.required || ask.only.is_some();
            let patience = if required { member.patience() } else { PATIENCE };
            (member, required, member.manifest(ask.kind, ask.client, patience).await)
        });
        let mut page = Page { ttl: Duration::MAX, ..Page::default() };
        let mut began = ask.from.is_none();
        let now = Instant::now();
        let (mut complete, mut any) = (true, false);
        for (member, required, list) in join_all(lists).await {
            any = true;
            let manifest = match list {
                Ok(manifest) => manifest,
                Err(fault) if required => return Err((fault, member.spec.id.clone())),
                Err(_) => {
                    complete = false;
                    // A page that was to begin here begins with the next server.
                    began |= ask.from.is_some_and(|from| from.server == member.spec.id);
                    continue;
                }
            };
            page.ttl = page.ttl.min(manifest.left(now));
            let start = match ask.from {
                Some(from) if !began && from.server == member.spec.id => {
                    began = true;
                    from.at
                }
                _ => 0,
            };
            if began && page.next.is_none() {
                fill(&mut page, ask, member, &manifest, start);
            }
        }
        // A list that lacks a server is not worth keeping.
        page.ttl = if complete && any { page.ttl } else { Duration::ZERO };
        Ok(page)
    }
}

fn fill(page: &mut Page, ask: &Ask<'_>, member: &Arc<Member>, manifest: &Manifest, start: usize) {
    for (at, entry) in manifest.entries.iter().enumerate().skip(start) {
        if !(ask.visible)(member, entry) {
            continue;
        }
        // A next page is one with something on it: an empty one would tell of what is hidden.
        if page.entries.len() >= ask.size {
            page.next = Some(Position { server: member.spec.id.clone(), at });
            return;
        }
        page.entries.push(entry.for_client(ask.kind, ask.era, ask.only.is_some()));
    }
}
