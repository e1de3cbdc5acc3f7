//! Lists: merging, paging, caching and changes; A23 for cursors.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_tests::client::Client;
use tollgate_tests::gateway::Gateway;
use tollgate_tests::peer::{Peer, simple_tool};
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait;

use crate::support::{Bench, SEAL_A, http, sealed, yaml};

pub(crate) fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{prefix}{n:03}")).collect()
}

pub(crate) fn tools(prefix: &str, count: usize) -> Vec<String> {
    names(prefix, count).iter().map(|n| simple_tool(n)).collect()
}

/// Follows the gateway's cursors to the end; gives the pages.
pub(crate) fn pages(client: &dyn Client, method: &str, member: &str) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut params = "{}".to_owned();
    loop {
        let result = client.send(method, &params).result();
        pages.push(result[member].as_array().cloned().unwrap_or_default());
        match result.get("nextCursor") {
            Some(next) => params = json!({"cursor": next}).to_string(),
            None => return pages,
        }
        assert!(pages.len() < 100, "endless pages");
    }
}

#[test]
fn lists_are_merged_with_prefixes_in_a_stable_order() {
    let b = Scripted::json(Peer::legacy("b").tools(tools("b", 3)));
    let a = Scripted::json(Peer::modern("a").tools(tools("a", 3)));
    let gateway = Gateway::start(&yaml("", &[http("zeta", &b, ""), http("alpha", &a, "")]));
    let first = gateway.modern().names("tools/list");
    assert_eq!(first.len(), 6, "{first:?}");
    for name in ["zeta__b000", "zeta__b002", "alpha__a001"] {
        assert!(first.contains(&name.to_owned()), "{first:?}");
    }
    for _ in 0..5 {
        assert_eq!(gateway.modern().names("tools/list"), first);
        assert_eq!(gateway.legacy().names("tools/list"), first);
    }
    let tools = gateway.modern().send("tools/list", "{}").result();
    let described = tools["tools"].as_array().expect("tools").iter().all(|t| {
        let server = t["name"].as_str().unwrap_or_default().split("__").next().unwrap_or_default().to_owned();
        t["description"].as_str().is_some_and(|d| d.starts_with(&format!("[{server}] ")))
    });
    assert!(described, "{tools}");
    assert_eq!(gateway.modern().server("alpha").names("tools/list"), names("a", 3));
    let own = gateway.modern().server("alpha").send("tools/list", "{}").result();
    assert_eq!(own["tools"][0]["description"], "The tool a000");
    let resources = gateway.modern().names("resources/list");
    assert!(resources.contains(&"tollgate://capability".to_owned()), "{resources:?}");
    assert!(resources.contains(&"zeta+file:///notes/a.txt".to_owned()), "{resources:?}");
    assert!(resources.contains(&"ui://alpha/app/main".to_owned()), "{resources:?}");
    assert!(resources.contains(&"https://example.com/doc?a=1#x".to_owned()), "{resources:?}");
    let prompts = gateway.modern().send("prompts/list", "{}").result();
    let bare =
        prompts["prompts"].as_array().expect("prompts").iter().find(|p| p["name"] == "alpha__bare").cloned();
    assert_eq!(bare.expect("bare")["description"], "[alpha] bare");
}

#[test]
fn server_cursors_are_followed_to_the_end_and_ours_are_sealed() {
    let up = Scripted::json(Peer::modern("up").tools(tools("t", 23)).page(5));
    let other = Scripted::json(Peer::legacy("other").tools(tools("o", 9)).page(2));
    let gateway =
        sealed("lists: { page_size: 4 }\n", &[http("up", &up, ""), http("other", &other, "")], &[SEAL_A]);
    for client in [Box::new(gateway.modern()) as Box<dyn Client>, Box::new(gateway.legacy())] {
        let pages = pages(&*client, "tools/list", "tools");
        assert_eq!(pages.iter().map(Vec::len).sum::<usize>(), 32);
        assert!(
            pages.iter().all(|p| p.len() <= 4),
            "pages of {:?}",
            pages.iter().map(Vec::len).collect::<Vec<_>>()
        );
        let mut all: Vec<&str> = pages.iter().flatten().filter_map(|t| t["name"].as_str()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 32, "an entry came twice or not at all");
    }
    assert_eq!(gateway.modern().server("up").names("tools/list").len(), 4);
}

