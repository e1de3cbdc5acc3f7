//! A checked task: the compiled profile, and where its parts stand in the file, for whoever explains a decision.

use std::fmt;
use std::sync::Arc;

use policies::flaw::{Flaw, Step};

use crate::config::place::{At, Places, clip};
use crate::config::problem::Problem;
use crate::profiles::Profile;

/// A policy profile.
#[derive(Clone, Debug)]
pub struct Task {
    /// Follows the rule of server ids.
    pub name: String,
    /// True for the one that exists because the file has no `tasks`: it allows everything.
    pub implicit: bool,
    /// The task as it is worked under.
    pub profile: Arc<Profile>,
    /// Where it stands.
    pub(crate) origin: Arc<Origin>,
}

/// Where the parts of a task stand in the file.
pub(crate) struct Origin {
    pub(crate) file: String,
    pub(crate) at: At,
    pub(crate) places: Arc<Places>,
    /// Where the elements of lists stand that the file has as mappings: `scopes`, `limits.tools`, `limits.budgets`.
    pub(crate) scopes: Vec<At>,
    pub(crate) tools: Vec<At>,
    pub(crate) budgets: Vec<At>,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("at", &self.at.shown()).finish_non_exhaustive()
    }
}

impl Origin {
    /// The place of a part that policies name by a path below the task.
    pub(crate) fn locate(&self, path: &[Step]) -> At {
        let key = |n: usize| match path.get(n) {
            Some(Step::Key(key)) => &**key,
            _ => "",
        };
        let (known, rest) = match (key(0), key(1), path.get(1), path.get(2)) {
            ("scopes", _, Some(Step::Index(n)), _) => (self.scopes.get(*n), 2),
            ("limits", "tools", _, Some(Step::Index(n))) => (self.tools.get(*n), 3),
            ("limits", "budgets", _, Some(Step::Index(n))) => (self.budgets.get(*n), 3),
            _ => (None, 0),
        };
        // What is below those is their own pattern or amount.
        if let Some(at) = known {
            return below(
                at,
                path.get(rest..).unwrap_or_default().iter().filter(|s| matches!(s, Step::Index(_))),
            );
        }
        below(&self.at, path.iter())
    }

    /// What policies found, as a problem of the file.
    pub(crate) fn problem(&self, flaw: &Flaw) -> Problem {
        let at = self.locate(&flaw.at);
        let spot = match flaw.offset {
            Some(offset) => self.places.spot_in(&at, offset),
            None => self.places.spot(&at),
        };
        Problem {
            file: self.file.clone(),
            line: spot.line,
            column: spot.column,
            path: at.shown().to_owned(),
            what: clip(&flaw.what, 500),
            fix: clip(&flaw.fix, 1000),
        }
    }
}

fn below<'a>(at: &At, steps: impl Iterator<Item = &'a Step>) -> At {
    steps.fold(at.clone(), |at, step| match step {
        Step::Key(key) => at.key(key),
        Step::Index(index) => at.index(*index),
    })
}

impl Task {
    /// Where a part of the task stands, as `FILE:LINE`. `path`: below the task, as policies name it.
    pub fn place(&self, path: &[Step]) -> String {
        let line = self.origin.places.spot(&self.origin.locate(path)).line;
        format!("{}:{line}", self.origin.file)
    }

    /// What policies found about the task, with its place in the file.
    pub fn problem(&self, flaw: &Flaw) -> Problem {
        self.origin.problem(flaw)
    }
}
