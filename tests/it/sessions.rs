//! The legacy era's sessions: sealed ids (A24), replicas, DELETE, the end of the window, and who shares what.

use std::collections::HashSet;

use serde_json::json;
use tollgate_tests::client::{Client, LEGACY, Legacy, MODERN};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::http::Request;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait;

use crate::support::{Bench, SEAL_A, SEAL_B, http, sealed, yaml};

fn initialize(gateway: &Gateway, version: &str) -> tollgate_tests::http::Answer {
    Legacy::initialize("/mcp", version, &json!({})).send(gateway.addr)
}

#[test]
fn initialize_answers_with_the_gateways_own_identity() {
    let bench = Bench::legacy();
    let answer = initialize(&bench.gateway, LEGACY);
    let result = answer.result();
    assert_eq!(result["protocolVersion"], LEGACY);
    assert_eq!(result["serverInfo"]["name"], "tollgate");
    assert!(result["capabilities"]["tools"].is_object() && result["capabilities"]["resources"].is_object());
    assert!(
        result["capabilities"]["prompts"].is_object() && result["capabilities"]["completions"].is_object()
    );
    assert_eq!(result["capabilityCard"]["specRevision"], MODERN);
    assert_eq!(result["capabilityCard"]["eras"], json!(["modern", "legacy"]));
    let id = answer.header("mcp-session-id").expect("a session id");
    assert!(id.len() <= 1024 && id.bytes().all(|b| (0x21..=0x7e).contains(&b)), "{id}");
}

#[test]
fn offered_versions_are_agreed_and_unknown_ones_get_the_newest() {
    let bench = Bench::legacy();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY] {
        assert_eq!(initialize(&bench.gateway, version).result()["protocolVersion"], version);
    }
    for version in ["1999-01-01", "banana", "", MODERN, "2026-01-01"] {
        assert_eq!(initialize(&bench.gateway, version).result()["protocolVersion"], LEGACY, "{version}");
    }
    let missing = Request::post(
        "/mcp",
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
    );
    assert_eq!(missing.send(bench.gateway.addr).result()["protocolVersion"], LEGACY);
}

#[test]
fn the_gateway_serves_before_notifications_initialized() {
    let bench = Bench::legacy();
    let answer = Legacy::initialize("/servers/up/mcp", LEGACY, &json!({})).send(bench.gateway.addr);
    let id = answer.header("mcp-session-id").expect("an id").to_owned();
    let call = Request::post(
        "/servers/up/mcp",
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":{}}}"#,
    )
    .header("Mcp-Session-Id", &id)
    .header("MCP-Protocol-Version", LEGACY);
    assert_eq!(call.send(bench.gateway.addr).result()["isError"], false);
}

#[test]
fn discover_then_initialize_works() {
    let bench = Bench::legacy();
    let discover = bench.gateway.modern().send("server/discover", "{}");
    assert_eq!(discover.result()["resultType"], "complete", "{}", discover.text());
    assert_eq!(bench.gateway.legacy().send("ping", "{}").result(), json!({}));
}

#[test]
fn a24_altered_session_ids_are_404() {
    let bench = Bench::legacy();
    let client = Legacy::server(bench.gateway.addr, "up");
    let id = client.id().to_owned();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for at in 0..id.len() {
        let mut bytes = id.clone().into_bytes();
        let now = alphabet.iter().position(|c| *c == bytes[at]).unwrap_or(0);
        bytes[at] = alphabet[(now + 1 + at % 61) % alphabet.len()];
        if bytes == id.as_bytes() {
            continue;
        }
        let forged = String::from_utf8(bytes).expect("ascii");
        let answer = client.as_session(Some(&forged)).send("ping", "{}");
        assert_eq!(answer.status, 404, "character {at}: {}", answer.text());
    }
    for forged in [
        &id[..id.len() - 1],
        &format!("{id}A"),
        &id[1..],
        "x",
        &"A".repeat(64),
        &"A".repeat(2000),
        &format!("{id}{id}"),
    ] {
        let answer = client.as_session(Some(forged)).send("ping", "{}");
        assert_eq!(answer.status, 404, "{:.60}: {}", forged, answer.text());
    }
    assert_eq!(client.send("ping", "{}").status, 200);
    bench.gateway.assert_alive();
}

