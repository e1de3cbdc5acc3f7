//! What the journal adds up to, from outside: budgets that outlive a kill (case L4), `/costs` and `/runs` against
//! `tollgate audit` on the same journal.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use audit::entry::{Entry, Kind};
use audit::read::{Filter, all};
use audit::verify::DirSource;
use serde_json::{Value, json};
use tollgate_tests::client::{Client, Modern};
use tollgate_tests::gateway::{Gateway, Start, kill_group, run};
use tollgate_tests::json;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait::{self, LONG};

use crate::support::{http, yaml};

struct Stand {
    up: Scripted,
    dir: Arc<tempfile::TempDir>,
    head: String,
    price: &'static str,
}

impl Stand {
    /// A task `t` with these limits before one server with this price.
    fn new(limits: &str, price: &'static str) -> Stand {
        let head =
            format!("default_task: t\ntasks:\n  t: {{ allow: [\"up__*\", \"two__*\"], limits: {limits} }}\n");
        let dir = Arc::new(tempfile::tempdir().expect("a folder"));
        Stand { up: Scripted::json(Peer::modern("up")), dir, head, price }
    }

    fn start(&self) -> Gateway {
        let servers =
            [http("up", &self.up, self.price), http("two", &self.up, ", cost: { per_call_usd: 0.05 }")];
        Start::new(&yaml(&self.head, &servers)).folder(&self.dir).start()
    }

    fn records(&self) -> Vec<Entry> {
        let read = all(&DirSource::new(self.log()), &Filter::default()).expect("it can be read");
        read.into_iter().map(|record| record.entry).collect()
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("var/audit/gateway")
    }

    /// The lines of `tollgate audit …` on this journal.
    fn audit(&self, args: &[&str]) -> Vec<Value> {
        lines(self.dir.path(), args)
    }
}

fn lines(dir: &Path, args: &[&str]) -> Vec<Value> {
    let all: Vec<&str> = ["audit"].into_iter().chain(args.iter().copied()).collect();
    let output = run(&all, dir);
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(json::parse).collect()
}

fn client(gateway: &Gateway, run: &str) -> Modern {
    gateway.modern().meta("dev.tollgate/run", &format!("{run:?}"))
}

