//! The names that servers list, held against the patterns of tasks: a pattern that matches none of them is likely
//! misspelt. Lists are read once; nothing is called.

use std::time::Duration;

use mcp::entry::EntryKind;
use policies::flaw::Step;
use policies::review::Known;

use crate::assemble;
use crate::config::{Checked, Problem};
use crate::gate::Gate;

/// What the servers list, as clients of `/mcp` see it.
#[derive(Default)]
pub(super) struct Names {
    tools: Vec<String>,
    prompts: Vec<String>,
    resources: Vec<String>,
    /// Whether a template stands for resources that no list has.
    templates: bool,
    /// The servers that could not be asked for all of their lists, and why.
    pub(super) failed: Vec<(String, String)>,
}

/// Reads what the lists hold after [`assemble::warm_up`].
pub(super) async fn read(gate: &Gate) -> Names {
    let snap = gate.snapshot.load_full();
    let mut names = Names::default();
    for member in snap.catalog.members() {
        for kind in EntryKind::ALL {
            let manifest = member.manifest(kind, &assemble::nobody(), Duration::ZERO).await;
            let manifest = match manifest {
                Ok(manifest) => manifest,
                Err(fault) => {
                    let known = names.failed.iter().any(|(id, _)| *id == member.spec.id);
                    if !known {
                        names.failed.push((member.spec.id.clone(), fault.detail));
                    }
                    continue;
                }
            };
            let shown = manifest.entries.iter().map(|entry| entry.exposed.clone());
            match kind {
                EntryKind::Tool => names.tools.extend(shown),
                EntryKind::Prompt => names.prompts.extend(shown),
                EntryKind::Resource => names.resources.extend(shown),
                EntryKind::Template => names.templates |= !manifest.entries.is_empty(),
            }
        }
    }
    names
}

impl Names {
    /// Patterns of these tasks that match nothing; what was said of them already is left out. When a server failed,
    /// nothing can be said: its names are not known.
    pub(super) fn unmatched(&self, config: &Checked) -> Vec<Problem> {
        if !self.failed.is_empty() {
            return Vec::new();
        }
        let mut found = Vec::new();
        for task in &config.tasks {
            let known = Known {
                tools: texts(&self.tools),
                prompts: texts(&self.prompts),
                resources: texts(&self.resources),
            };
            let flaws = task.profile.task.unmatched(&known).into_iter();
            let told = |flaw: &policies::flaw::Flaw| {
                !(self.templates && flaw.at.first() == Some(&Step::from("allow_resources")))
            };
            found.extend(flaws.filter(told).map(|flaw| task.problem(&flaw)));
        }
        let said = |one: &Problem| config.warnings.iter().any(|w| (w.line, &w.path) == (one.line, &one.path));
        found.retain(|one| !said(one));
        found
    }
}

fn texts(all: &[String]) -> Vec<&str> {
    all.iter().map(String::as_str).collect()
}
