//! Servers that are child processes; here a few lines of shell.

use super::*;
use crate::config::{Isolation, StdioServer};
use crate::ports::upstream::FaultKind;
use mcp::era::Era;

/// A shell server. `cases` are patterns and what is done for them; `$id` is the request's id, `say` sends a line, and
/// `result JSON` and `error CODE` answer. The answer to `tools/call` is the process id.
fn shell(cases: &str) -> Server {
    let script = format!(
        r#"
say() {{ printf '%s\n' "$1"; }}
result() {{ say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$1}}"; }}
error() {{ say "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{{\"code\":$1,\"message\":\"no\"}}}}"; }}
while read -r line; do
  id=${{line#*\"id\":}}; id=${{id%%[,\}}]*}}
  case "$line" in
    {cases}
    *tools/call*) result "{{\"pid\":$$}}" ;;
    *notifications/*) ;;
    *) error -32601 ;;
  esac
done"#
    );
    let mut server = spec("http://unused.invalid/");
    server.transport = Transport::Stdio(StdioServer {
        command: "sh".into(),
        args: vec!["-c".into(), script],
        env: Vec::new(),
        inherit_env: vec!["PATH".into()],
        cwd: None,
        isolation: None,
        idle: Duration::from_secs(60),
        max_processes: 8,
    });
    server
}

const MODERN: &str =
    r#"*server/discover*) result '{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}' ;;"#;
const LEGACY: &str =
    r#"*'"initialize"'*) result '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}}}' ;;"#;

fn set(server: &mut Server, change: impl FnOnce(&mut StdioServer)) {
    if let Transport::Stdio(stdio) = &mut server.transport {
        change(stdio);
    }
}

async fn pid(client: &Arc<ServerClient>, number: u8) -> String {
    let mut call = tool_call();
    call.session = owner(number);
    text(&run(client, call).await.unwrap())
}

#[tokio::test]
async fn a_modern_process_serves_everybody() {
    let client = client_of(shell(MODERN));
    assert_eq!(run(&client, tool_call()).await.unwrap().era, Era::Modern);
    assert_eq!(pid(&client, 1).await, pid(&client, 2).await);
    let status = client.status();
    assert_eq!((status.transport, status.era, status.sessions), ("stdio", Some(Era::Modern), 1));
    client.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_legacy_process_serves_one_owner_alone() {
    let client = client_of(shell(LEGACY));
    assert_eq!(run(&client, tool_call()).await.unwrap().era, Era::Legacy);
    let first = pid(&client, 1).await;
    assert_eq!(first, pid(&client, 1).await);
    assert_ne!(first, pid(&client, 2).await);
    client.end_session(&owner(1)).await;
    assert_ne!(first, pid(&client, 1).await);
    client.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn isolation_is_as_configured() {
    let mut server = shell(LEGACY);
    set(&mut server, |stdio| stdio.isolation = Some(Isolation::Shared));
    let client = client_of(server);
    assert_eq!(pid(&client, 1).await, pid(&client, 2).await);
    client.shutdown(Duration::from_secs(5)).await;
    let mut server = shell(MODERN);
    set(&mut server, |stdio| stdio.isolation = Some(Isolation::Session));
    let client = client_of(server);
    assert_ne!(pid(&client, 1).await, pid(&client, 2).await);
    client.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_process_that_dies_of_the_question_is_asked_differently() {
    let cases = format!("*server/discover*) exit 3 ;; {LEGACY}");
    let client = client_of(shell(&cases));
    assert_eq!(run(&client, tool_call()).await.unwrap().era, Era::Legacy);
    client.shutdown(Duration::from_secs(5)).await;
    // It lives, and yet is good for nothing any more.
    let cases = format!("*server/discover*) spoilt=1; error -32602 ;; *spoilt*) ;; {LEGACY}");
    let cases = cases
        .replace("*'\"initialize\"'*) result", "*'\"initialize\"'*) [ -z \"$spoilt\" ] || exit 1; result");
    let client = client_of(shell(&cases));
    assert_eq!(run(&client, tool_call()).await.unwrap().era, Era::Legacy);
    client.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_silent_process_is_taken_for_legacy() {
    let mut server = shell(&format!("*server/discover*) ;; {LEGACY}"));
    server.timeouts.initialize = Duration::from_millis(500);
    let client = client_of(server);
    assert_eq!(run(&client, tool_call()).await.unwrap().era, Era::Legacy);
    client.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn one_that_nobody_uses_makes_room_for_another() {
    let mut server = shell(LEGACY);
    set(&mut server, |stdio| stdio.max_processes = 1);
    let client = client_of(server);
    for number in 1..4 {
        pid(&client, number).await;
    }
    assert_eq!(client.status().sessions, 1);
    client.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn an_idle_process_is_ended_and_started_again_when_it_is_needed() {
    let mut server = shell(MODERN);
    set(&mut server, |stdio| stdio.idle = Duration::from_millis(200));
    let client = client_of(server);
    let first = pid(&client, 1).await;
    let gone = async {
        while client.status().sessions > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
    assert_ne!(first, pid(&client, 1).await);
    client.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn broken_framing_ends_the_process_and_the_call() {
    let client = client_of(shell(&format!("{MODERN} *boom*) say 'not json' ;;")));
    pid(&client, 1).await;
    assert_eq!(client.status().connected, Some(true));
    let fault = run(&client, a_call("tools/call", &json!({"name": "boom"}))).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Protocol);
    let status = client.status();
    assert_eq!(status.connected, Some(false));
    assert!(status.last_error.unwrap().0.contains("not JSON"));
    let fault = run(&client, tool_call()).await.unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Unreachable, false), "not started again at once");
    client.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn the_pause_after_a_crash_outlives_the_idle_time() {
    let mut server = shell(&format!("{MODERN} *boom*) exit 1 ;;"));
    set(&mut server, |stdio| stdio.idle = Duration::from_millis(40));
    let client = client_of(server);
    let mut changes = client.changes();
    for pause in [250, 700] {
        let up = async {
            while run(&client, tool_call()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), up).await.unwrap();
        run(&client, a_call("tools/call", &json!({"name": "boom"}))).await.unwrap_err();
        // Sweeps have come and gone, twice over.
        tokio::time::sleep(Duration::from_millis(pause)).await;
        let fault = run(&client, tool_call()).await.unwrap_err();
        assert!(fault.detail.contains("not started again for"), "{fault}");
    }
    assert_eq!(changes.try_recv().unwrap(), crate::ports::upstream::Change::Restarted);
    client.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_program_that_is_not_there_is_unreachable() {
    let mut server = shell(MODERN);
    set(&mut server, |stdio| stdio.command = "/nonexistent/server".into());
    let fault = run(&client_of(server), tool_call()).await.unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Unreachable, false));
}

#[tokio::test]
async fn a_process_that_comes_back_with_another_era_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("old");
    // Modern at first; once the file is there, legacy.
    let cases = format!(
        "*server/discover*) if [ -e {flag} ]; then error -32601; else \
           result '{{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{{}}}}'; fi ;; \
         *die*) : > {flag}; exit 1 ;; {LEGACY}",
        flag = flag.display()
    );
    let client = client_of(shell(&cases));
    let mut changes = client.changes();
    assert_eq!(run(&client, tool_call()).await.unwrap().era, Era::Modern);
    let fault = run(&client, a_call("tools/call", &json!({"name": "die"}))).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Dropped);
    let back = async {
        loop {
            match run(&client, tool_call()).await {
                Ok(answer) => return answer,
                Err(fault) => assert!(!fault.dispatched, "{fault}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(30), back).await.unwrap();
    assert_eq!(answer.era, Era::Legacy);
    assert_eq!(changes.recv().await.unwrap(), crate::ports::upstream::Change::Restarted);
    assert_ne!(pid(&client, 1).await, pid(&client, 2).await);
    client.shutdown(Duration::from_secs(5)).await;
}

fn process(answer: &str) -> rustix::process::Pid {
    let digits: String = answer.chars().filter(char::is_ascii_digit).collect();
    rustix::process::Pid::from_raw(digits.parse().unwrap()).unwrap()
}

#[tokio::test]
async fn a_stopped_process_is_noticed_after_a_deadline_killed_and_started_anew() {
    for cases in [MODERN, LEGACY] {
        let client = client_of(shell(cases));
        let first = process(&pid(&client, 1).await);
        rustix::process::kill_process(first, rustix::process::Signal::STOP).unwrap();
        let waiting = Arc::clone(&client);
        let waiting = tokio::spawn(async move { run(&waiting, tool_call()).await });
        let patience = Duration::from_millis(300);
        assert!(tokio::time::timeout(patience, run(&client, tool_call())).await.is_err(), "it hangs");
        client.overdue(&who(&json!({})), &owner(1));
        // Asked twice, it is ended once.
        client.overdue(&who(&json!({})), &owner(1));
        let fault =
            tokio::time::timeout(Duration::from_secs(20), waiting).await.unwrap().unwrap().unwrap_err();
        assert_eq!((fault.kind, fault.dispatched), (FaultKind::Dropped, true), "{fault}");
        assert!(fault.detail.contains("hangs"), "{fault}");
        let fault = run(&client, tool_call()).await.unwrap_err();
        assert_eq!((fault.kind, fault.dispatched), (FaultKind::Unreachable, false), "not at once: {fault}");
        let again = async {
            while run(&client, tool_call()).await.is_err()
                || rustix::process::test_kill_process(first).is_ok()
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), again).await.unwrap();
        assert_ne!(process(&pid(&client, 1).await), first);
        client.shutdown(Duration::from_secs(5)).await;
    }
}

#[tokio::test]
async fn a_process_that_is_slow_and_says_anything_at_all_is_left_alone() {
    for cases in [MODERN, LEGACY] {
        let client = client_of(shell(&format!("*slow*) ;; {cases}")));
        let first = pid(&client, 1).await;
        let slow = a_call("tools/call", &json!({"name": "slow"}));
        let patience = Duration::from_millis(200);
        assert!(tokio::time::timeout(patience, run(&client, slow)).await.is_err());
        client.overdue(&who(&json!({})), &owner(1));
        tokio::time::sleep(Duration::from_secs(6)).await;
        assert_eq!(pid(&client, 1).await, first);
        client.shutdown(Duration::from_secs(5)).await;
    }
}
