//! Metrics: what is exported, and that nothing of it grows with what strangers send (case X7).

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use tollgate_tests::client::{Client, Modern};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::http::Request;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait;

use crate::support::{Bench, http, read, yaml};

/// The lines of a page that begin like this.
fn lines<'a>(page: &'a str, start: &str) -> Vec<&'a str> {
    page.lines().filter(|line| line.starts_with(start)).collect()
}

fn page(gateway: &Gateway) -> String {
    gateway.admin("/metrics").text()
}

#[test]
fn calls_are_counted_by_server_tool_task_and_outcome() {
    let bench = Bench::of(Scripted::json(Peer::modern("up")), "", ", cost: { per_call_usd: 0.002 }");
    let exposed = bench.gateway.modern();
    for _ in 0..3 {
        bench.client().call("echo", "{}").result();
        exposed.call("up__fail", "{}").result();
    }
    exposed.call("up__nobody", "{}");
    wait::until("the last line", || page(&bench.gateway).contains("refused"));
    let page = page(&bench.gateway);
    for line in [
        r#"tollgate_calls_total{outcome="ok",server="up",task="default",tool="echo"} 3"#,
        r#"tollgate_calls_total{outcome="tool_error",server="up",task="default",tool="fail"} 3"#,
        r#"tollgate_calls_total{outcome="refused",server="up",task="default",tool="other"} 1"#,
        r#"tollgate_requests_total{method="tools/call",outcome="ok",server="up"} 3"#,
        r#"tollgate_call_duration_seconds_count{server="up",tool="echo"} 3"#,
        "tollgate_gateway_overhead_seconds_count 6",
        r#"tollgate_cost_usd_total{server="up",task="default"} 0.012"#,
        r#"tollgate_denials_total{reason="capability_missing",task="default"} 1"#,
        r#"tollgate_upstream_up{server="up"} 1"#,
        r#"tollgate_quarantined{server="up"} 0"#,
        r#"tollgate_manifest_changes_total{server="up"} 0"#,
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }
    let number = |name: &str| -> f64 {
        let line = *lines(&page, &format!("{name} ")).first().unwrap_or_else(|| panic!("{name}\n{page}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(number("tollgate_audit_records_total") >= 14.0);
    assert!(number("tollgate_audit_checkpoint_lag_seconds") < 20.0);
    assert!(number("process_resident_memory_bytes") > 1e6);
    assert!(number(r#"tollgate_upstream_connections{server="up"}"#) >= 1.0);
    assert!(number(r#"tollgate_result_bytes_total{server="up"}"#) > 100.0);
}

#[test]
fn a_list_that_changes_is_counted() {
    let bench = Bench::modern();
    bench.client().names("tools/list");
    let tool =
        |text: &str| format!(r#"{{"name":"one","description":"{text}","inputSchema":{{"type":"object"}}}}"#);
    let changes =
        || lines(&page(&bench.gateway), "tollgate_manifest_changes_total{server=\"up\"}")[0].to_owned();
    assert!(changes().ends_with(" 0"), "{}", changes());
    bench.up.peer().set_tools(vec![tool("before")]);
    wait::until("the new list", || {
        bench.client().call("unheard-of", "{}");
        changes().ends_with(" 1")
    });
}

#[test]
fn x7_ten_thousand_invented_names_are_no_labels() {
    let bench = Bench::modern();
    bench.client().call("echo", "{}").result();
    let rest = |page: &str| page.lines().filter(|l| !l.starts_with('#')).count();
    let (direct, exposed) = (bench.client(), bench.gateway.modern());
    for n in 0..10 {
        direct.call(&format!("invented_{n}"), "{}");
        exposed.call(&format!("up__invented_{n}"), "{}");
        exposed.call(&format!("invented-{n}__tool"), "{}");
    }
    let before = page(&bench.gateway);
    let threads: Vec<_> = (0..8)
        .map(|thread| {
            let direct = direct.clone();
            std::thread::spawn(move || {
                for n in 0..1250 {
                    direct.call(&format!("invented_{thread}_{n}"), "{}");
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    wait::until("all to be counted", || page(&bench.gateway).contains("tool=\"other\"} 10020"));
    let after = page(&bench.gateway);
    assert!(!after.contains("invented"), "{:?}", after.lines().find(|l| l.contains("invented")));
    assert_eq!(rest(&after), rest(&before), "series grew with names");
}

/// A gateway that has done everything that a metric is about.
fn busy() -> (Gateway, Scripted) {
    let up = Scripted::json(Peer::modern("up"));
    let task = "allow: [\"up__*\", \"gone__*\"], redact: true, limits: { calls: 4/h, budget_calls: { task: { day: 100 } } }";
    let head = format!("default_task: t\ntasks:\n  t: {{ {task} }}\n");
    let gone = "  gone: { url: \"http://127.0.0.1:1/mcp\" }\n".to_owned();
    let gateway = Gateway::start(&yaml(&head, &[http("up", &up, ", cost: { per_call_usd: 0.002 }"), gone]));
    let client = gateway.modern();
    let secret = json!({ "text": format!("ghp_{}a13tNSQc", "a1B2".repeat(7)) }).to_string();
    for _ in 0..5 {
        client.call("up__echo", &secret);
        client.call("gone__x", "{}");
    }
    let bad = r#"{"name":"","inputSchema":{"type":"object"}}"#.to_owned();
    let good = r#"{"name":"fine","inputSchema":{"type":"object"}}"#.to_owned();
    up.peer().set_tools(vec![bad, good]);
    wait::until("what is left out", || {
        client.call("up__fine2", "{}");
        page(&gateway).contains("tollgate_list_entries_dropped_total{")
    });
    (gateway, up)
}

/// Names of metrics in a text; what has a colon beside it is a recorded series.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let names = text.split(|c: char| !word(c)).filter(|name| !name.contains(':'));
    let names = names.filter(|name| name.starts_with("tollgate_") || name.starts_with("process_"));
    let base = |name: &str| {
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        base.unwrap_or(name).to_owned()
    };
    names.map(base).collect()
}

#[test]
fn every_metric_of_the_dashboard_and_the_rules_is_exported() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let (gateway, _up) = busy();
    let page = page(&gateway);
    let exported: BTreeSet<&str> =
        page.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for file in ["grafana/tollgate.json", "prometheus/recording.yml", "prometheus/alerts.yml"] {
        let text = read(&root.join("metrics").join(file));
        let used = named(&text);
        assert!(used.len() >= 5, "{file}: {used:?}");
        let missing: Vec<_> = used.iter().filter(|name| !exported.contains(name.as_str())).collect();
        assert!(missing.is_empty(), "{file}: {missing:?}\n{page}");
    }
    // And what is exported is described.
    let readme = read(&root.join("README.md"));
    let silent: Vec<_> = exported.iter().filter(|name| !readme.contains(**name)).collect();
    assert!(silent.is_empty(), "not in README.md: {silent:?}");
}

#[test]
fn the_dashboard_is_whole() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let board: Value = serde_json::from_str(&read(&root.join("metrics/grafana/tollgate.json"))).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "an id twice");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["title"].is_string() && panel["description"].is_string(), "{panel}");
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{panel}");
        let at = &panel["gridPos"];
        assert!(at["x"].as_u64().unwrap() + at["w"].as_u64().unwrap() <= 24, "{panel}");
    }
}

#[test]
fn scrapers_that_ask_for_openmetrics_get_exemplars() {
    let bench = Bench::modern();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = format!("\"00-{trace}-00f067aa0ba902b7-01\"");
    let client: Modern = bench.client().meta("traceparent", &parent);
    client.call("echo", "{}").result();
    let accept = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
    let open = || Request::new("GET", "/metrics").header("Accept", accept).send(bench.gateway.admin);
    wait::until("the exemplar", || open().text().contains(&format!("# {{trace_id=\"{trace}\"}} ")));
    let answer = open();
    assert_eq!(
        answer.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(answer.text().ends_with("# EOF\n"));
    let plain = bench.gateway.admin("/metrics");
    assert_eq!(plain.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(!plain.text().contains("trace_id"));
}
