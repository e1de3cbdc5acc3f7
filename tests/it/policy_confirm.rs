//! Cases R1, R2 and R8, and confirmations of both eras: a call that a person must agree to goes out once, and only with
//! a yes to this very question.

use serde_json::{Value, json};
use tollgate_tests::client::{Client, Legacy, Modern};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::host::Host;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait::LONG;

use crate::support::{http, yaml};

const KEY: &str = "dev.tollgate/confirm";

fn configuration(up: &Scripted, more: &str) -> String {
    let head = format!("default_task: t\ntasks:\n  t: {{ allow: [\"up__*\"], confirm: always{more} }}\n");
    yaml(&head, &[http("up", up, "")])
}

fn gateway(up: &Scripted, more: &str) -> Gateway {
    Gateway::start(&configuration(up, more))
}

fn client(gateway: &Gateway) -> Modern {
    gateway.modern().capabilities(json!({"elicitation": {"form": {}}})).meta("dev.tollgate/run", "\"r\"")
}

/// Asks, and gives the state.
fn asked(client: &Modern, arguments: &Value) -> String {
    let result = client.call("up__echo", &arguments.to_string()).result();
    assert_eq!(result["resultType"], "input_required", "{result}");
    assert_eq!(result["inputRequests"][KEY]["method"], "elicitation/create", "{result}");
    result["requestState"].as_str().expect("a state").to_owned()
}

fn retry(client: &Modern, tool: &str, arguments: &Value, state: &str, responses: &Value) -> Value {
    let params =
        json!({"name": tool, "arguments": arguments, "requestState": state, "inputResponses": responses});
    client.send("tools/call", &params.to_string()).response()
}

fn yes() -> Value {
    json!({KEY: {"action": "accept", "content": {"confirm": true}}})
}

fn reason(response: &Value) -> &Value {
    assert_eq!(response["result"]["isError"], true, "{response}");
    &response["result"]["_meta"]["dev.tollgate/refusal"]["reason"]
}

#[test]
fn a_yes_sends_the_call_once_without_the_gateways_own_words() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "");
    let (client, arguments) = (client(&gateway), json!({"text": "hi"}));
    let result = client.call("up__echo", &arguments.to_string()).result();
    let message = result["inputRequests"][KEY]["params"]["message"].as_str().unwrap();
    assert!(message.contains("echo") && message.contains("\"hi\""), "{message}");
    let state = result["requestState"].as_str().unwrap();
    assert_eq!(up.seen_of("tools/call").len(), 0);
    let answer = retry(&client, "up__echo", &arguments, state, &yes());
    assert_eq!(answer["result"]["isError"], false, "{answer}");
    let calls = up.seen_of("tools/call");
    assert_eq!(calls.len(), 1);
    for word in ["requestState", "inputResponses", "dev.tollgate"] {
        assert!(!calls[0].body.contains(word), "{}", calls[0].body);
    }
    let again = retry(&client, "up__echo", &arguments, state, &yes());
    assert_eq!(*reason(&again), json!("confirm_void"), "replayed");
    assert_eq!(up.seen_of("tools/call").len(), 1);
}

#[test]
fn r1_a_state_counts_for_its_own_call_alone() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "");
    let (client, arguments) = (client(&gateway), json!({"text": "hi"}));
    let state = asked(&client, &arguments);
    let mut flipped = state.clone().into_bytes();
    let middle = flipped.len() / 2;
    flipped[middle] = if flipped[middle] == b'A' { b'B' } else { b'A' };
    let flipped = String::from_utf8(flipped).unwrap();
    let other_run =
        gateway.modern().capabilities(json!({"elicitation": {}})).meta("dev.tollgate/run", "\"s\"");
    for (what, who, tool, arguments, state) in [
        ("flipped", &client, "up__echo", &arguments, flipped.as_str()),
        ("truncated", &client, "up__echo", &arguments, &state[..state.len() - 4]),
        ("nothing", &client, "up__echo", &arguments, ""),
        ("a server's", &client, "up__echo", &arguments, "opaque"),
        ("another run", &other_run, "up__echo", &arguments, state.as_str()),
        ("another tool", &client, "up__whoami", &arguments, state.as_str()),
        ("other arguments", &client, "up__echo", &json!({"text": "ho"}), state.as_str()),
    ] {
        let answer = retry(who, tool, arguments, state, &yes());
        assert_eq!(*reason(&answer), json!("confirm_void"), "{what}");
    }
    assert_eq!(up.seen_of("tools/call").len(), 0);
    // None of that has spent it.
    let answer = retry(&client, "up__echo", &arguments, &state, &yes());
    assert_eq!(answer["result"]["isError"], false, "{answer}");
}

