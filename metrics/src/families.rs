//! Every metric with its name, help and labels: the list that the documentation, the dashboard and the rules name.

use prometheus::core::Collector;
use prometheus::{
    CounterVec, Error, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec,
    IntGauge, IntGaugeVec, Opts, Registry,
};

/// Upper bounds of a call's time, in seconds: from a local call to the longest that is allowed.
pub(crate) const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 600.0];
/// Upper bounds of what the gateway itself takes, and of a sync of the journal.
const SHORT: &[f64] =
    &[0.000_05, 0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

/// The histogram that has exemplars.
pub(crate) const CALL_DURATION: &str = "tollgate_call_duration_seconds";

/// What calls count.
pub(crate) struct Families {
    pub(crate) calls: IntCounterVec,
    pub(crate) call_seconds: HistogramVec,
    pub(crate) requests: IntCounterVec,
    pub(crate) overhead: Histogram,
    pub(crate) denials: IntCounterVec,
    pub(crate) rate_limited: IntCounterVec,
    pub(crate) failures: IntCounterVec,
    pub(crate) costs: CounterVec,
    pub(crate) budgets: GaugeVec,
    pub(crate) result_bytes: IntCounterVec,
    pub(crate) redactions: IntCounterVec,
    pub(crate) prices: IntCounterVec,
    pub(crate) own: Own,
}

/// What servers and the gateway itself are in.
pub(crate) struct Own {
    pub(crate) dropped: IntCounterVec,
    pub(crate) up: IntGaugeVec,
    pub(crate) connections: IntGaugeVec,
    pub(crate) quarantined: IntGaugeVec,
    pub(crate) manifests: IntCounterVec,
    pub(crate) inflight: IntGauge,
    pub(crate) streams: IntGauge,
    pub(crate) reloads: IntCounterVec,
    pub(crate) audit_records: IntCounter,
    pub(crate) audit_lag: Gauge,
    pub(crate) audit_fault: IntGauge,
    pub(crate) audit_sync: Histogram,
    pub(crate) archive_lag: IntGauge,
    pub(crate) spans: IntCounterVec,
}

/// Makes metrics and registers each.
struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn register<C: Collector + Clone + 'static>(&self, made: Result<C, Error>) -> Result<C, Error> {
        let made = made?;
        self.0.register(Box::new(made.clone()))?;
        Ok(made)
    }

    fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, Error> {
        self.register(IntGauge::new(name, help))
    }

    fn histogram(&self, name: &str, help: &str) -> Result<Histogram, Error> {
        let options = HistogramOpts::new(name, help).buckets(SHORT.to_vec());
        self.register(Histogram::with_opts(options))
    }
}

impl Families {
    pub(crate) fn new(registry: &Registry, version: &str) -> Result<Families, Error> {
        let m = Maker(registry);
        m.gauges("tollgate_build_info", "Always 1.", &["version"])?.with_label_values(&[version]).set(1);
        let seconds = "Time from a tool's call to its final answer, the server's time included.";
        let seconds = HistogramOpts::new(CALL_DURATION, seconds).buckets(SECONDS.to_vec());
        let cost = Opts::new("tollgate_cost_usd_total", "What calls have cost, in dollars.");
        let budget = "Part of a budget that was left when a call last drew on it, from 0 to 1.";
        let budget = Opts::new("tollgate_budget_remaining_ratio", budget);
        Ok(Families {
            calls: m.counters(
                "tollgate_calls_total",
                "Calls of tools by outcome; a result that says isError counts as tool_error.",
                &["server", "tool", "task", "outcome"],
            )?,
            call_seconds: m.register(HistogramVec::new(seconds, &["server", "tool"]))?,
            requests: m.counters(
                "tollgate_requests_total",
                "Messages by method, server and outcome.",
                &["method", "server", "outcome"],
            )?,
            overhead: m.histogram(
                "tollgate_gateway_overhead_seconds",
                "What the gateway itself took of the time of a call that was sent to a server.",
            )?,
            denials: m.counters(
                "tollgate_denials_total",
                "Messages that the gateway refused, by reason.",
                &["reason", "task"],
            )?,
            rate_limited: m.counters("tollgate_rate_limited_total", "Calls that broke a rate.", &["task"])?,
            failures: m.counters(
                "tollgate_upstream_failures_total",
                "Calls that failed at the server or on the way to it, by reason.",
                &["server", "reason"],
            )?,
            costs: m.register(CounterVec::new(cost, &["server", "task"]))?,
            budgets: m.register(GaugeVec::new(budget, &["task", "scope", "unit", "period"]))?,
            result_bytes: m.counters(
                "tollgate_result_bytes_total",
                "Bytes of results as clients got them, by server.",
                &["server"],
            )?,
            redactions: m.counters(
                "tollgate_redactions_total",
                "Secrets and personal data taken out, by rule.",
                &["rule"],
            )?,
            prices: m.counters(
                "tollgate_unusable_prices_total",
                "Calls whose server reported no usable price.",
                &["server"],
            )?,
            own: Own::new(&m)?,
        })
    }
}

impl Own {
    fn new(m: &Maker<'_>) -> Result<Own, Error> {
        let records = IntCounter::new("tollgate_audit_records_total", "Records of the journal's log.");
        let lag = "Time since the last checkpoint while there are records without one.";
        let lag = Gauge::new("tollgate_audit_checkpoint_lag_seconds", lag);
        let own = Own {
            dropped: m.counters(
                "tollgate_list_entries_dropped_total",
                "Entries of servers' lists that were not usable.",
                &["server", "kind"],
            )?,
            up: m.gauges(
                "tollgate_upstream_up",
                "1 when the last contact with the server succeeded, else 0.",
                &["server"],
            )?,
            connections: m.gauges(
                "tollgate_upstream_connections",
                "Open connections to the server; of a child process, its pipes.",
                &["server"],
            )?,
            quarantined: m.gauges(
                "tollgate_quarantined",
                "1 when the server is in quarantine for everyone, else 0.",
                &["server"],
            )?,
            manifests: m.counters(
                "tollgate_manifest_changes_total",
                "Lists of a server that were read and differed from the one before.",
                &["server"],
            )?,
            inflight: m.gauge("tollgate_inflight_calls", "Calls waiting for a server's answer.")?,
            streams: m.gauge("tollgate_active_streams", "Event streams open to clients.")?,
            reloads: m.counters(
                "tollgate_config_reloads_total",
                "Configurations read anew while running.",
                &["outcome"],
            )?,
            audit_records: m.register(records)?,
            audit_lag: m.register(lag)?,
            audit_sync: m.histogram("tollgate_audit_sync_seconds", "Time of one sync of the journal.")?,
            audit_fault: m.gauge(
                "tollgate_audit_fault",
                "1 while something is wrong with the journal, such as a full disk, else 0.",
            )?,
            archive_lag: m.gauge(
                "tollgate_audit_archive_lag_segments",
                "Closed segments of the journal that are not in its archive yet.",
            )?,
            spans: m.counters(
                "tollgate_trace_spans_total",
                "Spans for the trace collector: exported, dropped for want of room, or failed.",
                &["result"],
            )?,
        };
        ["ok", "failed"].iter().for_each(|outcome| drop(own.reloads.with_label_values(&[outcome])));
        for result in ["exported", "dropped", "failed"] {
            own.spans.with_label_values(&[result]);
        }
        Ok(own)
    }
}