fn admitted(client: &Modern) -> bool {
    let result = client.call("up__echo", r#"{"text":"x"}"#).result();
    let refused = result["_meta"]["dev.tollgate/refusal"]["reason"] == "budget";
    assert_eq!(result["isError"] == true, refused, "{result}");
    !refused
}

/// Kills a gateway while so many calls that never end are open.
fn kill_with_open(stand: &Stand, gateway: &Gateway, run: &str, open: usize) {
    let before = stand.up.count("tools/call");
    std::thread::scope(|scope| {
        for _ in 0..open {
            let client = client(gateway, run);
            scope.spawn(move || {
                let body = r#"{"name":"up__slow","arguments":{"ms":60000}}"#;
                client.request("tools/call", body).try_send(client.addr())
            });
        }
        wait::until("the calls", || stand.up.count("tools/call") == before + open);
        kill_group(gateway.pid());
    });
}

#[test]
fn l4_a_budget_outlives_a_kill_with_reservations_open() {
    // By run, by task and month, by principal and day; each with ten calls' worth.
    for limits in [
        "{ budget_usd: 1.00 }",
        "{ budget_usd: { task: { month: 1.00 } } }",
        "{ budget_calls: { principal: { day: 10 } } }",
    ] {
        let stand = Stand::new(limits, ", cost: { per_call_usd: 0.10 }");
        let first = stand.start();
        for _ in 0..3 {
            assert!(admitted(&client(&first, "r1")), "{limits}");
        }
        kill_with_open(&stand, &first, "r1", 2);
        let second = stand.start();
        let unknown: Vec<Entry> =
            stand.records().into_iter().filter(|e| e.outcome.as_deref() == Some("unknown")).collect();
        assert_eq!(unknown.len(), 2, "{limits}");
        assert!(unknown.iter().all(|e| e.cost_nanousd.map(|c| c.0) == Some(100_000_000)), "{unknown:?}");
        assert!(admitted(&client(&second, "r1")), "{limits}");
        second.sigterm();
        assert!(second.wait(LONG).success());
        // Six of ten are spent: four are left, to the call.
        let third = stand.start();
        let made = (0..6).filter(|_| admitted(&client(&third, "r1"))).count();
        assert_eq!(made, 4, "{limits}");
        let costs = third.admin("/costs").response();
        assert_eq!(costs["total"]["cost_usd"], "1", "{costs}");
        assert_eq!(costs["total"]["calls"], 10, "{costs}");
    }
}

#[test]
fn l4_bytes_and_calls_are_counted_after_a_kill_as_before() {
    // What an open call has set aside of the bytes is charged: 1 KiB of 4.
    let limits = "{ result_bytes: 1KiB, budget_bytes: { task: { day: 4KiB } } }";
    let stand = Stand::new(limits, "");
    let mut gateway = stand.start();
    for _ in 0..3 {
        kill_with_open(&stand, &gateway, "r1", 1);
        gateway = stand.start();
    }
    // A KiB is left, for the reservation of one call; what it took is less.
    assert!(admitted(&client(&gateway, "r2")));
    assert!(!admitted(&client(&gateway, "r3")));
    let sums: u64 = stand.records().iter().filter_map(|e| Some(e.charged_bytes?.0)).sum();
    assert!((3072..4096).contains(&sums), "{sums}");
}

#[test]
fn l4_a_call_that_ended_counts_once_after_a_kill() {
    let stand = Stand::new("{ budget_calls: { task: { day: 2 } } }", ", cost: { per_call_usd: 0.10 }");
    let first = stand.start();
    assert!(admitted(&client(&first, "r1")));
    drop(first);
    let again = stand.start();
    assert!(admitted(&client(&again, "r2")) && !admitted(&client(&again, "r3")));
    let refusals = stand.records().into_iter().filter(|e| e.kind == Kind::Denied).count();
    assert_eq!(refusals, 1);
}

#[test]
fn without_a_journal_it_is_said_that_budgets_start_anew() {
    let mut stand = Stand::new("{ budget_calls: 5 }", "");
    stand.head.push_str("audit: { durability: \"off\" }\n");
    let gateway = stand.start();
    assert!(gateway.log().contains("budgets start anew with every start"), "{}", gateway.log());
    for path in ["/costs", "/runs", "/runs/r1"] {
        assert_eq!(gateway.admin(path).status, 404);
    }
}

/// Rows in an order of their own.
fn rows(all: &[Value]) -> Vec<Value> {
    let mut rows = all.to_vec();
    rows.sort_by_key(|row| ["task", "server", "principal", "day"].map(|name| row[name].to_string()));
    rows
}

#[test]
fn costs_are_those_of_the_audit_command_under_traffic() {
    let stand =
        Stand::new("{ concurrency: 64 }", ", cost: { per_call_usd: 0.000000007, per_kib_usd: 0.001 }");
    let gateway = stand.start();
    let total = |gateway: &Gateway| {
        let costs = gateway.admin("/costs?by=day,principal").response();
        costs["total"]["calls"].as_u64().expect("a number")
    };
    let command = || -> u64 {
        let rows = stand.audit(&["costs", "--by", "day", "--format", "json"]);
        rows.iter().map(|row| row["calls"].as_u64().expect("a number")).sum()
    };
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|caller| {
                let client = client(&gateway, &format!("run{caller}"));
                scope.spawn(move || {
                    for n in 0..40 {
                        let text = "x".repeat(n * 37);
                        let tool = if caller == 3 { "two__echo" } else { "up__echo" };
                        client.call(tool, &json!({ "text": text }).to_string());
                    }
                })
            })
            .collect();
        // What is asked between two readings of the files lies between them.
        while !callers.iter().all(|caller| caller.is_finished()) {
            let before = command();
            let now = total(&gateway);
            assert!((before..=command()).contains(&now), "{before} {now}");
        }
    });
    for by in ["task,server", "server", "day,task", "principal,day", "day,principal,server,task"] {
        let costs = gateway.admin(&format!("/costs?by={by}")).response();
        let here = rows(costs["rows"].as_array().expect("rows"));
        assert_eq!(here, rows(&stand.audit(&["costs", "--by", by, "--format", "json"])), "{by}");
        assert_eq!(here.len(), if by.contains("server") { 2 } else { 1 }, "{by}");
        assert_eq!((&costs["total"]["calls"], &costs["left"]), (&json!(160), &json!(0)));
        assert!(costs.get("earlier").is_none() && costs["total"]["cost_nanousd"].as_u64() > Some(1120));
    }
    let filtered = gateway.admin("/costs?by=day&server=up&principal=anonymous").response();
    assert_eq!(filtered["total"]["calls"], 120);
    assert_eq!(gateway.admin("/costs?by=day&server=down").response()["rows"], json!([]));
    assert_eq!(gateway.admin("/costs?by=colour").status, 400);
    let csv = run(&["audit", "costs", "--format", "csv", "--by", "server"], stand.dir.path());
    let csv = String::from_utf8(csv.stdout).expect("UTF-8");
    assert!(csv.starts_with("server,calls,cost_nanousd,cost_usd\r\ntwo,40,2000000000,2\r\nup,120,"), "{csv}");
}