#[test]
fn r1_a_state_is_void_after_its_time() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, ", confirm_within: 1s");
    let (client, arguments) = (client(&gateway), json!({"text": "hi"}));
    let state = asked(&client, &arguments);
    tollgate_tests::wait::within(LONG, "the state is void", || {
        let answer = retry(&client, "up__echo", &arguments, &state, &json!({}));
        reason(&answer);
        answer["result"]["content"][0]["text"].as_str().unwrap().contains("too old")
    });
    let answer = retry(&client, "up__echo", &arguments, &state, &yes());
    assert_eq!(*reason(&answer), json!("confirm_void"));
    assert_eq!(up.seen_of("tools/call").len(), 0);
}

#[test]
fn r2_only_a_plain_yes_is_one() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "");
    let (client, arguments) = (client(&gateway), json!({"text": "hi"}));
    for (answer, want) in [
        (json!({KEY: {"action": "decline"}}), Some("confirm_declined")),
        (json!({KEY: {"action": "cancel"}}), Some("confirm_declined")),
        (json!({KEY: {"action": "accept", "content": {"confirm": false}}}), Some("confirm_declined")),
        (json!({"never-asked": {"action": "accept"}}), Some("confirm_void")),
        (json!({}), Some("confirm_void")),
        (json!({KEY: {"action": "yes"}}), None),
        (json!({KEY: {"action": "accept", "content": {"confirm": "true"}}}), None),
        (json!({KEY: {"action": "accept", "content": {"confirm": true, "more": 1}}}), None),
        (json!({KEY: true}), None),
    ] {
        let state = asked(&client, &arguments);
        let response = retry(&client, "up__echo", &arguments, &state, &answer);
        match want {
            Some(want) => assert_eq!(*reason(&response), json!(want), "{answer}"),
            None => assert_eq!(response["error"]["code"], -32602, "{answer}: {response}"),
        }
    }
    assert_eq!(up.seen_of("tools/call").len(), 0);
    let state = asked(&client, &arguments);
    let mut more = yes();
    more["never-asked"] = json!({"action": "accept"});
    assert_eq!(retry(&client, "up__echo", &arguments, &state, &more)["result"]["isError"], false);
    assert!(!up.seen_of("tools/call")[0].body.contains("never-asked"));
}

