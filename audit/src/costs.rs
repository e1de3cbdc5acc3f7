//! Totals that the journal's records add up to: costs, a run's next call index, and the calls that have no outcome
//! yet. A projection: everything in it can be rebuilt from the records. Integers of 10^-9 dollars, never floats.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, Kind, Text};

/// Calls and what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    /// Calls that were sent and ended, in whatever way.
    pub calls: u64,
    /// Their cost in 10^-9 dollars.
    pub nanousd: u64,
}

impl Total {
    fn add(&mut self, nanousd: u64) {
        self.calls += 1;
        self.nanousd = self.nanousd.saturating_add(nanousd);
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

/// A run: its principal, its task, its id.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunKey {
    /// Whose.
    pub principal: Principal,
    /// Under which task.
    pub task: Text,
    /// The run id.
    pub run: Text,
}

/// What is known of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunTotals {
    /// By server.
    pub servers: BTreeMap<Text, Total>,
    /// The index that the next call gets.
    pub next_index: u64,
    /// `ts` of its last record.
    pub last: Text,
}

/// All totals of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// By run.
    pub runs: BTreeMap<RunKey, RunTotals>,
    /// By task and server.
    pub tasks: BTreeMap<(Text, Text), Total>,
    /// By principal and day (`YYYY-MM-DD`).
    pub principals: BTreeMap<(Principal, Text), Total>,
    /// Intents without an outcome, by call id.
    pub open: BTreeMap<Text, Entry>,
}

/// The fields of an intent that its `outcome: unknown` repeats.
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
        ..Entry::default()
    }
}

impl Totals {
    /// Adds one record. Records of other kinds than `intent` and `outcome` change nothing.
    pub fn add(&mut self, entry: &Entry) {
        match entry.kind {
            Kind::Intent => {
                if let Some(run) = self.run(entry) {
                    let next = entry.index.map_or(run.next_index, |i| i.0) + 1;
                    run.next_index = run.next_index.max(next);
                }
                if let Some(call) = &entry.call {
                    self.open.insert(call.clone(), brief(entry));
                }
            }
            Kind::Outcome => {
                if let Some(call) = &entry.call {
                    self.open.remove(call);
                }
                self.charge(entry);
            }
            _ => {}
        }
    }

    fn run(&mut self, entry: &Entry) -> Option<&mut RunTotals> {
        let run = entry.run.clone()?;
        let key =
            RunKey { principal: Principal::of(entry), task: entry.task.clone().unwrap_or_default(), run };
        let totals = self.runs.entry(key).or_default();
        totals.last = entry.ts.clone();
        Some(totals)
    }

    fn charge(&mut self, entry: &Entry) {
        let cost = entry.cost_nanousd.map_or(0, |c| c.0);
        let server = entry.server.clone().unwrap_or_default();
        if let Some(run) = self.run(entry) {
            run.servers.entry(server.clone()).or_default().add(cost);
        }
        let task = entry.task.clone().unwrap_or_default();
        self.tasks.entry((task, server)).or_default().add(cost);
        let day = Text::Owned(entry.ts.get(..10).unwrap_or_default().to_owned());
        self.principals.entry((Principal::of(entry), day)).or_default().add(cost);
    }

    /// Forgets runs whose last record is older than `before` (RFC 3339), and days before that one.
    pub fn forget(&mut self, before: &str) {
        self.runs.retain(|_, run| run.last.as_ref() >= before);
        let day = before.get(..10).unwrap_or_default();
        self.principals.retain(|(_, of), _| of.as_ref() >= day);
    }
}

/// Totals as they stand in a snapshot: lists, since JSON has no other keys than texts.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Flat {
    runs: Vec<(RunKey, RunTotals)>,
    tasks: Vec<((Text, Text), Total)>,
    principals: Vec<((Principal, Text), Total)>,
    open: Vec<Entry>,
}

impl From<&Totals> for Flat {
    fn from(totals: &Totals) -> Flat {
        let totals = totals.clone();
        Flat {
            runs: totals.runs.into_iter().collect(),
            tasks: totals.tasks.into_iter().collect(),
            principals: totals.principals.into_iter().collect(),
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
            principals: flat.principals.into_iter().collect(),
            open,
        }
    }
}
