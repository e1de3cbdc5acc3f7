//! Handles of what every call counts. A call finds them by following pointers: no label is hashed twice.

use std::array;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use prometheus::{Counter, Histogram, IntCounter, IntGauge};

use crate::exemplar::{Exemplar, Exemplars};
use crate::families::Families;

/// Tools of one server that have a label of their own; the others share `other`.
pub const TOOLS: usize = 512;
/// Tasks that are told apart.
pub const TASKS: usize = CHUNK * CHUNKS;
/// The label of what is not told apart.
const OTHER: &str = "other";

const CHUNK: usize = 32;
const CHUNKS: usize = 32;
const NANOS: f64 = 1e9;

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A result without `isError`.
    Ok,
    /// A result with `isError: true`.
    ToolError,
    /// Answered with a question to a person.
    Asked,
    /// Refused by the gateway.
    Refused,
    /// The server answered with an error, or not at all.
    Failed,
    /// The client cancelled or left.
    Cancelled,
}

const OUTCOMES: usize = 6;

impl Outcome {
    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::ToolError => "tool_error",
            Outcome::Asked => "asked",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
            Outcome::Cancelled => "cancelled",
        }
    }
}

/// One thing for each task, made when it is first used.
struct ByTask<T>([OnceLock<Box<[T; CHUNK]>>; CHUNKS]);

impl<T: Default> ByTask<T> {
    fn new() -> ByTask<T> {
        ByTask(array::from_fn(|_| OnceLock::new()))
    }

    fn of(&self, task: &Task) -> Option<&T> {
        let chunk = self.0.get(task.index / CHUNK)?;
        chunk.get_or_init(|| Box::new(array::from_fn(|_| T::default()))).get(task.index % CHUNK)
    }

    fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(OnceLock::get).flat_map(|chunk| chunk.iter())
    }
}

type ByOutcome = [OnceLock<IntCounter>; OUTCOMES];

/// A task.
#[derive(Debug)]
pub struct Task {
    name: Box<str>,
    index: usize,
}

