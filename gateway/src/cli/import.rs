//! `tollgate import FILE`: a host's `mcpServers` JSON as our YAML. Never overwrites a file without `--force`, never
//! writes a credential that the host's file held.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use crate::config::import::{self, Imported, MAX_BYTES};

/// Turn the mcpServers JSON of a host (Claude, Cursor, VS Code, ...) into a Tollgate configuration.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The host's file, or - for stdin.
    pub file: PathBuf,
    /// Write the configuration there instead of to stdout.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Overwrite the output file.
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// Runs the command: 0 when a configuration was written, else 1. YAML goes to `out`, everything said to `err`.
pub fn run(args: &ImportArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    match convert(args, out, err) {
        Ok(()) => 0,
        Err(what) => {
            // Nobody is left to tell when this fails too.
            let _ = writeln!(err, "{}: {what}", args.file.display());
            1
        }
    }
}

fn convert(args: &ImportArgs, out: &mut dyn Write, err: &mut dyn Write) -> Result<(), String> {
    let bytes = read(&args.file).map_err(|error| format!("can't read it: {}", error.kind()))?;
    let name = args.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let imported = import::import(&name, &bytes)?;
    match &args.output {
        None => out
            .write_all(imported.yaml.as_bytes())
            .map_err(|error| format!("can't write: {}", error.kind()))?,
        Some(path) => save(path, &imported.yaml, args.force)?,
    }
    report(&imported, args, err).map_err(|error| format!("can't report: {}", error.kind()))
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than allowed, so that a longer file is seen to be longer.
    let limit = MAX_BYTES as u64 + 1;
    if path == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

fn save(path: &Path, yaml: &str, force: bool) -> Result<(), String> {
    let mut options = OpenOptions::new();
    let options = if force {
        options.write(true).create(true).truncate(true)
    } else {
        options.write(true).create_new(true)
    };
    let shown = path.display();
    let mut file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => format!("{shown} exists; --force overwrites it"),
        kind => format!("can't write {shown}: {kind}"),
    })?;
    file.write_all(yaml.as_bytes()).map_err(|error| format!("can't write {shown}: {}", error.kind()))
}

fn report(imported: &Imported, args: &ImportArgs, err: &mut dyn Write) -> io::Result<()> {
    for note in &imported.notes {
        writeln!(err, "note: {note}")?;
    }
    let to = args.output.as_ref().map_or_else(String::new, |path| format!(" to {}", path.display()));
    let plural = if imported.servers == 1 { "" } else { "s" };
    writeln!(err, "{} server{plural} written{to}", imported.servers)
}

#[cfg(test)]
mod tests;
