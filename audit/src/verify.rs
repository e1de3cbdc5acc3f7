//! The offline verifier: reads a log's files, believes nothing but a key, and names every record that is edited,
//! missing, inserted or moved. It streams; its memory does not grow with a log that is whole. It writes nothing.

mod align;
mod chain;
mod keys;
mod list;
mod source;
mod walk;

use std::io;

use serde::Serialize;

use crate::hash::Digest;
use crate::key::VerifierKey;
use crate::note::{Checkpoint, NoteError};
use keys::Keys;
pub use source::{DirSource, ReadAt, Source};
pub(crate) use {keys::header, source::whole};

/// What a verifier is given besides the files.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The key of the log's first epoch. Without it nothing is proven but that the files agree with each other.
    pub key: Option<VerifierKey>,
    /// Signed checkpoints that were kept elsewhere.
    pub checkpoints: Vec<Vec<u8>>,
    /// Receipts that callers kept: `seq` and leaf hash.
    pub receipts: Vec<(u64, Digest)>,
}

/// What is wrong, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Class {
    /// A checkpoint or receipt from elsewhere names another history; or two signed ones contradict each other.
    Fork,
    /// Records and chain agree with each other, and not with what was signed.
    Rewritten,
    /// Records of another log.
    WrongLog,
    /// Records that are not what was signed.
    Edited,
    /// Records that are not there.
    Missing,
    /// Lines that are no records of the log, or second copies. Counted by line, not by `seq`.
    Inserted,
    /// Records that stand elsewhere.
    Moved,
    /// The log ends before what was signed.
    Truncated,
    /// A checkpoint or hand-over whose signature is wrong or that is damaged.
    BadSignature,
    /// A checkpoint of a key that no epoch names, or another first key than the given one.
    UnknownKey,
    /// A checkpoint by the key of another epoch.
    EpochKey,
    /// A segment or epoch that no checkpoint closes, or no checkpoint at all.
    EpochGap,
}

/// How a record was damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// The line's own CRC shows it: bit rot, or an edit without care.
    Rot,
    /// The line's CRC is right, what was signed shows it.
    Edit,
    /// And the chain was computed again behind it.
    Rewrite,
}

/// Something wrong, with the records concerned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub class: Class,
    /// First record: its `seq`, or for `INSERTED` the line's number in the whole log, from 0.
    pub first: u64,
    /// Last record.
    pub last: u64,
    /// How, for edits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<How>,
}

/// What is worth a look and proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE", tag = "warning")]
pub enum Warning {
    /// The wall clock jumped, so many times.
    ClockStep {
        /// Records of it.
        count: u64,
    },
    /// Intents without an outcome.
    OrphanIntent {
        /// How many.
        count: u64,
    },
    /// The leaf hashes' files are damaged or absent: what is wrong is named by the first record alone.
    SideFile,
    /// More is wrong than is listed.
    More,
}

/// The judgement in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    /// Every record is proven by the given key, and what was kept elsewhere shows that none is missing at the end.
    Ok,
    /// As `Ok`, but nothing kept elsewhere speaks for the end: nothing is provable beyond [`Report::horizon`].
    OkUnanchored,
    /// The files agree with each other; no key was given, so that anybody could have made them.
    OkUnpinned,
    /// No checkpoint covers the last records yet.
    OkUnsealedTail,
    /// The last line is not whole: a writer was ended while it wrote, or is writing.
    TornTail,
    /// See [`Class`].
    Tampered(Class),
    /// Nothing can be said.
    Undecided,
}

impl Verdict {
    /// The process's exit code: 0 proven, 1 tampered, 3 not everything is provable, 4 nothing can be said. (2 is a
    /// wrong command line.)
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Ok => 0,
            Verdict::Tampered(_) => 1,
            Verdict::OkUnanchored | Verdict::OkUnpinned | Verdict::OkUnsealedTail | Verdict::TornTail => 3,
            Verdict::Undecided => 4,
        }
    }

    /// The word as documents and reports have it.
    pub fn name(self) -> String {
        let json = match self {
            Verdict::Tampered(class) => serde_json::to_string(&class),
            other => serde_json::to_string(&other),
        };
        json.unwrap_or_default().trim_matches('"').to_owned()
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The log's id.
    pub log: String,
    /// The judgement.
    #[serde(serialize_with = "verdict_name")]
    pub verdict: Verdict,
    /// Whole records that were read.
    pub records: u64,
    /// Records under a valid checkpoint.
    pub sealed: u64,
    /// Records that something kept elsewhere speaks for.
    pub anchored: u64,
    /// Bytes of a last line that is not whole.
    pub torn_bytes: u64,
    /// Key epochs.
    pub epochs: u64,
    /// What is wrong, by class and place.
    pub findings: Vec<Finding>,
    /// What is worth a look.
    pub warnings: Vec<Warning>,
    /// Files that can't be read, and other reasons of `UNDECIDED`.
    pub problems: Vec<String>,
}

