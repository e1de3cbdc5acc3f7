//! Load benchmark: one MCP echo server called directly, through a bare Pingora proxy, a bare hyper proxy and Tollgate.
//!
//! Every process but the load client is a child (this same binary under a hidden subcommand, or `tollgate`), so
//! that its CPU time and memory can be told apart. Nothing here asserts a time: the exit code is 1 only when an
//! answer was wrong or a process didn't start.

mod bench;
mod child;
mod config;
mod contenders;
mod echo;
mod idle;
mod journal;
mod lists;
mod load;
mod matrix;
mod mcp;
mod meter;
mod noise;
mod policies;
mod proxy_hyper;
mod proxy_pingora;
mod report;
mod row;
mod scale;
mod tools;
mod wire;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

/// An error that only needs to be printed.
type Error = Box<dyn std::error::Error + Send + Sync>;

/// Measures Tollgate against direct calls, a bare Pingora proxy and a bare hyper proxy, in one run.
#[derive(Parser)]
#[command(name = "tollgate-load", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    role: Option<Role>,
}

/// What to measure, and with which binary.
#[derive(clap::Args, Clone)]
struct Options {
    /// Few cells and short windows: about a minute
    #[arg(long)]
    quick: bool,
    /// Writes the rows as a JSON array
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The gateway's binary [default: `tollgate` beside this one]
    #[arg(long, value_name = "PATH", conflicts_with = "without_tollgate")]
    tollgate: Option<PathBuf>,
    /// Measures only direct calls and the two bare proxies
    #[arg(long)]
    without_tollgate: bool,
    /// Only these parts (may be given several times)
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<Part>,
    /// Open streams held while memory is measured [default: 5000, with --quick 1000]
    #[arg(long, value_name = "N")]
    streams: Option<usize>,
    /// Rounds per cell [default: 5, with --quick 3]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Length of one measured window in milliseconds [default: 1000, with --quick 350]
    #[arg(long, value_name = "MS")]
    window: Option<u64>,
    /// Worker threads of the echo server and of each proxy [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// One part of the benchmark.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// Requests/s, latency and CPU per call for every era, answer, size and number of connections
    Calls,
    /// Memory per idle open stream
    Streams,
    /// Time of a cached tools/list for 200 servers with 25 tools each
    Lists,
    /// A call's cost with 1 and with 200 servers configured
    Servers,
    /// Calls with an access token, an allow-list, limits, argument checks and redaction on
    Policies,
    /// Calls without a journal, with a buffered and with a strict one, beside the disk's own sync
    Journal,
    /// Calls whose results carry a meter, beside calls whose results leave as they are
    Meter,
}

/// The hidden subcommands: what the children run.
#[derive(Subcommand)]
enum Role {
    /// The echo server
    #[command(hide = true)]
    Echo(ChildArgs),
    /// The bare Pingora proxy
    #[command(hide = true)]
    PingoraProxy(ProxyArgs),
    /// The bare hyper proxy
    #[command(hide = true)]
    HyperProxy(ProxyArgs),
    /// Runs a command that ends with this benchmark
    #[command(hide = true)]
    Exec {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
}

#[derive(clap::Args)]
struct ChildArgs {
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

#[derive(clap::Args)]
struct ProxyArgs {
    #[arg(long)]
    to: SocketAddr,
    #[arg(long, default_value_t = 1)]
    threads: usize,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = match cli.role {
        None => bench::run(&cli.options),
        Some(role) => child::die_with_parent().and_then(|()| play(role)).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            drop(writeln!(std::io::stderr(), "tollgate-load: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn play(role: Role) -> Result<(), Error> {
    match role {
        Role::Echo(args) => echo::serve(args.threads),
        Role::PingoraProxy(args) => proxy_pingora::serve(args.to, args.threads),
        Role::HyperProxy(args) => proxy_hyper::serve(args.to, args.threads),
        Role::Exec { command } => child::become_command(&command),
    }
}

/// Tells the parent where this child listens, in the words that `tollgate serve` uses.
fn announce(address: SocketAddr) -> Result<(), Error> {
    let mut out = std::io::stdout();
    writeln!(out, "listening on http://{address}")?;
    Ok(out.flush()?)
}