/// A cursor to an empty page would tell that more is there than the caller may see.
#[test]
fn t1_what_is_hidden_makes_no_page() {
    let up = Scripted::json(Peer::modern("up").tools(tools("t", 6)));
    let other = Scripted::json(Peer::modern("other").tools(tools("o", 3)));
    let first = "\"up__t000\", \"up__t001\"";
    for (allow, want) in [(first, 1), ("\"up__t000\", \"up__t001\", \"other__o002\"", 2), ("\"up__t005\"", 1)]
    {
        let head =
            format!("lists: {{ page_size: 2 }}\ndefault_task: t\ntasks:\n  t: {{ allow: [{allow}] }}\n");
        let gateway = Gateway::start(&yaml(&head, &[http("up", &up, ""), http("other", &other, "")]));
        for client in [Box::new(gateway.modern()) as Box<dyn Client>, Box::new(gateway.legacy())] {
            let pages = pages(&*client, "tools/list", "tools");
            assert_eq!(pages.len(), want, "{allow}: {pages:?}");
            assert!(pages.iter().all(|page| !page.is_empty()), "{allow}: {pages:?}");
        }
    }
}

#[test]
fn a23_foreign_and_altered_cursors_are_refused() {
    let up = Scripted::json(Peer::modern("up").tools(tools("t", 20)));
    let head = "lists: { page_size: 4 }\n";
    let gateway = sealed(head, &[http("up", &up, "")], &[SEAL_A]);
    let stranger = sealed(head, &[http("up", &up, "")], &[crate::support::SEAL_B]);
    let cursor = gateway.modern().send("tools/list", "{}").result()["nextCursor"]
        .as_str()
        .expect("a cursor")
        .to_owned();
    let ask = |g: &Gateway, method: &str, cursor: &str| {
        g.modern().send(method, &json!({"cursor": cursor}).to_string())
    };
    assert_eq!(ask(&gateway, "tools/list", &cursor).status, 200);
    let mut flipped = cursor.clone().into_bytes();
    let middle = flipped.len() / 2;
    flipped[middle] = if flipped[middle] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).expect("ascii");
    for (what, answer) in [
        ("other key", ask(&stranger, "tools/list", &cursor)),
        ("other list", ask(&gateway, "prompts/list", &cursor)),
        ("flipped", ask(&gateway, "tools/list", &flipped)),
        ("made up", ask(&gateway, "tools/list", "page-5")),
        ("empty", ask(&gateway, "tools/list", "")),
        ("huge", ask(&gateway, "tools/list", &"c".repeat(1 << 20))),
        (
            "other endpoint",
            gateway.modern().server("up").send("tools/list", &json!({"cursor": cursor}).to_string()),
        ),
        ("a session id", ask(&gateway, "tools/list", gateway.legacy().id())),
        ("a number", gateway.modern().send("tools/list", r#"{"cursor":5}"#)),
    ] {
        assert_eq!(answer.code(), Some(-32602), "{what}: {} {:.200}", answer.status, answer.text());
    }
    gateway.assert_alive();
}

#[test]
fn lists_are_cached_by_ttl_and_read_once_by_many() {
    let up = Scripted::carried(Peer::modern("up").ttl(60_000), Carrier::Json, |seen, _| {
        if seen.is("tools/list") {
            std::thread::sleep(Duration::from_millis(300));
        }
        false
    });
    let bench = Bench::of(up, "", "");
    let threads: Vec<_> = (0..16)
        .map(|_| {
            let client = bench.client();
            std::thread::spawn(move || client.names("tools/list").len())
        })
        .collect();
    let sizes: Vec<usize> = threads.into_iter().map(|t| t.join().expect("no panic")).collect();
    assert!(sizes.iter().all(|s| *s == sizes[0] && *s > 0), "{sizes:?}");
    for _ in 0..10 {
        bench.client().names("tools/list");
    }
    // One reading for the start and the calls together, at most one more for this client's own capabilities.
    assert!(bench.up.count("tools/list") <= 2, "{} readings", bench.up.count("tools/list"));
    let result = bench.client().send("tools/list", "{}").result();
    assert_eq!(result["cacheScope"], "private", "{result}");
    let ttl = result["ttlMs"].as_u64().expect("ttlMs");
    assert!(ttl <= 60_000, "longer than the server's: {ttl}");
}

#[test]
fn the_ttl_is_what_is_left_of_the_shortest() {
    let brief = Scripted::json(Peer::modern("brief").ttl(5_000));
    let long = Scripted::json(Peer::modern("long").ttl(3_600_000));
    let gateway =
        Gateway::start(&yaml("lists: { ttl: 30s }\n", &[http("brief", &brief, ""), http("long", &long, "")]));
    gateway.modern().names("tools/list");
    let ttl = gateway.modern().send("tools/list", "{}").result()["ttlMs"].as_u64().expect("ttlMs");
    assert!(ttl <= 5_000, "{ttl}");
    let legacy = gateway.legacy().send("tools/list", "{}").result();
    assert!(
        legacy.get("ttlMs").is_none()
            && legacy.get("cacheScope").is_none()
            && legacy.get("resultType").is_none(),
        "{legacy}"
    );
}

#[test]
fn a_stale_list_is_served_while_it_is_refreshed() {
    let delay = Arc::new(AtomicU64::new(0));
    let slow = Arc::clone(&delay);
    let up =
        Scripted::carried(Peer::modern("up").ttl(300).tools(tools("t", 3)), Carrier::Json, move |seen, _| {
            if seen.is("tools/list") {
                std::thread::sleep(Duration::from_millis(slow.load(Ordering::SeqCst)));
            }
            false
        });
    let bench = Bench::of(up, "", "");
    assert_eq!(bench.client().names("tools/list").len(), 3);
    bench.up.peer().set_tools(tools("t", 4));
    delay.store(1500, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(600));
    let start = Instant::now();
    let now = bench.client().names("tools/list").len();
    assert!(start.elapsed() < Duration::from_millis(1200), "waited for the refresh: {:?}", start.elapsed());
    assert!(now == 3 || now == 4);
    wait::until("the fresh list", || bench.client().names("tools/list").len() == 4);
}

#[test]
fn list_changed_refreshes_the_list_and_tells_live_sessions() {
    let up = Scripted::json(Peer::legacy("up").tools(tools("t", 2)));
    let bench = Bench::of(up, "", "");
    let client = bench.gateway.legacy();
    let get =
        client.dress(tollgate_tests::http::Request::new("GET", "/mcp").header("Accept", "text/event-stream"));
    let mut stream = get.open(bench.gateway.addr);
    assert_eq!(stream.status, 200);
    assert_eq!(client.names("tools/list").len(), 2);
    bench.up.peer().set_tools(tools("t", 3));
    wait::until("the gateway to listen at the server", || {
        bench.up.push(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#) > 0
    });
    wait::until("the changed list", || bench.client().names("tools/list").len() == 3);
    assert_eq!(client.names("tools/list").len(), 3);
    let told = stream.message(wait::LONG).expect("a notification");
    assert_eq!(told["method"], "notifications/tools/list_changed", "{told}");
}

#[test]
fn list_changed_of_a_modern_server_refreshes_the_list() {
    let bench = Bench::of(Scripted::json(Peer::modern("up").tools(tools("t", 2))), "", "");
    assert_eq!(bench.client().names("tools/list").len(), 2);
    wait::until("the gateway to listen at the server", || bench.up.count("subscriptions/listen") > 0);
    let listen = bench.up.seen_of("subscriptions/listen").pop().expect("seen").rpc();
    let id = listen.id.expect("an id");
    bench.up.peer().set_tools(tools("t", 3));
    let changed = format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
    );
    wait::until("a stream to be open", || bench.up.push(&changed) > 0);
    wait::until("the changed list", || bench.client().names("tools/list").len() == 3);
}

#[test]
fn lists_for_one_set_of_capabilities_are_not_shown_for_another() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        if !seen.is("tools/list") {
            return false;
        }
        let rpc = seen.rpc();
        let sampling =
            rpc.param(&["_meta", "io.modelcontextprotocol/clientCapabilities", "sampling"]).is_some();
        let entries = if sampling { tools("t", 3) } else { tools("t", 1) };
        out.json(
            200,
            rpc.result(&format!(
                r#"{{"resultType":"complete","ttlMs":60000,"cacheScope":"public","tools":[{}]}}"#,
                entries.join(",")
            )),
        );
        true
    });
    let bench = Bench::of(up, "", "");
    let plain = bench.client();
    let able = bench.client().capabilities(json!({"sampling": {}}));
    for _ in 0..3 {
        assert_eq!(plain.names("tools/list").len(), 1);
        assert_eq!(able.names("tools/list").len(), 3);
    }
}

