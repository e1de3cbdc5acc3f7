//! Counters in memory, for one process. Bounded: rates forget only what is as good as new, budgets refuse rather than
//! forget. Time is the runtime's monotonic clock, which no setting of the wall clock moves.

mod rates;

use std::collections::HashMap;

use async_trait::async_trait;
use parking_lot::Mutex;
use policies::budget::Amounts;
use policies::budget::ledger::{Ledger, Level, Short, Ticket};
use policies::budget::past::Counted;
use policies::rate::Applies;
use smallvec::SmallVec;
use tokio::time::Instant;

use self::rates::Rates;
use crate::ports::limiter::{Full, Limiter, Refused, Reservation, Slow};

/// Budget counters at once. A call that needs one more is refused, since forgetting one would give a budget back.
const MAX_COUNTERS: usize = 500_000;
/// Seconds that a counter outlives its period, for clocks that differ.
const GRACE: i64 = 3600;
/// Reservations between two looks for counters that are of no use any more.
const SWEEP_EVERY: u32 = 4096;

/// Counters in memory.
pub struct InMemory {
    rates: Rates,
    open: Mutex<HashMap<Box<str>, u32>>,
    budgets: Mutex<Budgets>,
    started: Instant,
}

#[derive(Default)]
struct Budgets {
    ledger: Ledger,
    since_sweep: u32,
}

impl Default for InMemory {
    fn default() -> InMemory {
        InMemory {
            rates: Rates::default(),
            open: Mutex::default(),
            budgets: Mutex::default(),
            started: Instant::now(),
        }
    }
}

#[async_trait]
impl Limiter for InMemory {
    async fn rate(&self, rates: &[Applies]) -> Result<(), Refused<Slow>> {
        let now = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX / 4);
        for (at, rate) in rates.iter().enumerate() {
            let wait = self.rates.spend(&rate.key, &rate.quota, now);
            wait.map_err(|wait| Refused::Over(Slow { at, wait }))?;
        }
        Ok(())
    }

    async fn enter(&self, name: &str, most: u32) -> Result<(), Refused<Full>> {
        let mut open = self.open.lock();
        match open.get_mut(name) {
            Some(calls) if *calls >= most => return Err(Refused::Over(Full)),
            Some(calls) => *calls += 1,
            None if most == 0 => return Err(Refused::Over(Full)),
            None => {
                open.insert(name.into(), 1);
            }
        }
        Ok(())
    }

    fn leave(&self, name: &str) {
        let mut open = self.open.lock();
        // No more names than calls under way.
        match open.get_mut(name) {
            Some(calls) if *calls > 1 => *calls -= 1,
            _ => {
                open.remove(name);
            }
        }
    }

    async fn reserve(&self, what: Reservation<'_>) -> Result<SmallVec<[Level; 8]>, Refused<Short>> {
        let mut budgets = self.budgets.lock();
        budgets.since_sweep += 1;
        let full = budgets.ledger.size().0 + what.lines.len() > MAX_COUNTERS;
        if budgets.since_sweep >= SWEEP_EVERY {
            budgets.since_sweep = 0;
            budgets.ledger.sweep(what.now, GRACE);
        } else if full {
            return Err(Refused::Unavailable("there are too many budget counters".into()));
        }
        budgets.ledger.reserve(what.ticket, what.lines, what.amounts).map_err(Refused::Over)
    }

    fn restore(&self, counted: &Counted) {
        let mut budgets = self.budgets.lock();
        budgets.ledger.restore(&counted.key, counted.spent, counted.ends);
        if budgets.ledger.size().0 >= MAX_COUNTERS {
            // Some have ended: the first call makes room.
            budgets.since_sweep = SWEEP_EVERY;
        }
    }

    fn settle(&self, ticket: &Ticket, spent: &Amounts) {
        self.budgets.lock().ledger.settle(ticket, spent);
    }
}

#[cfg(test)]
mod tests;