fn verdict_name<S: serde::Serializer>(verdict: &Verdict, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&verdict.name())
}

impl Report {
    /// The last `seq` that is proven; nothing is provable beyond it. `None` when nothing is.
    pub fn horizon(&self) -> Option<u64> {
        self.sealed.checked_sub(1)
    }

    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        self.verdict.exit_code()
    }
}

/// What the passes find out.
#[derive(Default)]
pub(crate) struct Facts {
    pub(crate) records: u64,
    pub(crate) sealed: u64,
    /// The greatest size that a valid checkpoint in the log names.
    pub(crate) signed: u64,
    /// One past the last record that is there or was.
    pub(crate) size: u64,
    pub(crate) torn_bytes: u64,
    pub(crate) findings: Vec<Finding>,
    pub(crate) warnings: Vec<Warning>,
    /// Root by size, for the sizes of what was kept elsewhere.
    pub(crate) roots: Vec<(u64, Digest)>,
    /// One past each record that a receipt agrees with.
    pub(crate) agreed: Vec<u64>,
    /// Lines that no start writes before the log's first checkpoint.
    pub(crate) later: u64,
}

impl Facts {
    pub(crate) fn find(&mut self, class: Class, first: u64, last: u64, how: Option<How>) {
        self.findings.push(Finding { class, first, last, how });
    }

    /// A record's leaf against the receipts of it.
    pub(crate) fn compare(&mut self, receipts: &[(u64, Digest)], seq: u64, here: Digest) {
        for (_, leaf) in receipts.iter().filter(|(of, _)| *of == seq) {
            if *leaf == here {
                self.agreed.push(seq.saturating_add(1));
            } else {
                self.find(Class::Fork, seq, seq, None);
            }
        }
    }

    /// Without any checkpoint nothing is closed. What a first start leaves that was ended before it signed is no gap:
    /// nobody had an answer from it.
    fn close(&mut self) {
        if self.signed > 0 {
            return;
        }
        self.findings.retain(|f| f.class != Class::EpochGap);
        let begun = self.findings.is_empty() && self.later == 0;
        if self.size > 0 && !begun {
            self.find(Class::EpochGap, 0, self.size - 1, None);
        }
    }
}

/// Verifies a log. A file that can't be read makes the verdict `UNDECIDED`, unless what was read is bad enough.
pub fn verify(source: &dyn Source, options: &Options) -> Report {
    let mut report = Report {
        log: String::new(),
        verdict: Verdict::Undecided,
        records: 0,
        sealed: 0,
        anchored: 0,
        torn_bytes: 0,
        epochs: 0,
        findings: Vec::new(),
        warnings: Vec::new(),
        problems: Vec::new(),
    };
    if let Err(error) = run(source, options, &mut report) {
        report.problems.push(error.to_string());
    }
    report.findings = align::merge(std::mem::take(&mut report.findings));
    report.verdict = judge(&report, options);
    report
}

/// The keys of a log's epochs: the given first one (without it, the one that the files name), then each that the one
/// before signed for. Empty when no first key is known or the files name another.
///
/// # Errors
/// A file can't be read.
pub fn epoch_keys(source: &dyn Source, first: Option<&VerifierKey>) -> io::Result<Vec<VerifierKey>> {
    let keys = Keys::read(source, &source.segments()?, first, &mut Vec::new())?;
    Ok(keys.map(Keys::into_keys).unwrap_or_default())
}

fn run(source: &dyn Source, options: &Options, report: &mut Report) -> io::Result<()> {
    let segments = source.segments()?;
    let keys = Keys::read(source, &segments, options.key.as_ref(), &mut report.findings)?;
    let Some(keys) = keys else {
        report.problems.push("no key of this log is known".into());
        return Ok(());
    };
    report.log = keys.log().to_owned();
    report.epochs = keys.count();
    let anchors = anchors(options, &keys, &mut report.findings);
    let sizes: Vec<u64> = anchors.iter().map(|a| a.size).collect();
    let mut facts = facts(source, &segments, &keys, (&sizes, &options.receipts))?;
    facts.close();
    compare(&mut facts, &anchors, options, report);
    report.records = facts.records;
    report.sealed = facts.sealed;
    report.torn_bytes = facts.torn_bytes;
    report.findings.append(&mut facts.findings);
    report.warnings.append(&mut facts.warnings);
    Ok(())
}

