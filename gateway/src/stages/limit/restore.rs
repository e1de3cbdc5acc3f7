//! At the start: budgets go on from what the journal's records add up to, so that no restart gives anything back.

use std::collections::HashMap;

use policies::budget::Budgets;

use super::Limits;
use crate::ports::accounts::Accounts;
use crate::profiles::Profile;

impl Limits {
    /// Sets the counters of these tasks' budgets to what was spent before. Calls that were under way when the last
    /// process ended count with their reservation. Counters that have ended by the clock are made too: it may be ahead,
    /// and set right before the first call. The limiter drops them when it looks.
    pub fn restore<'a>(&self, profiles: impl Iterator<Item = &'a Profile>, accounts: &dyn Accounts) {
        let budgets: HashMap<&str, &Budgets> =
            profiles.map(|profile| (profile.task.name(), &profile.budgets)).collect();
        accounts.spent(&mut |past| {
            let Some(budgets) = budgets.get(past.task()) else { return };
            for counted in budgets.counted(&past) {
                self.limiter.restore(&counted);
            }
        });
    }
}
