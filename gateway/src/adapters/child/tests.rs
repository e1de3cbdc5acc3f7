//! Real child processes: what they get, how they are ended, and that nothing of them is left.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::{Child, ExitWatch, Slots, Started, StdioSpec};
use crate::adapters::pipe::Pipe;
use crate::config::Secret;
use crate::ports::upstream::{Fault, FaultKind};

const LONG: Duration = Duration::from_secs(60);

async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it never came")
}

/// Waits for a condition that nobody announces.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let met = async {
        while !condition() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), met).await.unwrap_or_else(|_| panic!("never: {what}"));
}

/// Whether a process runs. A corpse that nobody has reaped yet does not.
fn runs(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['Z', 'X']))
}

fn sh(script: &str) -> StdioSpec {
    StdioSpec::new("sh", &["-c", script])
}

struct Server {
    pipe: Arc<dyn Pipe>,
    incoming: mpsc::Receiver<Result<Bytes, Fault>>,
    exit: ExitWatch,
}

impl Server {
    fn start(spec: &StdioSpec) -> Server {
        Server::of(Child::start(spec, "s").unwrap())
    }

    fn of((pipe, incoming, exit): Started) -> Server {
        Server { pipe, incoming, exit }
    }

    async fn line(&mut self) -> String {
        String::from_utf8(soon(self.incoming.recv()).await.unwrap().unwrap().to_vec()).unwrap()
    }

    /// All lines up to the end, and why it came.
    async fn rest(&mut self) -> (Vec<String>, Fault) {
        let mut lines = Vec::new();
        loop {
            match soon(self.incoming.recv()).await.expect("the end is always told") {
                Ok(line) => lines.push(String::from_utf8_lossy(&line).into_owned()),
                Err(fault) => return (lines, fault),
            }
        }
    }
}

#[tokio::test]
async fn messages_go_through_whole_and_on_one_line() {
    let mut server = Server::start(&StdioSpec::new("cat", &[]));
    soon(server.pipe.send(Bytes::from_static(b"{\"a\":\r\n1}"))).await.unwrap();
    assert_eq!(server.line().await, "{\"a\":  1}");
    let big = Bytes::from(vec![b'x'; 3 << 20]);
    let (sent, line) = tokio::join!(soon(server.pipe.send(big.clone())), soon(server.incoming.recv()));
    sent.unwrap();
    assert_eq!(line.unwrap().unwrap(), big);
    soon(server.pipe.close(LONG)).await;
    let exit = server.exit.exit().unwrap();
    assert!(exit.code == Some(0) && exit.asked, "{exit:?}");
}

#[tokio::test]
async fn the_environment_is_what_is_configured_and_nothing_else() {
    let mut spec = StdioSpec::new("env", &[]);
    spec.inherit_env = vec!["PATH".to_owned(), "TOLLGATE_NOT_SET".to_owned()];
    spec.env = vec![("TOKEN".to_owned(), Secret::new("t0ken-value"))];
    let (mut lines, fault) = Server::start(&spec).rest().await;
    lines.sort();
    let path = format!("PATH={}", std::env::var("PATH").unwrap());
    assert_eq!(lines, [path, "TOKEN=t0ken-value".to_owned()]);
    assert!(fault.kind == FaultKind::Dropped && fault.detail.contains("exit code 0"), "{fault}");
    assert!(!format!("{spec:?}").contains("t0ken"));
}

#[tokio::test]
async fn the_working_directory_is_the_configured_one() {
    let mut spec = StdioSpec::new("pwd", &[]);
    spec.cwd = Some("/".into());
    assert_eq!(Server::start(&spec).line().await, "/");
}

#[tokio::test]
async fn an_orderly_end_begins_with_the_closed_stdin() {
    let mut server = Server::start(&sh(
        r#"trap "echo term" TERM; echo up; while read -r line; do :; done; echo eof; exit 3"#,
    ));
    assert_eq!(server.line().await, "up");
    soon(server.pipe.close(LONG)).await;
    let (lines, _) = server.rest().await;
    assert_eq!(lines, ["eof"], "no signal was needed");
    assert_eq!(server.exit.exit().unwrap().code, Some(3));
}

#[tokio::test]
async fn then_sigterm_follows() {
    let script = r#"trap "echo term; exit 7" TERM; echo up; while :; do sleep 0.02; done"#;
    let mut server = Server::start(&sh(script));
    assert_eq!(server.line().await, "up");
    soon(server.pipe.close(Duration::from_secs(3))).await;
    let (lines, _) = server.rest().await;
    assert_eq!(lines, ["term"]);
    assert_eq!(server.exit.exit().unwrap().code, Some(7));
}

#[tokio::test]
async fn then_sigkill_follows_for_the_whole_group() {
    let script = r#"trap "" TERM; sleep 1000 & echo $!; while :; do sleep 0.02; done"#;
    let mut server = Server::start(&sh(script));
    let grandchild: i32 = server.line().await.parse().unwrap();
    assert!(runs(grandchild) && runs(server.exit.pid()));
    soon(server.pipe.close(Duration::from_millis(300))).await;
    assert_eq!(server.exit.exit().unwrap().signal, Some(9));
    assert!(!runs(server.exit.pid()) && !Path::new(&format!("/proc/{}", server.exit.pid())).exists());
    until("the grandchild is gone", || !runs(grandchild)).await;
}

