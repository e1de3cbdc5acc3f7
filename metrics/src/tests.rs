use super::*;

fn metrics() -> Metrics {
    Metrics::new(Registry::new(), "1.2.3").unwrap()
}

fn text(metrics: &Metrics) -> String {
    String::from_utf8(metrics.render(None).unwrap().body).unwrap()
}

fn open(metrics: &Metrics) -> String {
    let page = metrics.render(Some("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")).unwrap();
    assert!(page.content_type.starts_with("application/openmetrics-text; version=1.0.0"));
    String::from_utf8(page.body).unwrap()
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

#[test]
fn what_was_counted_is_rendered() {
    let metrics = metrics();
    let (docs, task) = (metrics.server("docs"), metrics.task("support"));
    let end = Ended { outcome: Outcome::ToolError, seconds: 0.02, trace: "" };
    docs.listed("search").ended(&docs, &task, end);
    docs.cost(&task, 2_000_000);
    docs.cost(&task, 1);
    docs.result(17);
    metrics.up("docs", true);
    metrics.denied("rule", &task);
    metrics.audit(7, 0.5, true);
    metrics.archive(3);
    metrics.request("tools/list", &metrics.server_or_none("no-such-server"), Outcome::Ok);
    let text = text(&metrics);
    let nameless: Vec<&str> = text.lines().filter(|l| l.contains("server=\"\"")).collect();
    assert_eq!(nameless, [r#"tollgate_requests_total{method="tools/list",outcome="ok",server=""} 1"#]);
    for line in [
        r#"tollgate_calls_total{outcome="tool_error",server="docs",task="support",tool="search"} 1"#,
        r#"tollgate_requests_total{method="tools/call",outcome="tool_error",server="docs"} 1"#,
        r#"tollgate_call_duration_seconds_bucket{server="docs",tool="search",le="0.025"} 1"#,
        r#"tollgate_cost_usd_total{server="docs",task="support"} 0.002000001"#,
        r#"tollgate_result_bytes_total{server="docs"} 17"#,
        r#"tollgate_upstream_up{server="docs"} 1"#,
        r#"tollgate_quarantined{server="docs"} 0"#,
        r#"tollgate_manifest_changes_total{server="docs"} 0"#,
        r#"tollgate_denials_total{reason="rule",task="support"} 1"#,
        r#"tollgate_build_info{version="1.2.3"} 1"#,
        "tollgate_audit_records_total 7",
        "tollgate_audit_checkpoint_lag_seconds 0.5",
        "tollgate_audit_fault 1",
        "tollgate_audit_archive_lag_segments 3",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
}

#[test]
fn money_is_exact_and_shown_once_however_often_it_is_read() {
    let metrics = metrics();
    let (docs, task) = (metrics.server("docs"), metrics.task("t"));
    for _ in 0..1000 {
        docs.cost(&task, 100_000);
        assert!(text(&metrics).contains("tollgate_cost_usd_total"));
    }
    assert!(text(&metrics).contains("tollgate_cost_usd_total{server=\"docs\",task=\"t\"} 0.1\n"));
}

#[test]
fn exemplars_stand_in_the_format_that_has_room_for_them() {
    let metrics = metrics();
    let (docs, task) = (metrics.server("docs"), metrics.task("t"));
    for (seconds, trace) in [(0.02, TRACE), (700.0, TRACE), (0.3, "not a trace"), (0.3, "")] {
        docs.listed("se\"arch").ended(&docs, &task, Ended { outcome: Outcome::Ok, seconds, trace });
    }
    let open = open(&metrics);
    let line = |le: &str| {
        let bucket = format!(
            "tollgate_call_duration_seconds_bucket{{server=\"docs\",tool=\"se\\\"arch\",le=\"{le}\"}}"
        );
        open.lines().find(|l| l.starts_with(&bucket)).unwrap_or_else(|| panic!("{le}\n{open}")).to_owned()
    };
    assert!(line("0.025").ends_with(&format!(" 1 # {{trace_id=\"{TRACE}\"}} 0.02")), "{}", line("0.025"));
    assert!(line("+Inf").ends_with(&format!(" 4 # {{trace_id=\"{TRACE}\"}} 700.0")), "{}", line("+Inf"));
    assert!(line("0.5").ends_with(" 3"), "{}", line("0.5"));
    assert!(open.contains("# TYPE tollgate_calls counter\ntollgate_calls_total{"), "{open}");
    assert!(open.ends_with("# EOF\n") && open.matches("# EOF").count() == 1);
    assert!(!text(&metrics).contains("trace_id"));
}

#[test]
fn the_format_is_the_one_that_is_asked_for() {
    for (accept, open) in [
        ("application/openmetrics-text", true),
        ("text/plain, application/openmetrics-text; version=0.0.1;q=0.1", true),
        ("text/plain;version=0.0.4", false),
        ("application/openmetrics-text;q=0", false),
        ("*/*", false),
        ("", false),
    ] {
        assert_eq!(openmetrics::wanted(accept), open, "{accept}");
    }
}

#[test]
fn x7_labels_are_bounded_whatever_servers_and_callers_say() {
    let metrics = metrics();
    let docs = metrics.server("docs");
    let task = metrics.task("t");
    let end = Ended { outcome: Outcome::Ok, seconds: 0.1, trace: "" };
    for n in 0..10_000 {
        docs.named(&format!("invented{n}")).ended(&docs, &task, end);
    }
    let first = text(&metrics);
    assert!(!first.contains("invented"));
    assert!(
        first.contains(r#"tollgate_calls_total{outcome="ok",server="docs",task="t",tool="other"} 10000"#)
    );
    for n in 0..10_000 {
        docs.listed(&format!("listed{n}")).ended(&docs, &task, end);
    }
    let tools = |text: &str| text.lines().filter(|l| l.starts_with("tollgate_calls_total{")).count();
    assert_eq!(tools(&text(&metrics)), TOOLS + 1);
    for n in 0..10_000 {
        metrics.denied("rule", &metrics.task(&format!("task{n}")));
    }
    let denials = text(&metrics).lines().filter(|l| l.starts_with("tollgate_denials_total{")).count();
    assert!(denials < TASKS, "{denials}");
}

#[test]
fn two_sets_in_one_registry_are_refused() {
    let registry = Registry::new();
    assert!(Metrics::new(registry.clone(), "1").is_ok());
    assert!(Metrics::new(registry, "1").is_err());
}

#[test]
#[cfg(target_os = "linux")]
fn the_process_is_seen() {
    let text = text(&metrics());
    let value = |name: &str| -> f64 {
        let line =
            text.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{name}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(value("process_resident_memory_bytes") > 1e5);
    assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
    assert!(value("process_open_fds") >= 3.0 && value("process_open_fds") < value("process_max_fds"));
    assert!(value("process_threads") >= 1.0);
    assert!(value("process_cpu_seconds_total") >= 0.0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let age = now - value("process_start_time_seconds");
    assert!((-2.0..3600.0).contains(&age), "{age}");
}
