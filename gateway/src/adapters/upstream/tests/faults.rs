//! Servers that are away: what that costs, and what is tried again.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use super::*;
use crate::ports::upstream::FaultKind;

#[tokio::test]
async fn a_dead_server_costs_its_callers_a_fast_error() {
    let fake = Fake::start(|_| vec![Do::Hang]).await;
    let mut spec = spec(&fake.url());
    spec.timeouts.initialize = Duration::from_millis(100);
    let client = client_of(spec);
    let first = run(&client, tool_call()).await.unwrap_err();
    assert_eq!(first.kind, FaultKind::Timeout);
    let connections = fake.connections();
    for _ in 0..50 {
        let fault = run(&client, tool_call()).await.unwrap_err();
        assert_eq!((fault.kind, fault.dispatched), (FaultKind::Timeout, false));
    }
    assert_eq!(fake.connections(), connections, "nothing was tried meanwhile");
}

#[tokio::test]
async fn a_server_that_comes_back_is_served_again() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = client_of(spec(&format!("http://{address}/mcp")));
    let fault = run(&client, tool_call()).await.unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Unreachable, false));
    assert_eq!(client.status().connected, Some(false));
    client.core.gate.open();
    let fake = modern(|seen| reply(200, &seen.result(json!({})))).await;
    let again = client_of(spec(&fake.url()));
    run(&again, tool_call()).await.unwrap();
    assert_eq!(again.status().connected, Some(true));
}

/// A modern server that drops the first connection of each method in the middle of the answer's head.
async fn flaky() -> Fake {
    let count = AtomicUsize::new(0);
    modern(move |seen| {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            return vec![Do::Close];
        }
        reply(200, &seen.result(json!({})))
    })
    .await
}

#[tokio::test]
async fn u14_a_tool_is_never_called_twice_a_read_may_be() {
    let fake = flaky().await;
    let fault = run(&client(&fake), tool_call()).await.unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Dropped, true));
    assert_eq!(fake.count("tools/call"), 1);
    let fake = flaky().await;
    run(&client(&fake), a_call("tools/list", &json!({}))).await.unwrap();
    assert_eq!(fake.count("tools/list"), 2);
}

/// Whether the server counts as connected, and whether a failure was ever noted.
fn health(client: &ServerClient) -> (Option<bool>, bool) {
    let status = client.status();
    (status.connected, status.last_error.is_some())
}

#[tokio::test]
async fn an_exchange_counts_where_it_ends() {
    let fake = modern(|seen| match seen.body["params"]["name"].as_str() {
        Some("fine") => sse(&[seen.result(json!({}))]),
        Some("hangs") => vec![sse_head(), Do::Hang],
        Some("breaks") => vec![sse_head(), event(&json!({"jsonrpc": "2.0"})), Do::Close],
        _ => vec![sse_head(), Do::Close],
    })
    .await;
    let client = client(&fake);
    let named = |name: &str| a_call("tools/call", &json!({"name": name}));
    run(&client, named("fine")).await.unwrap();
    assert_eq!(health(&client), (Some(true), false));
    // Neither good nor bad: nobody waited for the end.
    drop(begin(&client, named("hangs")).await.unwrap());
    assert_eq!(health(&client), (Some(true), false));
    for name in ["ends", "breaks"] {
        // The head of an answer is not the answer.
        let events = begin(&client, named(name)).await.unwrap();
        let before = health(&client).0;
        assert!(finish(events).await.1.is_err());
        assert_eq!((before, health(&client)), (Some(true), (Some(false), true)), "{name}");
        drop(begin(&client, named("hangs")).await.unwrap());
        assert_eq!(health(&client).0, Some(false), "{name}");
        run(&client, named("fine")).await.unwrap();
        assert_eq!(health(&client), (Some(true), true), "{name}");
    }
}

#[tokio::test]
async fn a_pause_after_a_failure_is_no_failure_of_its_own() {
    let fake = legacy(|seen| reply(200, &seen.result(json!({})))).await;
    let client = client(&fake);
    run(&client, tool_call()).await.unwrap();
    client.core.note(Some(&Fault::early(FaultKind::Unreachable, "gone")), true);
    let (noted, at) = client.status().last_error.unwrap();
    let mut call = tool_call();
    call.session = owner(2);
    run(&client, call).await.unwrap_err();
    assert_eq!(client.status().last_error, Some((noted, at)));
}

/// A clock that stands still.
struct Noon;

impl Clock for Noon {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(43_200)
    }
}

#[tokio::test]
async fn what_is_shown_of_a_server_is_dated_by_the_gateway_s_clock() {
    let client = client_with(spec("http://127.0.0.1:1/mcp"), Arc::new(Noon), Arc::new(metrics()));
    run(&client, tool_call()).await.unwrap_err();
    let status = client.status();
    assert_eq!((status.since, status.last_error.map(|(_, at)| at)), (Some(Noon.now()), Some(Noon.now())));
}

#[tokio::test]
async fn a_file_of_authorities_that_is_not_there_is_said_by_every_call() {
    let mut spec = spec("https://127.0.0.1:1/mcp");
    if let Transport::Http(http) = &mut spec.transport {
        http.ca = Some("/nonexistent/ca.pem".into());
    }
    let client = client_of(spec);
    let fault = run(&client, tool_call()).await.unwrap_err();
    assert!(fault.detail.contains("/nonexistent/ca.pem"), "{fault}");
    assert_eq!(client.status().connected, Some(false));
}

#[tokio::test]
async fn the_metric_of_a_server_changes_with_its_state_and_not_with_a_scrape() {
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let now = Arc::clone(&broken);
    let fake = modern(move |seen| match now.load(std::sync::atomic::Ordering::SeqCst) {
        true => vec![Do::Close],
        false => reply(200, &seen.result(json!({}))),
    })
    .await;
    let metrics = Arc::new(metrics());
    let client = client_with(spec(&fake.url()), Arc::new(SystemClock), Arc::clone(&metrics));
    let up = || {
        let text = String::from_utf8_lossy(&metrics.render(None).unwrap().body).into_owned();
        let line = text.lines().find(|line| line.starts_with("tollgate_upstream_up{"));
        line.map(str::to_owned)
    };
    assert_eq!(up(), None, "only configured");
    for (is_broken, value) in [(false, 1), (true, 0), (false, 1)] {
        broken.store(is_broken, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(run(&client, tool_call()).await.is_err(), is_broken);
        assert_eq!(up().unwrap(), format!(r#"tollgate_upstream_up{{server="fake"}} {value}"#));
        assert_eq!(client.status().connected, Some(!is_broken));
    }
}
