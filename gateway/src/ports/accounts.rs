//! The port to what the journal's records add up to: costs, runs, and what budgets have counted. Read a piece at a
//! time, so that no call waits for a reader.

use policies::budget::past::Past;

/// What costs are added up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The task.
    Task,
    /// The server.
    Server,
    /// The principal, as `iss sub client tenant`, as far as they are known.
    Principal,
    /// The day of the outcome, in UTC.
    Day,
}

impl By {
    /// All of them.
    pub const ALL: [By; 4] = [By::Task, By::Server, By::Principal, By::Day];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            By::Task => "task",
            By::Server => "server",
            By::Principal => "principal",
            By::Day => "day",
        }
    }
}

/// Which costs are asked for. What is set must be equal.
#[derive(Clone, Debug, Default)]
pub struct CostsWanted {
    /// What to add up by, in this order.
    pub by: Vec<By>,
    /// The task.
    pub task: Option<String>,
    /// The server.
    pub server: Option<String>,
    /// The principal, by its `sub`.
    pub principal: Option<String>,
    /// The day.
    pub day: Option<String>,
}

/// A sum of calls and of what they cost in 10^-9 dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Calls.
    pub calls: u64,
    /// Their cost.
    pub nanousd: u64,
}

/// Costs, added up.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// The log's id.
    pub log: String,
    /// In the order of their names, which stand in the order that was asked for.
    pub rows: Vec<(Vec<String>, Sum)>,
    /// Days that are no longer kept one by one: the last of them, and what they add up to without any filter.
    pub earlier: Option<(String, Sum)>,
}

/// Which runs are asked for. What is set must be equal.
#[derive(Clone, Debug, Default)]
pub struct RunsWanted {
    /// The run's id.
    pub run: Option<String>,
    /// The task.
    pub task: Option<String>,
    /// The principal, by its `sub`.
    pub principal: Option<String>,
    /// The one run that a poll token names.
    pub token: Option<String>,
    /// Those behind the one that this poll token names.
    pub after: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// A run's document.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// A JSON object.
    pub text: String,
    /// The name under which its principal is counted ([`crate::who::Who::key`]).
    pub principal: Box<str>,
    /// The task.
    pub task: String,
    /// The run's id.
    pub run: String,
}

/// Some runs.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// What is known of each.
    pub documents: Vec<Document>,
    /// Where to go on, when there may be more.
    pub next: Option<String>,
}

/// What records add up to.
pub trait Accounts: Send + Sync {
    /// Costs. May wait for the disk for a moment.
    fn costs(&self, wanted: &CostsWanted) -> Costs;

    /// Runs; none when a token is no token. May wait for the disk for a moment, and looks at a bounded number of runs.
    fn runs(&self, wanted: &RunsWanted) -> Option<Runs>;

    /// Tells everything that budgets have counted. For the start: nothing is recorded meanwhile.
    fn spent(&self, each: &mut dyn FnMut(Past<'_>));
}
