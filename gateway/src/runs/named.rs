//! The runs that a principal has under a task, so that they are no more than allowed. Bounded over all principals: who falls
//! out begins with none, while its rates and budgets are counted elsewhere and stay as they are.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::IDLE;

/// Runs of all principals that are remembered.
const MOST: usize = 1_000_000;

/// Runs by principal and task.
pub struct Named {
    /// Ids are only told apart: a hash with a key of this process does that in little space.
    hasher: RandomState,
    table: Mutex<Table>,
    most: usize,
}

struct Table {
    owners: LruCache<([u8; 32], u64), HashMap<u64, Instant>>,
    runs: usize,
}

impl Default for Named {
    fn default() -> Named {
        let table = Table { owners: LruCache::unbounded(), runs: 0 };
        Named { hasher: RandomState::new(), table: Mutex::new(table), most: MOST }
    }
}

impl Named {
    /// Notes a call of a run.
    ///
    /// # Errors
    /// It would be one run too many: the time after which the one that has waited longest has ended.
    pub fn take(
        &self,
        owner: &[u8; 32],
        task: &str,
        run: &str,
        (most, now): (usize, Instant),
    ) -> Result<(), Duration> {
        let (key, run) = ((*owner, self.hasher.hash_one(task)), self.hasher.hash_one(run));
        let mut table = self.table.lock();
        let runs = table.owners.get_or_insert_mut(key, HashMap::new);
        if let Some(seen) = runs.get_mut(&run) {
            *seen = now;
            return Ok(());
        }
        let before = runs.len();
        if before >= most {
            runs.retain(|_, seen| now.duration_since(*seen) < IDLE);
        }
        let gone = before - runs.len();
        // Looked for only by those who are refused.
        let full = (runs.len() >= most).then(|| runs.values().min().copied().unwrap_or(now));
        if full.is_none() {
            runs.insert(run, now);
        }
        table.runs = table.runs + usize::from(full.is_none()) - gone;
        while table.runs > self.most
            && table.owners.len() > 1
            && let Some((_, runs)) = table.owners.pop_lru()
        {
            table.runs -= runs.len();
        }
        match full {
            Some(oldest) => Err(IDLE.saturating_sub(now.duration_since(oldest))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn l6_a_principal_has_so_many_runs_and_no_more() {
        let (named, start) = (Named::default(), Instant::now());
        let at = |secs| start + Duration::from_secs(secs);
        let take = |owner: u8, task, run: &str, now| named.take(&[owner; 32], task, run, (2, now));
        assert_eq!(take(1, "t", "a", at(0)), Ok(()));
        assert_eq!(take(1, "t", "b", at(10)), Ok(()));
        assert_eq!(take(1, "t", "c", at(20)), Err(IDLE - Duration::from_secs(20)));
        assert_eq!(take(1, "t", "a", at(30)), Ok(()), "one that it has");
        assert_eq!(take(1, "u", "c", at(30)), Ok(()), "under another task");
        assert_eq!(take(2, "t", "c", at(30)), Ok(()), "another's");
        // The one that has waited longest ends first.
        assert_eq!(take(1, "t", "c", at(3609)), Err(Duration::from_secs(1)));
        assert_eq!(take(1, "t", "c", at(3610)), Ok(()));
        assert!(take(1, "t", "b", at(3611)).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn l6_what_is_remembered_of_all_is_bounded() {
        let named = Named { most: 1000, ..Named::default() };
        let now = Instant::now();
        for owner in 0..200_u8 {
            for run in 0..20 {
                assert_eq!(named.take(&[owner; 32], "t", &run.to_string(), (20, now)), Ok(()));
            }
        }
        let table = named.table.lock();
        assert!(table.runs <= 1000 && table.owners.len() <= 50);
        assert_eq!(table.owners.iter().map(|(_, runs)| runs.len()).sum::<usize>(), table.runs);
    }
}
