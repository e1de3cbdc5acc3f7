//! Lists of servers that misbehave: T7 and T8, failing, slow and required servers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::json;
use tollgate_tests::peer::{ECHO, Peer, simple_tool};
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait;

use crate::lists::{names, pages, tools};
use crate::support::{Bench, http, yaml};

#[test]
fn t7_endless_and_looping_pagination_is_bounded() {
    for what in ["endless", "loop", "huge cursor"] {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let up = Scripted::carried(Peer::modern("up"), Carrier::Json, move |seen, out| {
            if !seen.is("tools/list") {
                return false;
            }
            let n = count.fetch_add(1, Ordering::SeqCst);
            let cursor = match what {
                "endless" => format!("page-{n}"),
                "loop" => "the-same".to_owned(),
                _ => "c".repeat(1 << 20),
            };
            let tool = simple_tool(&format!("t{n}"));
            out.json(200, seen.rpc().result(&format!(
                r#"{{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{tool}],"nextCursor":"{cursor}"}}"#
            )));
            true
        });
        let bench = Bench::of(up, "lists: { max_pages: 7 }\n", "");
        let start = Instant::now();
        let answer = bench.client().send("tools/list", "{}");
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        assert!(start.elapsed() < Duration::from_secs(15), "{what}");
        std::thread::sleep(wait::QUIET);
        let seen = asked.load(Ordering::SeqCst);
        assert!(seen <= 16, "{what}: asked {seen} times");
        bench.gateway.assert_alive();
    }
}

#[test]
fn t7_too_many_or_too_large_entries_are_cut_and_said() {
    let up = Scripted::json(Peer::modern("up").tools(tools("t", 3000)));
    let other = Scripted::json(Peer::modern("other").tools(tools("o", 5)));
    let gateway = Gateway::start(&yaml(
        "lists: { max_entries: 1000 }\n",
        &[http("up", &up, ""), http("other", &other, "")],
    ));
    let client = gateway.modern();
    let all: Vec<Value> = pages(&client, "tools/list", "tools").concat();
    assert_eq!(
        all.iter().filter(|t| t["name"].as_str().is_some_and(|n| n.starts_with("other__"))).count(),
        5
    );
    assert!(all.len() <= 1005, "{} entries", all.len());
    let large = Scripted::carried(Peer::modern("large"), Carrier::Json, |seen, out| {
        if !seen.is("tools/list") {
            return false;
        }
        let fat = format!(
            r#"{{"name":"fat","description":"{}","inputSchema":{{"type":"object"}}}}"#,
            "d".repeat(50 << 20)
        );
        out.json(
            200,
            seen.rpc().result(&format!(
                r#"{{"resultType":"complete","ttlMs":1,"cacheScope":"public","tools":[{fat}]}}"#
            )),
        );
        true
    });
    let gateway = Gateway::start(&yaml("", &[http("large", &large, ""), http("other", &other, "")]));
    assert_eq!(gateway.modern().names("tools/list").len(), 5, "the other server's five");
    assert!(!gateway.server_status("large")["last_error"].is_null(), "{}", gateway.server_status("large"));
    assert!(gateway.rss_kib() < 400 * 1024, "{} KiB", gateway.rss_kib());
}

