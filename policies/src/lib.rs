//! What a task allows. Pure decisions over plain values: no I/O, no clock, no catalog.

pub mod arguments;
pub mod caps;
pub mod controls;
pub mod redact;
pub mod schema;
mod splice;

pub use splice::Malformed;

/// What a decision is about: one entry of a server's manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// The server's configured id.
    pub server: &'a str,
    /// Tool, prompt or resource.
    pub kind: Kind,
    /// The name as clients see it, or the resource's URI.
    pub exposed: &'a str,
}

/// The kinds of entries that a task can allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource or a resource template.
    Resource,
}

/// What a task says of a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Not for this task. Lists leave it out, and a call is answered as if it did not exist.
    Hidden,
    /// Go ahead.
    Allowed,
}

/// A named policy profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    name: String,
    allow: Allow,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Allow {
    Everything,
    Nothing,
}

impl Task {
    /// The task of a configuration without a `tasks` section: everything is allowed.
    pub fn open(name: impl Into<String>) -> Task {
        Task { name: name.into(), allow: Allow::Everything }
    }

    /// A task with no allow-list: nothing is allowed.
    pub fn closed(name: impl Into<String>) -> Task {
        Task { name: name.into(), allow: Allow::Nothing }
    }

    /// The task's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The one decision function: lists and calls both ask here, so that a list shows what a call permits.
    pub fn decide(&self, _subject: Subject<'_>) -> Decision {
        match self.allow {
            Allow::Everything => Decision::Allowed,
            Allow::Nothing => Decision::Hidden,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_without_an_allow_list_allows_nothing() {
        let subject = Subject { server: "docs", kind: Kind::Tool, exposed: "docs__search" };
        assert_eq!(Task::closed("t").decide(subject), Decision::Hidden);
        assert_eq!(Task::open("t").decide(subject), Decision::Allowed);
    }
}
