//! What operators see: health, status, metrics, the log, and the demo. Nothing there grows with what strangers send.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::{Gateway, command, kill_group, signal};
use tollgate_tests::http::Request;
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait::{self, alive};

use crate::support::{Bench, child, http, yaml};

#[test]
fn status_tells_of_each_server() {
    let modern = Scripted::json(Peer::modern("modern"));
    let legacy = Scripted::json(Peer::legacy("legacy"));
    let servers = [
        http("modern", &modern, ""),
        http("legacy", &legacy, ""),
        child("child", &["--era", "legacy"], ""),
        "  gone: { url: \"http://127.0.0.1:1/mcp\" }\n".into(),
    ];
    let gateway = Gateway::start(&yaml("", &servers));
    gateway.modern().names("tools/list");
    wait::until("all to be asked", || gateway.admin("/readyz").status == 200);
    for (server, transport, era) in
        [("modern", "http", "modern"), ("legacy", "http", "legacy"), ("child", "stdio", "legacy")]
    {
        let status = gateway.server_status(server);
        assert_eq!(status["transport"], transport, "{status}");
        assert_eq!(status["era"], era, "{status}");
        assert_eq!(status["state"], "connected", "{status}");
        assert_eq!(status["tools"], 12, "{status}");
        assert!(status["since"].as_str().is_some_and(|s| s.ends_with('Z')), "{status}");
    }
    let gone = gateway.server_status("gone");
    assert_eq!(gone["state"], "failed", "{gone}");
    assert!(gone["last_error"]["message"].is_string() && gone["last_error"]["at"].is_string(), "{gone}");
}

#[test]
fn the_admin_listener_reads_only_and_minds_its_host() {
    let bench = Bench::modern();
    for method in ["POST", "PUT", "DELETE"] {
        assert_eq!(Request::new(method, "/status").send(bench.gateway.admin).status, 405, "{method}");
    }
    let rebound = Request::new("GET", "/status").header("Host", "attacker.tld");
    assert!([403, 421].contains(&rebound.send(bench.gateway.admin).status));
    let page = Request::new("GET", "/status").header("Origin", "https://evil.example");
    assert_eq!(page.send(bench.gateway.admin).status, 403);
    for path in ["/", "/mcp", "/status/../mcp", "/STATUS"] {
        assert_eq!(bench.gateway.admin(path).status, 404, "{path}");
    }
}

#[test]
fn metrics_count_requests_and_have_bounded_labels() {
    let bench = Bench::modern();
    bench.client().call("echo", "{}").result();
    for n in 0..60 {
        bench.client().send(&format!("made/up{n}"), "{}");
        bench.client().call(&format!("made_up_tool{n}"), "{}");
        bench.gateway.modern().server(&format!("made-up{n}")).send("tools/list", "{}");
        bench.gateway.modern().call(&format!("madeup{n}__x"), "{}");
    }
    let text = bench.gateway.admin("/metrics").text();
    assert!(text.contains("tollgate_requests_total"), "{text}");
    assert!(
        text.lines().any(|l| l.contains("tools/call") && l.contains("\"up\"") && l.contains("\"ok\"")),
        "{text}"
    );
    assert!(
        !text.contains("made"),
        "a stranger's words are labels: {}",
        text.lines().find(|l| l.contains("made")).unwrap_or_default()
    );
    assert!(text.lines().count() < 400, "{} lines", text.lines().count());
}

#[test]
fn one_log_line_for_each_request_as_json() {
    let up = Scripted::json(Peer::modern("up"));
    let bench = Bench::of(up, "log: { format: json }\n", "");
    bench.client().names("tools/list");
    bench.client().call("echo", r#"{"secret":"in-the-arguments"}"#).result();
    bench.client().call("fail", "{}").result();
    Legacy::server(bench.gateway.addr, "up").call("no\u{1b}[31msuch\ntool", "{}");
    let lines = || -> Vec<Value> {
        let log = bench.gateway.log();
        let all = log.lines().filter(|l| l.starts_with('{')).map(json::parse);
        all.filter(|l| l["target"] == "tollgate::request" && l["method"] == "tools/call").collect()
    };
    wait::until("three lines", || lines().len() == 3);
    let lines = lines();
    for line in &lines {
        for key in ["call_id", "method", "server", "outcome", "total_us", "timestamp"] {
            assert!(!line[key].is_null(), "{key}: {line}");
        }
    }
    assert_eq!(lines[0]["name"], "echo", "{}", lines[0]);
    assert_eq!((&lines[0]["outcome"], &lines[1]["outcome"]), (&json!("ok"), &json!("tool_error")));
    assert!(!bench.gateway.log().contains("in-the-arguments"), "arguments in the log");
    assert!(!bench.gateway.log().contains('\u{1b}'), "a control character in the log");
}

#[test]
fn connections_to_servers_are_pooled() {
    for bench in [Bench::modern(), Bench::legacy()] {
        let client = Legacy::server(bench.gateway.addr, "up");
        for _ in 0..30 {
            client.call("echo", "{}").result();
        }
        assert!(bench.up.connections() <= 8, "{} connections for 30 calls", bench.up.connections());
    }
}

/// A process group that a failed test doesn't leave behind.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            kill_group(self.0.id());
        }
        let _ = self.0.wait();
    }
}

#[test]
fn the_demo_runs_by_itself_and_leaves_nothing() {
    let mut command = command();
    command.args(["demo", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).process_group(0);
    let mut demo = Killed(command.spawn().expect("the binary runs"));
    let demo = &mut demo.0;
    let mut out = BufReader::new(demo.stdout.take().expect("stdout"));
    let mut said = String::new();
    while !(said.contains("curl") && said.contains("mcpServers")) {
        assert!(out.read_line(&mut said).expect("text") > 0, "it ended: {said}");
    }
    let addr = said.split("http://").nth(1).and_then(|s| s.split(['/', '\n']).next()).expect("an address");
    let addr = addr.trim().parse().expect("an address");
    let client = tollgate_tests::client::Modern::new(addr);
    let mut names = Vec::new();
    wait::until("both servers", || {
        names = client.names("tools/list");
        names.iter().any(|n| n.starts_with("clock__")) && names.iter().any(|n| n.starts_with("notes__"))
    });
    let sum = client.call("clock__add", r#"{"a":2,"b":3}"#).result();
    assert!(sum.to_string().contains('5'), "{sum}");
    let children =
        std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", demo.id())).unwrap_or_default();
    let children: Vec<u32> = children.split_whitespace().filter_map(|p| p.parse().ok()).collect();
    signal(demo.id(), rustix::process::Signal::INT);
    wait::within(Duration::from_secs(20), "the demo's end", || matches!(demo.try_wait(), Ok(Some(_))));
    assert!(children.iter().all(|p| !alive(*p)), "children left: {children:?}");
}
