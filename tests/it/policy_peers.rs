//! What users of other gateways suffer from in authorization: each is impossible here. The numbers are those of the
//! issue's list; others of it are in `peers`.

use serde_json::json;
use tollgate_tests::client::Client;
use tollgate_tests::gateway::Gateway;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

use crate::auth_kit::Kit;
use crate::support::{http, yaml};

/// Two servers with the same tools behind one task.
fn twins(task: &str) -> (Scripted, Scripted, Gateway) {
    let (one, two) = (Scripted::json(Peer::modern("one")), Scripted::json(Peer::legacy("two")));
    let head = format!("default_task: t\ntasks:\n  t: {{ {task} }}\n");
    let gateway = Gateway::start(&yaml(&head, &[http("one", &one, ""), http("two", &two, "")]));
    (one, two, gateway)
}

/// Rules saw names without their prefix elsewhere, and could not tell servers apart.
#[test]
fn peer_10_conditions_tell_servers_with_the_same_tools_apart() {
    let rule = "{ tool: \"*__echo\", when: \"tool.server == 'one' && tool.name == 'one__echo'\" }";
    let (one, two, gateway) = twins(&format!("allow: [\"*\"], rules: [{rule}]"));
    for (server, prefix) in [("one", "one__"), ("two", "two__")] {
        let merged = gateway.modern().call(&format!("{prefix}echo"), "{}").result();
        let alone = gateway.modern().server(server).call("echo", "{}").result();
        for result in [merged, alone] {
            assert_eq!(result["isError"] == json!(true), server == "two", "{server}: {result}");
        }
    }
    assert_eq!((one.calls(), two.calls()), (2, 0));
}

/// Search returned tools there that the caller may not call: here one function decides all.
#[test]
fn peer_11_what_is_shown_is_what_can_be_called_on_every_endpoint() {
    let task = "allow: [\"one__e*\", \"two__*\"], deny: [\"*__slow\"], allow_prompts: [\"one__greet\"]";
    let (_one, _two, gateway) = twins(task);
    let (_first, _second, open) = twins("allow: [\"*\"], allow_prompts: [\"*\"]");
    for (path, server) in
        [("/mcp", None), ("/servers/one/mcp", Some("one")), ("/servers/two/mcp", Some("two"))]
    {
        let all = open.modern().at(path).names("tools/list");
        let client = gateway.modern().at(path);
        let shown = client.names("tools/list");
        assert!(!shown.is_empty() && shown.len() < all.len(), "{path}: {shown:?} of {all:?}");
        // The scripted server takes that one at its word.
        for name in all.iter().filter(|name| !name.ends_with("crash")) {
            // Arguments that no tool knows: what is permitted is refused for them or answered, never unknown.
            let unknown = client.call(name, "{}").text().contains("Unknown tool");
            assert_eq!(unknown, !shown.contains(name), "{path}: {name}");
        }
        let prompts = client.names("prompts/list");
        for name in open.modern().at(path).names("prompts/list") {
            let params = json!({"name": name, "arguments": {"who": "x"}}).to_string();
            let unknown = client.send("prompts/get", &params).text().contains("Unknown prompt");
            assert_eq!(unknown, !prompts.contains(&name), "{path} {server:?}: {name}");
        }
    }
}

/// GHSA-g53w-w6mj-hrpp: a header with a guessable value skipped the check there and chose the server.
#[test]
fn peer_13_no_header_skips_the_credential_or_chooses_the_server() {
    let kit = Kit::new();
    let internal = [
        ("router-key", "secret"),
        ("x-mcp-init-host", "127.0.0.1"),
        ("x-gw-authenticated", "true"),
        ("x-tollgate-principal", "alice"),
        ("Tollgate-Task", "default"),
        ("Tollgate-Run", "r"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-User", "admin"),
        ("X-Real-IP", "127.0.0.1"),
        ("Forwarded", "for=127.0.0.1"),
        ("X-Original-URL", "/admin"),
        ("Mcp-Session-Id", "1"),
    ];
    for (name, value) in internal {
        kit.refuses(name, &kit.bare().header(name, value), 401);
    }
    let all = internal.iter().fold(kit.bare(), |request, (name, value)| request.header(name, value));
    kit.refuses("all of them", &all, 401);
    // With a credential they change nothing either.
    let token = kit.good();
    let dressed = internal[..4].iter().fold(kit.with_token(&token), |r, (name, value)| r.header(name, value));
    assert_eq!(dressed.send(kit.gateway.addr).result()["isError"], false);
    let seen = kit.up.seen_of("tools/call").pop().unwrap();
    assert!(seen.header("router-key").is_none() && seen.header("x-tollgate-principal").is_none());
}

/// Policies read the first two megabytes of a body there, and what came after was obeyed unread.
#[test]
fn peer_14_a_condition_sees_the_end_of_large_arguments() {
    let up = Scripted::json(Peer::modern("up"));
    let rule = "{ tool: \"up__echo\", when: \"!has(args.force) || args.force == false\" }";
    let head = format!("default_task: t\ntasks:\n  t: {{ allow: [\"*\"], rules: [{rule}] }}\n");
    let gateway = Gateway::start(&yaml(&head, &[http("up", &up, "")]));
    let arguments =
        |bytes: usize, force: bool| format!(r#"{{"text":"{}","force":{force}}}"#, "x".repeat(bytes));
    let call = |bytes, force| gateway.modern().call("up__echo", &arguments(bytes, force)).result();
    for bytes in [100, 200 << 10, 3 << 20] {
        let refused = call(bytes, true);
        assert_eq!(refused["_meta"]["dev.tollgate/refusal"]["reason"], "rule", "{bytes}");
    }
    assert_eq!(up.calls(), 0);
    assert_eq!(call(200 << 10, false)["isError"], false);
    // What is too large to be looked at does not hold, and is never obeyed unread.
    assert_eq!(call(3 << 20, false)["_meta"]["dev.tollgate/refusal"]["reason"], "rule");
    assert_eq!(up.calls(), 1);
}
