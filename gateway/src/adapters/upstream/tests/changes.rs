//! What servers announce outside every call.

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
