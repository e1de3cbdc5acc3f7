//! The tasks of a configuration with what the gateway does for each: rates, budgets, result caps, redaction, time
//! limits. Plain compiled data, swapped as a whole; decisions are made in `policies`.

mod meters;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use policies::Task;
use policies::budget::Budgets;
use policies::caller::{Caller, Proof};
use policies::caps::Caps;
use policies::controls::Strip;
use policies::rate::Rates;
use policies::redact::Redactor;
use policies::select::{NoTask, TaskOffer, Tasks};

pub use self::meters::Meters;
use crate::ports::upstream::Roots;
use crate::who::Who;

/// One task as it is worked under.
#[derive(Debug)]
pub struct Profile {
    /// What it allows.
    pub task: Arc<Task>,
    /// How often and how many at once.
    pub rates: Rates,
    /// What it may cost.
    pub budgets: Budgets,
    /// Runs that a principal may have at most; `usize::MAX` for no bound.
    pub runs: usize,
    /// How large results may be. None: as large as the server's limit lets them.
    pub caps: Option<Caps>,
    /// What is taken out of results and errors.
    pub redactor: Option<Arc<Redactor>>,
    /// Whether it is taken out of arguments too.
    pub redact_arguments: bool,
    /// Which invisible characters are taken out of results.
    pub strip: Option<Strip>,
    /// Deadlines of tool calls where they are shorter than the server's.
    pub call_idle: Option<Duration>,
    /// See `call_idle`.
    pub call_total: Option<Duration>,
    /// How long a question for confirmation is good for.
    pub confirm_within: Duration,
    /// What `roots/list` of a server is answered with (MCP `ListRootsResult`); None: it is not answered.
    pub roots: Option<Roots>,
    /// The servers of which it permits something; None for all.
    pub servers: Option<HashSet<Box<str>>>,
    /// Its handles of metrics.
    pub meters: Meters,
}

/// How long a question for confirmation is good for when the configuration says nothing.
pub const CONFIRM_WITHIN: Duration = Duration::from_secs(600);

/// Runs that a principal may have at most when the configuration says nothing.
pub const RUNS: usize = 10_000;

impl Profile {
    /// A task with no more than its decisions.
    pub fn bare(task: Arc<Task>) -> Profile {
        Profile {
            task,
            rates: Rates::none(),
            budgets: Budgets::default(),
            runs: usize::MAX,
            caps: None,
            redactor: None,
            redact_arguments: false,
            strip: None,
            call_idle: None,
            call_total: None,
            confirm_within: CONFIRM_WITHIN,
            roots: None,
            servers: None,
            meters: Meters::default(),
        }
    }

    /// Whether it permits anything of a server. One of which it permits nothing reads like one that does not exist.
    pub fn reaches(&self, server: &str) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }
}

/// All tasks.
pub struct Profiles {
    tasks: Tasks,
    by_name: HashMap<Box<str>, Arc<Profile>>,
    /// Whether the data listener is on a loopback address: only then is nobody in particular admitted.
    pub loopback: bool,
}

impl Profiles {
    /// Profiles by the names of their tasks, and the task that is meant when nothing names one.
    pub fn new(
        profiles: impl IntoIterator<Item = Arc<Profile>>,
        default: Option<&str>,
        loopback: bool,
    ) -> Profiles {
        let named = |profile: Arc<Profile>| (profile.task.name().into(), profile);
        let by_name: HashMap<Box<str>, Arc<Profile>> = profiles.into_iter().map(named).collect();
        let tasks = Tasks::new(by_name.values().map(|profile| Arc::clone(&profile.task)), default);
        Profiles { tasks, by_name, loopback }
    }

    /// The task that a caller works under.
    ///
    /// # Errors
    /// There is none for this caller; see [`NoTask`].
    pub fn choose(&self, caller: &Caller, offer: TaskOffer<'_>) -> Result<Arc<Profile>, NoTask> {
        let task = self.tasks.choose(caller, self.loopback, offer)?;
        self.by_name.get(task.name()).cloned().ok_or(NoTask::Unknown)
    }

    /// [`Profiles::choose`] for a caller who stands at a door.
    ///
    /// # Errors
    /// There is none for this caller, or none without a credential.
    pub fn admit(&self, caller: &Caller, offer: TaskOffer<'_>, door: Door) -> Result<Arc<Profile>, Unfit> {
        match self.choose(caller, offer) {
            Ok(profile) if door.admits(caller, &profile) => Ok(profile),
            Ok(_) => Err(Unfit::Credential),
            // Nobody in particular may become somebody.
            Err(NoTask::Forbidden | NoTask::Unknown | NoTask::Unnamed)
                if caller.proof == Proof::Anonymous && door.credentials =>
            {
                Err(Unfit::Credential)
            }
            Err(why) => Err(Unfit::Task(why)),
        }
    }

    /// The profile of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Profile>> {
        self.by_name.get(name)
    }

    /// All profiles, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Profile>> {
        self.by_name.values()
    }
}

/// How a caller comes in.
#[derive(Clone, Copy, Debug)]
pub struct Door {
    /// Whether anything could prove callers.
    pub credentials: bool,
    /// Whether they come over HTTP, and not over the stdin of `tollgate stdio`.
    pub http: bool,
}

impl Door {
    /// Whether a task that admits the caller does so here. Where credentials exist, nobody in particular gets in only by
    /// a rule that says so: loopback may be the far end of a reverse proxy.
    pub fn admits(self, caller: &Caller, profile: &Profile) -> bool {
        let unproven = caller.proof == Proof::Anonymous && self.http && self.credentials;
        !unproven || profile.task.names_anonymous()
    }
}

/// Why a caller gets no task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// It has no credential, and one could help.
    Credential,
    /// There is none for it.
    Task(NoTask),
}

impl Unfit {
    /// What a caller is told.
    pub fn public(self) -> &'static str {
        match self {
            Unfit::Credential => "a credential is needed",
            Unfit::Task(why) => why.public(),
        }
    }
}

/// Who calls, and under which task.
#[derive(Clone)]
pub struct Party {
    /// The caller.
    pub who: Arc<Who>,
    /// The task.
    pub profile: Arc<Profile>,
}

impl Party {
    /// The task's name.
    pub fn task(&self) -> &str {
        self.profile.task.name()
    }
}
