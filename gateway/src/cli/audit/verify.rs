//! `tollgate audit verify`: judges logs offline and names every record that is not as it was signed. Believes the given
//! keys and what was kept elsewhere, nothing else. With several logs, keys and checkpoints find theirs by name.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;

use audit::hash::Digest;
use audit::key::VerifierKey;
use audit::note::{Checkpoint, MAX_NOTE, Note};
use audit::verify::{Class, Options, Report, Verdict, Warning, epoch_keys, verify};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};

use super::select::{self, Log, read_file};
use super::text::safe;
use super::{Failure, Outcome};

/// Largest file of receipts, in bytes.
const MAX_RECEIPTS: usize = 16 << 20;

/// Verify journals offline, from their files and a key, and name every record that is edited, missing, inserted or
/// moved.
///
/// Exit code: 0 everything is proven; 1 tampered with; 3 not everything is provable (no key was given, no checkpoint
/// covers the last records, or nothing that was kept elsewhere speaks for the end); 4 nothing can be said.
#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// Directory of one log, or of the journal with several; or the URL of an archive: s3://bucket/prefix, gs://, az://,
    /// file:///folder, read with the environment's credentials (AWS_* and the like).
    #[arg(value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// The key of a log's first epoch, as the gateway prints it when it makes the log. Without it anybody could have
    /// made the files. Repeat it for several logs.
    #[arg(long = "key", value_name = "VKEY", value_parser = select::key)]
    keys: Vec<VerifierKey>,
    /// A checkpoint that was kept elsewhere, such as one from `tollgate audit checkpoint` or the guard's.
    #[arg(long = "checkpoint", value_name = "FILE")]
    checkpoints: Vec<PathBuf>,
    /// Receipts that callers kept: one JSON object {"log", "seq", "leaf"} a line.
    #[arg(long = "receipts", value_name = "FILE")]
    receipts: Vec<PathBuf>,
    /// Print one JSON object for each log, a line each.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Receipt {
    log: String,
    seq: u64,
    leaf: Digest,
}

/// What is known from elsewhere, by the log's id.
#[derive(Default)]
struct Kept {
    keys: Vec<VerifierKey>,
    checkpoints: Vec<(String, Vec<u8>)>,
    receipts: Vec<Receipt>,
}

impl Kept {
    fn read(args: &VerifyArgs) -> Result<Kept, Failure> {
        let mut kept = Kept { keys: args.keys.clone(), ..Kept::default() };
        for path in &args.checkpoints {
            let note = read_file(path, MAX_NOTE)?;
            // What is no checkpoint is nobody's; the verifier of a single log says what is wrong with it.
            let read = Note::parse(&note).and_then(|note| Checkpoint::of_text(&note.text));
            kept.checkpoints.push((read.map(|c| c.origin).unwrap_or_default(), note));
        }
        for path in &args.receipts {
            let bytes = read_file(path, MAX_RECEIPTS)?;
            for (at, line) in bytes.split(|b| *b == b'\n').enumerate().filter(|(_, l)| !l.is_empty()) {
                let receipt = serde_json::from_slice(line);
                kept.receipts.push(receipt.map_err(|_| {
                    Failure::new(4, format!("{}: line {} is no receipt", path.display(), at + 1))
                })?);
            }
        }
        Ok(kept)
    }

    /// The ids of all logs that something speaks for; what is no checkpoint has none.
    fn names(&self) -> BTreeSet<&str> {
        let keys = self.keys.iter().map(VerifierKey::name);
        let checkpoints = self.checkpoints.iter().map(|(log, _)| log.as_str());
        keys.chain(checkpoints).chain(self.receipts.iter().map(|r| r.log.as_str())).collect()
    }

    /// What concerns one log; for the only one, everything.
    fn of(&self, log: Option<&str>) -> Options {
        let ours = |name: &str| log.is_none_or(|log| log == name);
        Options {
            key: self.keys.iter().find(|key| ours(key.name())).cloned(),
            checkpoints: self.checkpoints.iter().filter(|(o, _)| ours(o)).map(|(_, n)| n.clone()).collect(),
            receipts: self.receipts.iter().filter(|r| ours(&r.log)).map(|r| (r.seq, r.leaf)).collect(),
        }
    }
}