#[test]
fn a24_requests_without_a_session_are_400() {
    let bench = Bench::legacy();
    let client = Legacy::server(bench.gateway.addr, "up");
    let stranger = client.as_session(None);
    for method in ["tools/list", "ping", "tools/call", "logging/setLevel"] {
        let answer = bench.refuses(
            method,
            &stranger.request(method, r#"{"name":"echo","level":"info"}"#),
            &[400],
            Some(-32600),
        );
        assert_eq!(answer.error()["message"], "Invalid request parameters", "{method}");
    }
    let empty = stranger.request("ping", "{}").header("Mcp-Session-Id", "");
    bench.refuses("an empty id", &empty, &[400, 404], None);
}

#[test]
fn a24_ids_of_another_key_are_404() {
    let up = Scripted::json(Peer::legacy("up"));
    let servers = [http("up", &up, "")];
    let one = sealed("", &servers, &[SEAL_A]);
    let other = sealed("", &servers, &[SEAL_B]);
    let client = Legacy::server(one.addr, "up");
    assert_eq!(client.moved(other.addr).send("ping", "{}").status, 404);
    // The new key seals, the old one still opens.
    let rotated = sealed("", &servers, &[SEAL_B, SEAL_A]);
    assert_eq!(client.moved(rotated.addr).send("ping", "{}").status, 200);
    let newer = Legacy::server(rotated.addr, "up");
    assert_eq!(newer.moved(other.addr).send("ping", "{}").status, 200);
    assert_eq!(newer.moved(one.addr).send("ping", "{}").status, 404);
}

#[test]
fn a24_ids_are_random_and_hold_nothing_readable() {
    let bench = Bench::legacy();
    let ids: HashSet<String> = (0..20).map(|_| bench.gateway.legacy().id().to_owned()).collect();
    assert_eq!(ids.len(), 20);
    for id in &ids {
        assert!(!id.contains("anonymous") && !id.contains("default"), "{id}");
    }
    let list: Vec<&String> = ids.iter().collect();
    let same = list[0].bytes().zip(list[1].bytes()).filter(|(a, b)| a == b).count();
    assert!(same < list[0].len() / 2, "two ids agree in {same} of {} characters", list[0].len());
}

#[test]
fn two_gateways_with_one_key_serve_one_session_alternately() {
    let up = Scripted::json(Peer::legacy("up"));
    let servers = [http("up", &up, "")];
    let (one, two) = (sealed("", &servers, &[SEAL_A]), sealed("", &servers, &[SEAL_A]));
    let client = Legacy::with(one.addr, "/servers/up/mcp", LEGACY, json!({"roots": {}}));
    for round in 0..6 {
        let here = client.moved(if round % 2 == 0 { two.addr } else { one.addr });
        assert_eq!(here.call("echo", r#"{"n":1.0}"#).result()["isError"], false, "round {round}");
        assert!(here.names("tools/list").contains(&"echo".to_owned()), "round {round}");
        assert_eq!(
            here.send("resources/read", r#"{"uri":"file:///notes/a.txt"}"#).status,
            200,
            "round {round}"
        );
    }
    // What the client declared is in the id: the server is told of it wherever the request lands.
    let told: Vec<_> = up
        .seen_of("initialize")
        .iter()
        .filter(|s| s.body.contains("\"roots\""))
        .map(|s| s.connection)
        .collect();
    assert!(told.len() >= 2, "both replicas tell the server of the client's capabilities: {told:?}");
    up.assert_clean();
}

#[test]
fn delete_closes_here_and_upstream() {
    let bench = Bench::legacy();
    let client = Legacy::server(bench.gateway.addr, "up");
    client.call("count", "{}").result();
    let answer = client.delete();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(client.send("ping", "{}").status, 404, "the id is used after DELETE");
    assert_eq!(client.delete().status, 404, "deleted twice");
    wait::until("the upstream DELETE", || bench.up.seen().iter().any(|s| s.method == "DELETE"));
    let call = bench.up.seen_of("tools/call").pop().expect("the call");
    let delete = bench.up.seen().into_iter().find(|s| s.method == "DELETE").expect("a DELETE");
    assert_eq!(delete.header("mcp-session-id"), call.header("mcp-session-id"));
    bench.up.assert_clean();
}

#[test]
fn get_and_delete_without_a_session_are_405_and_get_with_one_streams() {
    let bench = Bench::legacy();
    let get = Request::new("GET", "/mcp").header("Accept", "text/event-stream");
    bench.refuses("GET", &get, &[405], None);
    bench.refuses("DELETE", &Request::new("DELETE", "/mcp"), &[405], None);
    let client = bench.gateway.legacy();
    let stream = client.dress(get.clone()).open(bench.gateway.addr);
    assert_eq!(stream.status, 200);
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    stream.leave();
    let forged = client.as_session(Some("forged")).dress(get);
    bench.refuses("GET with a forged id", &forged, &[404], None);
}

#[test]
fn responses_and_notifications_of_legacy_clients_are_202() {
    let bench = Bench::legacy();
    let client = bench.gateway.legacy();
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":-1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"never-was"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/made-up","params":{}}"#,
    ] {
        let answer = client.post(body).send(bench.gateway.addr);
        assert_eq!((answer.status, answer.body.len()), (202, 0), "{body}: {}", answer.text());
    }
    assert_eq!(bench.up.calls(), 0, "{:?}", bench.up.seen().last());
}

#[test]
fn without_session_ids_none_is_given_and_none_is_wanted() {
    let up = Scripted::json(Peer::legacy("up"));
    let bench = Bench::of(up, "legacy: { session_ids: none }\n", "");
    let answer = initialize(&bench.gateway, LEGACY);
    assert!(answer.header("mcp-session-id").is_none(), "minted");
    let client = Legacy::server(bench.gateway.addr, "up");
    assert_eq!(client.session, None);
    assert_eq!(client.call("echo", "{}").result()["isError"], false);
    assert_eq!(client.as_session(Some("whatever")).call("echo", "{}").result()["isError"], false);
    assert_eq!(client.as_session(Some("whatever")).delete().status, 200);
    assert_eq!(client.delete().status, 200, "DELETE is a no-op");
    assert_eq!(client.call("echo", "{}").result()["isError"], false);
    // Not even an `initialize` is demanded.
    let bare = Request::post("/servers/up/mcp", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    assert_eq!(bare.send(bench.gateway.addr).status, 200);
}

#[test]
fn after_the_window_legacy_clients_are_told_the_date_and_the_versions() {
    let up = Scripted::json(Peer::legacy("up"));
    let servers = [http("up", &up, "")];
    let open = sealed("", &servers, &[SEAL_A]);
    let closed = sealed("legacy: { until: \"2026-01-31\" }\n", &servers, &[SEAL_A]);
    let client = Legacy::server(open.addr, "up").moved(closed.addr);
    for (what, answer) in [
        ("initialize", initialize(&closed, LEGACY)),
        ("a session", client.send("tools/list", "{}")),
        ("DELETE", client.delete()),
    ] {
        assert!((400..500).contains(&answer.status), "{what}: {}", answer.status);
        let text = answer.text();
        assert!(text.contains("2026-01-31") && text.contains(MODERN), "{what}: {text}");
    }
    // Modern requests that carry the header still work.
    let modern = closed.modern().server("up");
    let request = modern
        .request("tools/call", r#"{"name":"echo","arguments":{}}"#)
        .header("Mcp-Session-Id", client.id());
    let answer = request.send(closed.addr);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.header("mcp-session-id").is_none());
}

#[test]
fn two_client_sessions_never_share_an_upstream_session() {
    let bench = Bench::legacy();
    let (one, two) = (Legacy::server(bench.gateway.addr, "up"), Legacy::server(bench.gateway.addr, "up"));
    let count = |c: &Legacy| {
        c.call("count", "{}").result()["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!([count(&one), count(&one), count(&two), count(&one), count(&two)], ["1", "2", "1", "3", "2"]);
    let session = |c: &Legacy| c.call("whoami", "{}").result()["structuredContent"]["session"].clone();
    assert_ne!(session(&one), session(&two));
    let own = bench.client().call("whoami", "{}").result()["structuredContent"]["session"].clone();
    assert!(own != session(&one) && own != session(&two), "a modern client got a legacy client's session");
}

#[test]
fn an_expired_upstream_session_is_made_again_once_and_silently() {
    for safe in [true, false] {
        let gone = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = std::sync::Arc::clone(&gone);
        let up = Scripted::carried(Peer::legacy("up"), Carrier::Json, move |seen, out| {
            let mine = (seen.is("resources/read") || seen.is("tools/call"))
                && flag.swap(false, std::sync::atomic::Ordering::SeqCst);
            if mine {
                out.session_not_found();
            }
            mine
        });
        let bench = Bench::of(up, "", "");
        let client = Legacy::server(bench.gateway.addr, "up");
        client.call("echo", "{}").result();
        gone.store(true, std::sync::atomic::Ordering::SeqCst);
        let before = bench.up.count("initialize");
        let answer = match safe {
            true => client.send("resources/read", r#"{"uri":"file:///notes/a.txt"}"#),
            false => client.call("echo", "{}"),
        };
        if safe {
            assert!(answer.result()["contents"].is_array(), "{}", answer.text());
            assert_eq!(bench.up.count("initialize"), before + 1, "made again once");
        } else {
            // A 404 for the session proves that the call was not run; repeating it is safe and so is an error.
            assert_eq!(answer.status, 200, "the client's own session is fine: {}", answer.text());
        }
        assert!(client.call("echo", "{}").result()["isError"] == false, "the next call works");
        bench.up.assert_clean();
    }
}

#[test]
fn a_session_is_bound_to_its_era_header() {
    let bench = Bench::legacy();
    let client = Legacy::server(bench.gateway.addr, "up");
    let unknown = client.request("ping", "{}").set("MCP-Protocol-Version", "1999-01-01");
    bench.refuses("unknown version header", &unknown, &[400], None);
    let without = client.request("ping", "{}").without("MCP-Protocol-Version").send(bench.gateway.addr);
    assert_eq!(without.status, 200, "absent means 2025-03-26 or the session's own: {}", without.text());
}

#[test]
fn what_a_client_declares_is_what_servers_are_told() {
    let legacy = Scripted::json(Peer::legacy("legacy"));
    let modern = Scripted::json(Peer::modern("modern"));
    let gateway = Gateway::start(&yaml("", &[http("legacy", &legacy, ""), http("modern", &modern, "")]));
    let declared = json!({"roots": {"listChanged": true}, "elicitation": {}, "experimental": {"x": 1}});
    let client = Legacy::with(gateway.addr, "/mcp", LEGACY, declared.clone());
    client.call("modern__whoami", "{}").result();
    client.call("legacy__whoami", "{}").result();
    let seen = modern.seen_of("tools/call").pop().expect("the call").rpc();
    let told = seen.param(&["_meta", "io.modelcontextprotocol/clientCapabilities"]).expect("capabilities");
    assert_eq!(told["roots"], declared["roots"], "{told}");
    assert_eq!(told["experimental"], declared["experimental"], "{told}");
    let told = legacy
        .seen_of("initialize")
        .into_iter()
        .map(|s| s.rpc().param(&["capabilities"]).unwrap_or_default());
    assert!(told.clone().any(|c| c["roots"] == declared["roots"]), "{:?}", told.collect::<Vec<_>>());
    let bare = gateway.modern().call("modern__whoami", "{}");
    assert_eq!(bare.status, 200);
    let seen = modern.seen_of("tools/call").pop().expect("the call").rpc();
    assert_eq!(
        seen.param(&["_meta", "io.modelcontextprotocol/clientCapabilities"]),
        Some(json!({})),
        "the gateway's own?"
    );
}
