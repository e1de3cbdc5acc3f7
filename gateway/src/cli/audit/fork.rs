//! `tollgate audit fork`: after a journal was found rolled back or rewritten, sets its log aside as evidence and begins
//! another that names it. The only command here that writes.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::{Failure, Outcome};
use crate::adapters::journal::fork;
use crate::cli::journal::{SERVE, STDIO};
use crate::cli::load;
use crate::config::Options;

/// Declare that a log does not go on: it is set aside as evidence (`.forked-...`), and a new one begins that names it,
/// how far it was signed, and the reason. Needed when the journal does not open because it was rolled back or
/// rewritten. The gateway must not run.
#[derive(Debug, Args)]
pub(super) struct ForkArgs {
    /// The configuration file of the gateway whose log it is.
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Why, for whoever reads the new log.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The first free log of `tollgate stdio`, not that of `tollgate serve`.
    #[arg(long)]
    stdio: bool,
}

/// Runs the command.
pub(super) fn run(args: &ForkArgs, out: &mut dyn Write, err: &mut dyn Write) -> Outcome {
    if args.reason.trim().is_empty() {
        return Err(Failure::new(2, "give a reason"));
    }
    let Some(config) = load(&args.config, &Options::default(), err) else {
        return Err(Failure::new(1, ""));
    };
    let place = if args.stdio { STDIO } else { SERVE };
    let begun = fork(&config, place, args.reason.trim()).map_err(|why| Failure::new(1, why))?;
    writeln!(out, "{begun}")?;
    Ok(0)
}
