//! `tollgate audit`: what a journal proves and says, from its files alone. Results go to stdout and everything else to
//! stderr; texts of strangers are escaped. No log is ever written, save that `fork` sets one aside and begins another.

mod costs;
mod export;
mod fork;
mod order;
mod prove;
mod run;
mod select;
mod show;
mod text;
mod verify;

use std::io::{self, BufWriter, Write};

use clap::{Args, Subcommand};

/// Read the journal: verify it offline, list calls in order, prove records, add up costs.
#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    Verify(verify::VerifyArgs),
    Run(run::RunArgs),
    Show(show::ShowArgs),
    Prove(prove::ProveArgs),
    CheckProof(prove::CheckProofArgs),
    Checkpoint(prove::CheckpointArgs),
    Keys(prove::KeysArgs),
    Export(export::ExportArgs),
    Costs(costs::CostsArgs),
    Fork(fork::ForkArgs),
}

/// Why a command ended early: its exit code, and what is said on stderr, if anything.
struct Failure {
    code: u8,
    what: String,
}

impl Failure {
    fn new(code: u8, what: impl Into<String>) -> Failure {
        Failure { code, what: what.into() }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            // Whoever reads has seen enough.
            io::ErrorKind::BrokenPipe => Failure::new(0, ""),
            _ => Failure::new(1, error.to_string()),
        }
    }
}

type Outcome = Result<u8, Failure>;

/// Runs the command. 0: done; 1: it failed, or what was asked about is tampered with; 2: the command line is wrong;
/// 3: not everything is provable; 4: nothing can be said.
pub fn run(args: &AuditArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let mut out = BufWriter::new(out);
    let result = match &args.command {
        AuditCommand::Verify(args) => verify::run(args, &mut out),
        AuditCommand::Run(args) => run::run(args, &mut out, err),
        AuditCommand::Show(args) => show::run(args, &mut out, err),
        AuditCommand::Prove(args) => prove::prove(args, &mut out, err),
        AuditCommand::CheckProof(args) => prove::check(args, &mut out),
        AuditCommand::Checkpoint(args) => prove::checkpoint(args, &mut out),
        AuditCommand::Keys(args) => prove::keys(args, &mut out),
        AuditCommand::Export(args) => export::run(args, &mut out, err),
        AuditCommand::Costs(args) => costs::run(args, &mut out, err),
        AuditCommand::Fork(args) => fork::run(args, &mut out, err),
    };
    let result = result.and_then(|code| out.flush().map(|()| code).map_err(Failure::from));
    match result {
        Ok(code) => code,
        Err(failure) => {
            if !failure.what.is_empty() {
                // Nobody is left to tell when this fails too.
                let _ = writeln!(err, "tollgate: {}", text::safe(&failure.what));
            }
            failure.code
        }
    }
}
