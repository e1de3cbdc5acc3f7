//! The OpenMetrics text format (version 1.0.0), which has room for exemplars; the Prometheus text format has not.

use std::fmt::Write as _;
use std::sync::Arc;

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

use crate::families::CALL_DURATION;
use crate::handles::Tool;

/// The content type.
pub(crate) const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Finds the tool that a series of the histogram with exemplars is about, by server and tool.
pub(crate) type Find<'a> = dyn Fn(&str, &str) -> Option<Arc<Tool>> + 'a;

/// Whether an `Accept` header names the format.
pub(crate) fn wanted(accept: &str) -> bool {
    let name = |part: &str| part.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let refused = |part: &str| {
        part.split(';').skip(1).any(|p| matches!(p.trim(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    };
    accept.split(',').any(|part| name(part) == "application/openmetrics-text" && !refused(part))
}

/// All families as text.
pub(crate) fn encode(families: &[MetricFamily], find: &Find<'_>) -> String {
    let mut out = String::with_capacity(16 << 10);
    for family in families {
        encode_family(&mut out, family, find);
    }
    out.push_str("# EOF\n");
    out
}

fn encode_family(out: &mut String, family: &MetricFamily, find: &Find<'_>) {
    let (name, kind) = (family.name(), family.get_field_type());
    let (shown, word) = match kind {
        MetricType::COUNTER => (name.strip_suffix("_total").unwrap_or(name), "counter"),
        MetricType::HISTOGRAM => (name, "histogram"),
        MetricType::GAUGE => (name, "gauge"),
        // Nothing here makes others.
        _ => return,
    };
    out.push_str("# HELP ");
    out.push_str(shown);
    out.push(' ');
    escape(out, family.help());
    out.push_str("\n# TYPE ");
    out.push_str(shown);
    out.push(' ');
    out.push_str(word);
    out.push('\n');
    for metric in family.get_metric() {
        match kind {
            MetricType::COUNTER => {
                // The suffix is the format's, not the name's.
                let series = Series { name: shown, suffix: "_total", metric };
                series.line(out, None, metric.get_counter().get_value());
            }
            MetricType::HISTOGRAM => histogram(out, shown, metric, find),
            _ => Series { name: shown, suffix: "", metric }.line(out, None, metric.get_gauge().get_value()),
        }
    }
}

fn histogram(out: &mut String, name: &str, metric: &Metric, find: &Find<'_>) {
    let label = |wanted: &str| {
        let found = metric.get_label().iter().find(|label| label.name() == wanted);
        found.map_or("", LabelPair::value)
    };
    let tool = if name == CALL_DURATION { find(label("server"), label("tool")) } else { None };
    let histogram = metric.get_histogram();
    let bounds = histogram.get_bucket().iter().map(|b| (b.upper_bound(), b.cumulative_count()));
    let bounds = bounds.filter(|(bound, _)| bound.is_finite());
    let all = bounds.chain([(f64::INFINITY, histogram.get_sample_count())]);
    for (n, (bound, count)) in all.enumerate() {
        let series = Series { name, suffix: "_bucket", metric };
        series.head(out, Some(bound));
        let _ = write!(out, " {count}");
        if let Some(exemplar) = tool.as_ref().and_then(|tool| tool.exemplar(n)) {
            let _ = write!(out, " # {{trace_id=\"{}\"}} ", exemplar.trace());
            number(out, exemplar.value);
        }
        out.push('\n');
    }
    #[allow(clippy::cast_precision_loss, reason = "a count of observations, shown")]
    let count = histogram.get_sample_count() as f64;
    Series { name, suffix: "_count", metric }.line(out, None, count);
    Series { name, suffix: "_sum", metric }.line(out, None, histogram.get_sample_sum());
}

struct Series<'a> {
    name: &'a str,
    suffix: &'a str,
    metric: &'a Metric,
}

impl Series<'_> {
    fn head(&self, out: &mut String, bound: Option<f64>) {
        out.push_str(self.name);
        out.push_str(self.suffix);
        let labels = self.metric.get_label();
        if labels.is_empty() && bound.is_none() {
            return;
        }
        out.push('{');
        for (n, label) in labels.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            out.push_str(label.name());
            out.push_str("=\"");
            escape(out, label.value());
            out.push('"');
        }
        if let Some(bound) = bound {
            if !labels.is_empty() {
                out.push(',');
            }
            out.push_str("le=\"");
            number(out, bound);
            out.push('"');
        }
        out.push('}');
    }

    fn line(&self, out: &mut String, bound: Option<f64>, value: f64) {
        self.head(out, bound);
        out.push(' ');
        number(out, value);
        out.push('\n');
    }
}

/// Bounds of buckets are written as floats, also whole ones.
fn number(out: &mut String, value: f64) {
    let _ = match value {
        v if v == f64::INFINITY => write!(out, "+Inf"),
        v if v == f64::NEG_INFINITY => write!(out, "-Inf"),
        v => write!(out, "{v:?}"),
    };
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}
