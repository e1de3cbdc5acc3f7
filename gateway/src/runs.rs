//! Runs that nobody named: one for each principal and task, which ends after an hour without a request or after a day.
//! Bounded; who falls out gets a new run, whose budgets still count over all runs of the principal.

pub mod named;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use parking_lot::Mutex;
use policies::select::RunSource;
use tokio::time::Instant;
use uuid::Uuid;

use crate::digest::{hex, sha256};

/// A derived run ends after so long without a request,
const IDLE: Duration = Duration::from_secs(3600);
/// and after so long in any case.
const LIFE: Duration = Duration::from_secs(24 * 3600);
/// Principals whose derived runs are remembered.
const PRINCIPALS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();
/// Tasks of one principal whose derived runs are remembered.
const TASKS: usize = 8;

/// One piece of work, for which calls and cost are counted.
#[derive(Clone, Debug)]
pub struct Run {
    /// `[A-Za-z0-9._:-]{1,128}`; means something together with principal and task alone.
    pub id: Arc<str>,
    /// Where it came from.
    pub source: RunSource,
}

/// The runs that are derived from principal and task.
pub struct Runs(Mutex<LruCache<[u8; 32], Vec<Derived>>>);

struct Derived {
    task: Box<str>,
    id: Arc<str>,
    begun: Instant,
    seen: Instant,
}

impl Default for Runs {
    fn default() -> Runs {
        Runs(Mutex::new(LruCache::new(PRINCIPALS)))
    }
}

impl Runs {
    /// The run of a principal (by its digest) under a task at this moment.
    pub fn derived(&self, owner: &[u8; 32], task: &str, now: Instant) -> Arc<str> {
        let mut table = self.0.lock();
        let runs = table.get_or_insert_mut(*owner, Vec::new);
        if let Some(run) = runs.iter_mut().find(|run| *run.task == *task) {
            let over = now.duration_since(run.seen) >= IDLE || now.duration_since(run.begun) >= LIFE;
            if over {
                (run.id, run.begun) = (fresh(), now);
            }
            run.seen = now;
            return Arc::clone(&run.id);
        }
        if runs.len() >= TASKS
            && let Some((at, _)) = runs.iter().enumerate().min_by_key(|(_, run)| run.seen)
        {
            runs.swap_remove(at);
        }
        let id = fresh();
        runs.push(Derived { task: task.into(), id: Arc::clone(&id), begun: now, seen: now });
        id
    }
}

fn fresh() -> Arc<str> {
    format!("d-{}", Uuid::now_v7().simple()).into()
}

/// The run of a legacy session: the same on every replica, and no part of the session's secret.
pub fn of_session(sid: &[u8; 16]) -> Arc<str> {
    let digest = sha256(&[b"tollgate run v1".as_slice(), sid].concat());
    format!("s-{}", hex(digest.get(..16).unwrap_or_default())).into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use policies::select::is_run;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_derived_run_lasts_while_it_is_used_and_a_day_at_most() {
        let runs = Runs::default();
        let start = Instant::now();
        let first = runs.derived(&[1; 32], "t", start);
        assert!(is_run(&first));
        assert_ne!(runs.derived(&[2; 32], "t", start), first, "another principal's");
        assert_ne!(runs.derived(&[1; 32], "u", start), first, "another task's");
        let mut now = start;
        for _ in 0..47 {
            now += Duration::from_secs(1800);
            assert_eq!(runs.derived(&[1; 32], "t", now), first);
        }
        let second = runs.derived(&[1; 32], "t", now + Duration::from_secs(1800));
        assert_ne!(second, first, "after a day");
        let later = now + Duration::from_secs(1800 + 3600);
        assert_ne!(runs.derived(&[1; 32], "t", later), second, "after an hour without a request");
    }

    #[tokio::test(start_paused = true)]
    async fn the_runs_of_one_principal_are_bounded() {
        let runs = Runs::default();
        let now = Instant::now();
        for n in 0..1000 {
            runs.derived(&[1; 32], &format!("t{n}"), now + Duration::from_millis(n));
        }
        assert_eq!(runs.0.lock().peek(&[1; 32]).unwrap().len(), TASKS);
    }

    #[test]
    fn a_session_has_one_run_and_no_other_session_has_it() {
        assert_eq!(of_session(&[1; 16]), of_session(&[1; 16]));
        assert_ne!(of_session(&[1; 16]), of_session(&[2; 16]));
        assert!(is_run(&of_session(&[0; 16])));
    }
}
