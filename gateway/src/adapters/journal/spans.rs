//! Trace and span ids of calls, and the index of each in its run: made from `keys.digest`, what the call says and its
//! place in the run alone, so that a run that is replayed has the same ids on every replica.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use audit::costs::RunKey;
use audit::span::{self, BodyKey, Call, DigestKey};
use lru::LruCache;
use mcp::trace::Parent;
use parking_lot::Mutex;

use super::principal;
use crate::ports::journal::{
    About, Head, Ids, Intent, Journal, Note, Nowhere, Receipt, Unavailable, Written,
};

/// Runs whose next index is remembered; that of others is taken from the journal's totals.
const RUNS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// What the calls of one run have in common: made once, and shared by all of their records.
pub(super) struct Run {
    /// Whose it is. Without a run, its id is empty.
    pub(super) key: RunKey,
    /// The key of its tenant's bodies.
    pub(super) bodies: BodyKey,
    canonical: Box<str>,
    trace: Arc<str>,
    next: AtomicU64,
}

/// Makes ids.
pub(super) struct Spans {
    key: DigestKey,
    runs: Mutex<Runs>,
}

struct Runs {
    known: LruCache<Box<[u8]>, Arc<Run>>,
    /// The name that is looked for.
    name: Vec<u8>,
}

impl Spans {
    pub(super) fn new(key: DigestKey) -> Spans {
        Spans { key, runs: Mutex::new(Runs { known: LruCache::new(RUNS), name: Vec::new() }) }
    }

    /// The ids of the next call of a run, and the run. `known` tells where a run goes on that is not remembered.
    pub(super) fn ids(&self, intent: &Intent<'_>, known: impl FnOnce(&RunKey) -> u64) -> (Ids, Arc<Run>) {
        let about = &intent.about;
        let (run, index) = self.run(about, known);
        let index = about.run.map(|_| index);
        let of = run.of();
        let call = Call { method: about.method, server: about.server, name: about.name, args: intent.args };
        let trace = match about.traceparent.and_then(Parent::parse) {
            Some(parent) => Arc::from(parent.trace),
            None => Arc::clone(&run.trace),
        };
        let span = Arc::from(self.key.span_id(of, call, index.unwrap_or_default()));
        (Ids { trace, span, index }, run)
    }

    /// The run, and the place of a call among its calls. Given before the intent is written: a call that can't be
    /// recorded leaves a gap.
    fn run(&self, about: &About<'_>, known: impl FnOnce(&RunKey) -> u64) -> (Arc<Run>, u64) {
        let mut runs = self.runs.lock();
        let Runs { known: all, name } = &mut *runs;
        name.clear();
        // Digests have one length, and neither tasks nor runs have a NUL in their names.
        for part in [
            about.who.owner.as_slice(),
            about.task.as_bytes(),
            b"\0",
            about.run.unwrap_or_default().as_bytes(),
        ] {
            name.extend_from_slice(part);
        }
        if let Some(run) = all.get(name.as_slice()) {
            return (Arc::clone(run), run.next.fetch_add(1, Ordering::Relaxed));
        }
        let key = run_key(about);
        let index = about.run.map_or(0, |_| known(&key));
        let run = Arc::new(self.begin(about, key, index + 1));
        all.put(name.as_slice().into(), Arc::clone(&run));
        (run, index)
    }

    fn begin(&self, about: &About<'_>, key: RunKey, next: u64) -> Run {
        let canonical = about.who.principal.canonical().into_boxed_str();
        let of = span::Run { principal: &canonical, task: &key.task, run: &key.run };
        let trace = Arc::from(self.key.trace_id(of));
        let bodies = self.key.tenant(&key.principal.tenant);
        Run { bodies, trace, canonical, key, next: AtomicU64::new(next) }
    }
}

impl Run {
    fn of(&self) -> span::Run<'_> {
        span::Run { principal: &self.canonical, task: &self.key.task, run: &self.key.run }
    }
}

/// The run of a message; with an empty id where there is none.
pub(super) fn run_key(about: &About<'_>) -> RunKey {
    let run = about.run.unwrap_or_default().into();
    RunKey { principal: principal(about.who), task: about.task.into(), run }
}

/// Keeps no record, and names calls all the same: servers get a trace context without a journal too.
pub(super) struct Unkept(pub(super) Spans);

#[async_trait]
impl Journal for Unkept {
    async fn intent(&self, intent: &Intent<'_>) -> Result<Written, Unavailable> {
        let (ids, _) = self.0.ids(intent, |_| 0);
        Ok(Written { ids, receipt: None, slot: Box::new(Nowhere) })
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
