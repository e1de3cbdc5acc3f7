//! How calls end in the journal: what is told of those that were cancelled, refused afterwards or left.

use audit::entry::{Entry, Kind};
use serde_json::{Value, json};
use tollgate_tests::client::{Client, Legacy, call_params, with_member};
use tollgate_tests::http::Conn;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};
use tollgate_tests::wait::{self, LONG};

use crate::journal::{begin, folder, log, of, records};

fn text(field: &Option<audit::entry::Text>) -> &str {
    field.as_deref().unwrap_or_default()
}

/// The only outcome of a log.
fn outcome(entries: &[Entry]) -> &Entry {
    let outcomes = of(entries, Kind::Outcome);
    assert_eq!(outcomes.len(), 1, "{entries:?}");
    outcomes[0]
}

#[test]
fn z5_the_answer_to_a_cancelled_call_waits_for_its_record_and_names_it() {
    for durability in ["strict", "buffered"] {
        let up = Scripted::json(Peer::legacy("up"));
        let gateway = begin(&up, &format!("audit: {{ durability: {durability} }}\n"), &folder()).start();
        let client = Legacy::server(gateway.addr, "up");
        let params = call_params("slow", r#"{"ms":20000}"#);
        let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
        let mut conn = Conn::open(gateway.addr);
        conn.write(&client.post(body).wire(&gateway.addr.to_string()));
        wait::until("the call", || up.count("tools/call") == 1);
        client.notify("notifications/cancelled", &json!({"requestId": 7}).to_string());
        let result = conn.try_answer(LONG).expect("an answer").result();
        assert_eq!(result["cancelled"], true, "{result}");
        let entries = records(&log(gateway.dir.path()));
        let outcome = outcome(&entries);
        assert_eq!(text(&outcome.outcome), "cancelled");
        let receipt = &result["_meta"]["dev.tollgate/receipt"];
        assert_eq!(receipt["seq"], outcome.seq.0, "{durability}: {result}");
    }
}

#[test]
fn an_answer_that_the_gateway_keeps_back_is_no_failure_of_its_server() {
    let up = Scripted::json(Peer::modern("up"));
    let head = "default_task: t\ntasks:\n  t: { allow: [\"*\"], limits: { result_bytes: 100 } }\n";
    let gateway = begin(&up, head, &folder()).start();
    let client = gateway.modern().server("up").meta("dev.tollgate/run", "\"r1\"");
    let big = format!(r#"{{"text":"{}"}}"#, "x".repeat(200));
    let answer = client.call("echo", &big);
    assert_eq!(answer.result()["_meta"]["dev.tollgate/refusal"]["reason"], "result_too_large");
    let entries = records(&log(gateway.dir.path()));
    let outcome = outcome(&entries);
    assert_eq!((text(&outcome.outcome), text(&outcome.reason)), ("refused", "result_too_large"));
    let run: Value = serde_json::from_str(&gateway.admin("/runs/r1").text()).expect("a run");
    assert_eq!((&run["status"], &run["degraded"]), (&json!("completed"), &json!([])), "{run}");
    let metrics = gateway.admin("/metrics").text();
    let failures = metrics.lines().filter(|line| line.starts_with("tollgate_upstream_failures_total"));
    assert!(failures.clone().all(|line| line.ends_with(" 0")), "{failures:?}");
}

#[test]
fn a_call_that_was_left_and_is_answered_badly_says_why_it_failed() {
    let (go, waits) = std::sync::mpsc::channel::<()>();
    let waits = parking_lot::Mutex::new(waits);
    let up = Scripted::carried(Peer::legacy("up"), Carrier::Json, move |seen, out| {
        if seen.is("tools/call") {
            waits.lock().recv().ok();
            out.json(200, seen.rpc().result("[]"));
        }
        seen.is("tools/call")
    });
    let gateway = begin(&up, "", &folder()).start();
    let client = Legacy::server(gateway.addr, "up");
    let request = client.request("tools/call", &call_params("echo", r#"{"text":"x"}"#));
    let mut conn = Conn::open(gateway.addr);
    conn.write(&request.wire(&gateway.addr.to_string()));
    wait::until("the call", || up.count("tools/call") == 1);
    drop(conn);
    wait::until("the client to be missed", || gateway.status()["listener"]["departed"] == 1);
    go.send(()).expect("the server waits");
    let dir = log(gateway.dir.path());
    wait::until("the outcome", || !of(&records(&dir), Kind::Outcome).is_empty());
    let entries = records(&dir);
    let outcome = outcome(&entries);
    assert_eq!((text(&outcome.outcome), text(&outcome.reason)), ("failed", "schema_violation"));
}

#[test]
fn z19_lists_beyond_a_callers_share_are_counted_and_answered_all_the_same() {
    const ASKED: usize = 400;
    let up = Scripted::json(Peer::modern("up"));
    let gateway = begin(&up, "", &folder()).start();
    let client = gateway.modern().server("up");
    let begun = std::time::Instant::now();
    for _ in 0..ASKED {
        assert_eq!(client.send("tools/list", "{}").status, 200);
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("a few") + 2;
    gateway.sigterm();
    assert!(gateway.wait(LONG).success(), "{}", gateway.log());
    let entries = records(&log(gateway.dir.path()));
    let own = of(&entries, Kind::List).len();
    assert!(own <= 20 * seconds, "{own} records in {seconds} s");
    let counted = of(&entries, Kind::DeniedCount);
    assert!(counted.iter().all(|count| text(&count.reason) == "list_answered"), "{counted:?}");
    let counted: u64 = counted.iter().filter_map(|count| Some(count.count?.0)).sum();
    assert_eq!(own + usize::try_from(counted).expect("a number"), ASKED);
}

#[test]
fn refusals_and_questions_name_the_tool_as_calls_do_and_hold_the_callers_trace() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let up = Scripted::json(Peer::modern("up"));
    let head = "default_task: t\ntasks:\n  t: { allow: [up__echo, up__whoami], confirm: [\"*whoami\"], limits: { budget_calls: { run: 1 } } }\n";
    let gateway = begin(&up, head, &folder()).start();
    let client = gateway.modern().meta("dev.tollgate/run", "\"r1\"");
    let client =
        client.meta("traceparent", &format!("{PARENT:?}")).capabilities(json!({"elicitation": {"form": {}}}));
    client.call("up__whoami", "{}");
    client.call("up__echo", r#"{"text":"x"}"#);
    client.call("up__echo", r#"{"text":"x"}"#);
    client.call("up__none", "{}");
    client.call("nowhere__echo", "{}");
    let entries = records(&log(gateway.dir.path()));
    let told = |kind: Kind| -> Vec<(&str, &str, &str)> {
        let told = of(&entries, kind);
        told.iter().map(|e| (text(&e.server), text(&e.tool), text(&e.traceparent))).collect()
    };
    assert_eq!(told(Kind::Question), [("up", "whoami", PARENT)]);
    assert_eq!(told(Kind::Intent), [("up", "echo", PARENT)]);
    assert_eq!(
        told(Kind::Denied),
        [("up", "echo", PARENT), ("up", "none", PARENT), ("", "nowhere__echo", PARENT)]
    );
}

#[test]
fn what_a_cancelled_call_had_given_stands_beside_its_run() {
    let up = Scripted::sse(Peer::legacy("up"));
    let gateway = begin(&up, "", &folder()).start();
    let client = Legacy::server(gateway.addr, "up");
    let params = call_params("progress", r#"{"ms":400,"steps":50}"#);
    let meta = r#"{"progressToken":"t","dev.tollgate/run":"r1"}"#;
    let params = with_member(&params, "_meta", meta);
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
    let mut conn = Conn::open(gateway.addr);
    conn.write(&client.post(body).wire(&gateway.addr.to_string()));
    let mut stream = conn.stream_after("POST", LONG).expect("a stream");
    assert_eq!(stream.message(LONG).expect("progress")["params"]["message"], "step 1");
    client.notify("notifications/cancelled", &json!({"requestId": 7}).to_string());
    let mut last = Value::Null;
    while let Some(message) = stream.message(LONG) {
        last = message;
    }
    let told = gateway.admin("/runs/r1").text();
    let run: Value = serde_json::from_str(&told).expect("a run");
    let entries = records(&log(gateway.dir.path()));
    let call = text(&outcome(&entries).call);
    assert_eq!(run["partials"][call], last["result"]["content"], "{told}");
    assert!(run["partials"].to_string().contains("step 1"), "{told}");
    // Without it the bytes are the receipt's.
    let args = ["audit", "run", "r1", "--receipt", "--dir", "var/audit"];
    let printed = tollgate_tests::gateway::run(&args, gateway.dir.path()).stdout;
    let bare = told.split(",\"partials\":").next().expect("a part");
    assert_eq!(format!("{bare}}}\n"), String::from_utf8_lossy(&printed));
    assert!(gateway.admin("/runs").response()["runs"][0].get("partials").is_none());
}
