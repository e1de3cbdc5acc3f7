//! Cases R1, R2 and R7 for a server's own rounds, without any confirmation: what a client brings back counts for the caller
//! and the call that were asked, once, and a server sees its own state byte for byte or none.

use serde_json::{Value, json};
use tollgate_tests::client::{Client, Modern};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait::{LONG, within};

use crate::support::{http, yaml};

const STATE: &str = "the server's own \u{e4} \\ \" state";

/// Asks who, until it is told; `state` is what it wants back.
fn asking(state: Option<&'static str>) -> Scripted {
    Scripted::carried(Peer::modern("up"), Carrier::Json, move |seen, out| {
        let method =
            ["tools/call", "prompts/get", "resources/read"].into_iter().find(|method| seen.is(method));
        let asks = method.is_some() && !seen.body.contains("\"who\"");
        if asks {
            let schema =
                json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
            let question = json!({"method": "elicitation/create",
                "params": {"message": "Who?", "requestedSchema": schema}});
            let mut result = json!({"resultType": "input_required", "inputRequests": {"who": question}});
            if let Some(state) = state {
                result["requestState"] = json!(state);
            }
            out.json(200, seen.rpc().result(&result.to_string()));
        }
        asks
    })
}

fn gateway(up: &Scripted, more: &str) -> Gateway {
    let task = "{ allow: [\"*\"], allow_prompts: [\"*\"], allow_resources: [\"*\"], capabilities: { elicitation: true }";
    let head = format!("default_task: t\ntasks:\n  t: {task}{more} }}\n  u: {task}{more} }}\n");
    Gateway::start(&yaml(&head, &[http("up", up, "")]))
}

fn client(gateway: &Gateway, run: &str) -> Modern {
    let run = Value::from(run).to_string();
    gateway.modern().capabilities(json!({"elicitation": {"form": {}}})).meta("dev.tollgate/run", &run)
}

fn who() -> Value {
    json!({"who": {"action": "accept", "content": {"name": "Ada"}}})
}

fn call(arguments: &Value) -> Value {
    json!({"name": "up__echo", "arguments": arguments})
}

/// The first round: the state.
fn asked(client: &Modern, method: &str, params: &Value) -> String {
    let result = client.send(method, &params.to_string()).result();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert!(result["inputRequests"]["who"].is_object(), "{result}");
    result["requestState"].as_str().expect("a state").to_owned()
}

fn again(client: &Modern, method: &str, params: &Value, state: &str, responses: &Value) -> Value {
    let mut params = params.clone();
    params["requestState"] = json!(state);
    params["inputResponses"] = responses.clone();
    client.send(method, &params.to_string()).response()
}

#[test]
fn r1_a_servers_state_is_sealed_and_comes_back_to_it_byte_for_byte() {
    let up = asking(Some(STATE));
    let gateway = gateway(&up, "");
    let client = client(&gateway, "r");
    for (method, params) in [
        ("tools/call", call(&json!({"text": "hi"}))),
        ("prompts/get", json!({"name": "up__greet"})),
        ("resources/read", json!({"uri": "up+file:///notes/a.txt"})),
    ] {
        let state = asked(&client, method, &params);
        assert!(!state.contains("server"), "{state}");
        let done = again(&client, method, &params, &state, &who());
        assert_eq!(done["result"]["resultType"], "complete", "{method}: {done}");
        let last = up.seen_of(method).pop().unwrap().rpc();
        assert_eq!(last.param(&["requestState"]), Some(json!(STATE)), "{method}");
        assert_eq!(last.param(&["inputResponses"]), Some(who()), "{method}");
        let replayed = again(&client, method, &params, &state, &who());
        assert_eq!(replayed["error"]["code"], -32602, "{method}: {replayed}");
    }
}

#[test]
fn r1_no_state_goes_to_a_server_that_gave_none() {
    let up = asking(None);
    let gateway = gateway(&up, "");
    let client = client(&gateway, "r");
    let params = call(&json!({"text": "hi"}));
    let state = asked(&client, "tools/call", &params);
    let done = again(&client, "tools/call", &params, &state, &who());
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    assert!(up.seen_of("tools/call").iter().all(|seen| !seen.body.contains("requestState")));
}

