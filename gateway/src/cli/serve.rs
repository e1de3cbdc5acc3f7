//! `tollgate serve`: the gateway on its listeners until SIGTERM or SIGINT. A wrong configuration starts nothing.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{journal, lanes, load, log, runtime};
use crate::admin::Admin;
use crate::assemble;
use crate::config::{Checked, Options};
use crate::edge::{self, Counters, Limits, certs::Certificates};
use crate::gate::Gate;
use crate::lanes::Places;
use crate::pipeline::front::Front;
use crate::ports::journal::Journal;

/// How often certificate files are looked at.
const CERTIFICATES: Duration = Duration::from_secs(2);

/// How long before the end of the drain calls end with an error.
const LAST_CALL: Duration = Duration::from_millis(500);

/// Serve the gateway that a configuration file describes.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// The configuration file.
    #[arg(short, long, value_name = "FILE")]
    pub config: PathBuf,
    /// Listen here instead of where the file says.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
}

/// Runs the command.
pub fn run(args: &ServeArgs, out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let options = Options { listen: args.listen.clone(), elsewhere: false };
    let Some(config) = load(&args.config, &options, err) else { return 1 };
    log::start(&config.log);
    replicas(&config);
    let Some(journal) = journal::open(&config, journal::SERVE, err) else { return 1 };
    let (Some(runtime), Some(lanes)) = (runtime(err), lanes(err)) else { return 1 };
    match runtime.block_on(serve(config, journal, lanes.places(), out, |_, _| Ok(()))) {
        Ok(()) => 0,
        Err(error) => {
            log::failed(&error, err);
            1
        }
    }
}

/// A key that seals is one that replicas share. What was agreed to is remembered by the process that asked.
fn replicas(config: &Checked) {
    let confirming = config.tasks.iter().find(|task| task.profile.task.confirms());
    if let Some(task) = confirming.filter(|_| !config.keys.seal.is_empty()) {
        tracing::warn!(
            task = task.name,
            "there is no shared store of used confirmations: with several replicas, an answer counts at the one that \
             asked alone, so route a client to one replica"
        );
    }
}

/// Serves until the process is told to end. `started` is called with both addresses once they accept connections.
///
/// # Errors
/// What kept the gateway from starting.
pub async fn serve(
    config: Checked,
    journal: Arc<dyn Journal>,
    places: Places,
    out: &mut dyn Write,
    started: impl FnOnce(&Addresses, &mut dyn Write) -> io::Result<()>,
) -> Result<(), String> {
    let tls = match &config.tls {
        Some(files) => {
            let clients = config.auth.clients.as_ref().map(|clients| clients.ca.as_path());
            let loaded = Certificates::load_with(&files.cert, &files.key, clients);
            Some(loaded.map_err(|e| e.to_string())?)
        }
        None => None,
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let bind = |addr: SocketAddr| edge::bind(addr).map_err(|e| format!("can't listen on {addr}: {e}"));
    let (data, data_addr) = bind(config.listen)?;
    let admin = config.admin.map(bind).transpose()?;
    let (drain, h2c) = (config.drain, config.h2c);
    let limits = limits(&config);
    let gate = assemble::with_journal(config, journal)?;
    let counters = Arc::new(Counters::default());
    let stop = gate.draining.clone();
    let options =
        edge::Options { limits, tls: tls.clone(), h2c, drain, places, counters: Arc::clone(&counters) };
    let front = edge::serve(data, options, Arc::new(Front(Arc::clone(&gate))), stop.clone());
    let addresses = Addresses { scheme, data: data_addr, admin: admin.as_ref().map(|(_, addr)| *addr) };
    // The admin listener outlives the data listener, so that probes see the drain.
    let admin_stop = CancellationToken::new();
    let backstage = admin.map(|(listener, _)| {
        let options = edge::Options { drain: Duration::from_secs(1), ..edge::Options::default() };
        let handler = Arc::new(Admin { gate: Arc::clone(&gate), counters });
        tokio::spawn(edge::serve(listener, options, handler, admin_stop.clone()))
    });
    if let Some(tls) = tls {
        tokio::spawn(tls.watch(CERTIFICATES, stop.clone()));
    }
    tokio::spawn(assemble::warm_up(Arc::clone(&gate)));
    tokio::spawn(until_told(Arc::clone(&gate))?);
    tokio::spawn(last_call(Arc::clone(&gate), drain));
    addresses.print(out).and_then(|()| started(&addresses, out)).map_err(|e| format!("stdout: {e}"))?;
    let drained = front.await.map_err(|e| e.to_string())?;
    if drained.cut > 0 {
        tracing::warn!(cut = drained.cut, "connections were cut at the end of the drain");
    }
    assemble::shut_down(&gate, assemble::LAST_WORDS).await;
    admin_stop.cancel();
    if let Some(backstage) = backstage {
        backstage.await.ok();
    }
    Ok(())
}

/// Before what is still under way is cut at the end of the drain, its clients are told.
async fn last_call(gate: Arc<Gate>, drain: Duration) {
    gate.draining.cancelled().await;
    tokio::time::sleep(drain.saturating_sub(LAST_CALL)).await;
    gate.means.closing.cancel();
}

/// Where the gateway listens.
pub struct Addresses {
    /// `http` or `https`.
    pub scheme: &'static str,
    /// The data listener.
    pub data: SocketAddr,
    /// The admin listener.
    pub admin: Option<SocketAddr>,
}

impl Addresses {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "listening on {}://{}", self.scheme, self.data)?;
        if let Some(admin) = self.admin {
            writeln!(out, "admin on http://{admin}")?;
        }
        out.flush()
    }
}

fn limits(config: &Checked) -> Limits {
    let l = &config.limits;
    Limits {
        handshake: l.header_timeout,
        header_time: l.header_timeout,
        header_bytes: l.header_bytes,
        body_time: l.body_timeout,
        idle: l.idle_timeout,
        h2_idle: l.idle_timeout,
        h2_streams: l.h2_streams,
        connections: u64::try_from(l.connections).unwrap_or(u64::MAX),
        ..Limits::default()
    }
}

/// Cancels the gateway's token at SIGTERM or SIGINT; a second signal ends the process at once.
fn until_told(gate: Arc<Gate>) -> Result<impl Future<Output = ()> + Send + 'static, String> {
    let mut term = signal(SignalKind::terminate()).map_err(|e| e.to_string())?;
    let mut int = signal(SignalKind::interrupt()).map_err(|e| e.to_string())?;
    Ok(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::info!("draining: no new requests; calls under way may finish");
        gate.draining.cancel();
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        tracing::warn!("told twice: leaving now");
        log::flush();
        std::process::exit(1);
    })
}
