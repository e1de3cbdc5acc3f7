//! Cases L5 and L6 for runs: another run id is another run and the same principal. And what a task lets servers know of
//! roots, and what is said at the start of keys that several replicas share.

use serde_json::{Value, json};
use tollgate_tests::client::{Client, Legacy, Modern};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait;

use crate::support::{SEAL_A, http, sealed, yaml};

fn gateway(up: &Scripted, task: &str) -> Gateway {
    let head = format!("default_task: t\ntasks:\n  t: {{ allow: [\"up__*\"], {task} }}\n");
    Gateway::start(&yaml(&head, &[http("up", up, "")]))
}

fn run(gateway: &Gateway, run: &str) -> Modern {
    gateway.modern().meta("dev.tollgate/run", &Value::from(run).to_string())
}

#[test]
fn l5_a_new_run_id_for_each_call_does_not_get_around_the_rate_of_runs() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "limits: { run: 2/h, runs_at_once: 2 }");
    for id in ["a", "a"] {
        assert_eq!(run(&gateway, id).call("up__echo", "{}").status, 200);
    }
    let own = run(&gateway, "a").call("up__echo", "{}");
    assert_eq!((own.status, own.code()), (429, Some(7007)), "{}", own.text());
    assert!(own.error()["message"].as_str().unwrap().contains("in this run"));
    assert_eq!(run(&gateway, "b").call("up__echo", "{}").status, 200);
    assert_eq!(run(&gateway, "c").call("up__echo", "{}").status, 200);
    for id in ["d", "e", "f"] {
        let all = run(&gateway, id).call("up__echo", "{}");
        assert_eq!((all.status, all.code()), (429, Some(7007)), "{}", all.text());
        assert!(all.error()["message"].as_str().unwrap().contains("in all your runs together"));
        assert!(all.header("retry-after").is_some());
    }
    // A session of its own is no way around it either.
    assert_eq!(gateway.legacy().call("up__echo", "{}").status, 429);
    assert_eq!(up.calls(), 4);
}

#[test]
fn l6_a_principal_has_so_many_runs_and_no_more() {
    let up = Scripted::json(Peer::modern("up"));
    let gateway = gateway(&up, "limits: { runs: 3 }");
    for id in ["a", "b", "c", "a"] {
        assert_eq!(run(&gateway, id).call("up__echo", "{}").status, 200);
    }
    let refused = run(&gateway, "d").call("up__echo", "{}");
    assert_eq!((refused.status, refused.code()), (429, Some(7007)), "{}", refused.text());
    assert!(refused.error()["message"].as_str().unwrap().contains("you have 3 runs"), "{}", refused.text());
    // What is not permitted anyway makes no run, and lists cost none.
    assert_eq!(run(&gateway, "e").call("up__none", "{}").code(), Some(-32602));
    assert!(!run(&gateway, "f").names("tools/list").is_empty());
    assert_eq!(run(&gateway, "b").call("up__echo", "{}").status, 200);
}

/// Asks for roots in the middle of a call.
fn asking_for_roots() -> Scripted {
    Scripted::carried(Peer::legacy("up"), Carrier::Sse, |seen, out| {
        let mine = seen.is("tools/call");
        if mine {
            let rpc = seen.rpc();
            out.stream(&[]);
            out.event(r#"{"jsonrpc":"2.0","id":"roots-1","method":"roots/list"}"#);
            out.event(&rpc.result(r#"{"content":[{"type":"text","text":"done"}]}"#));
            out.end();
        }
        mine
    })
}

#[test]
fn servers_are_told_the_roots_of_the_task_and_never_the_clients() {
    let answers = |up: &Scripted| -> Vec<Value> {
        let seen = up.seen().into_iter().filter(|seen| seen.body.contains("\"roots-1\""));
        seen.map(|seen| serde_json::from_str(&seen.body).unwrap()).collect()
    };
    let greeted = |up: &Scripted| -> Vec<bool> {
        let hellos = up.seen_of("initialize").into_iter().map(|seen| seen.rpc());
        hellos.map(|rpc| rpc.param(&["capabilities", "roots"]).is_some()).collect()
    };
    let call = |gateway: &Gateway| {
        let legacy =
            Legacy::with(gateway.addr, "/mcp", "2025-11-25", json!({"roots": {"listChanged": true}}));
        assert_eq!(legacy.call("up__echo", "{}").result()["content"][0]["text"], "done");
        let modern = gateway.modern().capabilities(json!({"roots": {}}));
        assert_eq!(modern.call("up__echo", "{}").result()["content"][0]["text"], "done");
    };
    let up = asking_for_roots();
    let with = gateway(
        &up,
        "capabilities: { roots: [{ uri: \"file:///srv/docs\", name: Docs }, { uri: \"file:///srv/b\" }] }",
    );
    call(&with);
    wait::until("both answers", || answers(&up).len() == 2);
    for answer in answers(&up) {
        assert_eq!(
            answer["result"],
            json!({"roots": [{"uri": "file:///srv/docs", "name": "Docs"}, {"uri": "file:///srv/b"}]})
        );
    }
    assert!(greeted(&up).contains(&true), "nobody was told that there are roots");
    let up = asking_for_roots();
    let without = gateway(&up, "confirm: never");
    call(&without);
    wait::until("both refusals", || answers(&up).len() == 2);
    assert!(answers(&up).iter().all(|answer| answer["error"]["code"] == -32601), "{:?}", answers(&up));
    assert!(greeted(&up).iter().all(|told| !told));
}

#[test]
fn replicas_without_a_shared_store_of_confirmations_are_told_of_at_the_start() {
    let up = Scripted::json(Peer::modern("up"));
    let head = |confirm: &str| {
        format!("default_task: t\ntasks:\n  t: {{ allow: [\"up__*\"], confirm: {confirm} }}\n")
    };
    let start = |confirm: &str| sealed(&head(confirm), &[http("up", &up, "")], &[SEAL_A]);
    let (first, second) = (start("always"), start("always"));
    assert!(first.log().contains("no shared store of used confirmations"), "{}", first.log());
    assert!(!start("never").log().contains("no shared store"));
    // The state names the replica that asked; the other refuses it, and says what to do.
    let able = |gateway: &Gateway| run(gateway, "r").capabilities(json!({"elicitation": {"form": {}}}));
    let asked = able(&first).call("up__echo", "{}").result();
    let yes = json!({"name": "up__echo", "arguments": {}, "requestState": asked["requestState"],
        "inputResponses": {"dev.tollgate/confirm": {"action": "accept"}}});
    let elsewhere = able(&second).send("tools/call", &yes.to_string()).result();
    assert_eq!(elsewhere["_meta"]["dev.tollgate/refusal"]["reason"], "confirm_void", "{elsewhere}");
    assert!(elsewhere["content"][0]["text"].as_str().unwrap().contains("asked elsewhere"), "{elsewhere}");
    assert_eq!(able(&first).send("tools/call", &yes.to_string()).result()["isError"], false);
}