/// What the records are, by the list if there is one.
fn facts(
    source: &dyn Source,
    segments: &[u64],
    keys: &Keys,
    kept: (&[u64], &[(u64, Digest)]),
) -> io::Result<Facts> {
    let chain = || chain::walk(source, segments, keys, kept.0, kept.1);
    let Ok(list) = list::read(source, segments, keys, kept.0)? else { return chain() };
    let (listed, told) = (list.size, list.facts.findings.len());
    let facts = walk::walk(source, segments, keys, list, kept)?;
    // Records behind the list that are signed: it is the list that was cut.
    if facts.size > listed && facts.signed > listed {
        return chain();
    }
    let mut new = facts.findings.get(told..).unwrap_or_default().iter().peekable();
    if new.peek().is_none() || facts.sealed == listed || !new.all(loose) {
        return Ok(facts);
    }
    // Leaves that no checkpoint covers prove nothing: a power cut may have left them so.
    let Ok(mut list) = list::read(source, segments, keys, kept.0)? else { return chain() };
    if !list.cut() {
        return Ok(facts);
    }
    let mut again = walk::walk(source, segments, keys, list, kept)?;
    if again.findings.len() == told && again.size >= listed {
        again.warnings.push(Warning::SideFile);
        return Ok(again);
    }
    Ok(facts)
}

/// Whether wrong leaves alone make such a finding of whole records.
fn loose(finding: &Finding) -> bool {
    matches!(finding.class, Class::Edited | Class::Inserted)
}

/// The checkpoints from elsewhere that the log's keys signed.
fn anchors(options: &Options, keys: &Keys, findings: &mut Vec<Finding>) -> Vec<Checkpoint> {
    let mut all = Vec::new();
    for note in &options.checkpoints {
        match keys.open(note) {
            Ok((checkpoint, _)) => all.push(checkpoint),
            Err(error) => {
                let class = match error {
                    NoteError::UnknownKey => Class::UnknownKey,
                    _ => Class::BadSignature,
                };
                findings.push(Finding { class, first: 0, last: 0, how: None });
            }
        }
    }
    all.sort_by_key(|c| c.size);
    all
}

/// What was kept elsewhere against what is here.
fn compare(facts: &mut Facts, anchors: &[Checkpoint], options: &Options, report: &mut Report) {
    let mut known = facts.signed;
    for anchor in anchors {
        known = known.max(anchor.size);
        let root = facts.roots.iter().find(|(size, _)| *size == anchor.size);
        match root {
            Some((_, root)) if *root != anchor.root => {
                facts.find(Class::Fork, anchor.size.saturating_sub(1), anchor.size.saturating_sub(1), None);
            }
            Some(_) => report.anchored = report.anchored.max(anchor.size),
            None => {}
        }
    }
    for (seq, _) in &options.receipts {
        known = known.max(seq.saturating_add(1));
    }
    for end in facts.agreed.iter().filter(|end| **end <= facts.sealed) {
        report.anchored = report.anchored.max(*end);
    }
    let listed = facts.findings.iter().any(|f| matches!(f.class, Class::Truncated));
    if known > facts.size {
        match facts.findings.iter_mut().find(|f| f.class == Class::Truncated && listed) {
            Some(found) => found.last = found.last.max(known - 1),
            None => facts.find(Class::Truncated, facts.size, known - 1, None),
        }
    }
}

fn judge(report: &Report, options: &Options) -> Verdict {
    if let Some(worst) = report.findings.iter().map(|f| f.class).min() {
        return Verdict::Tampered(worst);
    }
    if !report.problems.is_empty() || report.records == 0 {
        return Verdict::Undecided;
    }
    if report.torn_bytes > 0 {
        return Verdict::TornTail;
    }
    if report.sealed < report.records {
        return Verdict::OkUnsealedTail;
    }
    match (options.key.is_some(), report.anchored >= report.records) {
        (false, _) => Verdict::OkUnpinned,
        (true, false) => Verdict::OkUnanchored,
        (true, true) => Verdict::Ok,
    }
}
