//! Trace contexts: what a server gets of the caller's, and ids that are the same when a run is replayed.

use serde_json::Value;
use tollgate_tests::client::{Client, Legacy, call_params, with_member};
use tollgate_tests::json;
use tollgate_tests::scripted::{Scripted, Seen};
use tollgate_tests::wait;

use super::Stand;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const KEYS: [&str; 3] = ["traceparent", "tracestate", "baggage"];

fn parent() -> String {
    format!("00-{TRACE}-00f067aa0ba902b7-01")
}

/// The trace context of the newest call that a server saw; in headers the same as in `_meta`.
fn context(up: &Scripted) -> [Option<String>; 3] {
    let seen: Seen = up.seen_of("tools/call").pop().expect("a call");
    KEYS.map(|key| {
        let value = json::at(&seen.body, &["params", "_meta", key]);
        let value = value.as_ref().and_then(Value::as_str).map(str::to_owned);
        assert_eq!(value.as_deref(), seen.header(key), "{key}: {}", seen.text());
        value
    })
}

#[test]
fn a_server_gets_the_callers_trace_with_our_span_as_parent() {
    let stand = Stand::new("");
    for (server, up) in [("m", &stand.modern), ("l", &stand.legacy)] {
        let clients: [Box<dyn Client>; 2] = [
            Box::new(stand.gateway.modern().server(server)),
            Box::new(Legacy::server(stand.gateway.addr, server)),
        ];
        for client in clients {
            let call = |meta: &str, headers: &[(&str, &str)]| {
                let mut params = call_params("whoami", "{}");
                if let Some(old) = json::raw(&client_body(&*client), &["params", "_meta"]) {
                    // The modern client puts its own members in; ours go to the end of them.
                    params = with_member(&params, "_meta", &with_members(&old, meta));
                } else {
                    params = with_member(&params, "_meta", meta);
                }
                let mut request = client.request("tools/call", &call_params("whoami", "{}"));
                let id = json::raw(&String::from_utf8_lossy(&request.body), &["id"]).expect("an id");
                request = request.body(tollgate_tests::client::envelope(&id, "tools/call", &params));
                let request =
                    headers.iter().fold(request, |request, (name, value)| request.header(name, value));
                let answer = request.send(client.addr());
                let span = answer.header("tollgate-span-id").expect("a span").to_owned();
                answer.result();
                (span, context(up))
            };
            let (span, [parent_sent, state, baggage]) = call(
                &format!(r#"{{"traceparent":"{}","tracestate":"a=b","baggage":"user=al"}}"#, parent()),
                &[
                    ("traceparent", "00-11111111111111111111111111111111-1111111111111111-00"),
                    ("tracestate", "no=no"),
                ],
            );
            assert_eq!(parent_sent, Some(format!("00-{TRACE}-{span}-01")), "{server}: that of _meta counts");
            assert_eq!(state.as_deref(), Some("a=b"));
            let baggage = baggage.expect("baggage");
            assert!(baggage.starts_with("mcp.method.name=tools/call,tollgate.call.index="), "{baggage}");
            assert!(baggage.ends_with(",user=al"), "{baggage}");
            let (span, [parent_sent, state, baggage]) =
                call("{}", &[("traceparent", &parent()), ("tracestate", "c=d"), ("baggage", "user=bo")]);
            assert_eq!(parent_sent, Some(format!("00-{TRACE}-{span}-01")), "{server}: that of the header");
            assert_eq!(state.as_deref(), Some("c=d"));
            assert!(baggage.expect("baggage").ends_with(",user=bo"));
            // What is not valid is dropped, and a header does not stand in for it.
            let (span, [parent_sent, state, baggage]) = call(
                r#"{"traceparent":"00-LEAK","tracestate":"LEAK","baggage":"LEAK;;"}"#,
                &[("traceparent", &parent())],
            );
            let parent_sent = parent_sent.expect("a parent");
            assert!(
                parent_sent.ends_with(&format!("-{span}-01")) && !parent_sent.contains(TRACE),
                "{parent_sent}"
            );
            assert_eq!(state, None);
            let last = up.seen_of("tools/call").pop().expect("a call").text();
            assert!(!last.contains("LEAK") && !baggage.expect("baggage").contains("LEAK"), "{last}");
        }
        up.assert_clean();
    }
}

fn client_body(client: &dyn Client) -> String {
    String::from_utf8_lossy(&client.request("tools/call", &call_params("whoami", "{}")).body).into_owned()
}

/// The object with the members of another behind its own.
fn with_members(object: &str, more: &str) -> String {
    json::members(more).iter().fold(object.to_owned(), |all, (key, value)| with_member(&all, key, value))
}

/// The spans that a client is told of and the parents that the server saw, for one run of calls.
fn replay(stand: &Stand, legacy: bool) -> Vec<(String, String)> {
    let (server, up) = if legacy { ("l", &stand.legacy) } else { ("m", &stand.modern) };
    let client: Box<dyn Client> = match legacy {
        true => Box::new(Legacy::server(stand.gateway.addr, server)),
        false => Box::new(stand.gateway.modern().server(server)),
    };
    let calls = ["a", "b", "a"].map(|text| {
        let params = call_params("echo", &format!(r#"{{"text":{text:?}}}"#));
        let request = client.request("tools/call", &params).header("Tollgate-Run", "run-7");
        let answer = request.send(client.addr());
        let span = answer.header("tollgate-span-id").expect("a span").to_owned();
        assert_eq!(answer.result()["_meta"]["dev.tollgate/span"], span.as_str(), "{}", answer.text());
        let [parent, ..] = context(up);
        (span, parent.expect("a parent"))
    });
    calls.into()
}

#[test]
fn replaying_a_run_gives_the_same_trace_and_spans_on_another_gateway_with_the_same_keys() {
    let (one, two) = (Stand::new(""), Stand::new(""));
    for legacy in [false, true] {
        let first = replay(&one, legacy);
        assert_eq!(first, replay(&two, legacy), "legacy: {legacy}");
        assert_ne!(first[0].0, first[2].0, "the same call later in the run is another");
        let traces: Vec<&str> = first.iter().filter_map(|(_, parent)| parent.get(3..35)).collect();
        assert!(traces.iter().all(|trace| *trace == traces[0]), "one run is one trace: {traces:?}");
        for (span, parent) in &first {
            assert_eq!(parent.get(36..52), Some(span.as_str()), "the parent is our span");
        }
    }
}

#[test]
fn events_of_legacy_streams_have_sealed_ids_and_those_of_modern_ones_none() {
    let stand = Stand::new("");
    for legacy in [true, false] {
        let client: Box<dyn Client> = match legacy {
            true => Box::new(Legacy::server(stand.gateway.addr, "l")),
            false => Box::new(stand.gateway.modern().server("l").meta("progressToken", "1")),
        };
        let mut params = call_params("progress", r#"{"ms":20,"steps":2}"#);
        if legacy {
            params = with_member(&params, "_meta", r#"{"progressToken":1}"#);
        }
        let mut stream = client.request("tools/call", &params).open(client.addr());
        let span = stream.header("tollgate-span-id").expect("a span").to_owned();
        let mut ids = Vec::new();
        while let Ok(Some(event)) = stream.event(wait::LONG) {
            if event.data.is_some() {
                ids.push(event.id);
            }
        }
        assert_eq!(ids.len(), 3, "{ids:?}");
        match legacy {
            false => assert!(ids.iter().all(Option::is_none), "{ids:?}"),
            true => {
                let ids: Vec<String> = ids.into_iter().map(|id| id.expect("an id")).collect();
                assert!(ids.iter().all(|id| !id.contains(&span)), "sealed: {ids:?}");
                assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
            }
        }
    }
}
