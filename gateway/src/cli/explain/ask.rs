//! What a tool's server says of it: whether it has it, its hints, and whether arguments keep its schema. Reads the list of one server once and ends.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use mcp::entry::EntryKind;
use policies::Hints;

use crate::assemble;
use crate::catalog::manifest::Listed;
use crate::cli::runtime;
use crate::config::{Checked, Server};

/// The longest that the list is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is known of a tool.
pub(super) struct Told {
    /// The server's own name for it.
    pub(super) own: String,
    /// As the server said, not yet believed.
    pub(super) hints: Hints,
    /// Why a call with the arguments would be refused whatever the task says.
    pub(super) unfit: Option<String>,
}

/// Asks the server; nothing when it does not have the tool. `unfit` judges the entry.
///
/// # Errors
/// Why its list can't be had.
pub(super) fn ask(
    config: &Checked,
    server: &Server,
    tool: &str,
    unfit: impl Fn(&Listed) -> Option<String>,
    err: &mut dyn Write,
) -> Result<Option<Told>, String> {
    let runtime = runtime(err).ok_or("no runtime")?;
    runtime.block_on(async {
        let mut only = config.clone();
        only.servers.retain(|one| one.id == server.id);
        let gate = assemble::assemble(only)?;
        let snap = gate.snapshot.load_full();
        let member = snap.catalog.member(&server.id).map(Arc::clone).ok_or("no such server")?;
        let manifest = member.manifest(EntryKind::Tool, &assemble::nobody(), PATIENCE).await;
        let found = manifest.map_err(|fault| format!("server {}: {}", server.id, fault.detail)).map(|list| {
            let entry = list.by_exposed(tool)?;
            Some(Told { own: entry.own.clone(), hints: entry.hints, unfit: unfit(entry) })
        });
        gate.draining.cancel();
        assemble::shut_down(&gate, assemble::LAST_WORDS).await;
        found
    })
}
