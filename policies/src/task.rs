//! A compiled task: who may use it, what it allows, and what it asks for before a call. Deciding is in `decide`.

use crate::caller::{Caller, Principals};
use crate::flaw::Step;
use crate::glob::GlobSet;
use crate::rule::Condition;

/// A named policy profile.
#[derive(Debug)]
pub struct Task {
    pub(crate) name: Box<str>,
    /// Everything is allowed to everybody who gets here: a configuration without tasks.
    pub(crate) open: bool,
    /// The most bytes of arguments over which its conditions are quick.
    pub(crate) quick: usize,
    pub(crate) principals: Principals,
    pub(crate) tools: Patterns,
    pub(crate) prompts: GlobSet,
    pub(crate) resources: GlobSet,
    pub(crate) scopes: Vec<Vec<Box<str>>>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) confirm: Confirm,
    pub(crate) fallback: Fallback,
    pub(crate) capabilities: Capabilities,
}

/// All patterns over tools, in one set, and what each of them stands for.
#[derive(Debug)]
pub(crate) struct Patterns {
    pub(crate) set: GlobSet,
    pub(crate) meaning: Vec<By>,
}

/// A condition on calls of some tools.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) condition: Condition,
    pub(crate) message: Box<str>,
}

/// The part of a specification that made a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct By {
    /// The list, or the setting.
    pub list: List,
    /// The place in the list; 0 for a setting.
    pub index: u32,
}

/// The lists and settings of a task that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// There are no tasks, and everything is allowed.
    Open,
    /// `deny`.
    Deny,
    /// `allow`.
    Allow,
    /// `allow_prompts`.
    AllowPrompts,
    /// `allow_resources`.
    AllowResources,
    /// `scopes`.
    Scopes,
    /// `rules`.
    Rules,
    /// `confirm`, as a word.
    Confirm,
    /// `confirm`, as patterns.
    ConfirmPatterns,
}

impl By {
    pub(crate) const OPEN: By = By { list: List::Open, index: 0 };
    pub(crate) const CONFIRM: By = By { list: List::Confirm, index: 0 };

    pub(crate) fn at(list: List, index: usize) -> By {
        By { list, index: u32::try_from(index).unwrap_or(u32::MAX) }
    }

    pub(crate) fn place(self) -> usize {
        usize::try_from(self.index).unwrap_or(usize::MAX)
    }

    /// Where it stands below the task; nothing for an open task.
    pub fn path(self) -> Vec<Step> {
        let key = match self.list {
            List::Open => return Vec::new(),
            List::Deny => "deny",
            List::Allow => "allow",
            List::AllowPrompts => "allow_prompts",
            List::AllowResources => "allow_resources",
            List::Scopes => "scopes",
            List::Rules => "rules",
            List::Confirm => return vec![Step::from("confirm")],
            List::ConfirmPatterns => "confirm",
        };
        vec![Step::from(key), Step::Index(self.place())]
    }
}

/// When a person is asked before a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Confirm {
    #[default]
    Never,
    Destructive,
    Always,
    Patterns,
}

/// What happens to a call that must be confirmed when the client can't ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// It is refused.
    #[default]
    Refuse,
    /// It goes ahead.
    Allow,
}

/// What servers may ask of a client under a task. Nothing unless it is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// `sampling/createMessage`.
    pub sampling: bool,
    /// `elicitation/create`.
    pub elicitation: bool,
    /// The roots that servers are told, in place of the client's own; none: `roots/list` is not let through.
    pub roots: Vec<Root>,
}

impl Capabilities {
    /// Whether a server's request to the client is let through; none for methods that no capability stands for.
    pub fn permits(&self, method: &str) -> Option<bool> {
        match method {
            "sampling/createMessage" => Some(self.sampling),
            "elicitation/create" => Some(self.elicitation),
            "roots/list" => Some(!self.roots.is_empty()),
            _ => None,
        }
    }
}

/// A root (MCP `Root`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// A `file:` URI.
    pub uri: Box<str>,
    /// How it is shown.
    pub name: Option<Box<str>>,
}

impl Task {
    /// The task of a configuration without a `tasks` section: everything is allowed.
    pub fn open(name: impl Into<String>) -> Task {
        let capabilities = Capabilities { sampling: true, elicitation: true, roots: Vec::new() };
        Task { open: true, capabilities, ..Task::closed(name) }
    }

    /// A task with no allow-list: nothing is allowed.
    pub fn closed(name: impl Into<String>) -> Task {
        Task {
            name: name.into().into(),
            open: false,
            principals: Principals::anybody(),
            tools: Patterns { set: GlobSet::none(), meaning: Vec::new() },
            prompts: GlobSet::none(),
            resources: GlobSet::none(),
            scopes: Vec::new(),
            rules: Vec::new(),
            confirm: Confirm::Never,
            fallback: Fallback::Refuse,
            capabilities: Capabilities::default(),
            quick: usize::MAX,
        }
    }

    /// The task's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// See [`Principals::names_anonymous`].
    pub fn names_anonymous(&self) -> bool {
        self.principals.names_anonymous()
    }

    /// Whether a caller may use the task at all. `loopback`: whether the connection came over loopback.
    pub fn admits(&self, caller: &Caller, loopback: bool) -> bool {
        self.principals.admit(caller, loopback)
    }

    /// What happens to a call that must be confirmed when the client can't ask.
    pub fn confirm_fallback(&self) -> Fallback {
        self.fallback
    }

    /// Whether it can ask a person about any call.
    pub fn confirms(&self) -> bool {
        self.confirm != Confirm::Never
    }

    /// What servers may ask of a client. An open task has no roots of its own: there the client's are meant.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Whether it is the task of a configuration without tasks.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// The most bytes of arguments over which a call is decided on in milliseconds. More are better looked at on a thread
    /// that nobody else waits for.
    pub fn quick_bytes(&self) -> usize {
        self.quick
    }
}