#[test]
fn a_run_reads_the_same_on_the_listener_and_from_the_files() {
    let stand = Stand::new("{ budget_calls: 3 }", ", cost: { per_call_usd: 0.002 }");
    let gateway = stand.start();
    for _ in 0..4 {
        client(&gateway, "r:1").call("up__echo", "{}");
    }
    client(&gateway, "r2").call("up__no-such-tool", "{}");
    let same = |gateway: &Gateway, run: &str| -> Value {
        let answer = gateway.admin(&format!("/runs/{run}"));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let args = ["audit", "run", run, "--receipt"];
        let printed = tollgate_tests::gateway::run(&args, stand.dir.path());
        assert_eq!(answer.text(), String::from_utf8_lossy(&printed.stdout), "{run}");
        answer.response()
    };
    let one = same(&gateway, "r:1");
    assert_eq!((&one["calls"], &one["refused"], &one["status"]), (&json!(3), &json!(1), &json!("completed")));
    assert_eq!(one["servers"], json!({ "up": { "calls": 3, "cost_nanousd": 6_000_000 } }));
    assert_eq!(same(&gateway, "r2")["status"], "failed");
    let token = one["pollToken"].as_str().expect("a token");
    assert_eq!(gateway.admin(&format!("/runs/r:1?pollToken={token}")).response(), one);
    assert_eq!(gateway.admin("/runs/r:1?limit=1").response(), one);
    for filter in ["principal=nobody", "task=other"] {
        assert_eq!(gateway.admin(&format!("/runs/r:1?{filter}")).status, 404);
        assert_eq!(gateway.admin(&format!("/runs/r:1?pollToken={token}&{filter}")).status, 404);
    }
    for path in ["/runs/r2&x", "/runs/r2=x"] {
        assert_eq!(gateway.admin(path).status, 404, "{path}");
    }
    assert_eq!(gateway.admin("/runs/r2?task=a&task=b").status, 400);
    assert_eq!(gateway.admin("/runs/none").status, 404);
    assert_eq!(gateway.admin("/runs/r2?pollToken=nonsense").status, 400);
    // Page by page, each run once.
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = gateway.admin(&format!("/runs?limit=1{after}")).response();
        seen.extend(page["runs"].as_array().expect("runs").iter().map(|run| run["run"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert!(seen.contains(&json!("r:1")) && seen.contains(&json!("r2")), "{seen:?}");
    // Under way, killed, and started again: working, then failed, the same from both sides.
    let before = gateway.admin("/costs").response()["total"].clone();
    let slow = client(&gateway, "r3");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let body = r#"{"name":"up__slow","arguments":{"ms":60000}}"#;
            slow.request("tools/call", body).try_send(slow.addr())
        });
        wait::until("the call", || gateway.admin("/runs/r3").status == 200);
        assert_eq!(same(&gateway, "r3")["status"], "working");
        kill_group(gateway.pid());
    });
    let again = stand.start();
    let ended = same(&again, "r3");
    assert_eq!((&ended["status"], &ended["degraded"]), (&json!("failed"), &json!(["up"])));
    assert_eq!(ended["cost_nanousd"], 2_000_000, "the reservation is charged");
    assert_eq!(same(&again, "r:1"), one, "frozen at its last record");
    let after = again.admin("/costs").response()["total"].clone();
    let nanos = |total: &Value| total["cost_nanousd"].as_u64().expect("a number");
    assert_eq!(nanos(&after), nanos(&before) + 2_000_000);
}
