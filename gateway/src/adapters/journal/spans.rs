//! Trace and span ids of calls, and the index of each in its run: made from `keys.digest`, what the call says and its
//! place in the run alone, so that a run that is replayed has the same ids on every replica.

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use audit::costs::RunKey;
use audit::entry::Text;
use audit::span::{Call, DigestKey, Run};
use lru::LruCache;
use mcp::trace::Parent;
use parking_lot::Mutex;

use super::principal;
use crate::ports::journal::{
    About, Head, Ids, Intent, Journal, Note, Nowhere, Receipt, Unavailable, Written,
};

/// Runs whose next index is remembered; that of others is taken from the journal's totals.
const RUNS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// Makes ids.
pub(super) struct Spans {
    pub(super) key: Arc<DigestKey>,
    next: Mutex<LruCache<RunKey, u64>>,
}

impl Spans {
    pub(super) fn new(key: DigestKey) -> Spans {
        Spans { key: Arc::new(key), next: Mutex::new(LruCache::new(RUNS)) }
    }

    /// The ids of the next call of a run. `known` tells where a run goes on that is not remembered.
    pub(super) fn ids(&self, intent: &Intent<'_>, known: impl FnOnce(&RunKey) -> u64) -> Ids {
        let about = &intent.about;
        let canonical = about.who.principal.canonical();
        let run = Run { principal: &canonical, task: about.task, run: about.run.unwrap_or_default() };
        let index = about.run.map(|run| self.index(run_key(about, run), known));
        let call = Call { method: about.method, server: about.server, name: about.name, args: intent.args };
        let callers = about.traceparent.and_then(Parent::parse);
        let trace = match callers {
            Some(parent) => Arc::from(parent.trace),
            None => Arc::from(self.key.trace_id(run)),
        };
        Ids { trace, span: Arc::from(self.key.span_id(run, call, index.unwrap_or_default())), index }
    }

    /// The place of a call among those of its run. Given before the intent is written: a call that can't be recorded
    /// leaves a gap.
    fn index(&self, key: RunKey, known: impl FnOnce(&RunKey) -> u64) -> u64 {
        let mut next = self.next.lock();
        if let Some(next) = next.get_mut(&key) {
            *next += 1;
            return *next - 1;
        }
        let index = known(&key);
        next.put(key, index + 1);
        index
    }
}

fn run_key(about: &About<'_>, run: &str) -> RunKey {
    let own = |text: &str| Text::Owned(text.to_owned());
    RunKey { principal: principal(about.who), task: own(about.task), run: own(run) }
}

/// Keeps no record, and names calls all the same: servers get a trace context without a journal too.
pub(super) struct Unkept(pub(super) Spans);

#[async_trait]
impl Journal for Unkept {
    async fn intent(&self, intent: &Intent<'_>) -> Result<Written, Unavailable> {
        Ok(Written { ids: self.0.ids(intent, |_| 0), receipt: None, slot: Box::new(Nowhere) })
    }

    async fn note(&self, _: &About<'_>, _: Note<'_>) -> Result<Option<Receipt>, Unavailable> {
        Ok(None)
    }

    fn head(&self) -> Option<Head> {
        None
    }

    fn count_denied(&self, _: &'static str) {}

    fn close(&self) {}
}