#[test]
fn an_agreement_is_carried_through_the_servers_own_rounds() {
    let up = Scripted::carried(Peer::modern("up"), Carrier::Json, |seen, out| {
        let first = seen.is("tools/call") && !seen.body.contains("\"who\"");
        if first {
            out.json(200, seen.rpc().result(
                r#"{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"the server's own"}"#,
            ));
        }
        first
    });
    let gateway = gateway(&up, ", capabilities: { elicitation: true }");
    let (client, arguments) = (client(&gateway), json!({"text": "hi"}));
    let state = asked(&client, &arguments);
    let second = retry(&client, "up__echo", &arguments, &state, &yes());
    assert!(second["result"]["inputRequests"]["who"].is_object(), "{second}");
    assert!(!up.seen_of("tools/call")[0].body.contains("requestState"));
    let sealed = second["result"]["requestState"].as_str().unwrap().to_owned();
    assert!(!sealed.contains("server"), "{sealed}");
    let who = json!({"who": {"action": "accept", "content": {}}});
    let changed = retry(&client, "up__echo", &json!({"text": "ho"}), &sealed, &who);
    assert_eq!(*reason(&changed), json!("confirm_void"));
    let done = retry(&client, "up__echo", &arguments, &sealed, &who);
    assert_eq!(done["result"]["isError"], false, "{done}");
    let last = up.seen_of("tools/call").pop().unwrap();
    assert!(last.body.contains(r#""requestState":"the server's own""#), "{}", last.body);
    let again = retry(&client, "up__echo", &arguments, &sealed, &who);
    assert_eq!(*reason(&again), json!("confirm_void"));
}

#[test]
fn a_client_that_cannot_ask_is_told_what_it_needs_or_let_through() {
    let up = Scripted::json(Peer::modern("up"));
    let strict = gateway(&up, "");
    for capabilities in [json!({}), json!({"elicitation": {"url": {}}})] {
        let answer = strict.modern().capabilities(capabilities).call("up__echo", "{}");
        assert_eq!((answer.status, answer.code()), (400, Some(-32021)), "{}", answer.text());
        assert!(answer.error()["data"]["requiredCapabilities"]["elicitation"].is_object());
    }
    let old = strict.legacy().call("up__echo", "{}").response();
    assert_eq!(*reason(&old), json!("confirm_unavailable"));
    let easy = gateway(&up, ", confirm_fallback: allow");
    assert_eq!(easy.modern().call("up__echo", "{}").result()["isError"], false);
    assert_eq!(easy.legacy().call("up__echo", "{}").result()["isError"], false);
    let able = client(&easy).call("up__echo", "{}").result();
    assert_eq!(able["resultType"], "input_required", "who can ask is asked");
}

/// A legacy call up to its question: the stream, and the question's id.
fn questioned(client: &Legacy) -> (tollgate_tests::http::Stream, Value) {
    let request = client.request("tools/call", r#"{"name":"up__echo","arguments":{"text":"hi"}}"#);
    let mut stream = request.open(client.addr());
    let question = stream.message(LONG).expect("a question");
    assert_eq!(question["method"], "elicitation/create", "{question}");
    assert!(question["params"]["message"].as_str().unwrap().contains("echo"));
    (stream, question["id"].clone())
}

fn respond(client: &Legacy, id: &Value, result: &Value) {
    let answer =
        client.post(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string()).send(client.addr());
    assert_eq!(answer.status, 202, "{}", answer.text());
}

#[test]
fn a_legacy_client_is_asked_on_the_calls_own_stream() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "");
    let connect = || Legacy::with(gateway.addr, "/mcp", "2025-11-25", json!({"elicitation": {}}));
    let (client, stranger) = (connect(), connect());
    let (mut stream, id) = questioned(&client);
    respond(&stranger, &id, &json!({"action": "accept"}));
    assert_eq!(up.seen_of("tools/call").len(), 0, "another session has answered");
    respond(&client, &id, &json!({"action": "accept", "content": {"confirm": true}}));
    let done = stream.message(LONG).expect("an answer");
    assert_eq!(done["result"]["isError"], false, "{done}");
    for (answer, want) in [
        (json!({"action": "decline"}), "confirm_declined"),
        (json!({"action": "accept", "content": {"confirm": "x"}}), "confirm_declined"),
    ] {
        let (mut stream, id) = questioned(&client);
        respond(&client, &id, &answer);
        let refused = stream.message(LONG).expect("an answer");
        assert_eq!(*reason(&refused), json!(want));
    }
    assert_eq!(up.seen_of("tools/call").len(), 1);
}

#[test]
fn a_legacy_client_that_does_not_answer_in_time_is_refused() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, ", confirm_within: 1s");
    let client = Legacy::with(gateway.addr, "/mcp", "2025-06-18", json!({"elicitation": {}}));
    let (mut stream, id) = questioned(&client);
    let refused = stream.message(LONG).expect("an answer");
    assert_eq!(*reason(&refused), json!("confirm_void"));
    respond(&client, &id, &json!({"action": "accept"}));
    assert_eq!(up.seen_of("tools/call").len(), 0);
}

#[test]
fn a_host_on_stdio_is_asked_on_stdout() {
    let up = Scripted::json(Peer::modern("up"));
    let mut host = Host::start(&configuration(&up, ""));
    let greeting = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "h", "version": "1"}}});
    host.send(&greeting.to_string());
    assert!(host.message(LONG).expect("a welcome")["result"].is_object());
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "up__echo", "arguments": {}}});
    host.send(&call.to_string());
    // Lists may have changed meanwhile, which hosts are told of too.
    let mut questions = std::iter::from_fn(|| host.message(LONG));
    let question = questions.find(|message| message["method"] == "elicitation/create").expect("a question");
    host.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}).to_string());
    let done = host.until_response(&json!(2)).pop().expect("an answer");
    assert_eq!(done["result"]["isError"], false, "{done}");
}

fn able(gateway: &Gateway, path: &str) -> Legacy {
    Legacy::with(gateway.addr, path, "2025-11-25", json!({"elicitation": {}}))
}