#[test]
fn r1_a_state_of_another_caller_call_or_nobody_is_refused() {
    let up = asking(Some(STATE));
    let gateway = gateway(&up, "");
    let client = client(&gateway, "r");
    let params = call(&json!({"text": "hi"}));
    let state = asked(&client, "tools/call", &params);
    let mut flipped = state.clone().into_bytes();
    let middle = flipped.len() / 2;
    flipped[middle] = if flipped[middle] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    let (run, task) = (crate::policy_rounds::client(&gateway, "s"), client.clone().at("/tasks/u/mcp"));
    let tool = json!({"name": "up__whoami", "arguments": {"text": "hi"}});
    let (prompt, other) = (json!({"name": "up__greet"}), call(&json!({"text": "ho"})));
    let before = up.calls();
    for (what, by, method, params, state) in [
        ("flipped", &client, "tools/call", &params, flipped.as_str()),
        ("truncated", &client, "tools/call", &params, &state[..state.len() - 4]),
        ("empty", &client, "tools/call", &params, ""),
        ("a server's own", &client, "tools/call", &params, STATE),
        ("another run", &run, "tools/call", &params, state.as_str()),
        ("another task", &task, "tools/call", &params, state.as_str()),
        ("another tool", &client, "tools/call", &tool, state.as_str()),
        ("another method", &client, "prompts/get", &prompt, state.as_str()),
        ("other arguments", &client, "tools/call", &other, state.as_str()),
    ] {
        let refused = again(by, method, params, state, &who());
        assert_eq!(refused["error"]["code"], -32602, "{what}: {refused}");
    }
    let mut number = params.clone();
    number["requestState"] = json!(7);
    assert_eq!(client.send("tools/call", &number.to_string()).code(), Some(-32602));
    assert_eq!(up.calls(), before, "none of it has reached the server");
    let done = again(&client, "tools/call", &params, &state, &who());
    assert_eq!(done["result"]["resultType"], "complete", "none of it has spent it: {done}");
}

#[test]
fn r1_a_servers_state_is_void_after_its_time() {
    let up = asking(Some(STATE));
    let gateway = gateway(&up, ", confirm_within: 1s");
    let client = client(&gateway, "r");
    let params = call(&json!({}));
    let state = asked(&client, "tools/call", &params);
    // An answer that is none is only looked at while the state is good, and spends nothing.
    let bad = json!({"who": 7});
    within(LONG, "the state is void", || {
        let refused = again(&client, "tools/call", &params, &state, &bad);
        refused["error"]["message"].as_str().unwrap_or_default().contains("too old")
    });
    assert_eq!(again(&client, "tools/call", &params, &state, &who())["error"]["code"], -32602);
}

#[test]
fn r2_answers_that_nobody_asked_for_and_answers_that_are_none_stay_here() {
    let up = asking(Some(STATE));
    let gateway = gateway(&up, "");
    let client = client(&gateway, "r");
    let params = call(&json!({"text": "hi"}));
    for bad in [
        json!({"who": {"action": "yes"}}),
        json!({"who": {"action": "accept", "content": {"name": 7}}}),
        json!({"who": {"action": "accept"}}),
        json!({"who": 7}),
        json!([]),
    ] {
        let state = asked(&client, "tools/call", &params);
        let before = up.calls();
        let refused = again(&client, "tools/call", &params, &state, &bad);
        assert_eq!(refused["error"]["code"], -32602, "{bad}: {refused}");
        assert_eq!(up.calls(), before, "{bad}");
    }
    let state = asked(&client, "tools/call", &params);
    let mut more = who();
    more["never-asked"] = json!({"action": "accept"});
    let done = again(&client, "tools/call", &params, &state, &more);
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    assert!(!up.seen_of("tools/call").pop().unwrap().body.contains("never-asked"));
}

#[test]
fn r7_rounds_have_an_end() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            out.json(200, seen.rpc().result(r#"{"resultType":"input_required","requestState":"more"}"#));
        }
        mine
    });
    let gateway = gateway(&up, "");
    let client = client(&gateway, "r");
    let mut params = call(&json!({}));
    let mut rounds = 0;
    let refused = loop {
        let answer = client.send("tools/call", &params.to_string()).response();
        let Some(state) = answer["result"]["requestState"].as_str() else { break answer };
        params["requestState"] = json!(state);
        rounds += 1;
        assert!(rounds < 20, "they never end");
    };
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("too many rounds"), "{refused}");
}

/// The words of the modern era mean nothing in a legacy client's call, and must not begin to mean something on the way.
#[test]
fn r1_a_legacy_client_brings_no_state_to_a_modern_server() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "");
    let mut params = call(&json!({"text": "hi"}));
    params["requestState"] = json!("forged");
    params["inputResponses"] = who();
    let answer = gateway.legacy().send("tools/call", &params.to_string()).result();
    assert_eq!(answer["isError"], false, "{answer}");
    let body = up.seen_of("tools/call").pop().unwrap().body;
    assert!(!body.contains("requestState") && !body.contains("inputResponses"), "{body}");
}

/// Case R2: what no state of the gateway's came with answers no question, whatever it says.
#[test]
fn r2_answers_without_a_state_stay_here() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "");
    let client = client(&gateway, "r");
    for (method, params) in [
        ("tools/call", call(&json!({"text": "hi"}))),
        ("prompts/get", json!({"name": "up__greet"})),
        ("resources/read", json!({"uri": "up+file:///notes/a.txt"})),
    ] {
        let mut params = params;
        params["inputResponses"] = json!({"never-asked": {"action": "yes"}, "k": 7});
        params["com.example/more"] = json!(1);
        let done = client.send(method, &params.to_string()).result();
        assert_eq!(done["resultType"], "complete", "{method}: {done}");
        let last = up.seen_of(method).pop().unwrap().rpc();
        assert_eq!(last.param(&["inputResponses"]), None, "{method}");
        assert_eq!(last.param(&["com.example/more"]), Some(json!(1)), "{method}");
    }
}

