//! Case A21 for whole servers: one of which a task permits nothing reads like one that does not exist, whatever its state.

use serde_json::{Value, json};
use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::http::Answer;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};

use crate::support::{http, yaml};

/// A server that has something to say of itself.
fn talkative(name: &'static str) -> Scripted {
    Scripted::carried(Peer::modern(name), Carrier::Json, move |seen, out| {
        let mine = seen.is("server/discover");
        if mine {
            let capabilities =
                format!(r#"{{"tools":{{}},"prompts":{{}},"experimental":{{"x-{name}":{{}}}}}}"#);
            let result = format!(
                r#"{{"resultType":"complete","ttlMs":0,"cacheScope":"private","supportedVersions":["2026-07-28"],"capabilities":{capabilities},"instructions":"Words of {name}."}}"#
            );
            out.json(200, seen.rpc().result(&result));
        }
        mine
    })
}

/// What an answer says, but for the name and the record's id.
fn told(answer: &Answer, name: &str) -> (u16, String) {
    let mut body: Value = serde_json::from_str(&answer.text()).expect("JSON");
    if let Some(data) = body.pointer_mut("/error/data").and_then(Value::as_object_mut) {
        data.remove("call_id");
        if let Some(meter) = data.get_mut("_meter").and_then(Value::as_object_mut) {
            // What every call has of its own. A server is named in none of these.
            meter.retain(|name, _| !["call_id", "latency_ms", "ts"].contains(&name.as_str()));
        }
    }
    body["id"] = Value::Null;
    (answer.status, body.to_string().replace(name, "X"))
}

fn gateway(open: &Scripted, secret: &Scripted, more: &str) -> Gateway {
    let head = "default_task: t\ntasks:\n  t: { allow: [\"open__*\"] }\n  all: { allow: [\"*\"], deny: [\"dead__*\"] }\n";
    // Nothing listens on port 9 of this machine.
    let dead = format!("  dead: {{ url: \"http://127.0.0.1:9/mcp\"{more} }}\n");
    Gateway::start(&yaml(head, &[http("open", open, ""), http("secret", secret, ""), dead]))
}

#[test]
fn a21_a_server_out_of_reach_reads_like_one_that_does_not_exist() {
    let (open, secret) = (talkative("open"), talkative("secret"));
    let gateway = gateway(&open, &secret, "");
    let asked = [
        ("server/discover", "{}".to_owned()),
        ("tools/list", "{}".to_owned()),
        ("resources/list", "{}".to_owned()),
        ("tools/call", r#"{"name":"echo","arguments":{}}"#.to_owned()),
        ("resources/read", r#"{"uri":"file:///a"}"#.to_owned()),
    ];
    for (method, params) in &asked {
        let ask = |server: &str| gateway.modern().server(server).send(method, params);
        let nope = told(&ask("nope"), "nope");
        assert_eq!(nope.0, 404, "{method}: {}", nope.1);
        for hidden in ["secret", "dead"] {
            assert_eq!(told(&ask(hidden), hidden), nope, "{method} of {hidden}");
        }
    }
    let hello = |server: &str| {
        Legacy::initialize(&format!("/servers/{server}/mcp"), "2025-11-25", &json!({})).send(gateway.addr)
    };
    let nope = told(&hello("nope"), "nope");
    assert_eq!(told(&hello("secret"), "secret"), nope);
    assert_eq!(told(&hello("dead"), "dead"), nope);
    // A name as long as one that was shortened is looked for in a list, and not in one out of reach.
    let long = |server: &str| format!("{server}__{}", "a".repeat(62 - server.len()));
    let nope = told(&gateway.modern().call(&long("nope"), "{}"), &long("nope"));
    for hidden in ["secret", "dead"] {
        assert_eq!(told(&gateway.modern().call(&long(hidden), "{}"), &long(hidden)), nope, "{hidden}");
    }
    let seen = secret.seen_of("tools/call").len() + secret.seen_of("resources/read").len();
    assert_eq!(seen, 0);
}

#[test]
fn a21_what_all_servers_say_together_leaves_out_those_beyond_reach() {
    let (open, secret) = (talkative("open"), talkative("secret"));
    // Everybody needs it, but for this task's callers it does not exist.
    let gateway = gateway(&open, &secret, ", required: true");
    let modern = gateway.modern().send("server/discover", "{}").result();
    let legacy = gateway.legacy().welcome;
    for answer in [&modern, &legacy] {
        let text = answer["instructions"].as_str().unwrap_or_default();
        assert!(text.contains("Words of open.") && !text.contains("secret"), "{answer}");
        let experimental = &answer["capabilities"]["experimental"];
        assert!(experimental["x-open"].is_object() && experimental["x-secret"].is_null(), "{answer}");
    }
    let list = gateway.modern().send("tools/list", "{}").result();
    assert!(list["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{list}");
    // A list that lacked a server would not be kept.
    assert_ne!(list["ttlMs"], 0, "{list}");
    let wide = gateway.modern().at("/tasks/all/mcp").send("server/discover", "{}").result();
    assert!(wide["instructions"].as_str().unwrap().contains("Words of secret."), "{wide}");
}
