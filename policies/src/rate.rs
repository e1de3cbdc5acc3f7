//! Rates: how they are written, which of them apply to a call and under which keys they are counted. Counting itself is
//! elsewhere, behind the limiter; keys are made of verified identities alone.

use std::time::Duration;

use smallvec::SmallVec;

use crate::flaw::{Flaw, steps};
use crate::glob::{Glob, GlobSet};

/// Calls per period at most.
const MOST: u32 = 1_000_000_000;

/// So many calls in so much time, and how many of them at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Calls per period, at least 1.
    pub calls: u32,
    /// The period: a second, a minute or an hour.
    pub per: Duration,
    /// Calls that may come at once, at least 1.
    pub burst: u32,
}

impl Quota {
    /// Reads `60/min`, `5/s`, `1000/h`. Without a burst, all calls of a period may come at once.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str, burst: Option<u32>) -> Result<Quota, &'static str> {
        let (calls, per) = text.split_once('/').ok_or("a rate is written as 60/min, 5/s or 1000/h")?;
        let calls = calls.trim().parse::<u32>().map_err(|_| "the number of calls is no whole number")?;
        let per = match per.trim() {
            "s" | "sec" | "second" => 1,
            "m" | "min" | "minute" => 60,
            "h" | "hour" => 3600,
            _ => return Err("the period is none of s, min and h"),
        };
        if calls == 0 || calls > MOST {
            return Err("the number of calls is not between 1 and 1000000000");
        }
        if burst == Some(0) {
            return Err("a burst is at least 1");
        }
        Ok(Quota { calls, per: Duration::from_secs(per), burst: burst.unwrap_or(calls) })
    }

    /// The time in which one call is earned back, at least a nanosecond.
    pub fn interval(&self) -> Duration {
        (self.per / self.calls.max(1)).max(Duration::from_nanos(1))
    }

    /// So many times as much, at least once.
    #[must_use]
    pub fn times(self, times: u32) -> Quota {
        let more = |calls: u32| calls.saturating_mul(times.max(1)).min(MOST);
        Quota { calls: more(self.calls), burst: more(self.burst), ..self }
    }

    /// `Retry-After` in whole seconds, at least 1 (RFC 9110, 10.2.3), for a wait.
    pub fn retry_after(wait: Duration) -> u64 {
        wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1)
    }
}

/// What a rate is counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Per {
    /// Each principal under the task.
    Principal,
    /// Each principal under the task, for the tools that a pattern names.
    Tool,
    /// All of the task's calls to one server.
    Server,
    /// Each run.
    Run,
    /// All runs of a principal under the task together: what a new run id does not get around.
    Runs,
}

/// The rates and concurrency of a task as they are configured.
#[derive(Clone, Debug, Default)]
pub struct RateSpec {
    /// Per principal.
    pub calls: Option<Quota>,
    /// Per tool pattern and principal.
    pub tools: Vec<(String, Quota)>,
    /// Per server, by id.
    pub servers: Vec<(String, Quota)>,
    /// Per run.
    pub run: Option<Quota>,
    /// How many times the rate of a run all runs of a principal get together; 0 is 1.
    pub runs_at_once: u32,
    /// Calls of one principal at the same time.
    pub concurrency: Option<u32>,
}

/// The compiled rates of a task.
#[derive(Debug)]
pub struct Rates {
    spec: RateSpec,
    tools: GlobSet,
}

/// Whose call it is, for counting.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    /// The task.
    pub task: &'a str,
    /// The key of the principal: `Caller::key`.
    pub principal: &'a str,
    /// The run's id.
    pub run: &'a str,
}

/// One rate that applies: where it is counted, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applies {
    /// The counter's name: stable, and the same for the same caller on every replica.
    pub key: Box<str>,
    /// The rate.
    pub quota: Quota,
    /// What it is counted for.
    pub per: Per,
}

impl Rates {
    /// No rate and no cap.
    pub fn none() -> Rates {
        Rates { spec: RateSpec::default(), tools: GlobSet::none() }
    }

    /// Compiles the rates of a task.
    ///
    /// # Errors
    /// All malformed patterns, below `limits`.
    pub fn compile(spec: RateSpec) -> Result<Rates, Vec<Flaw>> {
        let mut flaws = Vec::new();
        let mut globs = Vec::new();
        for (n, (text, _)) in spec.tools.iter().enumerate() {
            match Glob::parse(text) {
                Ok(glob) => globs.push(glob),
                Err(bad) => {
                    let at = steps!["limits", "tools", n, "tool"];
                    flaws.push(Flaw::new(at, bad.what, "correct the pattern").at_byte(bad.offset));
                }
            }
        }
        if spec.concurrency == Some(0) {
            let fix = "leave it out for no cap, or deny the tools";
            flaws.push(Flaw::new(steps!["limits", "concurrency"], "no call could ever be made", fix));
        }
        match GlobSet::new(&globs) {
            Ok(tools) if flaws.is_empty() => return Ok(Rates { spec, tools }),
            Ok(_) => {}
            Err(_) => {
                flaws.push(Flaw::new(steps!["limits", "tools"], "the patterns are too large", "write fewer"))
            }
        }
        Err(flaws)
    }

    /// The rates that a call must keep, in the order in which they are checked: what more callers share comes later, so
    /// that a call that is refused for its own rate has spent nothing of theirs.
    pub fn applying(&self, who: &Who<'_>, server: &str, tool: &str) -> SmallVec<[Applies; 5]> {
        let mut all = SmallVec::new();
        let mut add = |per, quota: Quota, parts: &[&str]| {
            all.push(Applies { key: key("rate", parts), quota, per });
        };
        if let Some(quota) = self.spec.run {
            add(Per::Run, quota, &["run", who.task, who.principal, who.run]);
            add(Per::Runs, quota.times(self.spec.runs_at_once), &["runs", who.task, who.principal]);
        }
        let mut matching: SmallVec<[usize; 4]> = SmallVec::new();
        if !self.tools.each(tool, |n| matching.push(n)) {
            // Given up: all are counted.
            matching = (0..self.tools.len()).collect();
        }
        matching.sort_unstable();
        for (pattern, quota) in matching.iter().filter_map(|n| self.spec.tools.get(*n)) {
            add(Per::Tool, *quota, &["tool", who.task, who.principal, pattern]);
        }
        if let Some(quota) = self.spec.calls {
            add(Per::Principal, quota, &["principal", who.task, who.principal]);
        }
        if let Some((_, quota)) = self.spec.servers.iter().find(|(id, _)| id == server) {
            add(Per::Server, *quota, &["server", who.task, server]);
        }
        all
    }

    /// The cap on calls at the same time, and the counter that it is held by.
    pub fn concurrency(&self, who: &Who<'_>) -> Option<(Box<str>, u32)> {
        self.spec.concurrency.map(|cap| (key("open", &[who.task, who.principal]), cap))
    }
}

/// A counter's name. Each part is preceded by its length, so that no choice of names makes two keys meet.
pub(crate) fn key(kind: &str, parts: &[&str]) -> Box<str> {
    let mut out = String::with_capacity(kind.len() + parts.iter().map(|p| p.len() + 4).sum::<usize>());
    out.push_str(kind);
    for part in parts {
        out.push('|');
        out.push_str(&part.len().to_string());
        out.push(':');
        out.push_str(part);
    }
    out.into()
}

#[cfg(test)]
mod tests;
