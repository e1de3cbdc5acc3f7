//! The gateway's Prometheus metrics over an injected registry. Labels come from enums, the configuration and servers'
//! catalogs, never from a caller's text, so that their number is bounded. No listener, no global registry.
//!
//! What every call counts is behind handles ([`Server`], [`Tool`], [`Task`]) that are looked up once and kept where the
//! call finds them anyway: at the catalog's entry and at the task. Everything else is looked up when it happens.

mod exemplar;
mod families;
mod handles;
mod openmetrics;
mod process;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use prometheus::{Encoder as _, TextEncoder};
pub use prometheus::{Error, Gauge, Histogram, IntGauge, Registry};

use families::Families;
pub use handles::{Ended, Outcome, Server, TASKS, TOOLS, Task, Tool};

/// All metrics of one gateway.
pub struct Metrics {
    registry: Registry,
    families: Arc<Families>,
    servers: RwLock<HashMap<Box<str>, Arc<Server>>>,
    nowhere: Arc<Server>,
    tasks: RwLock<HashMap<Box<str>, Arc<Task>>>,
    nobody: Arc<Task>,
    /// One reading at a time: amounts of money are put into their counters when they are read.
    reading: Mutex<()>,
}

/// A page of metrics.
pub struct Page {
    /// Its content type.
    pub content_type: &'static str,
    /// Its text.
    pub body: Vec<u8>,
}

impl Metrics {
    /// Registers everything in `registry`. Fails when a metric of the same name is already there.
    ///
    /// # Errors
    /// As said.
    pub fn new(registry: Registry, version: &str) -> Result<Metrics, Error> {
        let families = Arc::new(Families::new(&registry, version)?);
        registry.register(Box::new(process::Process::new()?))?;
        Ok(Metrics {
            nowhere: Arc::new(Server::nowhere(&families)),
            nobody: Arc::new(Task::new("", 0)),
            registry,
            families,
            servers: RwLock::default(),
            tasks: RwLock::default(),
            reading: Mutex::default(),
        })
    }

    /// The handle of a server. `id` is one of the configuration.
    pub fn server(&self, id: &str) -> Arc<Server> {
        if let Some(known) = self.known(id) {
            return known;
        }
        let mut servers = self.servers.write();
        let server = servers.entry(id.into()).or_insert_with(|| Arc::new(Server::new(id, &self.families)));
        Arc::clone(server)
    }

    /// The handle of a server that has one; that of no server else.
    pub fn server_or_none(&self, id: &str) -> Arc<Server> {
        self.known(id).unwrap_or_else(|| Arc::clone(&self.nowhere))
    }

    fn known(&self, id: &str) -> Option<Arc<Server>> {
        self.servers.read().get(id).map(Arc::clone)
    }

    /// The handle of a task. `name` is one of the configuration. More than [`TASKS`] share one that is named `other`.
    pub fn task(&self, name: &str) -> Arc<Task> {
        if let Some(known) = self.tasks.read().get(name) {
            return Arc::clone(known);
        }
        let mut tasks = self.tasks.write();
        // The first place is that of nobody, the last that of the rest.
        let (index, label) = match tasks.len() + 1 {
            index if index < TASKS - 1 => (index, name),
            _ => (TASKS - 1, "other"),
        };
        Arc::clone(tasks.entry(name.into()).or_insert_with(|| Arc::new(Task::new(label, index))))
    }

    /// The handle of messages whose task is not known.
    pub fn no_task(&self) -> Arc<Task> {
        Arc::clone(&self.nobody)
    }

    /// Counts one finished message that is no call of a tool. `method` must come from the protocol's own list.
    pub fn request(&self, method: &str, server: &Server, outcome: Outcome) {
        self.families.requests.with_label_values(&[method, server.id(), outcome.label()]).inc();
    }

    /// Counts one message that the gateway refused; `reason` comes from the table of rejections.
    pub fn denied(&self, reason: &'static str, task: &Task) {
        self.families.denials.with_label_values(&[reason, task.name()]).inc();
    }

    /// Counts one call that broke a rate.
    pub fn rate_limited(&self, task: &Task) {
        self.families.rate_limited.with_label_values(&[task.name()]).inc();
    }

