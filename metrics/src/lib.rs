//! The gateway's Prometheus metrics over an injected registry. Labels come from enums and from the
//! configuration, never from a caller's text, so that their number is bounded. No listener, no global registry.

pub use prometheus::Registry;
use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, TextEncoder,
};

/// Upper bounds of the duration buckets, in seconds: from a local call to the longest that is allowed.
const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 600.0];

/// All metrics of one gateway.
pub struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    seconds: HistogramVec,
    rejects: IntCounterVec,
    dropped: IntCounterVec,
    redactions: IntCounterVec,
    prices: IntCounterVec,
    up: IntGaugeVec,
    inflight: IntGauge,
    streams: IntGauge,
}

impl Metrics {
    /// Registers everything in `registry`. Fails when a metric of the same name is already there.
    pub fn new(registry: Registry, version: &str) -> Result<Metrics, prometheus::Error> {
        let requests = IntCounterVec::new(
            Opts::new("tollgate_requests_total", "Requests by method, server and outcome."),
            &["method", "server", "outcome"],
        )?;
        let seconds = HistogramVec::new(
            HistogramOpts::new("tollgate_request_duration_seconds", "Time from request to final answer.")
                .buckets(SECONDS.to_vec()),
            &["method", "server"],
        )?;
        let rejects = IntCounterVec::new(
            Opts::new("tollgate_rejects_total", "Requests that the gateway refused, by reason."),
            &["reason"],
        )?;
        let dropped = IntCounterVec::new(
            Opts::new(
                "tollgate_list_entries_dropped_total",
                "Entries of servers' lists that were not usable.",
            ),
            &["server", "kind"],
        )?;
        let redactions = IntCounterVec::new(
            Opts::new("tollgate_redactions_total", "Secrets and personal data taken out, by rule."),
            &["rule"],
        )?;
        let prices = IntCounterVec::new(
            Opts::new("tollgate_unusable_prices_total", "Calls whose server reported no usable price."),
            &["server"],
        )?;
        let up = IntGaugeVec::new(
            Opts::new("tollgate_upstream_up", "1 when the last contact with the server succeeded, else 0."),
            &["server"],
        )?;
        let inflight = IntGauge::new("tollgate_inflight_calls", "Calls waiting for a server's answer.")?;
        let streams = IntGauge::new("tollgate_active_streams", "Event streams open to clients.")?;
        let build = IntGaugeVec::new(Opts::new("tollgate_build_info", "Always 1."), &["version"])?;
        build.with_label_values(&[version]).set(1);
        registry.register(Box::new(requests.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        registry.register(Box::new(rejects.clone()))?;
        registry.register(Box::new(dropped.clone()))?;
        registry.register(Box::new(redactions.clone()))?;
        registry.register(Box::new(prices.clone()))?;
        registry.register(Box::new(up.clone()))?;
        registry.register(Box::new(inflight.clone()))?;
        registry.register(Box::new(streams.clone()))?;
        registry.register(Box::new(build))?;
        Ok(Metrics {
            registry,
            requests,
            seconds,
            rejects,
            dropped,
            redactions,
            prices,
            up,
            inflight,
            streams,
        })
    }

    /// Counts one finished request. `method` must come from the protocol's own list, `server` from the
    /// configuration (or be empty), `outcome` from an enum. `seconds` is the time it took.
    pub fn request(&self, method: &str, server: &str, outcome: &str, seconds: f64) {
        self.requests.with_label_values(&[method, server, outcome]).inc();
        self.seconds.with_label_values(&[method, server]).observe(seconds);
    }

    /// Counts one request that the gateway refused; `reason` comes from the table of rejections.
    pub fn reject(&self, reason: &str) {
        self.rejects.with_label_values(&[reason]).inc();
    }

    /// Counts entries that a server listed and that could not be shown.
    pub fn dropped(&self, server: &str, kind: &str, count: u64) {
        self.dropped.with_label_values(&[server, kind]).inc_by(count);
    }

    /// Counts what a redaction rule took out; `rule` is a built-in or configured name.
    pub fn redacted(&self, rule: &str, count: u64) {
        self.redactions.with_label_values(&[rule]).inc_by(count);
    }

    /// Counts a call whose server reported a price that is none.
    pub fn bad_price(&self, server: &str) {
        self.prices.with_label_values(&[server]).inc();
    }

    /// Says whether a server answered last time.
    pub fn up(&self, server: &str, up: bool) {
        self.up.with_label_values(&[server]).set(i64::from(up));
    }

    /// The gauge of calls waiting for a server.
    pub fn inflight(&self) -> &IntGauge {
        &self.inflight
    }

    /// The gauge of streams open to clients.
    pub fn streams(&self) -> &IntGauge {
        &self.streams
    }

    /// Everything in the Prometheus text format.
    pub fn render(&self) -> Result<Vec<u8>, prometheus::Error> {
        let mut out = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut out)?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_rendered() {
        let metrics = Metrics::new(Registry::new(), "1.2.3").unwrap();
        metrics.request("tools/call", "docs", "ok", 0.02);
        metrics.up("docs", true);
        let text = String::from_utf8(metrics.render().unwrap()).unwrap();
        assert!(
            text.contains("tollgate_requests_total{method=\"tools/call\",outcome=\"ok\",server=\"docs\"} 1")
        );
        assert!(text.contains("tollgate_upstream_up{server=\"docs\"} 1"));
        assert!(text.contains("tollgate_build_info{version=\"1.2.3\"} 1"));
    }

    #[test]
    fn two_sets_in_one_registry_are_refused() {
        let registry = Registry::new();
        assert!(Metrics::new(registry.clone(), "1").is_ok());
        assert!(Metrics::new(registry, "1").is_err());
    }
}
