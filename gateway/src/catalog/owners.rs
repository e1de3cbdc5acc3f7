//! Who listed which `https:` resource or template. These URIs stay as they are, so their server can't be read off
//! them. When several servers list the same one, the first of the configuration has it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mcp::entry::EntryKind;
use parking_lot::RwLock;

use super::manifest::Manifest;

/// The claims of all servers, which are named by their place in the configuration.
#[derive(Clone, Default)]
pub struct Owners(Arc<RwLock<Claims>>);

#[derive(Default)]
struct Claims {
    exact: HashMap<String, BTreeSet<usize>>,
    /// What stands before the first `{` of a template.
    prefixes: HashMap<String, BTreeSet<usize>>,
}

impl Owners {
    /// Takes in what a server lists. Nothing is taken back: another kind of client may still see what this one
    /// does not, and a server that no longer has a resource says so itself.
    pub(super) fn claim(&self, server: usize, kind: EntryKind, manifest: &Manifest) {
        let unchanged = || manifest.entries.iter().filter(|entry| entry.own == entry.exposed);
        if unchanged().next().is_none() {
            return;
        }
        let mut claims = self.0.write();
        for entry in unchanged() {
            let (table, key) = match kind {
                EntryKind::Template => {
                    (&mut claims.prefixes, entry.own.split('{').next().unwrap_or_default())
                }
                _ => (&mut claims.exact, entry.own.as_str()),
            };
            table.entry(key.to_owned()).or_default().insert(server);
        }
    }

    /// The server of a URI, or of a template itself.
    pub(super) fn of(&self, uri: &str) -> Option<usize> {
        let claims = self.0.read();
        if let Some(servers) = claims.exact.get(uri) {
            return servers.first().copied();
        }
        let plain = uri.split('{').next().unwrap_or_default();
        let ends = plain.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
        let mut parts = ends.filter_map(|end| plain.get(..end));
        parts.find_map(|prefix| claims.prefixes.get(prefix)?.first().copied())
    }
}
