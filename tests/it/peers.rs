//! What users of other gateways suffer from: each is impossible here. The numbers are those of the issue's list.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_tests::client::{Client, Legacy, call_params};
use tollgate_tests::gateway::{Gateway, Start};
use tollgate_tests::http::Request;
use tollgate_tests::json;
use tollgate_tests::peer::{ECHO, Peer, simple_tool};
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait::{self, alive};

use crate::eras::Dir;
use crate::support::{Bench, SEAL_A, child, http, numbers, read, sealed, yaml};

fn text(client: &dyn Client, tool: &str) -> String {
    client.call(tool, "{}").result()["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn peer_01_a_stateful_call_touches_one_process_and_one_upstream_session() {
    let up = Scripted::json(Peer::legacy("up"));
    let gateway = Gateway::start(&yaml("", &[http("up", &up, "")]));
    let client = Legacy::server(gateway.addr, "up");
    client.call("count", "{}").result();
    let before = up.seen().len();
    for n in 2..=20 {
        assert_eq!(text(&client, "count"), n.to_string());
    }
    assert_eq!(up.seen().len(), before + 19, "more than one upstream request a call");
}

#[test]
fn peer_02_a_dead_replica_costs_its_sessions_nothing_elsewhere() {
    let up = Scripted::json(Peer::legacy("up"));
    let servers = [http("up", &up, "")];
    let (one, two) = (sealed("", &servers, &[SEAL_A]), sealed("", &servers, &[SEAL_A]));
    let client = Legacy::server(one.addr, "up");
    client.call("echo", "{}").result();
    drop(one);
    let start = Instant::now();
    assert_eq!(client.moved(two.addr).call("echo", "{}").result()["isError"], false);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn peer_03_no_state_leaks_between_clients() {
    let up = Scripted::json(Peer::legacy("up"));
    let gateway = Gateway::start(&yaml("", &[http("up", &up, "")]));
    let clients: Vec<Legacy> = (0..5).map(|_| Legacy::server(gateway.addr, "up")).collect();
    for round in 1..=3 {
        for client in &clients {
            assert_eq!(text(client, "count"), round.to_string());
        }
    }
}

#[test]
fn peer_04_a_session_survives_the_restart_of_the_gateway() {
    let up = Scripted::json(Peer::legacy("up"));
    let servers = [http("up", &up, "")];
    let first = sealed("", &servers, &[SEAL_A]);
    let client = Legacy::server(first.addr, "up");
    client.call("echo", "{}").result();
    first.sigterm();
    first.wait(Duration::from_secs(20));
    let second = sealed("", &servers, &[SEAL_A]);
    assert_eq!(client.moved(second.addr).call("echo", "{}").result()["isError"], false);
}

#[test]
fn peer_05_a_client_that_never_echoes_the_session_id_can_be_served() {
    let up = Scripted::json(Peer::legacy("up"));
    let bench = Bench::of(up, "legacy: { session_ids: none }\n", "");
    let client = Legacy::server(bench.gateway.addr, "up").as_session(None);
    assert!(client.names("tools/list").contains(&"echo".to_owned()));
    assert_eq!(client.call("echo", "{}").result()["isError"], false);
    assert_eq!(client.send("resources/read", r#"{"uri":"file:///notes/a.txt"}"#).status, 200);
}

#[test]
fn peer_06_a_session_at_another_replica_sees_the_same_tools_and_server() {
    let up = Scripted::json(Peer::legacy("up"));
    let other = Scripted::json(Peer::legacy("other"));
    let servers = [http("up", &up, ""), http("other", &other, "")];
    let (one, two) = (sealed("", &servers, &[SEAL_A]), sealed("", &servers, &[SEAL_A]));
    let client = one.legacy();
    let here = client.names("tools/list");
    assert_eq!(client.moved(two.addr).names("tools/list"), here);
    assert_eq!(
        client.moved(two.addr).call("other__echo", "{}").result()["structuredContent"]["server"],
        "other"
    );
}

#[test]
fn peer_07_a_modern_client_in_front_of_a_stateful_legacy_server_just_works() {
    let bench = Bench::legacy();
    for _ in 0..3 {
        let answer = bench.client().call("echo", "{}");
        assert_eq!((answer.status, answer.code()), (200, None), "{}", answer.text());
    }
    assert!(bench.client().names("tools/list").len() > 5, "a modern client sees the legacy server's tools");
    bench.up.assert_clean();
}

#[test]
fn peer_12_a_browsers_preflight_is_answered_for_listed_origins_alone() {
    let up = Scripted::json(Peer::modern("up"));
    let bench = Bench::of(up, "origins: [\"https://app.example\"]\n", "");
    let preflight = |origin: &str| {
        Request::new("OPTIONS", "/mcp")
            .header("Origin", origin)
            .header("Access-Control-Request-Method", "POST")
            .header(
                "Access-Control-Request-Headers",
                "content-type, mcp-method, mcp-name, mcp-protocol-version",
            )
            .send(bench.gateway.addr)
    };
    let fine = preflight("https://app.example");
    assert!([200, 204].contains(&fine.status), "{}", fine.status);
    assert_eq!(fine.header("access-control-allow-origin"), Some("https://app.example"));
    assert!(fine.header("access-control-allow-methods").is_some_and(|m| m.contains("POST")));
    let headers = fine.header("access-control-allow-headers").unwrap_or_default().to_lowercase();
    for name in ["content-type", "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"] {
        assert!(headers.contains(name) || headers == "*", "{name}: {headers}");
    }
    let foreign = preflight("https://evil.example");
    assert_eq!(foreign.status, 403);
    assert!(foreign.header("access-control-allow-origin").is_none());
    let answer = bench.good().header("Origin", "https://app.example").send(bench.gateway.addr);
    assert_eq!(
        answer.header("access-control-allow-origin"),
        Some("https://app.example"),
        "{:?}",
        answer.headers
    );
    let session = Legacy::initialize("/mcp", "2025-11-25", &json!({}))
        .header("Origin", "https://app.example")
        .send(bench.gateway.addr);
    let exposed = session.header("access-control-expose-headers").unwrap_or_default().to_lowercase();
    assert!(exposed.contains("mcp-session-id"), "a browser can't read its session id: {:?}", session.headers);
}

#[test]
fn peer_16_a_server_without_a_get_stream_is_left_in_peace() {
    let up = Scripted::carried(Peer::legacy("up"), Carrier::Json, |seen, out| {
        let mine = seen.method == "GET";
        if mine {
            out.reply(405, &[("Allow", "POST, DELETE")], "");
        }
        mine
    });
    let bench = Bench::of(up, "", "");
    let client = Legacy::server(bench.gateway.addr, "up");
    let names = client.names("tools/list");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(client.names("tools/list"), names, "the list flaps");
    }
    let gets = bench.up.seen().iter().filter(|s| s.method == "GET").count();
    assert!(gets <= 4, "{gets} attempts in two seconds");
}

#[test]
fn peer_17_limits_are_what_the_configuration_says() {
    let up = Scripted::json(Peer::modern("up"));
    let bench = Bench::of(up, "limits: { request_bytes: 8MiB }\n", ", limits: { answer_bytes: 8MiB }");
    let big = format!(r#"{{"text":"{}"}}"#, "x".repeat(5 << 20));
    let answer = bench.client().call("blob", r#"{"bytes":6000000}"#);
    assert_eq!(answer.result()["content"][0]["text"].as_str().map(str::len), Some(6_000_000));
    let sent = bench.client().call("count", &big);
    assert_eq!(sent.status, 200, "{:.200}", sent.text());
    let too_big = bench
        .client()
        .request("tools/call", &call_params("echo", &format!(r#"{{"text":"{}"}}"#, "x".repeat(9 << 20))));
    bench.refuses("over the limit", &too_big, &[413], None);
}

#[test]
fn peer_18_a_result_over_the_cap_is_an_error_never_a_truncated_success() {
    let up = Scripted::json(Peer::legacy("up"));
    let bench = Bench::of(up, "", ", limits: { answer_bytes: 100KiB }");
    for client in
        [Box::new(bench.client()) as Box<dyn Client>, Box::new(Legacy::server(bench.gateway.addr, "up"))]
    {
        let answer = client.call("blob", r#"{"bytes":200000}"#);
        assert_eq!(answer.code(), Some(7004), "{:.300}", answer.text());
        assert!(
            answer.error()["data"]["reason"].as_str().is_some_and(|r| r.contains("large")),
            "{}",
            answer.text()
        );
        assert_eq!(client.call("blob", r#"{"bytes":50000}"#).code(), None, "within the cap");
    }
}

#[test]
fn peer_19_one_bad_target_never_empties_the_list() {
    let good = Scripted::json(Peer::modern("good").tools(vec![simple_tool("a"), simple_tool("b")]));
    let bad = Scripted::start(|_, out| out.reply(500, &[("Content-Type", "text/html")], "<h1>no</h1>"));
    let servers =
        [http("bad", &bad, ""), http("good", &good, ""), child("dead", &["--bad", "exit-at-start"], "")];
    let gateway = Gateway::start(&yaml("", &servers));
    for client in [Box::new(gateway.modern()) as Box<dyn Client>, Box::new(gateway.legacy())] {
        assert_eq!(client.names("tools/list"), ["good__a", "good__b"]);
    }
    for server in ["bad", "dead"] {
        assert!(!gateway.server_status(server)["last_error"].is_null(), "{}", gateway.status());
    }
    // A key for it that doesn't exist is refused, not ignored.
    assert!(
        Start::new("fail_open: true\nservers:\n  a: { url: \"http://127.0.0.1:1/\" }\n").attempt().is_err()
    );
}

#[test]
fn peer_20_every_page_of_a_servers_list_is_shown() {
    let all: Vec<String> = (0..173).map(|n| simple_tool(&format!("t{n:03}"))).collect();
    for peer in [Peer::modern("up"), Peer::legacy("up")] {
        let up = Scripted::json(peer.tools(all.clone()).page(50));
        let gateway = Gateway::start(&yaml("", &[http("up", &up, "")]));
        assert_eq!(gateway.modern().names("tools/list").len(), 173);
        assert_eq!(gateway.legacy().names("tools/list").len(), 173);
    }
}

#[test]
fn peer_21_one_invalid_schema_costs_one_tool() {
    let mut tools: Vec<String> = (0..50).map(|n| simple_tool(&format!("t{n:02}"))).collect();
    tools[25] = r#"{"name":"broken","inputSchema":{"type":"string"}}"#.into();
    let up = Scripted::json(Peer::legacy("up").tools(tools));
    let gateway = Gateway::start(&yaml("", &[http("up", &up, "")]));
    assert_eq!(gateway.modern().names("tools/list").len(), 49);
    let status = gateway.server_status("up").to_string();
    assert!(status.contains("broken"), "{status}");
    wait::until("the log", || gateway.log().contains("broken"));
}

#[test]
fn peer_23_a_blip_removes_no_tools() {
    let failing = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&failing);
    let up = Scripted::carried(Peer::modern("up").ttl(200), Carrier::Json, move |_, out| {
        let mine = flag.load(Ordering::SeqCst);
        if mine {
            out.reply(503, &[], "");
        }
        mine
    });
    let bench = Bench::of(up, "", "");
    let names = bench.client().names("tools/list");
    failing.store(true, Ordering::SeqCst);
    for _ in 0..6 {
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(bench.client().names("tools/list"), names, "a blip emptied the list");
    }
    failing.store(false, Ordering::SeqCst);
    wait::until("the server's return", || bench.client().call("echo", "{}").code().is_none());
}

#[test]
fn peer_26_changes_reach_live_sessions() {
    let gateway = Gateway::start(&yaml("", &[child("up", &["--era", "legacy"], ", isolation: shared")]));
    let client = gateway.legacy();
    let before = client.names("tools/list").len();
    let get = client.dress(Request::new("GET", "/mcp").header("Accept", "text/event-stream"));
    let mut stream = get.open(gateway.addr);
    client.call("up__add_tool", r#"{"name":"fresh"}"#).result();
    let told = stream.message(wait::LONG).expect("a notification");
    assert_eq!(told["method"], "notifications/tools/list_changed");
    wait::until("the new tool", || client.names("tools/list").len() == before + 1);
    assert!(client.names("tools/list").contains(&"up__fresh".to_owned()));
}

#[test]
fn peer_27_no_field_of_a_tool_is_lost() {
    for peer in [Peer::modern("up"), Peer::legacy("up")] {
        let rich =
            ECHO.replace("\"futureField\"", r#""outputSchema":{"type":"object","x":1.0},"futureField""#);
        let up = Scripted::json(peer.tools(vec![rich.clone()]));
        let bench = Bench::of(up, "", "");
        let raw = bench.client().send("tools/list", "{}").raw_result();
        assert_eq!(json::elements(&json::raw(&raw, &["tools"]).expect("tools")), [rich]);
    }
    let bench = Bench::modern();
    let failed = bench.client().call("fail", "{}").result();
    assert!(
        failed["isError"] == true && failed["content"][0]["text"] == "no such row",
        "the real error is hidden: {failed}"
    );
}

#[test]
fn peer_28_a_slow_start_of_a_server_delays_no_client_and_leaks_no_process() {
    let dir = Dir::new();
    let log = dir.file("log").to_string_lossy().into_owned();
    let script = format!("sleep 3; exec {} --era legacy --log {log}", crate::support::CHILD);
    let up = Scripted::json(Peer::modern("quick"));
    let slow = crate::support::shell("slow", &script, "");
    let gateway = Gateway::start(&yaml("", &[slow, http("quick", &up, "")]));
    let start = Instant::now();
    assert!(Legacy::connect(gateway.addr, "/mcp").session.is_some());
    assert!(start.elapsed() < Duration::from_secs(12), "the client waited {:?}", start.elapsed());
    wait::within(Duration::from_secs(30), "the slow server's tools", || {
        gateway.modern().names("tools/list").iter().any(|n| n.starts_with("slow__"))
    });
    let clients: Vec<_> = (0..10)
        .map(|_| {
            let client = gateway.modern().server("slow");
            std::thread::spawn(move || client.call("echo", "{}").code())
        })
        .collect();
    for one in clients {
        one.join().expect("no panic");
    }
    let pids = numbers(&read(&dir.file("log")), "started ");
    assert!(pids.iter().filter(|p| alive(**p)).count() <= 3, "processes pile up: {pids:?}");
    gateway.sigterm();
    gateway.wait(Duration::from_secs(20));
    assert!(pids.iter().all(|p| !alive(*p)), "leaked: {pids:?}");
}

#[test]
fn peer_28_an_expired_upstream_session_is_made_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let up = Scripted::carried(Peer::legacy("up"), Carrier::Json, move |seen, out| {
        let mine = seen.is("resources/read") && count.fetch_add(1, Ordering::SeqCst) == 1;
        if mine {
            out.session_not_found();
        }
        mine
    });
    let bench = Bench::of(up, "", "");
    for _ in 0..3 {
        let answer = bench.client().send("resources/read", r#"{"uri":"file:///notes/a.txt"}"#);
        assert!(answer.result()["contents"].is_array(), "{}", answer.text());
    }
    assert_eq!(calls.load(Ordering::SeqCst), 4, "repeated once");
}

#[test]
fn peer_30_a_misconfiguration_is_a_named_early_error() {
    for (text, line, word) in [
        ("servers:\n  a: { ulr: \"http://127.0.0.1:1/\" }\n", 4, "ulr"),
        ("servers:\n  a: { url: \"127.0.0.1:1\" }\n", 4, "url"),
        ("servers:\n  a: { command: \"\" }\n", 4, "command"),
    ] {
        let said = Start::new(text).attempt().err().expect("refused");
        assert!(said.contains("exit status: 1"), "{said}");
        assert!(said.contains(&format!("tollgate.yaml:{line}")) && said.contains(word), "{said}");
        assert!(!said.contains("listening on"), "{said}");
    }
    let gateway = Gateway::start("servers:\n  gone: { url: \"http://127.0.0.1:1/mcp\" }\n");
    wait::until("the error in /status", || !gateway.server_status("gone")["last_error"].is_null());
    let list = gateway.modern().send("tools/list", "{}");
    assert_eq!(list.status, 200);
    let one = gateway.modern().server("gone").send("tools/list", "{}");
    assert_eq!(one.code(), Some(7001), "an empty list hides the failure: {}", one.text());
}
