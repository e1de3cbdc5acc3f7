//! What cancelled calls had given before their end, for who looks at a run afterwards. Bounded in number and time; the
//! journal keeps its digest alone. Holds only what the task let through to the client.

use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use mcp::json::{ObjectWriter, Raw};
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

    /// What calls of this run had given, as a JSON object by call id; none when nothing is remembered.
    pub fn told(&self, run: RunOf<'_>) -> Option<String> {
        let given = self.of(run);
        let mut calls = ObjectWriter::new();
        for (call_id, content) in &given {
            calls.raw(call_id, content);
        }
        (!given.is_empty()).then(|| calls.finish().as_str().to_owned())
    }

    /// What calls of this run had given, by call id and the oldest first, for an hour after their ends.
    fn of(&self, run: RunOf<'_>) -> Vec<(Box<str>, Raw)> {
        let mut table = self.0.lock();
        // None is ever looked up by its id, so the order is that in which they came.
        while table.peek_lru().is_some_and(|(_, partial)| partial.at.elapsed() >= KEPT) {
            table.pop_lru();
        }
        let of = |partial: &Partial| {
            RunOf { principal: &partial.principal, task: &partial.task, run: &partial.run } == run
        };
        let all = table.iter().rev().filter(|(_, partial)| of(partial));
        all.map(|(call_id, partial)| (call_id.clone(), partial.content.clone())).collect()
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
        keep("b");
        let run = RunOf { principal: &who.key, task: "t", run: "r" };
        let given = |id: &str| (Box::<str>::from(id), Raw::empty_object());
        assert_eq!(table.of(run), [given("c"), given("b")]);
        for other in [RunOf { run: "q", ..run }, RunOf { task: "q", ..run }, RunOf { principal: "q", ..run }]
        {
            assert_eq!(table.of(other), []);
        }
        assert_eq!(table.told(run).as_deref(), Some(r#"{"c":{},"b":{}}"#));
        tokio::time::advance(KEPT).await;
        assert_eq!(table.told(run), None);
        assert_eq!(table.of(run), []);
        for n in 0..=CALLS.get() {
            keep(&n.to_string());
        }
        let kept = table.of(run);
        assert_eq!((kept.len(), &*kept[0].0), (CALLS.get(), "1"));
    }
}