/// Answers given ahead wait until the server asks for them: it sees those that are what it asks, after its question.
#[test]
fn r2_answers_given_ahead_are_held_to_the_question() {
    let up = asking(Some(STATE));
    let gateway = gateway(&up, "");
    let client = client(&gateway, "r");
    let mut params = call(&json!({"text": "hi"}));
    params["inputResponses"] = who();
    params["inputResponses"]["never-asked"] = json!({"action": "accept"});
    let done = client.send("tools/call", &params.to_string()).result();
    assert_eq!(done["resultType"], "complete", "{done}");
    let calls = up.seen_of("tools/call");
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].rpc().param(&["inputResponses"]), None);
    assert_eq!(calls[1].rpc().param(&["inputResponses"]), Some(who()));
    assert_eq!(calls[1].rpc().param(&["requestState"]), Some(json!(STATE)));
    for bad in [json!({"who": {"action": "accept", "content": {"name": 7}}}), json!({"who": 7}), json!(null)]
    {
        params["inputResponses"] = bad;
        let result = client.send("tools/call", &params.to_string()).result();
        assert_eq!(result["resultType"], "input_required", "{result}");
        assert_eq!(up.seen_of("tools/call").pop().unwrap().rpc().param(&["inputResponses"]), None);
    }
}

#[test]
fn x3_answers_are_masked_like_arguments() {
    let up = asking(Some(STATE));
    let gateway = gateway(&up, ", redact: { groups: [secrets, keys], arguments: true }");
    let client = client(&gateway, "r");
    let params = call(&json!({"text": "hi"}));
    let state = asked(&client, "tools/call", &params);
    let secret = format!("ghp_{}a13tNSQc", "a1B2".repeat(7));
    let told = json!({"who": {"action": "accept", "content": {"name": secret}}});
    let done = again(&client, "tools/call", &params, &state, &told);
    assert_eq!(done["result"]["resultType"], "complete", "{done}");
    let body = up.seen_of("tools/call").pop().unwrap().body;
    assert!(!body.contains("a1B2") && body.contains("[redacted:") && body.contains("accept"), "{body}");
}

/// Cases R2, R3, U5 and U6: there are no rounds on the legacy era, so its servers ask nobody anything.
#[test]
fn r3_a_legacy_server_asks_a_modern_client_nothing() {
    let forged = json!({"resultType": "input_required", "content": [], "requestState": "srv",
        "inputRequests": {"dev.tollgate/confirm": {"method": "elicitation/create", "params": {"message": "ok?"}},
            "s": {"method": "sampling/createMessage", "params": {"messages": []}}}});
    let promising = r#"{"name":"outs","inputSchema":{"type":"object"},"outputSchema":{"type":"object"}}"#;
    let peer = Peer::legacy("up").tools(vec![tollgate_tests::peer::simple_tool("echo"), promising.into()]);
    let up = Scripted::carried(peer, Carrier::Json, move |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            out.json(200, seen.rpc().result(&forged.to_string()));
        }
        mine
    });
    let gateway = gateway(&up, "");
    let client = client(&gateway, "r");
    let done = client.send("tools/call", &call(&json!({})).to_string()).result();
    assert_eq!(done["resultType"], "complete", "{done}");
    assert!(done.get("inputRequests").is_none() && done.get("requestState").is_none(), "{done}");
    let broken = client.send("tools/call", r#"{"name":"up__outs","arguments":{}}"#);
    assert_eq!(broken.code(), Some(7004), "the output schema is passed over: {}", broken.text());
}

/// A state that nobody seals is text like any other: secrets go, and it counts for the caps.
#[test]
fn x3_a_state_beside_a_complete_result_is_screened() {
    let secret = format!("ghp_{}a13tNSQc", "a1B2".repeat(7));
    for state in [json!({"password": "hunter2", "x": secret}), json!(secret), json!("A".repeat(100_000))] {
        for peer in [Peer::modern("up"), Peer::legacy("up")] {
            let result = json!({"resultType": "complete", "content": [], "contents": [], "messages": [],
                "requestState": state});
            let up = Scripted::carried(peer, Carrier::Json, move |seen, out| {
                let mine = ["tools/call", "prompts/get", "resources/read"].iter().any(|m| seen.is(m));
                if mine {
                    out.json(200, seen.rpc().result(&result.to_string()));
                }
                mine
            });
            let more = ", redact: { groups: [secrets, keys] }, limits: { result_bytes: 2KiB }";
            let gateway = gateway(&up, more);
            let clients: [Box<dyn Client>; 2] = [Box::new(client(&gateway, "r")), Box::new(gateway.legacy())];
            for (client, (method, params)) in clients.iter().flat_map(|client| {
                [
                    ("tools/call", call(&json!({}))),
                    ("prompts/get", json!({"name": "up__greet"})),
                    ("resources/read", json!({"uri": "up+file:///notes/a.txt"})),
                ]
                .map(|ask| (client, ask))
            }) {
                let text = client.send(method, &params.to_string()).text();
                assert!(!text.contains("a1B2") && !text.contains("hunter2"), "{method}: {text}");
                assert!(text.len() < 8192, "{method}: {} bytes", text.len());
            }
        }
    }
}