impl Task {
    pub(crate) fn new(name: &str, index: usize) -> Task {
        Task { name: name.into(), index }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// A server.
pub struct Server {
    id: Arc<str>,
    families: Arc<Families>,
    tools: RwLock<HashMap<Box<str>, Arc<Tool>>>,
    other: Arc<Tool>,
    called: ByOutcome,
    costs: ByTask<OnceLock<Cost>>,
    result_bytes: IntCounter,
    manifests: IntCounter,
    connections: IntGauge,
}

/// What a task has spent at a server. Counted in 10^-9 dollars, so that nothing is lost in sums.
struct Cost {
    nanos: AtomicU64,
    shown: Counter,
}

impl Server {
    pub(crate) fn new(id: &str, families: &Arc<Families>) -> Server {
        let own = &families.own;
        let id: Arc<str> = id.into();
        own.quarantined.with_label_values(&[&*id]).set(0);
        Server {
            other: Arc::new(Tool::new(&id, OTHER, families)),
            tools: RwLock::default(),
            called: ByOutcome::default(),
            costs: ByTask::new(),
            result_bytes: families.result_bytes.with_label_values(&[&*id]),
            manifests: own.manifests.with_label_values(&[&*id]),
            connections: own.connections.with_label_values(&[&*id]),
            families: Arc::clone(families),
            id,
        }
    }

    /// What stands for no server: only what is counted of it is shown.
    pub(crate) fn nowhere(families: &Arc<Families>) -> Server {
        let server = Server::new("", families);
        families.result_bytes.remove_label_values(&[""]).ok();
        families.own.quarantined.remove_label_values(&[""]).ok();
        families.own.manifests.remove_label_values(&[""]).ok();
        families.own.connections.remove_label_values(&[""]).ok();
        server
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The handle of a tool that the server lists. More than [`TOOLS`] share one that is named `other`.
    pub fn listed(&self, name: &str) -> Arc<Tool> {
        if let Some(known) = self.tools.read().get(name) {
            return Arc::clone(known);
        }
        let mut tools = self.tools.write();
        if tools.len() >= TOOLS && !tools.contains_key(name) {
            return Arc::clone(&self.other);
        }
        let make = || Arc::new(Tool::new(&self.id, name, &self.families));
        Arc::clone(tools.entry(name.into()).or_insert_with(make))
    }

    /// The handle of a tool that somebody names: `other` when the server does not list it.
    pub fn named(&self, name: &str) -> Arc<Tool> {
        self.tools.read().get(name).map_or_else(|| Arc::clone(&self.other), Arc::clone)
    }

    /// Counts the bytes of a result.
    pub fn result(&self, bytes: u64) {
        self.result_bytes.inc_by(bytes);
    }

    /// Counts what a call has cost, in 10^-9 dollars.
    pub fn cost(&self, task: &Task, nanos: u64) {
        let make = || Cost {
            nanos: AtomicU64::new(0),
            shown: self.families.costs.with_label_values(&[&*self.id, task.name()]),
        };
        if let Some(cost) = self.costs.of(task) {
            cost.get_or_init(make).nanos.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    /// Counts a list that was read, when it differs from the one before.
    pub fn list_read(&self, differs: bool) {
        self.manifests.inc_by(u64::from(differs));
    }

    /// The gauge of connections to it.
    pub fn connections(&self) -> &IntGauge {
        &self.connections
    }

    /// Puts the amounts of money into their counters. Only one reader may do it at a time.
    pub(crate) fn settle(&self) {
        for cost in self.costs.all().filter_map(OnceLock::get) {
            #[allow(clippy::cast_precision_loss, reason = "a sum of dollars is shown, not reckoned with")]
            let dollars = cost.nanos.load(Ordering::Relaxed) as f64 / NANOS;
            cost.shown.reset();
            cost.shown.inc_by(dollars);
        }
    }

    fn called(&self, outcome: Outcome) {
        let make = || {
            let labels = ["tools/call", &*self.id, outcome.label()];
            self.families.requests.with_label_values(&labels)
        };
        if let Some(counter) = self.called.get(outcome as usize) {
            counter.get_or_init(make).inc();
        }
    }
}

/// A tool of a server.
pub struct Tool {
    server: Arc<str>,
    name: Box<str>,
    families: Arc<Families>,
    seconds: OnceLock<Histogram>,
    calls: ByTask<ByOutcome>,
    exemplars: OnceLock<Box<Exemplars>>,
}

/// The end of a tool's call.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took, in seconds, from the request to the final answer.
    pub seconds: f64,
    /// Its trace id, 32 hexadecimal digits; empty when there is none that can be looked up.
    pub trace: &'a str,
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tool").field("server", &self.server).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Tool {
    fn new(server: &Arc<str>, name: &str, families: &Arc<Families>) -> Tool {
        Tool {
            server: Arc::clone(server),
            name: name.into(),
            families: Arc::clone(families),
            seconds: OnceLock::new(),
            calls: ByTask::new(),
            exemplars: OnceLock::new(),
        }
    }

    /// Counts a call's end.
    pub fn ended(&self, server: &Server, task: &Task, end: Ended<'_>) {
        server.called(end.outcome);
        if let Some(counter) = self.calls.of(task).and_then(|calls| calls.get(end.outcome as usize)) {
            let make = || {
                let labels = [&*self.server, &*self.name, task.name(), end.outcome.label()];
                self.families.calls.with_label_values(&labels)
            };
            counter.get_or_init(make).inc();
        }
        let make = || self.families.call_seconds.with_label_values(&[&*self.server, &*self.name]);
        self.seconds.get_or_init(make).observe(end.seconds);
        if !end.trace.is_empty() {
            self.exemplars.get_or_init(Box::default).keep(end.seconds, end.trace);
        }
    }

    pub(crate) fn exemplar(&self, bucket: usize) -> Option<Exemplar> {
        self.exemplars.get()?.of(bucket)
    }
}
