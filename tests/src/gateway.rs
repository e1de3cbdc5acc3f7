//! Runs `tollgate serve` in a folder of its own, on ports of its own. Never shares anything between tests.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::client::{Legacy, Modern};
use crate::http::{Answer, Request};
use crate::wait::{self, LONG};

/// The gateway's binary: `$TOLLGATE_BIN`, else the one beside the test's own target folder.
pub fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("TOLLGATE_BIN") {
        return PathBuf::from(named);
    }
    let exe = std::env::current_exe().expect("own path");
    let found = exe.ancestors().skip(1).map(|dir| dir.join("tollgate")).find(|p| p.is_file());
    found.unwrap_or_else(|| panic!("no `tollgate` above {exe:?}: build it first or set TOLLGATE_BIN"))
}

/// The command with an environment that no developer's shell changes.
pub fn command() -> Command {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().into_owned();
        if text.starts_with("TOLLGATE_")
            || text.starts_with("OTEL_")
            || text.starts_with("RUST_LOG")
            || text.to_lowercase().ends_with("_proxy")
        {
            command.env_remove(name);
        }
    }
    command.env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Runs one command to its end (`check`, `schema`, …).
pub fn run(args: &[&str], dir: &Path) -> Output {
    command().args(args).current_dir(dir).output().expect("the binary runs")
}

/// Reads a pipe into a shared text.
pub fn collect(pipe: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&text);
    std::thread::spawn(move || {
        let mut lines = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!(lines.read_until(b'\n', &mut line), Ok(n) if n > 0) {
            sink.lock().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    text
}

/// Sends a signal to a process, if it is still there.
pub fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Sends SIGKILL to a whole process group.
pub fn kill_group(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, Signal::KILL);
    }
}

/// How a gateway is started.
pub struct Start {
    yaml: String,
    env: Vec<(String, String)>,
    files: Vec<(String, String)>,
    dir: Option<Arc<tempfile::TempDir>>,
}

impl Start {
    /// With this configuration; `listen` and `admin` are added when absent.
    pub fn new(yaml: &str) -> Start {
        Start { yaml: with_ports(yaml), env: Vec::new(), files: Vec::new(), dir: None }
    }

