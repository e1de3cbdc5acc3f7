//! At the start: budgets go on from what the journal's records add up to, so that no restart gives anything back.

use std::collections::HashMap;
use std::time::SystemTime;

use policies::budget::Budgets;

use super::Limits;
use crate::ports::accounts::Accounts;
use crate::profiles::Profile;

/// Seconds that a counter is made again after its end: the clock may be set back by as much.
const TOLERATED: i64 = 86_400;

impl Limits {
    /// Sets the counters of these tasks' budgets to what was spent before. Calls that were under way when the last
    /// process ended count with their reservation.
    pub fn restore<'a>(
        &self,
        profiles: impl Iterator<Item = &'a Profile>,
        accounts: &dyn Accounts,
        now: SystemTime,
    ) {
        let now = self.now(now);
        let budgets: HashMap<&str, &Budgets> =
            profiles.map(|profile| (profile.task.name(), &profile.budgets)).collect();
        accounts.spent(&mut |past| {
            let Some(budgets) = budgets.get(past.task()) else { return };
            for counted in budgets.counted(&past) {
                if counted.ends.saturating_add(TOLERATED) > now {
                    self.limiter.restore(&counted);
                }
            }
        });
    }
}
