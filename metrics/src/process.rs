//! The process as its system sees it, under the names that every Prometheus client uses. Read from `/proc` when somebody
//! asks; elsewhere than on Linux there is nothing to read, and nothing is shown.

use std::fs;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Error, IntGauge};

/// Ticks of a second in `/proc` (`USER_HZ`): part of Linux's interface, and 100 on all its machines.
const TICKS: f64 = 100.0;

pub(crate) struct Process {
    cpu: Counter,
    resident: IntGauge,
    virtual_size: IntGauge,
    open_files: IntGauge,
    max_files: IntGauge,
    threads: IntGauge,
    started: prometheus::Gauge,
}

/// What `/proc` says.
struct Figures {
    cpu_seconds: f64,
    started: f64,
    threads: i64,
    resident: i64,
    virtual_size: i64,
    open_files: i64,
    max_files: i64,
}

impl Process {
    pub(crate) fn new() -> Result<Process, Error> {
        Ok(Process {
            cpu: Counter::new("process_cpu_seconds_total", "CPU time of the process, in seconds.")?,
            resident: IntGauge::new("process_resident_memory_bytes", "Resident memory, in bytes.")?,
            virtual_size: IntGauge::new("process_virtual_memory_bytes", "Virtual memory, in bytes.")?,
            open_files: IntGauge::new("process_open_fds", "Open file descriptors.")?,
            max_files: IntGauge::new("process_max_fds", "The most file descriptors that may be open.")?,
            threads: IntGauge::new("process_threads", "Threads of the process.")?,
            started: prometheus::Gauge::new(
                "process_start_time_seconds",
                "When the process began, in seconds since 1970 UTC.",
            )?,
        })
    }

    fn all(&self) -> [&dyn Collector; 7] {
        [
            &self.cpu,
            &self.resident,
            &self.virtual_size,
            &self.open_files,
            &self.max_files,
            &self.threads,
            &self.started,
        ]
    }
}

impl Collector for Process {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(now) = look() else { return Vec::new() };
        self.cpu.inc_by((now.cpu_seconds - self.cpu.get()).max(0.0));
        self.resident.set(now.resident);
        self.virtual_size.set(now.virtual_size);
        self.open_files.set(now.open_files);
        self.max_files.set(now.max_files);
        self.threads.set(now.threads);
        self.started.set(now.started);
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}

fn look() -> Option<Figures> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, in brackets, may hold anything.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |n: usize| fields.get(n)?.parse::<f64>().ok();
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib = |key: &str| line(&status, key)?.split_ascii_whitespace().next()?.parse::<i64>().ok();
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let system = fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = line(&system, "btime ")?.trim().parse().ok()?;
    let most = line(&limits, "Max open files")?.split_ascii_whitespace().next()?;
    Some(Figures {
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS,
        started: boot + ticks(19)? / TICKS,
        threads: fields.get(17)?.parse().ok()?,
        resident: kib("VmRSS:")? * 1024,
        virtual_size: kib("VmSize:")? * 1024,
        // The folder that is read is open itself.
        open_files: i64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()?.saturating_sub(1),
        max_files: most.parse().unwrap_or(i64::MAX),
    })
}

/// What follows a key at the start of a line.
fn line<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key))
}
