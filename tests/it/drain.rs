//! The end of the gateway: calls in flight finish, new ones are refused, no child is left.

use std::time::{Duration, Instant};

use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::{Gateway, signal};
use tollgate_tests::http::{Conn, Request};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait::{self, alive};

use crate::eras::Dir;
use crate::support::{CHILD, child, http, numbers, read, shell, yaml};

const SOON: Duration = Duration::from_secs(20);

/// Sends a slow call and leaves the answer unread.
fn begin(client: &dyn Client, ms: u64) -> Conn {
    let request = client.request("tools/call", &format!(r#"{{"name":"slow","arguments":{{"ms":{ms}}}}}"#));
    let mut conn = Conn::open(client.addr());
    conn.write(&request.wire(&client.addr().to_string()));
    conn
}

#[test]
fn sigterm_lets_calls_finish_and_refuses_new_ones() {
    let modern = Scripted::json(Peer::modern("modern"));
    let legacy = Scripted::sse(Peer::legacy("legacy"));
    let gateway =
        Gateway::start(&yaml("drain: 10s\n", &[http("modern", &modern, ""), http("legacy", &legacy, "")]));
    let one = begin(&gateway.modern().server("modern"), 1500);
    let session = Legacy::server(gateway.addr, "legacy");
    let two = begin(&session, 1500);
    // An idle kept-alive connection must not hold the end up.
    let mut idle = Conn::open(gateway.addr);
    assert_eq!(idle.exchange(&gateway.modern().request("tools/list", "{}")).status, 200);
    wait::until("both calls", || modern.count("tools/call") == 1 && legacy.count("tools/call") == 1);
    gateway.sigterm();
    wait::until("the gateway to be unready", || {
        gateway.ended().is_some()
            || Request::new("GET", "/readyz").try_send(gateway.admin).map_or(true, |a| a.status != 200)
    });
    let late = gateway.modern().request("tools/list", "{}");
    match std::net::TcpStream::connect(gateway.addr) {
        Err(_) => {}
        Ok(_) => {
            assert!(late.try_send(gateway.addr).map_or(true, |a| a.status == 503), "a new request was served")
        }
    }
    assert_eq!(one.try_answer(SOON).expect("an answer").result()["content"][0]["text"], "slow but sure");
    assert_eq!(two.try_answer(SOON).expect("an answer").result()["content"][0]["text"], "slow but sure");
    let status = gateway.wait(SOON);
    assert!(status.success(), "{status}: {}", gateway.log());
    assert!(legacy.seen().iter().any(|s| s.method == "DELETE"), "upstream sessions are closed");
}

#[test]
fn calls_that_outlast_the_drain_are_cut_and_streams_end_cleanly() {
    let up = Scripted::sse(Peer::legacy("up"));
    let gateway = Gateway::start(&yaml("drain: 1s\n", &[http("up", &up, "")]));
    let session = Legacy::server(gateway.addr, "up");
    let call = begin(&session, 60_000);
    let get = session.dress(Request::new("GET", "/servers/up/mcp").header("Accept", "text/event-stream"));
    let stream = get.open(gateway.addr);
    assert_eq!(stream.status, 200);
    wait::until("the call", || up.count("tools/call") == 1);
    let start = Instant::now();
    gateway.sigterm();
    let end = stream.try_finish(SOON);
    assert!(end.is_ok(), "the open stream was cut: {end:?}");
    let answer = call.try_answer(SOON);
    assert!(answer.as_ref().map_or(true, |a| a.code().is_some()), "{answer:?}");
    gateway.wait(SOON);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    wait::until("the server to be told", || {
        !up.peer().cancelled().is_empty() || !up.peer().stopped().is_empty()
    });
}

#[test]
fn a_second_sigterm_or_sigint_ends_it_at_once_or_in_time() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = Gateway::start(&yaml("drain: 60s\n", &[http("up", &up, "")]));
    let _call = begin(&gateway.modern().server("up"), 60_000);
    wait::until("the call", || up.count("tools/call") == 1);
    gateway.sigterm();
    std::thread::sleep(Duration::from_millis(500));
    gateway.sigterm();
    signal(gateway.pid(), rustix_int());
    wait::within(Duration::from_secs(15), "the end", || gateway.ended().is_some());
}

fn rustix_int() -> rustix::process::Signal {
    rustix::process::Signal::INT
}

#[test]
fn children_end_by_their_closed_stdin() {
    let dir = Dir::new();
    let log = dir.file("log");
    let gateway = Gateway::start(&yaml("", &[child("up", &["--log", &log.to_string_lossy()], "")]));
    gateway.modern().server("up").call("echo", "{}").result();
    Legacy::server(gateway.addr, "up").call("echo", "{}").result();
    let pids = numbers(&read(&log), "started ");
    assert!(!pids.is_empty());
    gateway.sigterm();
    assert!(gateway.wait(SOON).success(), "{}", gateway.log());
    let text = read(&log);
    assert_eq!(text.matches("\nbye").count(), pids.len(), "not all ended by themselves: {text}");
    assert!(pids.iter().all(|p| !alive(*p)), "left: {pids:?}");
}

#[test]
fn children_that_ignore_a_closed_stdin_get_term_and_then_kill() {
    let dir = Dir::new();
    let (term, log) = (dir.file("term"), dir.file("log"));
    let run = format!("{CHILD} --log {} --bad ignores-eof", log.display());
    // The first notes SIGTERM and ends; the second ignores it.
    let polite = format!(
        "exec 3<&0; {run} <&3 & p=$!; trap 'echo term >> {}; kill -9 $p; exit 0' TERM; wait $p; wait $p",
        term.display()
    );
    let deaf = format!("trap '' TERM; exec {run}");
    let gateway =
        Gateway::start(&yaml("drain: 1s\n", &[shell("polite", &polite, ""), shell("deaf", &deaf, "")]));
    for server in ["polite", "deaf"] {
        gateway.modern().server(server).call("echo", "{}").result();
    }
    let pids = numbers(&read(&log), "started ");
    assert!(pids.len() >= 2, "{pids:?}");
    gateway.sigterm();
    gateway.wait(Duration::from_secs(30));
    let text = read(&log);
    assert!(text.contains("eof"), "stdin is closed first: {text}");
    assert!(read(&term).contains("term"), "no SIGTERM before SIGKILL");
    wait::within(Duration::from_secs(3), "all children to be gone", || pids.iter().all(|p| !alive(*p)));
}

#[test]
fn grandchildren_end_with_their_group() {
    let dir = Dir::new();
    let log = dir.file("log");
    let gateway = Gateway::start(&yaml(
        "",
        &[child("up", &["--log", &log.to_string_lossy(), "--bad", "grandchild"], "")],
    ));
    gateway.modern().server("up").call("echo", "{}").result();
    let grandchildren = numbers(&read(&log), "grandchild ");
    assert!(!grandchildren.is_empty());
    gateway.sigterm();
    gateway.wait(SOON);
    wait::within(Duration::from_secs(5), "the grandchildren to be gone", || {
        grandchildren.iter().all(|p| !alive(*p))
    });
}