    /// Counts one call that failed at the server or on the way; `reason` comes from the table of rejections.
    pub fn failed(&self, server: &Server, reason: &'static str) {
        self.families.failures.with_label_values(&[server.id(), reason]).inc();
    }

    /// Counts entries that a server listed and that could not be shown.
    pub fn dropped(&self, server: &str, kind: &str, count: u64) {
        self.families.own.dropped.with_label_values(&[server, kind]).inc_by(count);
    }

    /// Counts what a redaction rule took out; `rule` is a built-in or configured name.
    pub fn redacted(&self, rule: &str, count: u64) {
        self.families.redactions.with_label_values(&[rule]).inc_by(count);
    }

    /// Counts a call whose server reported a price that is none.
    pub fn bad_price(&self, server: &str) {
        self.families.prices.with_label_values(&[server]).inc();
    }

    /// Says whether a server answered last time.
    pub fn up(&self, server: &str, up: bool) {
        self.families.own.up.with_label_values(&[server]).set(i64::from(up));
    }

    /// The gauge of what is left of a budget of a task. All words come from the configuration or an enum.
    pub fn budget(&self, task: &str, scope: &str, unit: &str, period: &str) -> Gauge {
        self.families.budgets.with_label_values(&[task, scope, unit, period])
    }

    /// Observes what the gateway itself took of a call's time, in seconds.
    pub fn overhead(&self, seconds: f64) {
        self.families.overhead.observe(seconds);
    }

    /// The gauge of calls waiting for a server.
    pub fn inflight(&self) -> &IntGauge {
        &self.families.own.inflight
    }

    /// The gauge of streams open to clients.
    pub fn streams(&self) -> &IntGauge {
        &self.families.own.streams
    }

    /// Counts a configuration that was read anew.
    pub fn reloaded(&self, good: bool) {
        self.families.own.reloads.with_label_values(&[if good { "ok" } else { "failed" }]).inc();
    }

    /// The time that syncs of the journal take, in seconds.
    pub fn audit_sync(&self) -> Histogram {
        self.families.own.audit_sync.clone()
    }

    /// Says where the journal stands: records since the log began, how old the oldest is that no checkpoint covers, and
    /// whether something is wrong with it.
    pub fn audit(&self, records: u64, lag_seconds: f64, fault: bool) {
        let counted = &self.families.own.audit_records;
        counted.inc_by(records.saturating_sub(counted.get()));
        self.families.own.audit_lag.set(lag_seconds);
        self.families.own.audit_fault.set(i64::from(fault));
    }

    /// Says how many closed segments of the journal wait for the archive.
    pub fn archive(&self, lag_segments: u64) {
        self.families.own.archive_lag.set(i64::try_from(lag_segments).unwrap_or(i64::MAX));
    }

    /// Counts spans of traces: `exported`, `dropped` for want of room, or `failed` at the collector.
    pub fn spans(&self, result: &'static str, count: u64) {
        self.families.own.spans.with_label_values(&[result]).inc_by(count);
    }

    /// Everything, in OpenMetrics with exemplars where the scraper asks for it, else in the Prometheus text format.
    ///
    /// # Errors
    /// A metric without a value; there is none.
    pub fn render(&self, accept: Option<&str>) -> Result<Page, Error> {
        let _one = self.reading.lock();
        let servers: Vec<Arc<Server>> = self.servers.read().values().map(Arc::clone).collect();
        servers.iter().for_each(|server| server.settle());
        let families = self.registry.gather();
        if accept.is_some_and(openmetrics::wanted) {
            let exemplars = |server: &str, tool: &str| {
                Some(servers.iter().find(|known| known.id() == server)?.named(tool))
            };
            let body = openmetrics::encode(&families, &exemplars);
            return Ok(Page { content_type: openmetrics::TYPE, body: body.into_bytes() });
        }
        let mut body = Vec::new();
        TextEncoder::new().encode(&families, &mut body)?;
        Ok(Page { content_type: "text/plain; version=0.0.4; charset=utf-8", body })
    }
}

#[cfg(test)]
mod tests;