/// Who is asked takes nobody's place: others are served, and no caller has more questions open than calls.
#[test]
fn open_questions_take_nobodys_place_and_are_bounded() {
    let up = Scripted::json(Peer::modern("up"));
    let head = "limits: { requests: 3 }\ndefault_task: t\ntasks:\n  t: { allow: [\"up__*\"], confirm: always }\n  \
                c: { allow: [\"up__*\"], confirm: always, limits: { concurrency: 2 } }\n  u: { allow: [\"up__*\"] }\n";
    let gateway = Gateway::start(&yaml(head, &[http("up", &up, "")]));
    let careful = able(&gateway, "/tasks/c/mcp");
    let (first, second) = (questioned(&careful), questioned(&careful));
    let third = careful.call("up__echo", "{}").response();
    assert_eq!(*reason(&third), json!("concurrency"), "{third}");
    let (easy, other) = (able(&gateway, "/mcp"), gateway.modern().at("/tasks/u/mcp"));
    let last = questioned(&easy);
    let full = easy.call("up__echo", "{}");
    assert_eq!(full.status, 503, "{}", full.text());
    // Three places, three questions, and a place for everybody else.
    assert_eq!(other.call("up__echo", "{}").result()["isError"], false);
    for (client, (mut stream, id)) in [(&careful, first), (&careful, second), (&easy, last)] {
        respond(client, &id, &json!({"action": "accept"}));
        let done = stream.message(LONG).expect("an answer");
        assert_eq!(done["result"]["isError"], false, "{done}");
    }
    assert_eq!(up.seen_of("tools/call").len(), 4);
}

/// A question that no stream is left for is not waited on.
#[test]
fn a_question_that_cannot_be_shown_is_no_question() {
    let up = Scripted::json(Peer::modern("up"));
    let head =
        "limits: { streams: 1 }\ndefault_task: t\ntasks:\n  t: { allow: [\"up__*\"], confirm: always }\n";
    let gateway = Gateway::start(&yaml(head, &[http("up", &up, "")]));
    let client = able(&gateway, "/mcp");
    let _held = questioned(&client);
    let full = client.call("up__echo", "{}");
    assert_eq!(full.status, 503, "{}", full.text());
    assert_eq!(up.seen_of("tools/call").len(), 0);
}

/// A lost connection is no cancellation: the answer may come on another, for as long as calls outlive theirs.
#[test]
fn l9_a_question_outlives_its_legacy_connection_for_the_grace() {
    let up = Scripted::json(Peer::modern("up"));
    let open = |gateway: &Gateway| {
        let text = gateway.admin("/metrics").text();
        text.lines().any(|line| line == "tollgate_active_streams 1")
    };
    for (grace, made) in [("60s", true), ("0s", false)] {
        let head = format!(
            "legacy: {{ resume_grace: {grace} }}\ndefault_task: t\ntasks:\n  t: {{ allow: [\"up__*\"], confirm: always }}\n"
        );
        let gateway = Gateway::start(&yaml(&head, &[http("up", &up, "")]));
        let client = able(&gateway, "/mcp");
        let (stream, id) = questioned(&client);
        assert!(open(&gateway));
        drop(stream);
        tollgate_tests::wait::within(LONG, "the loss is seen", || !open(&gateway));
        let before = up.seen_of("tools/call").len();
        respond(&client, &id, &json!({"action": "accept"}));
        if made {
            let sent = || up.seen_of("tools/call").len() == before + 1;
            tollgate_tests::wait::within(LONG, "the call is made", sent);
        } else {
            gateway.legacy().names("tools/list");
            assert_eq!(up.seen_of("tools/call").len(), before);
        }
    }
}

/// Whoever can't answer any more is not waited for.
#[test]
fn an_open_question_ends_with_stdin() {
    let up = Scripted::json(Peer::modern("up"));
    let mut host = Host::start(&configuration(&up, ""));
    let greeting = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "h", "version": "1"}}});
    host.send(&greeting.to_string());
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "up__echo", "arguments": {}}});
    host.send(&call.to_string());
    let mut messages = std::iter::from_fn(|| host.message(LONG));
    assert!(messages.any(|message| message["method"] == "elicitation/create"), "a question");
    let start = std::time::Instant::now();
    host.close();
    let refused = host.until_response(&json!(2)).pop().expect("an answer");
    assert_eq!(*reason(&refused), json!("confirm_declined"));
    assert!(host.wait(LONG).success());
    assert!(start.elapsed().as_secs() < 8, "the whole grace was waited for: {:?}", start.elapsed());
    assert_eq!(up.seen_of("tools/call").len(), 0);
}
