//! The configuration: raw (serde) → checked (all problems at once, each with its line). The compiled snapshot is
//! made elsewhere from [`Checked`]. Nothing here connects, listens or starts anything.

mod check;
mod checked;
mod context;
mod document;
mod glob;
pub mod import;
mod place;
mod problem;
mod raw;
mod schema;
mod secret;
mod structure;
mod units;

pub(crate) use check::{archive_url, assertion_key};
pub use checked::{
    Archive, Assertion, Audit, Auth, ByTool, Checked, ClientCertificates, Durability, FixedToken,
    FrontLimits, Grantor, Held, HeldClient, HttpKind, HttpServer, Introspection, Isolation, KeySource, Keys,
    Legacy, Lists, Log, LogFormat, Meter, Outgoing, Placement, Server, ServerPolicy, SessionIds, StdioServer,
    Task, Timeouts, TlsFiles, ToolRules, ToolTimeouts, Tracing, TracingProtocol, Transport, Trusted,
};
pub use context::{Env, read_secret};
pub use problem::Problem;
pub use schema::schema;
pub use secret::Secret;
pub(crate) use units::duration;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use context::{Context, World};
use document::TextFault;
use structure::ShapeFault;

/// More problems of one file than these are counted only.
const MAX_PROBLEMS: usize = 200;

/// What is not in the file and changes what it means.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The data listener's address from the command line, in place of `listen`. Held to the same rules.
    pub listen: Option<String>,
    /// The file is for another machine: variables, secret files, certificates and programs are not looked at, and
    /// the secrets of the result are empty. Only for checking, never for serving.
    pub elsewhere: bool,
}

/// A configuration text and where it belongs.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Name of the file in problems.
    pub name: &'a str,
    /// The YAML text.
    pub bytes: &'a [u8],
    /// Folder that relative paths start at; absolute, so that they mean the same in a child's own folder.
    pub base: &'a Path,
}

/// Reads and checks a configuration file.
///
/// # Errors
/// All problems of the file, in the order of its lines; never empty.
pub fn load(path: &Path) -> Result<Checked, Vec<Problem>> {
    load_with(path, &Options::default())
}

/// [`load`] with what the command line adds.
///
/// # Errors
/// As [`load`].
pub fn load_with(path: &Path, options: &Options) -> Result<Checked, Vec<Problem>> {
    let name = path.display().to_string();
    let bytes = read(path).map_err(|(what, fix)| {
        let problem =
            Problem { file: name.clone(), line: 0, column: 0, path: String::new(), what, fix: fix.into() };
        vec![problem]
    })?;
    // Absolute, so that a path means the same whoever resolves it later.
    let folder = path.parent().map_or_else(|| Path::new(".").to_owned(), Path::to_owned);
    let base = std::path::absolute(if folder.as_os_str().is_empty() { Path::new(".") } else { &folder });
    let base = base.unwrap_or(folder);
    let source = Source { name: &name, bytes: &bytes, base: &base };
    check_text(&source, options, &|name| std::env::var(name).ok())
}

/// Checks a configuration text. `env` looks variables up; files of references are read.
///
/// # Errors
/// All problems of the text, in the order of its lines; never empty.
pub fn check_text(source: &Source<'_>, options: &Options, env: Env<'_>) -> Result<Checked, Vec<Problem>> {
    let own = |at: String, spot: place::Spot, what: String, fix: String| Problem {
        file: source.name.to_owned(),
        line: spot.line,
        column: spot.column,
        path: at,
        what,
        fix,
    };
    let text =
        |fault: TextFault| own(fault.at.shown().to_owned(), fault.spot, fault.what, fault.fix.to_owned());
    let shape = |fault: ShapeFault| own(fault.at.shown().to_owned(), fault.spot, fault.what, fault.fix);
    let mut document =
        document::parse(source.bytes).map_err(|faults| faults.into_iter().map(text).collect::<Vec<_>>())?;
    let mut problems: Vec<Problem> = std::mem::take(&mut document.faults).into_iter().map(text).collect();
    let internal = |what: String| own(String::new(), place::Spot { line: 1, column: 1 }, what, String::new());
    match structure::check(&mut document.root, &document.places) {
        Some(faults) => problems.extend(faults.into_iter().map(shape)),
        None => problems.push(internal("the schema of this build is unusable".into())),
    }
    let raw: raw::File = match serde_json::from_value(document.root) {
        Ok(raw) => raw,
        Err(_) => {
            // Never serde's own text: it quotes values.
            if problems.is_empty() {
                problems.push(internal("not a configuration".into()));
            }
            return Err(sorted(problems));
        }
    };
    let places = Arc::new(document.places);
    let world = World { env, base: source.base.to_owned(), elsewhere: options.elsewhere };
    let context =
        Context { file: source.name, places: &places, world, problems: Vec::new(), warnings: Vec::new() };
    match check::check(&raw, options.listen.as_deref(), context) {
        Ok(checked) if problems.is_empty() => {
            Ok(Checked { digest: crate::digest::sha256(source.bytes), ..checked })
        }
        Ok(_) => Err(sorted(problems)),
        Err(more) => {
            problems.extend(more);
            Err(sorted(problems))
        }
    }
}

fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| (problem.line, problem.column));
    problems.dedup();
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    problems.truncate(MAX_PROBLEMS);
    if let Some(last) = problems.last().filter(|_| more > 0).cloned() {
        let what = format!("{more} more problems after this one");
        problems.push(Problem { path: String::new(), what, fix: String::new(), ..last });
    }
    problems
}

/// The file's bytes. Looked at before it is opened, since opening a pipe would wait for its writer.
fn read(path: &Path) -> Result<Vec<u8>, (String, &'static str)> {
    let failed =
        |error: std::io::Error| (format!("can't read it: {}", error.kind()), "check the path and its owner");
    if path.metadata().map_err(failed)?.is_dir() {
        return Err(("a folder, not a file".into(), "name the configuration file in it"));
    }
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(document::MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
