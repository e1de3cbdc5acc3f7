//! Counters with reservations: reserve, then settle or release, each at most once per ticket. Small steps on integers
//! under string keys, as a shared store could run them in one script. Holds no lock and reads no clock.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Amounts, Line};

/// Names a call's reservation; unique per call, for example its call id.
pub type Ticket = Arc<str>;

/// Percent of a budget from which its use is pointed out.
const NOTICE: u64 = 80;

/// Whether so much of a limit is used that it is pointed out.
pub(super) fn is_low(used: u64, limit: u64) -> bool {
    u128::from(used) * 100 >= u128::from(limit) * u128::from(NOTICE)
}

/// A notice about a counter after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The line's place among those that were reserved.
    pub line: usize,
    /// What is left when all that is reserved is spent.
    pub left: u64,
    /// Whether four fifths of the limit are spent or reserved.
    pub low: bool,
}

/// The line that has too little left, by its place among those that were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short(pub usize);

#[derive(Clone, Copy, Debug, Default)]
struct Counter {
    spent: u64,
    held: u64,
    ends: i64,
}

/// What a ticket holds of one counter.
#[derive(Clone, Debug)]
struct Hold {
    key: Box<str>,
    unit: super::Unit,
    amount: u64,
}

/// The counters of one process.
#[derive(Debug, Default)]
pub struct Ledger {
    counters: HashMap<Box<str>, Counter>,
    open: HashMap<Ticket, SmallVec<[Hold; 8]>>,
}

impl Ledger {
    /// Reserves a call's amounts on all lines, or on none. A ticket that is open already reserves nothing more.
    ///
    /// # Errors
    /// The first line that has too little left.
    pub fn reserve(
        &mut self,
        ticket: &Ticket,
        lines: &[Line],
        amounts: &Amounts,
    ) -> Result<SmallVec<[Level; 8]>, Short> {
        if !self.open.contains_key(ticket) {
            if let Some(short) = lines.iter().position(|line| !self.fits(line, amounts.of(line.unit))) {
                return Err(Short(short));
            }
            let mut holds = SmallVec::new();
            for line in lines {
                let amount = amounts.of(line.unit);
                let counter = self.counters.entry(line.key.clone()).or_default();
                counter.held = counter.held.saturating_add(amount);
                counter.ends = counter.ends.max(line.ends);
                holds.push(Hold { key: line.key.clone(), unit: line.unit, amount });
            }
            self.open.insert(Arc::clone(ticket), holds);
        }
        Ok(lines.iter().enumerate().map(|(n, line)| self.level(n, line)).collect())
    }

    fn used(&self, key: &str) -> u64 {
        self.counters.get(key).map_or(0, |c| c.spent.saturating_add(c.held))
    }

    fn fits(&self, line: &Line, amount: u64) -> bool {
        let used = self.used(&line.key);
        if line.strict { used.saturating_add(amount) <= line.limit } else { used < line.limit }
    }

    fn level(&self, n: usize, line: &Line) -> Level {
        let used = self.used(&line.key);
        Level { line: n, left: line.limit.saturating_sub(used), low: is_low(used, line.limit) }
    }

    /// Turns a ticket's reservation into what was spent. `false`: it was settled or released before, or never made; then
    /// nothing happens.
    pub fn settle(&mut self, ticket: &str, spent: &Amounts) -> bool {
        let Some(holds) = self.open.remove(ticket) else { return false };
        for hold in holds {
            if let Some(counter) = self.counters.get_mut(&hold.key) {
                counter.held = counter.held.saturating_sub(hold.amount);
                counter.spent = counter.spent.saturating_add(spent.of(hold.unit));
            }
        }
        true
    }

    /// Gives a ticket's reservation back, for a call that was never sent. `false` as for [`Ledger::settle`].
    pub fn release(&mut self, ticket: &str) -> bool {
        self.settle(ticket, &Amounts::default())
    }

    /// What is spent and what is reserved under a key.
    pub fn read(&self, key: &str) -> (u64, u64) {
        self.counters.get(key).map_or((0, 0), |c| (c.spent, c.held))
    }

    /// Sets what is spent under a key, when counters are rebuilt at the start.
    pub fn restore(&mut self, key: &str, spent: u64, ends: i64) {
        let counter = self.counters.entry(key.into()).or_default();
        counter.spent = counter.spent.max(spent);
        counter.ends = counter.ends.max(ends);
    }

    /// Drops the counters whose period ended at least `grace` seconds ago and that no call holds. Live ones are never
    /// dropped, so that nobody gets a budget back by crowding others out.
    pub fn sweep(&mut self, now: i64, grace: i64) -> usize {
        let before = self.counters.len();
        self.counters.retain(|_, c| c.held > 0 || c.ends.saturating_add(grace) > now);
        before - self.counters.len()
    }

    /// How many counters and open tickets there are.
    pub fn size(&self) -> (usize, usize) {
        (self.counters.len(), self.open.len())
    }
}
