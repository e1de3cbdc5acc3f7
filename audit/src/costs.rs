//! Totals that the journal's records add up to: costs, what budgets count, runs, and the calls that have no outcome
//! yet. A projection: everything in it can be rebuilt from the records. Integers of 10^-9 dollars, never floats.
//! Bounded: what is added up longest ago is forgotten first, and what is forgotten is said.

mod bounds;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Int, Kind, Text};
use crate::hash::Digest;
use crate::runs::RunTotals;

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

/// What budgets count in the days and months (UTC) that were counted in last: two of each, since a call that is
/// counted under one may end in the next.
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
    fn add(&mut self, day: &Text, spent: Spent, seq: u64) {
        let month = Text::Owned(day.get(..7).unwrap_or_default().to_owned());
        for (list, name) in [(&mut self.days, day), (&mut self.months, &month)] {
            match list.iter().position(|(known, _)| known == name) {
                Some(at) => list.get_mut(at..).unwrap_or_default().rotate_left(1),
                None => {
                    if list.len() > 1 {
                        list.remove(0);
                    }
                    list.push((name.clone(), Spent::default()));
                }
            }
            if let Some((_, total)) = list.last_mut() {
                total.plus(spent);
            }
        }
        self.seq = seq;
    }
}

/// All totals of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// By run.
    pub runs: BTreeMap<RunKey, RunTotals>,
    /// By task and server, since the log began.
    pub tasks: BTreeMap<(Text, Text), Total>,
    /// By day, task, server and principal, of the days that are kept.
    pub days: BTreeMap<DayKey, Total>,
    /// What the days add up to that are not kept, or not whole.
    pub earlier: Total,
    /// The last of those days; empty when everything is kept.
    pub earlier_until: Text,
    /// What budgets count, by task and principal.
    pub spent: BTreeMap<(Text, Principal), Periods>,
    /// The same by task alone.
    pub spent_tasks: BTreeMap<Text, Periods>,
    /// Intents without an outcome, by call id.
    pub open: BTreeMap<Text, Entry>,
}

/// The fields of an intent that its `outcome: unknown` repeats, and what it has reserved.
fn brief(entry: &Entry) -> Entry {
    Entry {
        kind: Kind::Intent,
        seq: entry.seq,
        call: entry.call.clone(),
        iss: entry.iss.clone(),
        sub: entry.sub.clone(),
        client: entry.client.clone(),
        tenant: entry.tenant.clone(),
        task: entry.task.clone(),
        run: entry.run.clone(),
        index: entry.index,
        method: entry.method.clone(),
        server: entry.server.clone(),
        tool: entry.tool.clone(),
        span: entry.span.clone(),
        trace: entry.trace.clone(),
        day: entry.day.clone(),
        reserved_bytes: entry.reserved_bytes,
        reserved_nanousd: entry.reserved_nanousd,
        ..Entry::default()
    }
}

/// The outcome of a call whose end nobody knows. It is charged what its intent has reserved: too much rather than too
/// little.
pub fn unknown(intent: &Entry, reason: &'static str) -> Entry {
    let (reserved_nanousd, reserved_bytes) = (intent.reserved_nanousd, intent.reserved_bytes);
    Entry {
        kind: Kind::Outcome,
        outcome: Some(Text::Borrowed("unknown")),
        reason: Some(Text::Borrowed(reason)),
        cost_nanousd: reserved_nanousd,
        charged_bytes: reserved_bytes,
        reserved_nanousd: None,
        reserved_bytes: None,
        ..brief(intent)
    }
}

impl Totals {
    /// Adds one record, with its leaf hash.
    pub fn add(&mut self, entry: &Entry, leaf: &Digest) {
        match (entry.kind, &entry.call) {
            (Kind::Intent, Some(call)) => {
                self.open.insert(call.clone(), brief(entry));
            }
            (Kind::Outcome, call) => {
                if let Some(call) = call {
                    self.open.remove(call);
                }
                self.charge(entry);
            }
            _ => {}
        }
        if let Some(key) = RunKey::of(entry) {
            self.runs.entry(key).or_default().add(entry, leaf);
            self.bound_runs();
        }
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
        let day = Text::Owned(entry.ts.get(..10).unwrap_or_default().to_owned());
        self.days.entry(DayKey { day, task, server, principal }).or_default().add(cost);
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

/// Totals as they stand in a snapshot: lists, since JSON has no other keys than texts.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Flat {
    runs: Vec<(RunKey, RunTotals)>,
    tasks: Vec<((Text, Text), Total)>,
    days: Vec<(DayKey, Total)>,
    earlier: Total,
    earlier_until: Text,
    spent: Vec<((Text, Principal), Periods)>,
    spent_tasks: Vec<(Text, Periods)>,
    open: Vec<Entry>,
}

impl From<&Totals> for Flat {
    fn from(totals: &Totals) -> Flat {
        let totals = totals.clone();
        Flat {
            runs: totals.runs.into_iter().collect(),
            tasks: totals.tasks.into_iter().collect(),
            days: totals.days.into_iter().collect(),
            earlier: totals.earlier,
            earlier_until: totals.earlier_until,
            spent: totals.spent.into_iter().collect(),
            spent_tasks: totals.spent_tasks.into_iter().collect(),
            open: totals.open.into_values().collect(),
        }
    }
}

impl From<Flat> for Totals {
    fn from(flat: Flat) -> Totals {
        let open = flat.open.into_iter().filter_map(|e| Some((e.call.clone()?, e))).collect();
        Totals {
            runs: flat.runs.into_iter().collect(),
            tasks: flat.tasks.into_iter().collect(),
            days: flat.days.into_iter().collect(),
            earlier: flat.earlier,
            earlier_until: flat.earlier_until,
            spent: flat.spent.into_iter().collect(),
            spent_tasks: flat.spent_tasks.into_iter().collect(),
            open,
        }
    }
}

#[cfg(test)]
mod tests;
