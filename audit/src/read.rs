//! Reading records: filtered, in order, followed while they are written; a run's calls; totals of a whole log. It
//! proves nothing: verify first. Lines that are damaged are passed over and counted.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::costs::{Principal, RunKey, Totals};
use crate::entry::{Entry, Kind, Text};
use crate::frame::{Frame, Frames};
use crate::hash::Digest;
use crate::layout::{self, KEYS, LOG, is_instance};
use crate::runs::{Projection, RunTotals};
use crate::tree::leaf_hash;
use crate::verify::{ReadAt, Source};

/// The logs under the journal's directory, by name; or the directory itself, if it is one log. Any file of a log makes
/// a directory one, so that a log does not vanish with its file `keys`.
///
/// # Errors
/// It can't be listed.
pub fn logs(dir: &Path) -> io::Result<Vec<PathBuf>> {
    if is_log(dir)? {
        return Ok(vec![dir.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let named = entry.file_name().to_str().is_some_and(is_instance);
        if named && entry.file_type()?.is_dir() && is_log(&entry.path())? {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn is_log(dir: &Path) -> io::Result<bool> {
    let named = |e: io::Result<std::fs::DirEntry>| {
        e.map(|e| e.file_name().to_str().is_some_and(|n| n == KEYS || layout::parse(n).is_some()))
    };
    let failed = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", dir.display()));
    let found: io::Result<Vec<bool>> = std::fs::read_dir(dir).map_err(failed)?.map(named).collect();
    Ok(found?.contains(&true))
}

/// Which records are wanted. Everything that is set must hold.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// `ts` from here on, RFC 3339 or a prefix of it.
    pub since: Option<String>,
    /// `ts` before this.
    pub until: Option<String>,
    /// The server.
    pub server: Option<String>,
    /// `sub` of the principal.
    pub sub: Option<String>,
    /// The task.
    pub task: Option<String>,
    /// The run.
    pub run: Option<String>,
    /// The call.
    pub call: Option<String>,
    /// The kinds; empty: all.
    pub kinds: Vec<Kind>,
}

impl Filter {
    /// Whether a record is wanted.
    pub fn takes(&self, entry: &Entry) -> bool {
        let is = |want: &Option<String>, field: &Option<Text>| {
            want.as_deref().is_none_or(|want| field.as_deref() == Some(want))
        };
        self.since.as_deref().is_none_or(|since| entry.ts.as_ref() >= since)
            && self.until.as_deref().is_none_or(|until| entry.ts.as_ref() < until)
            && is(&self.server, &entry.server)
            && is(&self.sub, &entry.sub)
            && is(&self.task, &entry.task)
            && is(&self.run, &entry.run)
            && is(&self.call, &entry.call)
            && (self.kinds.is_empty() || self.kinds.contains(&entry.kind))
    }
}

/// A record as it stands in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its members.
    pub entry: Entry,
    /// Its bytes.
    pub json: Vec<u8>,
    /// Its leaf hash.
    pub leaf: Digest,
}

/// A place in a log, from which reading goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The segment.
    pub segment: u64,
    /// Bytes into it.
    pub offset: u64,
    /// Damaged lines so far.
    pub damaged: u64,
}

struct At {
    file: Arc<dyn ReadAt>,
    offset: u64,
}

impl Read for At {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += u64::try_from(read).unwrap_or_default();
        Ok(read)
    }
}

/// Gives every wanted record from the cursor on to `each`, until that says `false` or the log ends. Called again, it
/// goes on with what was written since. A last line that is not whole yet is left for the next time.
///
/// # Errors
/// A file can't be read.
pub fn each(
    source: &dyn Source,
    filter: &Filter,
    cursor: &mut Cursor,
    each: &mut dyn FnMut(Record) -> bool,
) -> io::Result<()> {
    let segments = source.segments()?;
    for segment in segments.into_iter().filter(|s| *s >= cursor.segment).collect::<Vec<u64>>() {
        if segment > cursor.segment {
            *cursor = Cursor { segment, offset: 0, damaged: cursor.damaged };
        }
        let Some(file) = source.open(&layout::name(segment, LOG))? else { continue };
        let start = cursor.offset;
        let mut frames = Frames::new(At { file, offset: start });
        while let Some((_, frame)) = frames.next()? {
            let record = match frame {
                Frame::Torn => break,
                Frame::Flawed(..) => None,
                Frame::Whole(json) => Entry::parse(json).map(|entry| (entry, json.to_vec())),
            };
            cursor.offset = start + frames.offset();
            let Some((entry, json)) = record else {
                cursor.damaged += 1;
                continue;
            };
            if filter.takes(&entry) {
                let leaf = leaf_hash(&json);
                if !each(Record { entry, json, leaf }) {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// All wanted records. Bounded by what fits into memory: for runs and calls, not for logs.
///
/// # Errors
/// A file can't be read.
pub fn all(source: &dyn Source, filter: &Filter) -> io::Result<Vec<Record>> {
    let mut found = Vec::new();
    each(source, filter, &mut Cursor::default(), &mut |record| {
        found.push(record);
        true
    })?;
    Ok(found)
}

/// The totals of everything in a log.
///
/// # Errors
/// A file can't be read.
pub fn totals(source: &dyn Source) -> io::Result<Totals> {
    let mut totals = Totals::default();
    each(source, &Filter::default(), &mut Cursor::default(), &mut |record| {
        totals.add(&record.entry, &record.leaf);
        true
    })?;
    Ok(totals)
}

/// A call or a refusal of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunCall {
    /// `intent`, or `denied` for a refusal.
    pub first: Record,
    /// `outcome`, when it is there.
    pub outcome: Option<Record>,
}

/// A run of one principal under one task, rebuilt from records alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Whose.
    pub principal: Principal,
    /// The task.
    pub task: Text,
    /// Its calls and refusals: by index in the run, refusals where they were recorded.
    pub calls: Vec<RunCall>,
    /// Status, sums and hashes: the same for everybody who has the records.
    pub projection: Projection,
}

/// A run's records from the logs of any number of replicas, and how many damaged lines were passed over. Principals
/// that use the same run id are kept apart.
///
/// # Errors
/// A file can't be read.
pub fn runs(sources: &[&dyn Source], run: &str) -> io::Result<(Vec<Run>, u64)> {
    let filter = Filter { run: Some(run.to_owned()), ..Filter::default() };
    let mut damaged = 0;
    let mut grouped: BTreeMap<(Principal, Text), Vec<Record>> = BTreeMap::new();
    for source in sources {
        let mut cursor = Cursor::default();
        each(*source, &filter, &mut cursor, &mut |record| {
            let key = (Principal::of(&record.entry), record.entry.task.clone().unwrap_or_default());
            grouped.entry(key).or_default().push(record);
            true
        })?;
        damaged += cursor.damaged;
    }
    let runs = grouped.into_iter().map(|((principal, task), records)| {
        assemble(RunKey { run: Text::from(run.to_owned()), task, principal }, records)
    });
    Ok((runs.collect(), damaged))
}

fn assemble(key: RunKey, mut records: Vec<Record>) -> Run {
    records.sort_by(|a, b| (&a.entry.log, a.entry.seq).cmp(&(&b.entry.log, b.entry.seq)));
    let mut logs: BTreeMap<Text, RunTotals> = BTreeMap::new();
    for record in &records {
        logs.entry(record.entry.log.clone()).or_default().add(&record.entry, &record.leaf);
    }
    let mut outcomes: BTreeMap<Text, Record> = BTreeMap::new();
    let mut calls = Vec::new();
    for record in records {
        match (record.entry.kind, record.entry.call.clone()) {
            (Kind::Outcome, Some(call)) => drop(outcomes.insert(call, record)),
            (Kind::Intent | Kind::Denied, _) => calls.push(RunCall { first: record, outcome: None }),
            _ => {}
        }
    }
    for call in &mut calls {
        call.outcome = call.first.entry.call.as_ref().and_then(|id| outcomes.remove(id));
    }
    // The index was given at the intent, over all replicas. A refusal has none and stays by its time.
    calls.sort_by(|a, b| order(&a.first.entry).cmp(&order(&b.first.entry)));
    let mut indexed: Vec<RunCall> = Vec::with_capacity(calls.len());
    let mut by_index: Vec<RunCall> =
        calls.iter().filter(|c| c.first.entry.index.is_some()).cloned().collect();
    by_index.sort_by_key(|c| c.first.entry.index);
    let mut by_index = by_index.into_iter();
    for call in calls {
        match call.first.entry.index {
            Some(_) => indexed.extend(by_index.next()),
            None => indexed.push(call),
        }
    }
    let (principal, task) = (key.principal.clone(), key.task.clone());
    Run { principal, task, calls: indexed, projection: Projection { key, logs } }
}

fn order(entry: &Entry) -> (&Text, &Text, u64) {
    (&entry.ts, &entry.log, entry.seq.0)
}
