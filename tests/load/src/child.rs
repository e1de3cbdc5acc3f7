//! Child processes: started in their own process group, ended on every exit path, their CPU time and memory read.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::{Signal, killpg};
use nix::time::clock_getcpuclockid;
use nix::unistd::{Pid, getppid};

use crate::Error;

/// Log files of children are cut back when they grow past this.
const LOG_BYTES: u64 = 8 << 20;

/// The environment variable that tells a child who started it.
const PARENT: &str = "LOAD_PARENT";

/// A running child that has said where it listens. Dropping it kills its process group.
pub(crate) struct Child {
    pub(crate) address: SocketAddr,
    process: std::process::Child,
    log: File,
}

impl Child {
    /// Starts `tollgate-load ROLE…` or, through the `exec` role, another program, and waits for its address.
    pub(crate) fn start(name: &str, args: &[String], dir: &Path, wait: Duration) -> Result<Self, Error> {
        let path = dir.join(format!("{name}.log"));
        let log = OpenOptions::new().create(true).append(true).read(true).open(path)?;
        let mut process = Command::new(std::env::current_exe()?)
            .args(args)
            .env(PARENT, std::process::id().to_string())
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.try_clone()?)
            .process_group(0)
            .spawn()?;
        let said = process.stdout.take().map(read_address);
        let mut child = Child { address: SocketAddr::from(([0, 0, 0, 0], 0)), process, log };
        match said.map(|said| said.recv_timeout(wait)) {
            Some(Ok(Some(address))) => child.address = address,
            _ => return Err(format!("{name} didn't start: {}", child.last_words()).into()),
        }
        Ok(child)
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap_or(i32::MAX)
    }

    /// Cuts the log back, so that a long run doesn't fill the disk.
    pub(crate) fn trim_log(&self) {
        if self.log.metadata().is_ok_and(|meta| meta.len() > LOG_BYTES) {
            drop(self.log.set_len(0));
        }
    }

    /// The end of what the child wrote to stderr.
    pub(crate) fn last_words(&mut self) -> String {
        let mut bytes = Vec::new();
        drop(self.log.seek(SeekFrom::Start(0)));
        drop(Read::by_ref(&mut self.log).take(LOG_BYTES * 2).read_to_end(&mut bytes));
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().rev().take(20).collect();
        let tail: Vec<&str> = lines.into_iter().rev().collect();
        if tail.is_empty() { "it said nothing".into() } else { format!("it said\n{}", tail.join("\n")) }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = killpg(Pid::from_raw(self.pid()), Signal::SIGKILL);
        drop(self.process.wait());
    }
}

/// Reads the child's stdout to its end; sends the first address it announces.
fn read_address(stdout: ChildStdout) -> mpsc::Receiver<Option<SocketAddr>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let address = line.split("listening on http://").nth(1).and_then(|rest| {
                rest.split(|c: char| c == '/' || c.is_whitespace()).next().and_then(|text| text.parse().ok())
            });
            if address.is_some() {
                let _ = sender.send(address);
            }
        }
        let _ = sender.send(None);
    });
    receiver
}

/// CPU time used so far by all threads of a process.
pub(crate) fn cpu_time(pid: i32) -> Result<Duration, Error> {
    if let Ok(Ok(now)) = clock_getcpuclockid(Pid::from_raw(pid)).map(|clock| clock.now()) {
        return Ok(Duration::from(now));
    }
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        after_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(ticks * 10))
}

/// Resident memory of a process in KiB.
pub(crate) fn rss_kib(pid: i32) -> Result<u64, Error> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|rest| rest.split_whitespace().next()).and_then(|n| n.parse().ok());
    number.ok_or_else(|| format!("no VmRSS for process {pid}").into())
}

/// Raises the limit of open files as far as allowed; children inherit it.
pub(crate) fn raise_file_limit() -> Result<u64, Error> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

/// Called by a child first: the kernel kills it when the benchmark ends, however that ends.
pub(crate) fn die_with_parent() -> Result<(), Error> {
    set_pdeathsig(Signal::SIGKILL)?;
    let parent = std::env::var(PARENT).map_err(|_| "this subcommand is for the benchmark itself")?;
    if getppid().to_string() != parent {
        return Err("the benchmark has already ended".into());
    }
    Ok(())
}

/// Replaces this process by a command; the parent-death signal stays set.
pub(crate) fn become_command(command: &[String]) -> Result<(), Error> {
    let (program, args) = command.split_first().ok_or("no command")?;
    let failure = Command::new(program).args(args).env_remove(PARENT).exec();
    Err(format!("{program}: {failure}").into())
}

/// Waits until a check passes, at most `limit`.
pub(crate) async fn until<F, R>(limit: Duration, mut check: F) -> Result<(), Error>
where
    F: FnMut() -> R,
    R: Future<Output = Result<(), Error>>,
{
    let start = Instant::now();
    loop {
        match check().await {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > limit => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}
