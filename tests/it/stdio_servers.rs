//! Servers as child processes: isolation, environment, restarts, and what bad ones can't do.

use std::time::{Duration, Instant};

use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::{Gateway, Start, signal};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait::{self, alive};

use crate::eras::Dir;
use crate::support::{child, http, numbers, read, yaml};

fn count(client: &dyn Client) -> String {
    client.call("count", "{}").result()["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

/// One child called `up` with a log.
struct One {
    gateway: Gateway,
    dir: Dir,
}

impl One {
    fn start(args: &[&str], more: &str) -> One {
        let dir = Dir::new();
        let log = dir.file("log").to_string_lossy().into_owned();
        let args: Vec<&str> = args.iter().copied().chain(["--log", &log]).collect();
        let gateway = Gateway::start(&yaml("", &[child("up", &args, more)]));
        One { gateway, dir }
    }

    fn log(&self) -> String {
        read(&self.dir.file("log"))
    }

    fn pids(&self) -> Vec<u32> {
        numbers(&self.log(), "started ")
    }
}

#[test]
fn legacy_children_serve_one_session_each() {
    let one = One::start(&["--era", "legacy"], "");
    let (a, b) = (Legacy::server(one.gateway.addr, "up"), Legacy::server(one.gateway.addr, "up"));
    assert_eq!([count(&a), count(&a), count(&b), count(&a), count(&b)], ["1", "2", "1", "3", "2"]);
    let before = one.pids();
    assert_eq!(a.delete().status, 200);
    wait::until("the session's process to end", || one.log().contains("\nbye"));
    assert_eq!(count(&b), "3", "the other session's process lives");
    assert!(before.iter().any(|p| alive(*p)));
}

#[test]
fn modern_children_are_shared() {
    let one = One::start(&["--era", "modern"], "");
    let a = Legacy::server(one.gateway.addr, "up");
    let b = one.gateway.modern().server("up");
    assert_eq!([count(&a), count(&b), count(&a)], ["1", "2", "3"]);
    let serving = one.log().matches("\"count\"").count();
    assert_eq!(serving, 3);
    assert!(one.pids().len() <= 2, "a probe and one process: {:?}", one.pids());
}

#[test]
fn isolation_can_be_asked_for() {
    let one = One::start(&["--era", "legacy"], ", isolation: shared");
    let (a, b) = (Legacy::server(one.gateway.addr, "up"), Legacy::server(one.gateway.addr, "up"));
    assert_eq!([count(&a), count(&b), count(&a)], ["1", "2", "3"]);
    let one = One::start(&["--era", "modern"], ", isolation: session");
    let (a, b) = (Legacy::server(one.gateway.addr, "up"), Legacy::server(one.gateway.addr, "up"));
    assert_eq!([count(&a), count(&b), count(&a)], ["1", "1", "2"]);
}

#[test]
fn children_get_the_configured_environment_and_nothing_else() {
    let dir = Dir::new();
    let log = dir.file("log").to_string_lossy().into_owned();
    let entry = child(
        "up",
        &["--log", &log],
        ", env: { OWN: plain, SECRET: \"env:HIDDEN\" }, inherit_env: [PATH, KEPT]",
    );
    let gateway = Start::new(&yaml("", &[entry]))
        .env("HIDDEN", "hush-hush")
        .env("KEPT", "1")
        .env("NOT_KEPT", "1")
        .start();
    gateway.modern().server("up").call("echo", "{}").result();
    let text = read(&dir.file("log"));
    let names: Vec<&str> =
        text.lines().find_map(|l| l.strip_prefix("env ")).expect("env").split(' ').collect();
    for name in ["OWN", "SECRET", "PATH", "KEPT"] {
        assert!(names.contains(&name), "{name} is missing: {names:?}");
    }
    for name in ["HIDDEN", "NOT_KEPT", "HOME"] {
        assert!(!names.contains(&name), "{name} leaked: {names:?}");
    }
    assert!(!gateway.log().contains("hush-hush"));
}

#[test]
fn stderr_goes_to_the_log_with_the_servers_name() {
    let one = One::start(&["--name", "talker", "--bad", "floods-stderr"], "");
    assert_eq!(
        one.gateway.modern().server("up").call("echo", "{}").status,
        200,
        "a flood on stderr blocks nothing"
    );
    wait::until("the line", || {
        one.gateway.log().lines().any(|l| l.contains("hello from talker") && l.contains("up"))
    });
    one.gateway.assert_alive();
    assert!(one.gateway.log().len() < 8 << 20, "the log is bounded");
}

#[test]
fn a_child_that_breaks_the_framing_is_ended_and_started_anew() {
    for (bad, codes) in [
        ("garbage", &[7003, 7004][..]),
        ("garbage-between", &[7003, 7004]),
        ("huge-line", &[7004, 7003]),
        ("endless-line", &[7004, 7003]),
        ("dies-in-call", &[7003]),
    ] {
        let one = One::start(&["--era", "modern", "--bad", bad], ", timeouts: { call_idle: 5s }");
        let client = one.gateway.modern().server("up");
        let tools = client.names("tools/list").len();
        let pids = one.pids();
        let start = Instant::now();
        let answer = client.call("echo", "{}");
        assert!(answer.code().is_some_and(|c| codes.contains(&c)), "{bad}: {:.300}", answer.text());
        assert!(start.elapsed() < Duration::from_secs(15), "{bad}: {:?}", start.elapsed());
        wait::until("the child's end", || pids.iter().all(|p| !alive(*p)));
        assert!(one.gateway.rss_kib() < 400 * 1024, "{bad}: {} KiB", one.gateway.rss_kib());
        assert_eq!(client.names("tools/list").len(), tools, "{bad}: the list is kept");
        let read = || client.send("resources/read", r#"{"uri":"file:///notes/a.txt"}"#);
        wait::until("a new process", || read().code().is_none());
        assert!(one.pids().len() > pids.len(), "{bad}");
        one.gateway.assert_alive();
    }
}

#[test]
fn a_wrong_id_never_answers_a_call() {
    let one = One::start(&["--era", "modern", "--bad", "wrong-id"], ", timeouts: { call_idle: 2s }");
    let code = one.gateway.modern().server("up").call("echo", "{}").code();
    assert!(matches!(code, Some(7002..=7004)), "{code:?}");
}

#[test]
fn a_child_that_can_not_start_is_unreachable_and_retried_with_backoff() {
    let bad = One::start(&["--bad", "exit-at-start"], "");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(3) {
        let answer = bad.gateway.modern().server("up").call("echo", "{}");
        assert!(matches!(answer.code(), Some(7001..=7003)), "{}", answer.text());
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(bad.pids().len() < 25, "no backoff: {} starts in 3 s", bad.pids().len());
    let status = bad.gateway.server_status("up");
    assert!(status["state"] == "failed" && !status["last_error"].is_null(), "{status}");
    let gateway = Gateway::start("servers:\n  up: { command: /no/such/program }\n");
    let answer = gateway.modern().server("up").call("echo", "{}");
    assert_eq!(answer.code(), Some(7001), "{}", answer.text());
    assert!(!answer.text().contains("/no/such/program"), "internal detail: {}", answer.text());
}

#[test]
fn the_number_of_processes_is_bounded() {
    let one = One::start(&["--era", "legacy"], ", max_processes: 3");
    let clients: Vec<Legacy> = (0..8).map(|_| Legacy::server(one.gateway.addr, "up")).collect();
    let codes: Vec<Option<i64>> = clients.iter().map(|c| c.call("echo", "{}").code()).collect();
    assert!(codes.iter().any(Option::is_none), "{codes:?}");
    let living = one.pids().into_iter().filter(|p| alive(*p)).count();
    assert!(living <= 3, "{living} processes");
    one.gateway.assert_alive();
}

#[test]
fn idle_processes_are_ended_and_come_back() {
    let one = One::start(&["--era", "legacy"], ", idle: 1s");
    let client = Legacy::server(one.gateway.addr, "up");
    assert_eq!(count(&client), "1");
    let pids = one.pids();
    wait::until("the idle processes to end", || pids.iter().all(|p| !alive(*p)));
    assert_eq!(client.call("echo", "{}").result()["isError"], false, "a new process serves the session");
}

#[test]
fn one_bad_child_harms_nobody_else() {
    let dir = Dir::new();
    let log = dir.file("log").to_string_lossy().into_owned();
    let good = Scripted::json(Peer::modern("good"));
    let bad = child("bad", &["--log", &log, "--bad", "silent"], ", timeouts: { initialize: 2s }");
    let gateway = Gateway::start(&yaml("", &[bad, http("good", &good, "")]));
    let stuck: Vec<_> = (0..20)
        .map(|_| {
            let client = gateway.modern().server("bad");
            std::thread::spawn(move || client.call("echo", "{}").code())
        })
        .collect();
    for _ in 0..10 {
        let start = Instant::now();
        assert_eq!(gateway.modern().call("good__echo", "{}").status, 200);
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
    for thread in stuck {
        assert!(thread.join().expect("no panic").is_some());
    }
}

/// Calls and lists of others go on while this child hangs; it is killed, and its successor serves.
fn hangs_and_is_replaced(args: &[&str], more: &str, hang: impl Fn(&[u32])) {
    let dir = Dir::new();
    let log = dir.file("log").to_string_lossy().into_owned();
    let good = Scripted::json(Peer::modern("good"));
    let args: Vec<&str> = args.iter().copied().chain(["--log", &log]).collect();
    let limits = format!(", timeouts: {{ call_idle: 1s, lists: 1s }}{more}");
    let gateway = Gateway::start(&yaml(
        "lists: { ttl: 1s }\n",
        &[child("up", &args, &limits), http("good", &good, "")],
    ));
    let client = gateway.modern();
    wait::until("both lists", || client.names("tools/list").iter().any(|name| name.starts_with("up__")));
    let pids: Vec<u32> =
        numbers(&read(&dir.file("log")), "started ").into_iter().filter(|p| alive(*p)).collect();
    hang(&pids);
    let start = Instant::now();
    let stuck = {
        let client = gateway.modern();
        std::thread::spawn(move || client.call("up__echo", "{}").code())
    };
    while pids.iter().any(|pid| alive(*pid)) {
        assert!(start.elapsed() < wait::LONG, "the child still hangs");
        let turn = Instant::now();
        assert_eq!(client.call("good__echo", "{}").status, 200);
        client.names("tools/list");
        assert!(turn.elapsed() < Duration::from_secs(4), "others wait: {:?}", turn.elapsed());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(matches!(stuck.join().expect("no panic"), Some(7001..=7003)));
    let again = || client.send("resources/read", r#"{"uri":"up+file:///notes/a.txt"}"#).code().is_none();
    wait::until("the successor", again);
    assert!(numbers(&read(&dir.file("log")), "started ").iter().any(|pid| !pids.contains(pid)));
    gateway.assert_alive();
}

#[test]
fn a_stopped_child_is_noticed_killed_and_replaced_and_costs_no_other_server() {
    let stop = |pids: &[u32]| pids.iter().for_each(|pid| signal(*pid, rustix::process::Signal::STOP));
    hangs_and_is_replaced(&["--era", "modern"], "", stop);
    hangs_and_is_replaced(&["--era", "legacy"], ", isolation: shared", stop);
}

#[test]
fn a_child_that_stops_reading_is_noticed_killed_and_replaced_and_costs_no_other_server() {
    hangs_and_is_replaced(&["--era", "modern", "--bad", "stops-reading"], "", |_| {});
}

#[test]
fn list_changed_of_a_modern_child_refreshes_the_list() {
    let args = ["--era", "modern", "--tools", "a,b", "--bad", "grows"];
    let gateway = Gateway::start(&yaml("", &[child("up", &args, "")]));
    wait::until("the list that the child announces", || gateway.modern().names("tools/list").len() == 3);
}
