//! Which logs and which records a command is about: the options that several commands share.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use audit::clock::rfc3339;
use audit::entry::Kind;
use audit::key::VerifierKey;
use audit::read::{self, Filter};
use audit::verify::{DirSource, Source};
use clap::Args;
use jiff::Timestamp;

use super::Failure;
use crate::adapters::archive;
use crate::config::duration;
use crate::ports::clock::{Clock as _, SystemClock, since_epoch};

/// A log and where it is.
pub(super) struct Log {
    /// Its folder, or its URL.
    pub(super) path: PathBuf,
    pub(super) source: Box<dyn Source>,
}

impl Log {
    fn new(path: PathBuf) -> Log {
        Log { source: Box::new(DirSource::new(&path)), path }
    }

    /// Whether it is read from an archive.
    pub(super) fn archived(&self) -> bool {
        is_url(&self.path).is_some()
    }
}

/// The path's text, if it is the URL of an archive.
fn is_url(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.contains("://"))
}

/// The logs in directories and archives, each once.
///
/// # Errors
/// A place can't be listed or holds no log.
pub(super) fn logs(dirs: &[PathBuf], code: u8) -> Result<Vec<Log>, Failure> {
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut logs: Vec<Log> = Vec::new();
    for dir in dirs {
        let failed = |e: std::io::Error| Failure::new(code, format!("{}: {e}", dir.display()));
        if let Some(url) = is_url(dir) {
            let found = archive::logs(url).map_err(failed)?;
            if found.is_empty() {
                return Err(Failure::new(code, format!("{url}: no journal is there")));
            }
            logs.extend(found.into_iter().map(|(url, s)| Log { path: url.into(), source: Box::new(s) }));
            continue;
        }
        let dir = dir.canonicalize().map_err(failed)?;
        let found = read::logs(&dir).map_err(failed)?;
        if found.is_empty() {
            return Err(Failure::new(code, format!("{}: no journal is there", dir.display())));
        }
        paths.extend(found);
    }
    logs.extend(paths.into_iter().map(Log::new));
    logs.sort_by(|a, b| a.path.cmp(&b.path));
    logs.dedup_by(|a, b| a.path == b.path);
    Ok(logs)
}

/// Where the logs are.
#[derive(Debug, Args)]
pub(super) struct Where {
    /// Directory of the journal, or of one log in it; or the URL of an archive (s3://, gs://, az://, file://), read with
    /// the environment's credentials. Repeat it for the journals of several replicas.
    #[arg(long = "dir", value_name = "DIR", default_value = "var/audit")]
    dirs: Vec<PathBuf>,
}

impl Where {
    /// All logs.
    pub(super) fn logs(&self) -> Result<Vec<Log>, Failure> {
        logs(&self.dirs, 1)
    }

    /// The one log that there is.
    pub(super) fn one(&self) -> Result<Log, Failure> {
        let mut found = self.logs()?;
        match (found.pop(), found.is_empty()) {
            (Some(log), true) => Ok(log),
            (last, _) => {
                let names: Vec<String> =
                    found.iter().chain(&last).map(|log| log.path.display().to_string()).collect();
                Err(Failure::new(2, format!("several logs: name one with --dir: {}", names.join(", "))))
            }
        }
    }
}

/// Which records.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// From this time on: RFC 3339, the beginning of one (2026-11-30, UTC), or how long ago (15m, 24h, 7d).
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) since: Option<String>,
    /// Before this time, written as --since.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) until: Option<String>,
    /// Of this server.
    #[arg(long, value_name = "ID")]
    server: Option<String>,
    /// Of this principal: the `sub` of the record.
    #[arg(long, value_name = "SUB")]
    principal: Option<String>,
    /// Under this task.
    #[arg(long, value_name = "NAME")]
    task: Option<String>,
    /// Of this run.
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Of this call, by the gateway's id of it.
    #[arg(long, value_name = "ID")]
    call: Option<String>,
    /// Of these kinds, such as intent,outcome,denied.
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',', value_parser = kind)]
    kinds: Vec<Kind>,
}

impl Which {
    /// As the journal's reader takes it.
    pub(super) fn filter(&self) -> Filter {
        Filter {
            since: self.since.clone(),
            until: self.until.clone(),
            server: self.server.clone(),
            sub: self.principal.clone(),
            task: self.task.clone(),
            run: self.run.clone(),
            call: self.call.clone(),
            kinds: self.kinds.clone(),
        }
    }
}

/// A verifier key on the command line.
pub(super) fn key(text: &str) -> Result<VerifierKey, String> {
    VerifierKey::parse(text.trim())
        .ok_or_else(|| "no verifier key: name+id+base64, as printed at start".into())
}

fn kind(text: &str) -> Result<Kind, String> {
    match serde_json::from_value(text.into()) {
        Ok(Kind::Unknown) | Err(_) => Err("no kind of record".into()),
        Ok(kind) => Ok(kind),
    }
}

/// A point in time as records have it, or the beginning of one.
pub(super) fn time(text: &str) -> Result<String, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return u64::try_from(at.as_millisecond()).map(rfc3339).map_err(|_| "before 1970".into());
    }
    const FORM: &str = "dddd-dd-ddTdd:dd:dd.ddd";
    let fits = |(c, form): (char, char)| if form == 'd' { c.is_ascii_digit() } else { c == form };
    if matches!(text.len(), 4 | 7 | 10 | 13 | 16 | 19 | 23) && text.chars().zip(FORM.chars()).all(fits) {
        // A year is four digits; a bare number of any other length would be seconds.
        return Ok(text.to_owned());
    }
    let ago = duration(text).filter(|_| text.ends_with(|c: char| c.is_ascii_alphabetic()));
    let ago = ago.ok_or("no time: write 2026-11-30T12:00:00Z, 2026-11-30, or how long ago: 15m, 24h, 7d")?;
    let now = since_epoch(SystemClock.now());
    Ok(rfc3339(u64::try_from(now.saturating_sub(ago).as_millis()).unwrap_or(0)))
}

/// A file of at most `most` bytes.
pub(super) fn read_file(path: &Path, most: usize) -> Result<Vec<u8>, Failure> {
    let failed = |e: std::io::Error| Failure::new(4, format!("{}: {e}", path.display()));
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() > most {
        true => Err(Failure::new(4, format!("{}: too large", path.display()))),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_points_beginnings_or_ago() {
        assert_eq!(time("2026-11-30T12:00:00Z").unwrap(), "2026-11-30T12:00:00.000Z");
        assert_eq!(time("2026-11-30T13:00:00.5+01:00").unwrap(), "2026-11-30T12:00:00.500Z");
        assert_eq!(time("2026-11-30").unwrap(), "2026-11-30");
        assert_eq!(time("2026").unwrap(), "2026");
        let ago = time("1h").unwrap();
        assert!(ago.ends_with('Z') && ago < time("1ms").unwrap(), "{ago}");
        for wrong in ["", "yesterday", "2026-1-1", "30", "2026-11-30 12", "1e3", "-1h", "２０２６"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn kinds_are_those_of_the_format() {
        assert_eq!(kind("denied_count"), Ok(Kind::DeniedCount));
        assert_eq!(kind("task.claim_receipt"), Ok(Kind::ClaimReceipt));
        assert!(kind("unknown").is_err() && kind("Intent").is_err() && kind("").is_err());
    }
}