#[tokio::test]
async fn zero_grace_kills_at_once() {
    let mut server = Server::start(&sh(r#"trap "echo term" TERM; echo up; while :; do sleep 0.02; done"#));
    assert_eq!(server.line().await, "up");
    soon(server.pipe.close(Duration::ZERO)).await;
    assert_eq!(server.exit.exit().unwrap().signal, Some(9));
    assert_eq!(server.rest().await.0, Vec::<String>::new());
}

#[tokio::test]
async fn what_a_dead_server_leaves_in_its_group_is_ended() {
    let mut server = Server::start(&sh(r#"trap "" TERM; sleep 1000 & echo $!; exit 4"#));
    let grandchild: i32 = server.line().await.parse().unwrap();
    let exit = soon(server.exit.exited()).await;
    assert!(exit.code == Some(4) && !exit.asked, "{exit:?}");
    until("the grandchild is gone", || !runs(grandchild)).await;
}

#[tokio::test]
async fn a_dropped_pipe_ends_its_process() {
    let Server { pipe, incoming, mut exit } = Server::start(&sh(r#"while :; do sleep 0.02; done"#));
    drop((pipe, incoming));
    soon(exit.exited()).await;
    assert!(!runs(exit.pid()));
}

#[test]
fn a_dropped_runtime_leaves_no_process() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (server, grandchild) = runtime.block_on(async {
        let mut server = Server::start(&sh(r#"trap "" TERM; sleep 1000 & echo $!; sleep 1000"#));
        let grandchild: i32 = server.line().await.parse().unwrap();
        (server, grandchild)
    });
    drop(runtime);
    let end = std::time::Instant::now() + Duration::from_secs(30);
    while runs(grandchild) || runs(server.exit.pid()) {
        assert!(std::time::Instant::now() < end, "a process was left");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Not a test of its own: the gateway's part in the next one. Runs until killed when asked to.
#[tokio::test]
async fn helper_gateway() {
    if std::env::var_os("TOLLGATE_TEST_HELPER").is_none() {
        return;
    }
    let server = Server::start(&StdioSpec::new("cat", &[]));
    println!("\nchild={}", server.exit.pid());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_killed_gateway_leaves_no_child() {
    let mut gateway = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["helper_gateway", "--nocapture", "--test-threads=1"])
        .env("TOLLGATE_TEST_HELPER", "1")
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(gateway.stdout.take().unwrap()).lines();
    let pid: i32 = loop {
        let line = soon(lines.next_line()).await.unwrap().expect("the helper says its child");
        if let Some(pid) = line.strip_prefix("child=") {
            break pid.parse().unwrap();
        }
    };
    assert!(runs(pid));
    gateway.start_kill().unwrap();
    soon(gateway.wait()).await.unwrap();
    until("the child is gone", || !runs(pid)).await;
}

#[tokio::test]
async fn u9_a_process_that_does_not_read_is_ended() {
    let mut spec = sh("sleep 1000");
    spec.write_timeout = Duration::from_millis(200);
    let mut server = Server::start(&spec);
    let fault = soon(server.pipe.send(Bytes::from(vec![b'x'; 1 << 20]))).await.unwrap_err();
    assert!(fault.kind == FaultKind::Timeout && fault.dispatched, "{fault:?}");
    soon(server.exit.exited()).await;
    let fault = soon(server.pipe.send(Bytes::from_static(b"{}"))).await.unwrap_err();
    assert!(!fault.dispatched, "{fault:?}");
}

#[tokio::test]
async fn u1_an_endless_line_is_reported_before_it_ends() {
    let mut spec = sh("head -c 100000 /dev/zero | tr '\\0' x; sleep 1000");
    spec.line_bytes = 4096;
    let mut server = Server::start(&spec);
    let (lines, fault) = server.rest().await;
    assert!(lines.is_empty() && fault.kind == FaultKind::TooLarge, "{fault:?}");
    soon(server.pipe.close(Duration::ZERO)).await;
    assert!(server.exit.exit().is_some());
}

#[tokio::test]
async fn an_end_by_itself_is_told_with_its_last_words() {
    let (_, fault) = Server::start(&sh("echo '{}'; echo 'no config found' >&2; exit 3")).rest().await;
    assert_eq!(fault.kind, FaultKind::Dropped);
    assert!(fault.detail.contains("exit code 3") && fault.detail.contains("no config found"), "{fault}");
    let (lines, fault) = Server::start(&sh("echo whole; printf torn; kill -9 $$")).rest().await;
    assert_eq!(lines, ["whole"]);
    assert!(fault.detail.contains("signal 9"), "{fault}");
}

#[tokio::test]
async fn a_start_that_fails_says_why() {
    let missing = Child::start(&StdioSpec::new("no-such-program-here", &[]), "s").err().unwrap();
    assert!(missing.kind == FaultKind::Unreachable && !missing.dispatched);
    assert!(missing.detail.contains("no such program"), "{missing}");
    let mut spec = StdioSpec::new("cat", &[]);
    spec.cwd = Some("/no/such/folder".into());
    let missing = Child::start(&spec, "s").err().unwrap();
    assert!(missing.detail.contains("working directory `/no/such/folder`"), "{missing}");
}

#[tokio::test]
async fn a_slot_is_free_once_the_process_is_gone() {
    let slots = Arc::new(Slots::new(9)).server("s", 1);
    let spec = StdioSpec::new("cat", &[]);
    let server = Server::of(Child::start_in(&spec, "s", slots.take().unwrap()).unwrap());
    assert!(slots.take().is_err());
    soon(server.pipe.close(LONG)).await;
    assert!(slots.take().is_ok());
}
