//! Servers that lack a feature, or ask for one that the client doesn't have: an answer always comes, and the right one.

use serde_json::json;
use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};

use crate::support::{Bench, allowed_code, http, yaml};

/// A server with tools alone, which knows no other method.
fn tools_only(peer: Peer) -> Scripted {
    let modern = peer.era == tollgate_tests::peer::Era::Modern;
    Scripted::carried(peer.can(r#"{"tools":{}}"#), Carrier::Json, move |seen, out| {
        let foreign = ["prompts/", "resources/", "completion/", "logging/"];
        let mine = foreign.iter().any(|f| seen.rpc().method.starts_with(f));
        if mine {
            out.json(if modern { 404 } else { 200 }, seen.rpc().error(-32601, "Method not found"));
        }
        mine
    })
}

#[test]
fn features_that_a_server_lacks_are_empty_not_broken() {
    for up in [tools_only(Peer::modern("up")), tools_only(Peer::legacy("up"))] {
        let bench = Bench::of(up, "", "");
        for client in
            [Box::new(bench.client()) as Box<dyn Client>, Box::new(Legacy::server(bench.gateway.addr, "up"))]
        {
            assert_eq!(client.names("tools/list").len(), 12);
            for method in ["prompts/list", "resources/templates/list"] {
                let answer = client.send(method, "{}");
                let empty = answer.code().is_none_or(|c| c == -32601);
                assert!(empty, "{method}: {}", answer.text());
            }
            let prompt = client.send("prompts/get", r#"{"name":"greet"}"#);
            assert!(matches!(prompt.code(), Some(-32601 | -32602)), "{}", prompt.text());
            let completion = client.send(
                "completion/complete",
                r#"{"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"a","value":"b"}}"#,
            );
            assert!(matches!(completion.code(), Some(-32601 | -32602)), "{}", completion.text());
            assert_eq!(client.call("echo", "{}").result()["isError"], false);
        }
        let status = bench.gateway.server_status("up");
        assert_eq!(status["state"], "connected", "lacking a feature is no failure: {status}");
        let discover = bench.client().send("server/discover", "{}").result();
        assert!(
            discover["capabilities"].get("prompts").is_none()
                && discover["capabilities"].get("completions").is_none(),
            "{discover}"
        );
    }
}

#[test]
fn a_merged_list_doesnt_mind_servers_without_the_feature() {
    let (bare, full) = (tools_only(Peer::legacy("bare")), Scripted::json(Peer::modern("full")));
    let gateway =
        Gateway::start(&yaml("", &[http("bare", &bare, ", required: true"), http("full", &full, "")]));
    for client in [Box::new(gateway.modern()) as Box<dyn Client>, Box::new(gateway.legacy())] {
        assert_eq!(client.names("prompts/list"), ["full__greet", "full__bare"]);
        assert_eq!(client.names("tools/list").len(), 24);
        assert!(client.names("resources/list").iter().any(|u| u.starts_with("full+file:")));
    }
}

#[test]
fn a_server_that_asks_for_input_never_hangs_a_client_that_gives_none() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            out.json(200, seen.rpc().result(
                r#"{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"LEAK?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s"}"#,
            ));
        }
        mine
    });
    let bench = Bench::of(up, "", "");
    for client in
        [Box::new(bench.client()) as Box<dyn Client>, Box::new(Legacy::server(bench.gateway.addr, "up"))]
    {
        let answer = client.call("echo", "{}");
        assert!(
            answer.code().is_some_and(allowed_code),
            "asked a client that declared nothing: {}",
            answer.text()
        );
    }
}

#[test]
fn a_server_that_misses_a_capability_says_so_to_modern_clients() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            let id = seen.rpc().id.unwrap_or_default();
            out.json(400, format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32021,"message":"Missing required client capability","data":{{"requiredCapabilities":{{"sampling":{{}}}}}}}}}}"#
            ));
        }
        mine
    });
    let bench = Bench::of(up, "", "");
    let modern = bench.client().call("echo", "{}");
    assert_eq!(modern.code(), Some(-32021), "{}", modern.text());
    assert_eq!(modern.status, 400, "the specification's status for -32021");
    assert_eq!(modern.error()["data"]["requiredCapabilities"], json!({"sampling": {}}), "{}", modern.text());
    let legacy = Legacy::server(bench.gateway.addr, "up").call("echo", "{}");
    assert_eq!(legacy.status, 200, "{}", legacy.text());
    assert!(
        legacy.code().is_some_and(|c| allowed_code(c) && c != -32021),
        "a code of another era: {}",
        legacy.text()
    );
}
