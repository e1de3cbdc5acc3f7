//! Server processes that the gateway starts: one process group each, an environment only as configured, JSON-RPC
//! lines over stdin and stdout, stderr to the log. Never runs a shell and never touches a process it did not start.
//!
//! No process outlives the gateway: an orderly end closes stdin, then signals the group ([`Pipe::close`]); when the
//! gateway itself is killed (SIGKILL), the kernel closes its end of stdin, which every MCP server takes as the order
//! to end (stdio.mdx, "Shutdown"). A server that ignores the end of its stdin *and* whose gateway was killed can stay:
//! a parent-death signal would need code between fork and exec, which safe Rust has no place for. A process that
//! leaves its group (setsid) is likewise out of reach.

use std::fmt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rustix::process::Pid;
use tokio::process::Command;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::pipe::Pipe;
use crate::config::Secret;
use crate::ports::upstream::{Fault, FaultKind};

mod process;
mod stderr;
mod streams;
mod supervise;
#[cfg(test)]
mod tests;

use process::{Ender, Group, Life};
use stderr::LastWords;
pub(crate) use stderr::printable;
use streams::{Outgoing, Writer, one_line};
pub use supervise::{Backoff, ServerSlots, Slot, Slots};

/// A sensible [`StdioSpec::inherit_env`]: what the MCP SDKs pass on, and what locale, time zone and temporary files
/// need. No name of it is passed unless it is listed there.
pub const INHERITED: [&str; 10] =
    ["HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"];

/// Messages, and their bytes, that wait to be written to one child.
const QUEUE: usize = 64;
const QUEUE_BYTES: u32 = 16 << 20;
/// Messages of one child that wait to be taken.
const INCOMING: usize = 8;
/// How long the end of stdout may come before the process's own, and its last words after that.
const REASON: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(1));

/// How a server process is started.
#[derive(Clone, Debug)]
pub struct StdioSpec {
    /// The program: a path, or a name looked up in the child's `PATH`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables set for it. Their values are masked in its stderr.
    pub env: Vec<(String, Secret)>,
    /// Names taken from the gateway's own environment where they are set; with `env` the child's whole environment.
    pub inherit_env: Vec<String>,
    /// Its working directory; None: the gateway's.
    pub cwd: Option<PathBuf>,
    /// The longest line accepted from its stdout, in bytes.
    pub line_bytes: usize,
    /// How long it may take to read one message from its stdin; then it is ended.
    pub write_timeout: Duration,
}

impl StdioSpec {
    /// A program with arguments and the defaults: [`INHERITED`], lines up to 16 MiB, 10 s for a write.
    pub fn new(command: impl Into<String>, args: &[&str]) -> StdioSpec {
        StdioSpec {
            command: command.into(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
            env: Vec::new(),
            inherit_env: INHERITED.map(str::to_owned).to_vec(),
            cwd: None,
            line_bytes: 16 << 20,
            write_timeout: Duration::from_secs(10),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.command);
        command.args(&self.args).env_clear().process_group(0).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for name in &self.inherit_env {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value.expose())));
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        command
    }

    /// The public reason why a start failed.
    fn refusal(&self, error: &std::io::Error) -> Fault {
        let command = printable(&self.command, 200);
        let detail = match &self.cwd {
            Some(cwd) if !cwd.is_dir() => {
                format!("`{command}` was not started: working directory `{}` is not there", cwd.display())
            }
            _ if error.kind() == std::io::ErrorKind::NotFound => {
                format!("`{command}` was not started: no such program on the child's PATH")
            }
            _ => format!("`{command}` was not started: {error}"),
        };
        Fault::early(FaultKind::Unreachable, detail)
    }
}

/// A started process: its pipe, the messages that it sends, its end.
pub type Started = (Arc<dyn Pipe>, mpsc::Receiver<Result<Bytes, Fault>>, ExitWatch);

/// Starts server processes.
#[derive(Debug)]
pub struct Child;

impl Child {
    /// Starts the process. Must be called within a runtime. Dropping the pipe ends the process as well.
    pub fn start(spec: &StdioSpec, server: &str) -> Result<Started, Fault> {
        start(spec, server, None)
    }

    /// Like [`Child::start`]; the place is given back once the process and its group are gone.
    pub fn start_in(spec: &StdioSpec, server: &str, slot: Slot) -> Result<Started, Fault> {
        start(spec, server, Some(slot))
    }
}

