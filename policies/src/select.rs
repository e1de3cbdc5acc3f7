//! Which task and which run a request works under. Pure choice among what was offered; what is not admitted and what does
//! not exist read the same.

use std::collections::HashMap;
use std::sync::Arc;

use crate::caller::Caller;
use crate::rate::key;
use crate::task::Task;

/// Bytes of a run id.
const MAX_RUN: usize = 128;

/// Where a task's name may come from, strongest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskOffer<'a> {
    /// The credential's claim.
    pub claim: Option<&'a str>,
    /// The URL.
    pub url: Option<&'a str>,
    /// The header.
    pub header: Option<&'a str>,
}

/// Why there is no task. Only the first is told to a caller; the others have one public text, so that nobody learns which
/// tasks exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTask {
    /// The credential is for another task than the URL names.
    Disagree,
    /// Nothing names a task, and there is no default.
    Unnamed,
    /// There is none of this name.
    Unknown,
    /// The caller is not admitted to it.
    Forbidden,
}

impl NoTask {
    /// What a caller is told.
    pub fn public(self) -> &'static str {
        match self {
            NoTask::Disagree => "the credential is for another task than the URL",
            NoTask::Unnamed | NoTask::Unknown | NoTask::Forbidden => "no such task for this caller",
        }
    }
}

/// All tasks of a configuration.
#[derive(Debug, Default)]
pub struct Tasks {
    by_name: HashMap<Box<str>, Arc<Task>>,
    default: Option<Box<str>>,
}

impl Tasks {
    /// Tasks by their names, and the one that is meant when nothing names one. Of two with one name the last is kept.
    pub fn new(tasks: impl IntoIterator<Item = impl Into<Arc<Task>>>, default: Option<&str>) -> Tasks {
        let tasks = tasks.into_iter().map(Into::<Arc<Task>>::into);
        let by_name = tasks.map(|task| (task.name().into(), task)).collect();
        Tasks { by_name, default: default.map(Into::into) }
    }

    /// The task of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Task>> {
        self.by_name.get(name)
    }

    /// All tasks, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Task>> {
        self.by_name.values()
    }

    /// The task that a caller works under: the credential's, else the URL's, else the header's, else the default one.
    /// `loopback`: whether the connection came over loopback.
    ///
    /// # Errors
    /// See [`NoTask`].
    pub fn choose(
        &self,
        caller: &Caller,
        loopback: bool,
        offer: TaskOffer<'_>,
    ) -> Result<&Arc<Task>, NoTask> {
        if let (Some(claim), Some(url)) = (offer.claim, offer.url)
            && claim != url
        {
            return Err(NoTask::Disagree);
        }
        let named = offer.claim.or(offer.url).or(offer.header).or(self.default.as_deref());
        let task = self.by_name.get(named.ok_or(NoTask::Unnamed)?).ok_or(NoTask::Unknown)?;
        if task.admits(caller, loopback) { Ok(task) } else { Err(NoTask::Forbidden) }
    }
}

/// Where a run's id may come from, strongest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunOffer<'a> {
    /// The credential's claim, or a run token that was verified.
    pub claim: Option<&'a str>,
    /// The header.
    pub header: Option<&'a str>,
    /// The request's `_meta`.
    pub meta: Option<&'a str>,
}

/// Where a run's id came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunSource {
    /// The credential or a run token: the caller could not choose it.
    Claim,
    /// The header.
    Header,
    /// The request's `_meta`.
    Meta,
    /// Derived from the session, or from principal and task.
    Derived,
}

/// A run id that breaks the grammar `[A-Za-z0-9._:-]{1,128}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRun(pub RunSource);

/// The run's id: the strongest that is offered, else the derived one. One that breaks the grammar is refused and never
/// passed over for a weaker one.
///
/// # Errors
/// Where the id came from that is none.
pub fn choose_run<'a>(offer: RunOffer<'a>, derived: &'a str) -> Result<(&'a str, RunSource), BadRun> {
    let offers =
        [(offer.claim, RunSource::Claim), (offer.header, RunSource::Header), (offer.meta, RunSource::Meta)];
    let (run, source) = offers
        .into_iter()
        .find_map(|(run, source)| Some((run?, source)))
        .unwrap_or((derived, RunSource::Derived));
    if is_run(run) { Ok((run, source)) } else { Err(BadRun(source)) }
}

/// Whether a text is a run id.
pub fn is_run(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
    (1..=MAX_RUN).contains(&text.len()) && text.bytes().all(allowed)
}

/// The name under which a run is counted, quarantined and kept: two principals never share one.
pub fn run_key(principal: &str, task: &str, run: &str) -> Box<str> {
    key("run", &[principal, task, run])
}

/// The name under which is counted what a caller must not be rid of by another run id, for example strikes.
pub fn work_key(principal: &str, task: &str) -> Box<str> {
    key("work", &[principal, task])
}

#[cfg(test)]
mod tests;
