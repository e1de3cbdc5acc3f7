//! The command line: one file per command, each returning an exit code. 0: done, 1: it failed, 2: the command
//! line itself is wrong.

pub mod audit;
pub mod check;
pub mod demo;
pub mod explain;
pub mod import;
mod journal;
mod log;
mod names;
mod principal;
pub mod schema;
pub mod serve;
pub mod stdio;
pub mod tools;

use std::io::{self, Write};
use std::path::Path;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::{self, Checked, Options};
use crate::lanes::Lanes;

/// The gateway for MCP traffic: one URL in front of many MCP servers, whatever era either side speaks.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start the gateway in front of two small servers that are part of this program.
    Demo(demo::DemoArgs),
    Serve(serve::ServeArgs),
    Stdio(stdio::StdioArgs),
    Check(check::CheckArgs),
    Tools(tools::ToolsArgs),
    Explain(explain::ExplainArgs),
    Import(import::ImportArgs),
    Schema(schema::SchemaArgs),
    Audit(audit::AuditArgs),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// The demo's own server on stdin and stdout.
    #[command(hide = true)]
    DemoServer,
}

/// Runs the command line of this process.
pub fn main() -> u8 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            error.print().ok();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let code = match cli.command {
        Command::Demo(args) => demo::run(&args, &mut out, &mut err),
        Command::Serve(args) => serve::run(&args, &mut out, &mut err),
        Command::Stdio(args) => stdio::run(&args, &mut err),
        Command::Check(args) => check::run(&args, &mut out, &mut err),
        Command::Explain(args) => explain::run(&args, &mut out, &mut err),
        Command::Tools(args) => tools::run(&args, &mut out, &mut err),
        Command::Import(args) => import::run(&args, &mut out, &mut err),
        Command::Audit(args) => audit::run(&args, &mut out, &mut err),
        Command::Schema(args) => schema::run(&args, &mut out, &mut err),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "tollgate", &mut out);
            0
        }
        Command::DemoServer => demo::server(),
    };
    log::flush();
    code
}

/// Loads a configuration, or says all that is wrong with it.
fn load(file: &Path, options: &Options, err: &mut dyn Write) -> Option<Checked> {
    match config::load_with(file, options) {
        Ok(checked) => {
            for warning in &checked.warnings {
                writeln!(err, "warning: {warning}").ok();
            }
            Some(checked)
        }
        Err(problems) => {
            for problem in &problems {
                writeln!(err, "{problem}").ok();
            }
            None
        }
    }
}

/// Whether a task of this name exists; says so if not.
fn task_known(config: &Checked, task: Option<&str>, err: &mut dyn Write) -> bool {
    let Some(task) = task else { return true };
    let known = config.tasks.iter().any(|t| t.name == task);
    if !known {
        let names: Vec<_> = config.tasks.iter().map(|t| t.name.as_str()).collect();
        writeln!(err, "tollgate: no task '{task}'; there is: {}", names.join(", ")).ok();
    }
    known
}

/// Where connections are served.
fn lanes(err: &mut dyn Write) -> Option<Lanes> {
    Lanes::start().map_err(|error| writeln!(err, "tollgate: no threads: {error}").ok()).ok()
}

/// The runtime of everything else that waits.
fn runtime(err: &mut dyn Write) -> Option<tokio::runtime::Runtime> {
    let made = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    made.map_err(|error| writeln!(err, "tollgate: no runtime: {error}").ok()).ok()
}
