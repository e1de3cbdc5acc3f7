//! Plays the host that launches `tollgate stdio` itself. Treats every line on stdout as protocol.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::client::meta;
use crate::gateway::{collect, command, kill_group, signal};
use crate::json;
use crate::wait::{self, LONG};

/// A gateway on stdin and stdout.
pub struct Host {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: Arc<Mutex<String>>,
    /// Its folder.
    pub dir: tempfile::TempDir,
}

impl Host {
    /// Starts `tollgate stdio` with this configuration.
    pub fn start(yaml: &str) -> Host {
        Host::start_with(yaml, &[])
    }

    /// Starts with more arguments.
    pub fn start_with(yaml: &str, args: &[&str]) -> Host {
        Host::launch(yaml, args, true)
    }

    /// Starts and never reads its stderr: the pipe stays open and full.
    pub fn start_deaf(yaml: &str) -> Host {
        Host::launch(yaml, &[], false)
    }

    fn launch(yaml: &str, args: &[&str], listens: bool) -> Host {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("tollgate.yaml");
        std::fs::write(&file, yaml).expect("write the configuration");
        let mut command = command();
        command.args(["stdio", "--config"]).arg(&file).args(args).current_dir(dir.path());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the binary runs");
        let stdout = child.stdout.take().expect("stdout");
        let log = if listens { collect(child.stderr.take().expect("stderr")) } else { Arc::default() };
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        Host { child, stdin, lines, log, dir }
    }

    /// Writes one line.
    pub fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\n").as_bytes());
    }

    /// Writes bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("write to the gateway");
    }

    /// The next line, raw.
    pub fn line(&self, limit: Duration) -> Option<String> {
        self.lines.recv_timeout(limit).ok()
    }

    /// The next message; every line must be one JSON-RPC message. Changed lists, which may be told of at any time,
    /// are passed over.
    pub fn message(&self, limit: Duration) -> Option<Value> {
        let end = Instant::now() + limit;
        loop {
            let line = self.line(end.saturating_duration_since(Instant::now()))?;
            let message = json::parse(&line);
            assert_eq!(message["jsonrpc"], "2.0", "not protocol: {line}");
            if !message["method"].as_str().is_some_and(|m| m.ends_with("/list_changed")) {
                return Some(message);
            }
        }
    }

    /// All messages up to the response with this id.
    pub fn until_response(&self, id: &Value) -> Vec<Value> {
        let end = Instant::now() + LONG;
        let mut seen = Vec::new();
        while let Some(message) = self.message(end.saturating_duration_since(Instant::now())) {
            let done = message.get("id") == Some(id) && message.get("method").is_none();
            seen.push(message);
            if done {
                return seen;
            }
        }
        panic!("no answer to {id}; got {seen:?}; log: {}", self.log());
    }

    /// Sends a request and gives its response.
    pub fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        self.until_response(&json!(id)).pop().expect("a response")
    }

    /// Sends a modern request (`_meta` added) and gives its response.
    pub fn modern(&mut self, id: u64, method: &str, mut params: Value) -> Value {
        params["_meta"] = json::parse(&meta(&json!({}), &[]));
        self.request(id, method, params)
    }

    /// The legacy handshake.
    pub fn initialize(&mut self, version: &str) -> Value {
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}});
        let answer = self.request(900_001, "initialize", params);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer
    }

    /// Closes stdin.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// Asks for an end.
    pub fn sigterm(&self) {
        signal(self.child.id(), rustix::process::Signal::TERM);
    }

    /// Waits for the end.
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let child = &mut self.child;
        wait::within(limit, "the end of `tollgate stdio`", || matches!(child.try_wait(), Ok(Some(_))));
        self.child.wait().expect("ended")
    }

    /// Everything on stderr so far.
    pub fn log(&self) -> String {
        self.log.lock().clone()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("tollgate stdio: {}", self.log());
        }
        self.stdin = None;
        if matches!(self.child.try_wait(), Ok(None)) {
            kill_group(self.child.id());
        }
        let _ = self.child.wait();
    }
}
