//! Traces: what goes to the collector, and that a collector that is slow, away or broken costs no call. What the spans
//! hold is compared with a real receiver's view of them elsewhere (`tests/run metrics`).

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tollgate_tests::client::Client;
use tollgate_tests::gateway::{Gateway, Start};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Scripted, Seen};
use tollgate_tests::wait;

use crate::support::{http, yaml};

fn start(up: &Scripted, tracing: &str) -> Start {
    Start::new(&yaml(&format!("tracing: {tracing}\n"), &[http("up", up, "")]))
        .env("OTEL_BSP_SCHEDULE_DELAY", "50")
}

fn spans(gateway: &Gateway, result: &str) -> u64 {
    let page = gateway.admin("/metrics").text();
    let start = format!("tollgate_trace_spans_total{{result=\"{result}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or_default()
}

/// A collector over HTTP that answers with these statuses, the last for all that follow.
fn collector(statuses: &'static [u16]) -> Scripted {
    let turn = AtomicUsize::new(0);
    Scripted::start(move |_, out| {
        let turn = turn.fetch_add(1, Ordering::SeqCst).min(statuses.len() - 1);
        out.json(statuses[turn], "{}");
    })
}

fn exports(collector: &Scripted) -> Vec<Seen> {
    collector.seen().into_iter().filter(|seen| seen.method == "POST").collect()
}

#[test]
fn spans_are_posted_with_the_headers_of_the_configuration() {
    let (up, collector) = (Scripted::json(Peer::modern("up")), collector(&[200]));
    let tracing = format!(
        "{{ endpoint: \"http://{}\", headers: {{ Authorization: \"Bearer env:KEY\" }}, resource: {{ service.name: gate-7 }} }}",
        collector.addr
    );
    let gateway = start(&up, &tracing).env("KEY", "canary-key").start();
    let client = gateway.modern();
    client.call("up__echo", r#"{"text":"canary-argument"}"#).result();
    client.call("up__made-up", "{}");
    client.names("tools/list");
    // A server and a client span for the call, a server span for each of the other two.
    wait::until("four spans", || spans(&gateway, "exported") == 4);
    let seen = exports(&collector);
    for one in &seen {
        assert_eq!(one.path, "/v1/traces");
        assert_eq!(one.header("content-type"), Some("application/x-protobuf"));
        assert_eq!(one.header("authorization"), Some("Bearer canary-key"));
        assert!(one.body.contains("gate-7"), "{}", one.body);
    }
    let all: String = seen.iter().map(|one| one.body.as_str()).collect();
    for word in [
        "tools/call up__echo",
        "tools/call echo",
        "gen_ai.tool.name",
        "mcp.protocol.version",
        "jsonrpc.request.id",
        "tollgate.call_id",
        "tools/list",
    ] {
        assert!(all.contains(word), "{word}\n{all}");
    }
    assert!(!all.contains("tools/call up__made-up"), "an invented name is in a span's name");
    assert!(!all.contains("canary-argument"), "arguments in a span");
    assert!(!gateway.log().contains("canary-key"));
}

#[test]
fn what_the_collector_refuses_for_now_is_sent_again_and_what_it_refuses_is_counted() {
    let (up, late) = (Scripted::json(Peer::modern("up")), collector(&[503, 200]));
    let gateway = start(&up, &format!("{{ endpoint: \"http://{}\" }}", late.addr)).start();
    gateway.modern().call("up__echo", "{}").result();
    wait::until("the second attempt", || spans(&gateway, "exported") >= 2);
    assert_eq!(spans(&gateway, "failed"), 0);
    assert_eq!(gateway.log().matches("takes no spans").count(), 1, "{}", gateway.log());
    let never = collector(&[400]);
    let gateway = start(&up, &format!("{{ endpoint: \"http://{}\" }}", never.addr)).start();
    gateway.modern().call("up__echo", "{}").result();
    wait::until("the end of it", || spans(&gateway, "failed") >= 2);
    assert_eq!(exports(&never).len(), 1, "not sent again");
}

#[test]
fn a_collector_that_hangs_costs_spans_and_no_call() {
    let up = Scripted::json(Peer::modern("up"));
    // It accepts connections, and that is all.
    let hanging = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", hanging.local_addr().expect("an address"));
    for protocol in ["grpc", "http"] {
        let tracing = format!("{{ endpoint: \"{endpoint}\", protocol: {protocol}, queue: 4, timeout: 1s }}");
        let gateway = start(&up, &tracing).start();
        let client = gateway.modern();
        client.call("up__echo", "{}").result();
        let begun = Instant::now();
        for _ in 0..50 {
            client.call("up__echo", "{}").result();
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        wait::until("spans to be dropped", || spans(&gateway, "dropped") > 20);
        wait::until("spans to be given up", || spans(&gateway, "failed") > 0);
        let begun = Instant::now();
        gateway.sigterm();
        assert!(gateway.wait(wait::LONG).success(), "{}", gateway.log());
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    }
}

#[test]
fn callers_decide_for_their_traces_and_a_part_of_none_is_none() {
    let (up, collector) = (Scripted::json(Peer::modern("up")), collector(&[200]));
    let tracing = format!("{{ endpoint: \"http://{}\", sample: 0 }}", collector.addr);
    let gateway = start(&up, &tracing).start();
    let parent = |trace: &str, flags: &str| format!("\"00-{trace}-00f067aa0ba902b7-{flags}\"");
    let (dark, bright) = ("0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736");
    gateway.modern().call("up__echo", "{}").result();
    gateway.modern().meta("traceparent", &parent(dark, "00")).call("up__echo", "{}").result();
    gateway.modern().meta("traceparent", &parent(bright, "01")).call("up__echo", "{}").result();
    wait::until("the sampled call", || spans(&gateway, "exported") == 2);
    assert_eq!(exports(&collector).len(), 1);
}

#[test]
fn the_environment_alone_turns_traces_on_and_off() {
    let (up, collector) = (Scripted::json(Peer::modern("up")), collector(&[200]));
    let begin = || {
        let plain = Start::new(&yaml("", &[http("up", &up, "")]));
        let endpoint = format!("http://{}/base", collector.addr);
        let start = plain.env("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).env("OTEL_BSP_SCHEDULE_DELAY", "50");
        start.env("OTEL_SERVICE_NAME", "named-outside")
    };
    let gateway = begin().start();
    gateway.modern().call("up__echo", "{}").result();
    wait::until("two spans", || spans(&gateway, "exported") == 2);
    let seen = exports(&collector);
    assert!(seen.iter().all(|one| one.path == "/base/v1/traces" && one.body.contains("named-outside")));
    let gateway = begin().env("OTEL_SDK_DISABLED", "true").start();
    gateway.modern().call("up__echo", "{}").result();
    gateway.sigterm();
    assert!(gateway.wait(wait::LONG).success());
    assert_eq!(exports(&collector).len(), seen.len(), "switched off");
}

#[test]
fn what_waits_at_the_end_is_sent() {
    let (up, collector) = (Scripted::json(Peer::modern("up")), collector(&[200]));
    let tracing = format!("{{ endpoint: \"http://{}\" }}", collector.addr);
    let gateway = start(&up, &tracing).env("OTEL_BSP_SCHEDULE_DELAY", "60000").start();
    gateway.modern().call("up__echo", "{}").result();
    gateway.sigterm();
    assert!(gateway.wait(wait::LONG).success());
    assert_eq!(exports(&collector).len(), 1);
}