    /// With an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Start {
        self.env.push((name.into(), value.into()));
        self
    }

    /// With a file beside the configuration.
    #[must_use]
    pub fn file(mut self, name: &str, content: &str) -> Start {
        self.files.push((name.into(), content.into()));
        self
    }

    /// In a folder that outlives the gateway.
    #[must_use]
    pub fn folder(mut self, dir: &Arc<tempfile::TempDir>) -> Start {
        self.dir = Some(Arc::clone(dir));
        self
    }

    /// Starts and waits for both listeners.
    pub fn start(self) -> Gateway {
        self.attempt().unwrap_or_else(|e| panic!("the gateway did not start: {e}"))
    }

    /// Starts, or says how the start failed.
    pub fn attempt(self) -> Result<Gateway, String> {
        let dir = self.dir.unwrap_or_else(|| Arc::new(tempfile::tempdir().expect("a folder")));
        let file = dir.path().join("tollgate.yaml");
        std::fs::write(&file, &self.yaml).expect("write the configuration");
        for (name, content) in &self.files {
            std::fs::write(dir.path().join(name), content).expect("write a file");
        }
        let mut command = command();
        command.args(["serve", "--config"]).arg(&file).current_dir(dir.path());
        command.envs(self.env).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the binary runs");
        let out = collect(child.stdout.take().expect("stdout"));
        let log = collect(child.stderr.take().expect("stderr"));
        let end = Instant::now() + LONG;
        loop {
            let seen = out.lock().clone();
            if let (Some(addr), Some(admin)) = (address(&seen, "listening on "), address(&seen, "admin on "))
            {
                return Ok(Gateway { child: Mutex::new(child), addr, admin, dir, log, out });
            }
            if let Some(status) = child.try_wait().expect("wait") {
                std::thread::sleep(Duration::from_millis(50));
                return Err(format!("{status}\nstdout: {}\nstderr: {}", out.lock(), log.lock()));
            }
            if Instant::now() > end {
                kill_group(child.id());
                return Err(format!("no address within {LONG:?}\nstdout: {seen}\nstderr: {}", log.lock()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn with_ports(yaml: &str) -> String {
    let has = |key: &str| yaml.lines().any(|line| line.starts_with(key));
    let mut head = String::new();
    if !has("listen:") {
        head.push_str("listen: 127.0.0.1:0\n");
    }
    if !has("admin:") {
        head.push_str("admin: { listen: 127.0.0.1:0 }\n");
    }
    head + yaml
}

fn address(out: &str, label: &str) -> Option<SocketAddr> {
    let line = out.lines().find_map(|line| line.split_once(label))?.1;
    line.split("://").nth(1)?.trim().trim_end_matches('/').parse().ok()
}

/// A running gateway; killed when dropped.
pub struct Gateway {
    child: Mutex<Child>,
    /// The data listener.
    pub addr: SocketAddr,
    /// The admin listener.
    pub admin: SocketAddr,
    /// Its folder.
    pub dir: Arc<tempfile::TempDir>,
    log: Arc<Mutex<String>>,
    out: Arc<Mutex<String>>,
}

impl Gateway {
    /// Starts with this configuration.
    pub fn start(yaml: &str) -> Gateway {
        Start::new(yaml).start()
    }

    /// Everything on stderr so far.
    pub fn log(&self) -> String {
        self.log.lock().clone()
    }

    /// Everything on stdout so far.
    pub fn stdout(&self) -> String {
        self.out.lock().clone()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.lock().id()
    }

    /// Asks for a drain.
    pub fn sigterm(&self) {
        signal(self.pid(), Signal::TERM);
    }

    /// Asks for a reload.
    pub fn sighup(&self) {
        signal(self.pid(), Signal::HUP);
    }

    /// The exit status, if it has ended.
    pub fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().try_wait().expect("wait")
    }

    /// Waits for its end.
    pub fn wait(&self, limit: Duration) -> ExitStatus {
        wait::within(limit, "the gateway's end", || self.ended().is_some());
        self.ended().expect("ended")
    }

    /// Fails the test if the process is gone or panicked.
    pub fn assert_alive(&self) {
        assert!(self.ended().is_none(), "the gateway died: {}", self.log());
        assert!(!self.log().contains("panicked at"), "a panic: {}", self.log());
    }

    /// A GET on the admin listener.
    pub fn admin(&self, path: &str) -> Answer {
        Request::new("GET", path).send(self.admin)
    }

    /// `/status`.
    pub fn status(&self) -> Value {
        let answer = self.admin("/status");
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.response()
    }

    /// One server's part of `/status`.
    pub fn server_status(&self, server: &str) -> Value {
        let status = self.status();
        let servers = &status["servers"];
        let found = match servers {
            Value::Array(list) => list.iter().find(|s| s["id"] == server || s["name"] == server).cloned(),
            other => other.get(server).cloned(),
        };
        found.unwrap_or_else(|| panic!("{server} is not in {status}"))
    }

    /// A modern client of `/mcp`.
    pub fn modern(&self) -> Modern {
        Modern::new(self.addr)
    }

    /// A legacy client of `/mcp`, already initialized.
    pub fn legacy(&self) -> Legacy {
        Legacy::connect(self.addr, "/mcp")
    }

    /// Resident memory in KiB.
    pub fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap_or_default();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            for line in tail.iter().rev() {
                eprintln!("gateway: {line}");
            }
        }
        let child = &mut *self.child.lock();
        if matches!(child.try_wait(), Ok(None)) {
            kill_group(child.id());
        }
        let _ = child.wait();
    }
}
