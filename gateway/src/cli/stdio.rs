//! `tollgate stdio`: the gateway for a host that launches its servers itself. Stdout carries the protocol alone;
//! it ends when stdin does.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use tokio::io::BufReader;
use tokio::signal::unix::{SignalKind, signal};

use super::{journal, load, log, runtime, task_known};
use crate::config::{Checked, Options};
use crate::ports::journal::Journal;
use crate::{assemble, host};

/// Serve one host over stdin and stdout.
#[derive(Debug, Args)]
pub struct StdioArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// The task to work under.
    #[arg(long)]
    pub task: Option<String>,
}

/// Runs the command.
pub fn run(args: &StdioArgs, err: &mut dyn Write) -> u8 {
    let Some(config) = load(&args.config, &Options::default(), err) else { return 1 };
    if !task_known(&config, args.task.as_deref(), err) {
        return 1;
    }
    log::start(&config.log);
    let Some(journal) = journal::open(&config, journal::STDIO, err) else { return 1 };
    let Some(runtime) = runtime(err) else { return 1 };
    let result = runtime.block_on(serve(config, journal));
    // A blocked read of stdin must not keep the process.
    runtime.shutdown_background();
    match result {
        Ok(()) => 0,
        Err(error) => {
            log::failed(&error, err);
            1
        }
    }
}

async fn serve(config: Checked, journal: Arc<dyn Journal>) -> Result<(), String> {
    let gate = assemble::with_journal(config, journal)?;
    let mut term = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    let mut int = signal(SignalKind::interrupt()).map_err(|e| e.to_string())?;
    tokio::spawn(assemble::warm_up(Arc::clone(&gate)));
    let stop = gate.draining.clone();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        stop.cancel();
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::warn!("told twice: leaving now");
        log::flush();
        std::process::exit(1);
    });
    host::serve(Arc::clone(&gate), BufReader::new(tokio::io::stdin()), tokio::io::stdout()).await;
    gate.draining.cancel();
    assemble::shut_down(&gate, assemble::LAST_WORDS).await;
    Ok(())
}