fn start(spec: &StdioSpec, server: &str, slot: Option<Slot>) -> Result<Started, Fault> {
    let server: Arc<str> = Arc::from(server);
    let mut child = spec.command().spawn().map_err(|error| spec.refusal(&error))?;
    let broken = || Fault::early(FaultKind::Unreachable, "the process has no streams");
    let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).ok_or_else(broken)?;
    let group = Group::new(id);
    let (stdin, stdout, stderr) = match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(stdin), Some(stdout), Some(stderr)) => (stdin, stdout, stderr),
        _ => return Err(broken()),
    };
    tracing::info!(%server, pid = id.as_raw_nonzero().get(), "server process started");

    let (ender, stop) = (Arc::new(Ender::new()), CancellationToken::new());
    let (left, has_left) = watch::channel(None);
    let (exit, exited) = watch::channel(None);
    let (lines, line_queue) = mpsc::channel(QUEUE);
    let (messages, incoming) = mpsc::channel(INCOMING);

    let last = LastWords::default();
    let secrets = spec.env.iter().map(|(_, value)| value.clone()).collect();
    let stderr_log = tokio::spawn(stderr::log(stderr, server.clone(), secrets, last.clone()));
    let writer =
        Writer { lines: line_queue, stop: stop.clone(), limit: spec.write_timeout, ender: ender.clone() };
    tokio::spawn(writer.run(stdin));
    let limit = spec.line_bytes;
    tokio::spawn(async move {
        let broke = streams::read(stdout, limit, &messages).await;
        let fault = match broke {
            Some(fault) if fault.kind != FaultKind::Dropped => fault,
            other => why(other, has_left, stderr_log, &last).await,
        };
        let _ = messages.send(Err(fault)).await;
    });
    let life = Life { child, group, ending: ender.watch(), stdin: stop, left, exit, server, slot };
    tokio::spawn(life.run());

    let watch = ExitWatch { exit: exited.clone(), pid: id.as_raw_nonzero().get() };
    let room = Arc::new(Semaphore::new(QUEUE_BYTES as usize));
    let pipe = ChildPipe { lines, room, ender, exit: exited, limit: spec.write_timeout };
    Ok((Arc::new(pipe), incoming, watch))
}

/// Why stdout has ended: the process's end and its last words on stderr, if they come soon.
async fn why(
    broke: Option<Fault>,
    mut left: watch::Receiver<Option<Exit>>,
    stderr_log: tokio::task::JoinHandle<()>,
    last: &LastWords,
) -> Fault {
    let exit = match timeout(REASON.0, left.wait_for(Option::is_some)).await {
        Ok(Ok(exit)) => *exit,
        _ => None,
    };
    let mut detail = match exit {
        Some(exit) => format!("the process ended: {exit}"),
        None => broke.map_or_else(|| "the process closed its stdout".to_owned(), |fault| fault.detail),
    };
    if exit.is_some() {
        let _ = timeout(REASON.1, stderr_log).await;
    }
    let words = last.get();
    if !words.is_empty() {
        detail = format!("{detail}; last line of its stderr: {words}");
    }
    Fault::late(FaultKind::Dropped, detail)
}

struct ChildPipe {
    lines: mpsc::Sender<Outgoing>,
    room: Arc<Semaphore>,
    ender: Arc<Ender>,
    exit: watch::Receiver<Option<Exit>>,
    limit: Duration,
}

#[async_trait]
impl Pipe for ChildPipe {
    async fn send(&self, line: Bytes) -> Result<(), Fault> {
        let gone = || Fault::early(FaultKind::Dropped, "the process is being ended");
        let by = Instant::now() + self.limit;
        let line = one_line(line);
        // A message larger than the whole room takes all of it: it goes alone.
        let bytes = u32::try_from(line.len()).unwrap_or(QUEUE_BYTES).min(QUEUE_BYTES);
        let (written, outcome) = oneshot::channel();
        let queued = timeout_at(by, async {
            let room = self.room.clone().acquire_many_owned(bytes).await.ok()?;
            self.lines.send(Outgoing { line, room, written }).await.ok()
        });
        match queued.await {
            Ok(Some(())) => {}
            Ok(None) => return Err(gone()),
            Err(_) => {
                return Err(Fault::early(
                    FaultKind::Timeout,
                    "the process does not read its stdin fast enough",
                ));
            }
        }
        match timeout_at(by, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(Fault::late(FaultKind::Timeout, "the process does not read its stdin fast enough")),
        }
    }

    async fn close(&self, grace: Duration) {
        self.ender.end(grace);
        let mut exit = self.exit.clone();
        // The grace, and what SIGKILL may take: `Life` is done by then, or says that it cannot be.
        let limit = grace + Duration::from_secs(12);
        let _ = timeout(limit, exit.wait_for(Option::is_some)).await;
    }
}

/// Tells when a process has ended.
#[derive(Clone, Debug)]
pub struct ExitWatch {
    exit: watch::Receiver<Option<Exit>>,
    pid: i32,
}

impl ExitWatch {
    /// The process id, which is its group's id as well.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The end, if it has come.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Waits for the end: the process has been reaped, its group is empty, its slot is free.
    pub async fn exited(&mut self) -> Exit {
        match self.exit.wait_for(Option::is_some).await {
            Ok(exit) => exit.unwrap_or_default(),
            Err(_) => Exit::default(),
        }
    }
}

/// How a process ended. Neither code nor signal: it could not be learnt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exit {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether the gateway had ended it; else it ended by itself.
    pub asked: bool,
    /// How long it ran.
    pub ran: Duration,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit code {code}"),
            (None, Some(signal)) => write!(f, "signal {signal}"),
            (None, None) => f.write_str("unknown exit"),
        }
    }
}

fn exit_of(status: Option<ExitStatus>, asked: bool, ran: Duration) -> Exit {
    use std::os::unix::process::ExitStatusExt;
    let (code, signal) = status.map_or((None, None), |status| (status.code(), status.signal()));
    Exit { code, signal, asked, ran }
}