/// Runs the command.
pub(super) fn run(args: &VerifyArgs, out: &mut dyn Write) -> Outcome {
    let kept = Kept::read(args)?;
    let logs = select::logs(&args.dirs, 4)?;
    let mut missing = kept.names();
    let single = logs.len() == 1 && missing.len() <= 1;
    let mut codes = BTreeSet::new();
    for log in &logs {
        let report = if single {
            verify(&*log.source, &kept.of(None))
        } else {
            let keys = epoch_keys(&*log.source, None).unwrap_or_default();
            let name = keys.first().map_or("", VerifierKey::name);
            missing.remove(name);
            verify(&*log.source, &kept.of(Some(name)))
        };
        codes.insert(report.exit_code());
        if args.json { machine(log, &report, out)? } else { human(log, &report, out)? }
    }
    if !single {
        for name in missing {
            codes.insert(1);
            absent(name, args.json, out)?;
        }
    }
    // Tampering outweighs what can't be decided, and that outweighs what is not provable.
    Ok([1, 4, 3].into_iter().find(|code| codes.contains(code)).unwrap_or(0))
}

/// Something was kept of a log that is not here.
fn absent(name: &str, json: bool, out: &mut dyn Write) -> io::Result<()> {
    let what = "a key, checkpoint or receipt names this log, and it is not here";
    if json {
        return writeln!(
            out,
            "{}",
            json!({ "log": name, "verdict": "MISSING", "exit": 1, "problems": [what] })
        );
    }
    writeln!(out, "{}\n  MISSING: {what}", if name.is_empty() { "(no log)".into() } else { safe(name) })
}

fn machine(log: &Log, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut value = serde_json::to_value(report)?;
    if let Value::Object(members) = &mut value {
        members.insert("dir".into(), log.path.to_string_lossy().into());
        members.insert("horizon".into(), report.horizon().into());
        members.insert("exit".into(), report.exit_code().into());
    }
    writeln!(out, "{value}")
}

fn human(log: &Log, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", safe(&log.path.to_string_lossy()))?;
    writeln!(out, "  {}: {}", report.verdict.name(), meaning(report))?;
    if !report.log.is_empty() {
        writeln!(out, "  log {}", safe(&report.log))?;
    }
    writeln!(
        out,
        "  {} records, {} under a checkpoint, {} that something kept elsewhere speaks for; key epochs: {}",
        report.records, report.sealed, report.anchored, report.epochs
    )?;
    for finding in &report.findings {
        let what = if finding.class == Class::Inserted { "line" } else { "record" };
        let place = match finding.first == finding.last {
            true => format!("{what} {}", finding.first),
            false => format!("{what}s {} to {}", finding.first, finding.last),
        };
        let how = finding.how.map(|how| format!(" ({how:?})").to_lowercase()).unwrap_or_default();
        writeln!(out, "  {} {place}{how}", Verdict::Tampered(finding.class).name())?;
    }
    for warning in &report.warnings {
        let text = match warning {
            Warning::ClockStep { count } => format!("the wall clock jumped {count} times"),
            Warning::OrphanIntent { count } => format!("{count} calls have no outcome"),
            Warning::SideFile => {
                "the leaf files are damaged or absent: only the first bad record can be named".into()
            }
            Warning::More => "more is wrong than is listed".into(),
        };
        writeln!(out, "  warning: {text}")?;
    }
    report.problems.iter().try_for_each(|problem| writeln!(out, "  {}", safe(problem)))
}

/// The verdict in words.
fn meaning(report: &Report) -> String {
    let beyond = match report.horizon() {
        Some(last) => format!("nothing is provable beyond record {last}"),
        None => "nothing is provable".into(),
    };
    match report.verdict {
        Verdict::Ok => "every record is proven".into(),
        Verdict::OkUnanchored => {
            format!("intact; no checkpoint or receipt from elsewhere speaks for the end: {beyond}")
        }
        Verdict::OkUnpinned => {
            "the files agree with each other; without --key anybody could have made them".into()
        }
        Verdict::OkUnsealedTail => {
            let tail = report.records.saturating_sub(report.sealed);
            format!("no checkpoint covers the last {tail} records: {beyond}")
        }
        Verdict::TornTail => {
            format!("the last line is not whole ({} bytes): {beyond}", report.torn_bytes)
        }
        Verdict::Tampered(_) => "this is not what was signed".into(),
        Verdict::Undecided => "nothing can be said".into(),
    }
}
