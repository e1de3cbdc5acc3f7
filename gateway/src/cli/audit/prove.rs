//! `tollgate audit prove`, `check-proof`, `checkpoint` and `keys`: what convinces others that a record is in a log, and
//! what to keep elsewhere so that a log can't lose its end unnoticed.

use std::io::Write;
use std::path::PathBuf;

use audit::key::VerifierKey;
use audit::note::{Checkpoint, NoteError};
use audit::proof::{MAX_PROOF, Proof, ProofError};
use audit::prove::{self, ProveError};
use audit::verify::epoch_keys;
use clap::Args;
use serde::Serialize;
use serde_json::value::RawValue;

use super::select::{self, Log, Where, read_file};
use super::text::safe;
use super::{Failure, Outcome};

/// Write an inclusion proof of one record (c2sp.org/tlog-proof@v1), to be checked without the journal.
///
/// Exit code: 0 done; 1 there is no such record, or the files contradict each other; 3 no checkpoint covers it yet.
#[derive(Debug, Args)]
pub(super) struct ProveArgs {
    /// The record's number in its log.
    #[arg(value_name = "SEQ")]
    seq: u64,
    #[command(flatten)]
    dirs: Where,
    /// The key of the log's first epoch. Without it, the one that the files name.
    #[arg(long, value_name = "VKEY", value_parser = select::key)]
    key: Option<VerifierKey>,
}

/// Check a proof file.
///
/// Exit code: 0 the record is in the log; 1 it is not proven; 3 it would be, but no key was given, so that anybody could
/// have made the file; 4 the file can't be read.
#[derive(Debug, Args)]
pub(super) struct CheckProofArgs {
    /// The proof.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// A key of the log: the one whose epoch signed the proof's checkpoint, or with --dir the first.
    #[arg(long = "key", value_name = "VKEY", value_parser = select::key)]
    keys: Vec<VerifierKey>,
    /// Directory of the log, for the keys of its later epochs.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Print a JSON object.
    #[arg(long)]
    json: bool,
}

/// Print the newest signed checkpoint, to be kept elsewhere: `verify --checkpoint` then shows a lost end.
#[derive(Debug, Args)]
pub(super) struct CheckpointArgs {
    #[command(flatten)]
    dirs: Where,
    /// The key of the log's first epoch. Without it, the one that the files name.
    #[arg(long, value_name = "VKEY", value_parser = select::key)]
    key: Option<VerifierKey>,
}

/// Print the verifier keys that each log names, the first epoch's first: the public half, for `verify --key`.
///
/// Take the key from a place that whoever could change the journal can't change.
#[derive(Debug, Args)]
pub(super) struct KeysArgs {
    #[command(flatten)]
    dirs: Where,
}

/// The keys of a log's epochs.
fn keys_of(log: &Log, first: Option<&VerifierKey>) -> Result<Vec<VerifierKey>, Failure> {
    let keys = epoch_keys(&*log.source, first)?;
    match keys.is_empty() {
        true if first.is_some() => Err(Failure::new(1, "the log's first key is another")),
        true => Err(Failure::new(4, "no key of this log is known")),
        false => Ok(keys),
    }
}

/// Runs `prove`.
pub(super) fn prove(args: &ProveArgs, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    let log = args.dirs.one()?;
    let keys = keys_of(&log, args.key.as_ref())?;
    let proof = prove::prove(&*log.source, args.seq, &keys).map_err(|error| {
        let code = if matches!(error, ProveError::Unsealed(_)) { 3 } else { 1 };
        Failure::new(code, error.to_string())
    })?;
    out.write_all(proof.text().as_bytes())?;
    if args.key.is_none() {
        let first = keys.first().map(ToString::to_string).unwrap_or_default();
        writeln!(err, "tollgate: check it with --key {}", safe(&first)).ok();
    }
    Ok(0)
}

/// What a proof says.
#[derive(Serialize)]
struct Checked<'a> {
    verdict: &'static str,
    log: &'a str,
    seq: u64,
    size: u64,
    record: &'a RawValue,
}

/// Runs `check-proof`.
pub(super) fn check(args: &CheckProofArgs, out: &mut dyn Write) -> Outcome {
    let bytes = read_file(&args.file, MAX_PROOF)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Failure::new(1, ProofError::Malformed.to_string()))?;
    let refused = |error: ProofError| Failure::new(1, format!("not proven: {error}"));
    let proof = Proof::parse(text).map_err(refused)?;
    let checkpoint = match (&args.dir, args.keys.is_empty()) {
        (None, true) => proof.check_unsigned(),
        (None, false) => proof.check(&args.keys),
        (Some(dir), _) => with_dir(&proof, dir, &args.keys)?,
    };
    let checkpoint = checkpoint.map_err(refused)?;
    let (verdict, code) = if args.keys.is_empty() { ("OK_UNPINNED", 3) } else { ("OK", 0) };
    let record: &RawValue =
        serde_json::from_slice(&proof.record).map_err(|_| refused(ProofError::Mismatch))?;
    let checked =
        Checked { verdict, log: &checkpoint.origin, seq: proof.index, size: checkpoint.size, record };
    if args.json {
        serde_json::to_writer(&mut *out, &checked).map_err(std::io::Error::from)?;
        writeln!(out)?;
        return Ok(code);
    }
    let means = match code {
        0 => "is in the log",
        _ => "would be in the log; without --key anybody could have made this file",
    };
    writeln!(out, "{verdict}: record {} {means}", proof.index)?;
    writeln!(out, "  log {}, checkpoint of {} records", safe(&checkpoint.origin), checkpoint.size)?;
    writeln!(out, "  {}", safe(record.get()))?;
    Ok(code)
}

/// With the epochs that the log's files name behind the given first key.
fn with_dir(
    proof: &Proof,
    dir: &std::path::Path,
    given: &[VerifierKey],
) -> Result<Result<Checkpoint, ProofError>, Failure> {
    let logs = select::logs(&[dir.to_owned()], 4)?;
    let mut last = ProofError::Checkpoint(NoteError::UnknownKey);
    let firsts: Vec<Option<&VerifierKey>> =
        if given.is_empty() { vec![None] } else { given.iter().map(Some).collect() };
    for log in &logs {
        for first in &firsts {
            let keys = epoch_keys(&*log.source, *first)?;
            match proof.check(&keys) {
                Ok(checkpoint) => return Ok(Ok(checkpoint)),
                Err(ProofError::Checkpoint(NoteError::UnknownKey)) => {}
                Err(error) => last = error,
            }
        }
    }
    Ok(Err(last))
}

/// Runs `checkpoint`.
pub(super) fn checkpoint(args: &CheckpointArgs, out: &mut dyn Write) -> Outcome {
    let log = args.dirs.one()?;
    let keys = keys_of(&log, args.key.as_ref())?;
    let newest = prove::newest_checkpoint(&*log.source, &keys)?;
    let (_, note) =
        newest.ok_or_else(|| Failure::new(3, "the log has no checkpoint that its keys signed"))?;
    out.write_all(note.as_bytes())?;
    Ok(0)
}

/// Runs `keys`.
pub(super) fn keys(args: &KeysArgs, out: &mut dyn Write) -> Outcome {
    for log in args.dirs.logs()? {
        for key in keys_of(&log, None)? {
            writeln!(out, "{}", safe(&key.to_string()))?;
        }
    }
    Ok(0)
}
