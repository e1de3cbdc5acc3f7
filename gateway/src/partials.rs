//! What cancelled calls had given before their end, for who looks at a run afterwards. Bounded in number and time; the
//! journal keeps its digest alone. Holds only what the task let through to the client.

use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use mcp::json::Raw;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::ports::journal::About;

/// Calls that are remembered; each holds no more than a screen keeps for one.
const CALLS: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// How long.
const KEPT: Duration = Duration::from_secs(3600);

/// The table, by call id.
pub struct Partials(Mutex<LruCache<Box<str>, Partial>>);

struct Partial {
    principal: Box<str>,
    task: Box<str>,
    run: Box<str>,
    content: Raw,
    at: Instant,
}

/// Whose run it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunOf<'a> {
    /// The name under which the principal is counted ([`crate::who::Who::key`]).
    pub principal: &'a str,
    /// The task.
    pub task: &'a str,
    /// The run id.
    pub run: &'a str,
}

impl Default for Partials {
    fn default() -> Partials {
        Partials(Mutex::new(LruCache::new(CALLS)))
    }
}

impl Partials {
    /// Keeps what a call had given: an array of content blocks.
    pub fn keep(&self, about: &About<'_>, content: Raw) {
        let partial = Partial {
            principal: about.who.key.clone(),
            task: about.task.into(),
            run: about.run.unwrap_or_default().into(),
            content,
            at: Instant::now(),
        };
        self.0.lock().put(about.call_id.into(), partial);
    }

    /// What a call of this run had given, for an hour after its end.
    pub fn of(&self, run: RunOf<'_>, call_id: &str) -> Option<Raw> {
        let mut table = self.0.lock();
        let partial = table.get(call_id)?;
        if partial.at.elapsed() >= KEPT {
            table.pop(call_id);
            return None;
        }
        let of = RunOf { principal: &partial.principal, task: &partial.task, run: &partial.run };
        (of == run).then(|| partial.content.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::who::Who;

    #[tokio::test(start_paused = true)]
    async fn a_partial_belongs_to_its_run_and_goes_after_an_hour() {
        let (table, who) = (Partials::default(), Who::anonymous());
        let keep = |call_id: &str| {
            let (task, run, method) = ("t", Some("r"), "tools/call");
            let about =
                About { call_id, who: &who, task, run, method, server: "s", name: "n", traceparent: None };
            table.keep(&about, Raw::empty_object());
        };
        keep("c");
        let run = RunOf { principal: &who.key, task: "t", run: "r" };
        assert_eq!(table.of(run, "c"), Some(Raw::empty_object()));
        for other in [RunOf { run: "q", ..run }, RunOf { task: "q", ..run }, RunOf { principal: "q", ..run }]
        {
            assert_eq!(table.of(other, "c"), None);
        }
        tokio::time::advance(KEPT).await;
        assert_eq!(table.of(run, "c"), None);
        for n in 0..=CALLS.get() {
            keep(&n.to_string());
        }
        assert_eq!(table.of(run, "0"), None);
        assert!(table.of(run, "1").is_some());
    }
}
