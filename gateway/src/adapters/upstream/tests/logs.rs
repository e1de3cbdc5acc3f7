//! Log messages that a legacy server sends on a session's GET stream: whom they reach, and when it is opened.

use super::*;

fn log(level: &str, data: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": data}})
}

type Pipes = Arc<Mutex<Vec<(String, tokio::sync::mpsc::UnboundedSender<Vec<u8>>)>>>;

/// A legacy server whose sessions have GET streams, and those streams with their sessions. A call's log messages go to
/// the stream of its session alone; tool `quiet` logs nothing.
async fn talker(capabilities: Value) -> (Fake, Pipes) {
    let pipes = Pipes::default();
    let (open, sessions) = (Arc::clone(&pipes), Mutex::new(0));
    let fake = Fake::start(move |seen| {
        let session = seen.header("mcp-session-id").unwrap_or_default().to_owned();
        match seen.method() {
            "server/discover" => http(404, &[], b""),
            "initialize" => {
                *sessions.lock() += 1;
                let id = format!("s{}", sessions.lock());
                let hello = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities});
                let headers = [("content-type", "application/json"), ("mcp-session-id", id.as_str())];
                http(200, &headers, seen.result(hello).to_string().as_bytes())
            }
            "GET" => {
                let (to, from) = tokio::sync::mpsc::unbounded_channel();
                open.lock().push((session, to));
                vec![sse_head(), Do::Pipe(Arc::new(tokio::sync::Mutex::new(from)))]
            }
            "tools/call" => {
                for (of, to) in open.lock().iter().filter(|_| seen.body["params"]["name"] != "quiet") {
                    for said in [log("debug", "low"), log("warning", &format!("high {of}"))] {
                        let Do::Send(bytes) = event(&said) else { continue };
                        if *of == session {
                            to.send(bytes).ok();
                        }
                    }
                }
                reply(200, &seen.result(json!({})))
            }
            "logging/setLevel" => reply(200, &seen.result(json!({}))),
            "DELETE" => http(200, &[], b""),
            _ => accepted(),
        }
    })
    .await;
    (fake, pipes)
}

fn wants(level: Option<&str>, number: u8) -> Call {
    let mut call = tool_call();
    call.log_level = level.map(Raw::from_str_value);
    call.session = owner(number);
    call
}

async fn heard(client: &Arc<ServerClient>, call: Call) -> Vec<String> {
    let (events, end) = finish(begin(client, call).await.unwrap()).await;
    end.unwrap();
    let said = |event: &Event| match event {
        Event::Log(params) => params.get("data").unwrap().string().unwrap().to_string(),
        other => panic!("{other:?}"),
    };
    events.iter().map(said).collect()
}

#[tokio::test]
async fn a_log_message_on_the_sessions_get_stream_reaches_the_call_that_asked_for_its_level() {
    let (fake, _pipes) = talker(json!({"tools": {}, "logging": {}})).await;
    let client = client(&fake);
    for _ in 0..3 {
        assert_eq!(heard(&client, wants(Some("info"), 1)).await, ["high s2"]);
    }
    assert_eq!(heard(&client, wants(Some("debug"), 1)).await, ["low", "high s2"]);
    assert_eq!(heard(&client, wants(Some("error"), 1)).await, Vec::<String>::new());
    assert_eq!(heard(&client, wants(Some("info"), 2)).await, ["high s3"], "another owner's own session");
    assert_eq!((fake.count("GET"), fake.last("GET").header("mcp-session-id")), (2, Some("s3")));
}

#[tokio::test]
async fn the_get_stream_of_a_callers_session_is_opened_only_for_who_wants_logs_where_there_are_any() {
    let (fake, _pipes) = talker(json!({"tools": {}, "logging": {}})).await;
    let asked = client(&fake);
    assert!(heard(&asked, wants(None, 1)).await.is_empty());
    assert_eq!(fake.count("GET"), 0, "nobody asked for a level");
    let (fake, _pipes) = talker(json!({"tools": {}})).await;
    let unable = client(&fake);
    assert!(heard(&unable, wants(Some("debug"), 1)).await.is_empty());
    assert_eq!(fake.count("GET"), 0, "the server does not declare it");
    // One that declares it and has no such stream is asked once.
    let fake = legacy(|seen| reply(200, &seen.result(json!({})))).await;
    let without = client(&fake);
    for _ in 0..3 {
        assert!(heard(&without, wants(Some("debug"), 1)).await.is_empty());
    }
    assert_eq!(fake.count("GET"), 1);
}

#[tokio::test]
async fn the_get_stream_ends_with_its_session() {
    let (fake, _pipes) = talker(json!({"tools": {}, "logging": {}})).await;
    let client = client(&fake);
    heard(&client, wants(Some("info"), 1)).await;
    client.end_session(&owner(1)).await;
    fake.wait_left(1).await;
    assert_eq!(fake.count("DELETE"), 1);
}

#[tokio::test]
async fn a_flood_on_the_get_stream_costs_the_flood_and_not_the_call() {
    let (fake, pipes) = talker(json!({"tools": {}, "logging": {}})).await;
    let client = client(&fake);
    heard(&client, wants(Some("info"), 1)).await;
    let to = pipes.lock()[0].1.clone();
    let huge = log("error", &"x".repeat(200 << 10));
    for said in std::iter::repeat_n(log("error", "noise"), 500).chain([huge]) {
        let Do::Send(bytes) = event(&said) else { continue };
        to.send(bytes).unwrap();
    }
    let heard = heard(&client, wants(Some("info"), 1)).await;
    assert!(heard.len() <= 500 && heard.iter().all(|said| said.len() < 100), "{} messages", heard.len());
}
