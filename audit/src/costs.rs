//! Totals that the journal's records add up to: costs, what budgets count, runs, and the calls that have no outcome
//! yet. A projection: everything in it can be rebuilt from the records. Integers of 10^-9 dollars, never floats.
//! Bounded: what is added up longest ago is forgotten first, and what is forgotten is said.

mod bounds;
mod gone;
mod late;
mod open;
mod uptime;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Int, Kind, Text};
use crate::hash::Digest;
use crate::runs::RunTotals;
use gone::pairs;
pub use gone::{Gone, Past};
use late::Late;
pub use open::unknown;
use open::{brief, intents};
use uptime::Uptime;

/// Calls and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// Calls that were sent and ended, in whatever way.
    pub calls: u64,
    /// Their cost in 10^-9 dollars.
    pub nanousd: u64,
}

impl Total {
    /// Adds a call that cost this.
    pub fn add(&mut self, nanousd: u64) {
        self.plus(Total { calls: 1, nanousd });
    }

    /// Adds another total.
    pub fn plus(&mut self, other: Total) {
        self.calls = self.calls.saturating_add(other.calls);
        self.nanousd = self.nanousd.saturating_add(other.nanousd);
    }
}

/// What budgets count of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// What was charged, in 10^-9 dollars.
    pub nanousd: u64,
    /// Calls of tools that were sent.
    pub calls: u64,
    /// Bytes of results, or what was set aside for one that is not known.
    pub bytes: u64,
}

impl Spent {
    /// What an outcome adds to budgets; none when its call was never sent, or no budget was asked.
    fn of(outcome: &Entry) -> Option<(&Text, Spent)> {
        let (day, bytes) = (outcome.day.as_ref()?, outcome.charged_bytes?.0);
        let tool = outcome.method.as_deref() == Some("tools/call");
        let nanousd = outcome.cost_nanousd.map_or(0, |cost| cost.0);
        Some((day, Spent { nanousd, calls: u64::from(tool), bytes }))
    }

    fn plus(&mut self, other: Spent) {
        self.nanousd = self.nanousd.saturating_add(other.nanousd);
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// Who and under what: runs are scoped to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Principal {
    /// Issuer.
    pub iss: Text,
    /// Subject.
    pub sub: Text,
    /// OAuth client.
    pub client: Text,
    /// Tenant.
    pub tenant: Text,
}

impl Principal {
    /// Whose record it is; absent fields are empty.
    pub fn of(entry: &Entry) -> Principal {
        let text = |field: &Option<Text>| field.clone().unwrap_or_default();
        Principal {
            iss: text(&entry.iss),
            sub: text(&entry.sub),
            client: text(&entry.client),
            tenant: text(&entry.tenant),
        }
    }
}

impl fmt::Display for Principal {
    /// `iss sub client tenant`, as far as they are known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.iss, &self.sub, &self.client, &self.tenant];
        for (at, part) in parts.into_iter().filter(|part| !part.is_empty()).enumerate() {
            f.write_str(if at == 0 { "" } else { " " })?;
            f.write_str(part)?;
        }
        Ok(())
    }
}

/// A run: its id, its task, its principal. In this order, so that the runs of one id are neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// The run id.
    pub run: Text,
    /// Under which task.
    pub task: Text,
    /// Whose.
    pub principal: Principal,
}

impl RunKey {
    /// The run that a record belongs to.
    pub fn of(entry: &Entry) -> Option<RunKey> {
        let (run, task) = (entry.run.clone()?, entry.task.clone().unwrap_or_default());
        Some(RunKey { run, task, principal: Principal::of(entry) })
    }
}

/// What the costs of one day are kept by.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DayKey {
    /// `YYYY-MM-DD` of the outcome, in UTC.
    pub day: Text,
    /// The task.
    pub task: Text,
    /// The server.
    pub server: Text,
    /// The principal.
    pub principal: Principal,
}

/// Days and months that budgets count in: a call that is counted under one may end in the next, and a clock may be
/// wrong for a moment.
const PERIODS: usize = 3;

/// What budgets count in the days and months (UTC) that were counted in last: three of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Periods {
    /// `YYYY-MM-DD`, the one used last at the end.
    pub days: Vec<(Text, Spent)>,
    /// `YYYY-MM`.
    pub months: Vec<(Text, Spent)>,
    /// `seq` of the last record that was counted.
    pub seq: u64,
}

impl Periods {
    fn add(&mut self, day: &str, spent: Spent, seq: u64) {
        let month = day.get(..7).unwrap_or_default();
        for (list, name) in [(&mut self.days, day), (&mut self.months, month)] {
            match list.iter().position(|(known, _)| **known == *name) {
                Some(at) => list.get_mut(at..).unwrap_or_default().rotate_left(1),
                None => {
                    if list.len() >= PERIODS {
                        list.remove(0);
                    }
                    list.push((name.into(), Spent::default()));
                }
            }
            if let Some((_, total)) = list.last_mut() {
                total.plus(spent);
            }
        }
        self.seq = seq;
    }

