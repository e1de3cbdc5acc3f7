//! What servers announce outside every call.

use std::sync::atomic::{AtomicBool, Ordering};

use super::super::Side;
use super::*;
use crate::ports::upstream::Change;

fn announcing() -> Value {
    json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}, "resources": {}})
}

async fn heard(changes: &mut tokio::sync::broadcast::Receiver<Change>) -> Change {
    tokio::time::timeout(Duration::from_secs(20), changes.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_legacy_server_is_listened_to_on_the_catalogs_session() {
    let fake = Fake::start(|seen| match seen.method() {
        "initialize" => {
            reply(200, &seen.result(json!({"protocolVersion": "2025-11-25", "capabilities": announcing()})))
        }
        "notifications/initialized" => accepted(),
        "GET" => {
            let note = |m: &str| json!({"jsonrpc": "2.0", "method": m});
            vec![
                sse_head(),
                event(&note("notifications/prompts/list_changed")),
                event(&note("notifications/tools/list_changed")),
                Do::Hang,
            ]
        }
        _ => http(404, &[], b""),
    })
    .await;
    let client = client(&fake);
    let mut changes = client.changes();
    client.facts(&who(&json!({})), &SessionKey::Catalog).await.unwrap();
    assert_eq!(heard(&mut changes).await, Change::Prompts);
    assert_eq!(heard(&mut changes).await, Change::Tools);
    client.shutdown(Duration::from_secs(5)).await;
    fake.wait_left(1).await;
}

#[tokio::test]
async fn a_server_without_a_get_stream_is_asked_once() {
    let fake = Fake::start(|seen| match seen.method() {
        "initialize" => {
            reply(200, &seen.result(json!({"protocolVersion": "2025-11-25", "capabilities": announcing()})))
        }
        "notifications/initialized" => accepted(),
        "GET" => http(405, &[], b""),
        "server/discover" => http(404, &[], b""),
        _ => reply(200, &seen.result(json!({}))),
    })
    .await;
    let client = client(&fake);
    client.facts(&who(&json!({})), &SessionKey::Catalog).await.unwrap();
    fake.wait_for("GET", 1).await;
    for _ in 0..3 {
        run(&client, tool_call()).await.unwrap();
    }
    assert_eq!(fake.count("GET"), 1);
}

#[tokio::test]
async fn a_modern_server_is_subscribed_to() {
    let fake = Fake::start(|seen| match seen.method() {
        "server/discover" => reply(
            200,
            &seen.result(json!({"supportedVersions": ["2026-07-28"], "capabilities": announcing()})),
        ),
        "subscriptions/listen" => {
            let note = |m: &str, id: &Value| {
                json!({"jsonrpc": "2.0", "method": m, "params":
                {"_meta": {"io.modelcontextprotocol/subscriptionId": id}}})
            };
            vec![
                sse_head(),
                event(&note("notifications/subscriptions/acknowledged", seen.id())),
                event(&note("notifications/tools/list_changed", &json!(4711))),
                event(&note("notifications/prompts/list_changed", seen.id())),
                Do::Hang,
            ]
        }
        _ => reply(200, &seen.result(json!({}))),
    })
    .await;
    let client = client(&fake);
    let mut changes = client.changes();
    run(&client, tool_call()).await.unwrap();
    assert_eq!(heard(&mut changes).await, Change::Prompts);
    let asked = fake.last("subscriptions/listen");
    assert_eq!(
        asked.body["params"]["notifications"],
        json!({"toolsListChanged": true, "promptsListChanged": true})
    );
    assert_eq!(asked.header("mcp-method"), Some("subscriptions/listen"));
    client.shutdown(Duration::from_secs(5)).await;
    fake.wait_left(1).await;
}

/// What the idle time does, now.
pub(super) fn sweep(client: &ServerClient) {
    let Side::Http(side) = &client.side else { panic!("no HTTP server") };
    drop(side.sessions.take_disused(Duration::ZERO));
    drop(side.old.pool.take_disused(Duration::ZERO));
}

/// A legacy server that announces a change once per GET stream, when told, and then forgets the session.
async fn announcing_later(told: &Arc<AtomicBool>) -> Fake {
    let (told, sessions) = (Arc::clone(told), Mutex::new(0));
    Fake::start(move |seen| match seen.method() {
        "initialize" => {
            *sessions.lock() += 1;
            let (id, hello) = (format!("s{}", sessions.lock()), seen.result(initialized()));
            let headers = [("content-type", "application/json"), ("mcp-session-id", id.as_str())];
            let mut hello = hello;
            hello["result"]["capabilities"] = announcing();
            http(200, &headers, hello.to_string().as_bytes())
        }
        "notifications/initialized" => accepted(),
        "GET" if seen.header("mcp-session-id") == Some("s1") && told.swap(true, Ordering::SeqCst) => {
            http(404, &[], b"")
        }
        "GET" => vec![
            sse_head(),
            Do::Wait(Duration::from_millis(500)),
            event(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})),
            last_chunk(),
        ],
        _ => http(404, &[], b""),
    })
    .await
}

#[tokio::test]
async fn peer_26_a_session_that_is_listened_to_outlives_the_idle_time_and_its_server_s_memory() {
    let fake = announcing_later(&Arc::default()).await;
    let client = client(&fake);
    let mut changes = client.changes();
    client.facts(&who(&json!({})), &SessionKey::Catalog).await.unwrap();
    fake.wait_for("GET", 1).await;
    sweep(&client);
    assert_eq!(fake.count("DELETE"), 0);
    assert_eq!(heard(&mut changes).await, Change::Tools);
    // The second GET finds that the server has forgotten the session: another one is opened and listened to.
    assert_eq!(heard(&mut changes).await, Change::Restarted);
    assert_eq!(heard(&mut changes).await, Change::Tools);
    assert_ne!(fake.last("GET").header("mcp-session-id"), Some("s1"));
    drop(changes);
    sweep(&client);
    fake.wait_for("DELETE", 1).await;
    assert_eq!(client.status().sessions, 0, "nobody follows the changes any more");
}