#[test]
fn long_names_are_shortened_and_still_work() {
    let long = "n".repeat(100);
    let twin = format!("{}x", "n".repeat(99));
    let up = Scripted::carried(
        Peer::modern("up").tools(vec![simple_tool(&long), simple_tool(&twin)]),
        Carrier::Json,
        |seen, out| {
            let mine = seen.is("tools/call");
            if mine {
                out.json(200, seen.rpc().result(r#"{"resultType":"complete","content":[]}"#));
            }
            mine
        },
    );
    let gateway = Gateway::start(&yaml("", &[http("server-with-long-name", &up, "")]));
    let names = gateway.modern().names("tools/list");
    assert!(names.len() == 2 && names[0] != names[1], "{names:?}");
    for (name, own) in names.iter().zip([&long, &twin]) {
        assert!(name.len() <= 64 && name.starts_with("server-with-long-name__"), "{name}");
        assert_eq!(gateway.modern().call(name, "{}").status, 200);
        let seen = up.seen_of("tools/call").pop().expect("the call");
        assert_eq!(seen.rpc().text(&["name"]), **own);
        assert_eq!(seen.header("mcp-name"), Some(own.as_str()));
    }
    let again = Gateway::start(&yaml("", &[http("server-with-long-name", &up, "")]));
    assert_eq!(again.modern().names("tools/list"), names, "the suffix is stable");
}