#[test]
fn t8_one_bad_entry_costs_itself_alone() {
    let mut entries = tools("good", 49);
    for bad in [
        r#"{"name":"no_schema"}"#,
        r#"{"name":"schema_is_text","inputSchema":"object"}"#,
        r#"{"name":"schema_is_array_type","inputSchema":{"type":"array"}}"#,
        r#"{"inputSchema":{"type":"object"}}"#,
        r#"{"name":7,"inputSchema":{"type":"object"}}"#,
        r#"{"name":"","inputSchema":{"type":"object"}}"#,
        r#"{"name":"line\nbreak","inputSchema":{"type":"object"}}"#,
        r#"{"name":"nul\u0000","inputSchema":{"type":"object"}}"#,
        r#""text""#,
        "null",
        "[]",
    ] {
        entries.insert(entries.len() / 2, bad.to_owned());
    }
    entries.push(format!(r#"{{"name":"{}","inputSchema":{{"type":"object"}}}}"#, "n".repeat(300)));
    for peer in [Peer::modern("up"), Peer::legacy("up")] {
        let bench = Bench::of(Scripted::json(peer.tools(entries.clone())), "", "");
        assert_eq!(bench.client().names("tools/list"), names("good", 49));
        let status = bench.gateway.server_status("up").to_string();
        assert!(status.contains("no_schema"), "no reason in /status: {status}");
    }
}

#[test]
fn an_entry_with_a_broken_neighbour_keeps_its_bytes() {
    let bench = Bench::of(Scripted::json(Peer::modern("up").tools(vec!["{}".into(), ECHO.into()])), "", "");
    let answer = bench.client().send("tools/list", "{}");
    let list = json::raw(&answer.raw_result(), &["tools"]).expect("tools");
    assert_eq!(json::elements(&list), [ECHO]);
}

#[test]
fn a_failing_server_costs_its_own_entries_only_after_the_grace() {
    let fragile = Scripted::json(Peer::modern("fragile").ttl(200).tools(tools("f", 2)));
    let stable = Scripted::json(Peer::legacy("stable").tools(tools("s", 2)));
    let head = "lists: { ttl: 1s, grace: 3s }\n";
    let gateway = Gateway::start(&yaml(head, &[http("fragile", &fragile, ""), http("stable", &stable, "")]));
    assert_eq!(gateway.modern().names("tools/list").len(), 4);
    fragile.die();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(gateway.modern().names("tools/list").len(), 4, "the last good list is kept for the grace");
    wait::within(Duration::from_secs(8), "the grace to end", || {
        gateway.modern().names("tools/list").len() == 2
    });
    assert_eq!(gateway.modern().names("tools/list"), ["stable__s000", "stable__s001"]);
    let status = gateway.server_status("fragile");
    assert!(status["state"] == "failed" && !status["last_error"].is_null(), "{status}");
    assert_eq!(gateway.modern().call("stable__s000", "{}").status, 200);
}

#[test]
fn a_slow_server_delays_nobody_else_for_long() {
    let slow = Scripted::start(|_, out| {
        out.wait_gone(Duration::from_secs(60));
        out.close();
    });
    let quick = Scripted::json(Peer::modern("quick").tools(tools("q", 2)));
    let gateway = Gateway::start(&yaml("", &[http("slow", &slow, ""), http("quick", &quick, "")]));
    let start = Instant::now();
    let names = gateway.modern().names("tools/list");
    assert_eq!(names, ["quick__q000", "quick__q001"]);
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    let start = Instant::now();
    let welcome = Legacy::connect(gateway.addr, "/mcp").welcome;
    assert!(welcome["capabilities"]["tools"].is_object());
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
}

#[test]
fn a_required_server_fails_the_whole_list() {
    let stable = Scripted::json(Peer::legacy("stable").tools(tools("s", 2)));
    let gone = Scripted::json(Peer::modern("gone"));
    gone.die();
    let servers = [
        http("gone", &gone, ", required: true, timeouts: { connect: 1s, initialize: 2s, lists: 2s }"),
        http("stable", &stable, ""),
    ];
    let gateway = Gateway::start(&yaml("", &servers));
    let answer = gateway.modern().send("tools/list", "{}");
    assert_eq!(answer.code(), Some(7001), "{}", answer.text());
    assert_eq!(answer.error()["data"]["server"], "gone");
    let discover = gateway.modern().send("server/discover", "{}");
    assert_eq!(discover.code(), Some(7001), "{}", discover.text());
    assert_ne!(gateway.admin("/readyz").status, 200, "ready without its required server");
    assert_eq!(gateway.admin("/healthz").status, 200);
    assert_eq!(gateway.modern().server("stable").names("tools/list").len(), 2);
}