    /// The first of its months, once there are as many as are kept.
    fn first_month(&self) -> Option<&Text> {
        self.months.iter().map(|(name, _)| name).min().filter(|_| self.months.len() >= PERIODS)
    }
}

/// All totals of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// By run.
    #[serde(with = "pairs")]
    pub runs: BTreeMap<RunKey, RunTotals>,
    /// By task and server, since the log began.
    #[serde(with = "pairs")]
    pub tasks: BTreeMap<(Text, Text), Total>,
    /// By day, task, server and principal, of the days that are kept.
    #[serde(with = "pairs")]
    pub days: BTreeMap<DayKey, Total>,
    /// What the days add up to that are not kept, or not whole.
    pub earlier: Total,
    /// The last of those days; empty when everything is kept.
    pub earlier_until: Text,
    /// What budgets count, by task and principal.
    #[serde(with = "pairs")]
    pub spent: BTreeMap<(Text, Principal), Periods>,
    /// The same by task alone.
    #[serde(with = "pairs")]
    pub spent_tasks: BTreeMap<Text, Periods>,
    /// Intents without an outcome, by call id.
    #[serde(with = "intents")]
    pub open: BTreeMap<Text, Box<Entry>>,
    /// Runs that are not kept any more.
    #[serde(default)]
    pub past: Past,
    /// Time as the records tell it.
    #[serde(default)]
    uptime: Uptime,
    /// What is still to be added.
    #[serde(default, rename = "tail", skip_serializing)]
    late: Late,
}

impl Totals {
    /// Adds one record, with its leaf hash.
    pub fn add(&mut self, entry: &Entry, leaf: &Digest) {
        self.count(entry, leaf);
        if let (Kind::Intent, Some(call)) = (entry.kind, &entry.call) {
            self.open.insert(call.clone(), Box::new(brief(entry)));
        }
    }

    /// Adds one record that nobody needs any more.
    pub(crate) fn take(&mut self, mut entry: Box<Entry>, leaf: &Digest) {
        self.count(&entry, leaf);
        if let (Kind::Intent, Some(call)) = (entry.kind, &entry.call) {
            let call = call.clone();
            entry.shorten();
            self.open.insert(call, entry);
        }
    }

    fn count(&mut self, entry: &Entry, leaf: &Digest) {
        self.uptime.add(entry);
        if entry.kind == Kind::Outcome {
            if let Some(call) = &entry.call {
                self.open.remove(call);
            }
            self.charge(entry);
        }
        if let Some(key) = RunKey::of(entry) {
            let past = &mut self.past;
            let run = self.runs.entry(key).or_insert_with_key(|key| past.take(key));
            run.add(entry, leaf);
            self.bound_runs();
        }
    }

    /// The index that the next call of a run gets.
    pub fn next_index(&self, run: &RunKey) -> u64 {
        let gone = || self.past.runs.get(run).map_or(0, |run| run.next_index);
        self.runs.get(run).map_or_else(gone, |run| run.next_index)
    }

    fn charge(&mut self, entry: &Entry) {
        let cost = entry.cost_nanousd.map_or(0, |cost| cost.0);
        let server = entry.server.clone().unwrap_or_default();
        let task = entry.task.clone().unwrap_or_default();
        let principal = Principal::of(entry);
        self.tasks.entry((task.clone(), server.clone())).or_default().add(cost);
        if let Some((day, spent)) = Spent::of(entry) {
            let Int(seq) = entry.seq;
            self.spent_tasks.entry(task.clone()).or_default().add(day, spent, seq);
            self.spent.entry((task.clone(), principal.clone())).or_default().add(day, spent, seq);
            self.bound_spent();
        }
        let day = entry.ts.get(..10).unwrap_or_default();
        let last = self.days.last_key_value().map(|(key, _)| &key.day).filter(|last| ***last == *day);
        let day = last.map_or_else(|| day.into(), Text::clone);
        let key = DayKey { day, task, server, principal };
        // A row beside what is added up already would pass for all of its day.
        if key.day <= self.earlier_until && !self.days.contains_key(&key) {
            self.earlier.add(cost);
            return;
        }
        self.days.entry(key).or_default().add(cost);
        self.bound_days();
    }
}

impl RunTotals {
    /// Counts what budgets count of an outcome.
    pub(crate) fn spend(&mut self, outcome: &Entry) {
        if let Some((_, spent)) = Spent::of(outcome) {
            self.spent.plus(spent);
        }
    }
}

#[cfg(test)]
mod tests;
