//! The rows of the JSON output.

use serde::Serialize;

use crate::contenders::Through;

/// One object of the output array. Calls carry no `measure`, everything else does.
#[derive(Serialize, Clone)]
#[serde(untagged)]
pub(crate) enum Row {
    Calls(CallRow),
    Streams(StreamRow),
    List(ListRow),
    Scale(ScaleRow),
    Policies(PolicyRow),
    Journal(JournalRow),
    Meter(MeterRow),
    Run(RunRow),
}

/// Calls of one kind through one contender; medians over the rounds.
#[derive(Serialize, Clone)]
pub(crate) struct CallRow {
    pub(crate) through: Through,
    pub(crate) era: &'static str,
    pub(crate) answer: &'static str,
    pub(crate) size: usize,
    pub(crate) connections: usize,
    pub(crate) servers: usize,
    pub(crate) rps: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us_per_call: f64,
    pub(crate) rss_kib: f64,
    pub(crate) path: String,
    pub(crate) rounds: usize,
    pub(crate) rps_min: f64,
    pub(crate) rps_max: f64,
}

/// Memory of idle open streams. `null` where it couldn't be measured.
#[derive(Serialize, Clone)]
pub(crate) struct StreamRow {
    pub(crate) measure: &'static str,
    pub(crate) through: Through,
    pub(crate) era: &'static str,
    pub(crate) streams: usize,
    pub(crate) kib_per_stream: Option<f64>,
    pub(crate) rss_before_kib: u64,
    pub(crate) rss_kib: u64,
    pub(crate) open_ms: f64,
}

/// A whole `tools/list`, all pages.
#[derive(Serialize, Clone)]
pub(crate) struct ListRow {
    pub(crate) measure: &'static str,
    pub(crate) through: Through,
    pub(crate) era: &'static str,
    pub(crate) servers: usize,
    pub(crate) tools: usize,
    pub(crate) pages: usize,
    pub(crate) bytes: usize,
    pub(crate) first_page_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) cpu_us_per_list: f64,
    pub(crate) rss_kib: u64,
}

/// A call's cost with many servers over its cost with one; `twin` is a second gateway with one server over the
/// first, that is: what the machine's noise alone makes of equal things.
#[derive(Serialize, Clone)]
pub(crate) struct ScaleRow {
    pub(crate) measure: &'static str,
    pub(crate) through: Through,
    pub(crate) servers: usize,
    pub(crate) cpu_ratio: f64,
    pub(crate) p50_ratio: f64,
    pub(crate) twin_cpu_ratio: f64,
    pub(crate) twin_p50_ratio: f64,
}

/// Tollgate with all policies on, beside the bare Pingora proxy and Tollgate without policies in the same rounds.
#[derive(Serialize, Clone)]
pub(crate) struct PolicyRow {
    pub(crate) measure: &'static str,
    pub(crate) through: Through,
    pub(crate) rps: f64,
    pub(crate) cpu_us_per_call: f64,
    pub(crate) rps_over_pingora: f64,
    pub(crate) rps_over_plain: f64,
    pub(crate) cpu_over_plain: f64,
}

/// Tollgate without a journal, with a buffered and with a strict one in the same rounds. `strict_in_syncs`: by how many
/// of the disk's own syncs, at the pace of such calls, a strict call's median is longer than one without a journal.
#[derive(Serialize, Clone)]
pub(crate) struct JournalRow {
    pub(crate) measure: &'static str,
    pub(crate) through: Through,
    pub(crate) connections: usize,
    pub(crate) rps_off: f64,
    pub(crate) rps_buffered: f64,
    pub(crate) rps_strict: f64,
    pub(crate) buffered_over_off: f64,
    pub(crate) strict_over_off: f64,
    pub(crate) cpu_buffered_over_off: f64,
    pub(crate) p50_off_us: f64,
    pub(crate) p50_buffered_us: f64,
    pub(crate) p50_strict_us: f64,
    pub(crate) sync_p50_us: f64,
    pub(crate) sync_hurried_p50_us: f64,
    pub(crate) strict_in_syncs: f64,
}

/// Tollgate with a meter in each result, and with results as servers gave them, in the same rounds.
#[derive(Serialize, Clone)]
pub(crate) struct MeterRow {
    pub(crate) measure: &'static str,
    pub(crate) through: Through,
    pub(crate) rps_off: f64,
    pub(crate) rps_result: f64,
    pub(crate) result_over_off: f64,
    pub(crate) cpu_result_over_off: f64,
}

/// What to know about the run itself.
#[derive(Serialize, Clone)]
pub(crate) struct RunRow {
    pub(crate) measure: &'static str,
    pub(crate) quick: bool,
    pub(crate) cores: usize,
    pub(crate) threads: usize,
    pub(crate) seconds: f64,
    /// Share of the machine that other programs used while we measured: median and worst window, in percent.
    pub(crate) others_percent: f64,
    pub(crate) others_percent_max: f64,
    pub(crate) wrong_answers: u64,
}
