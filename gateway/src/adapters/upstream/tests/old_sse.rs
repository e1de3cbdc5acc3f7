//! The HTTP+SSE transport of 2024-11-05.

use tokio::sync::mpsc;

use super::*;
use crate::ports::upstream::FaultKind;
use mcp::era::Era;

/// A server of that transport: what is POSTed to it is answered on the GET stream. `endpoint` is what it names.
async fn old(
    endpoint: impl Fn(SocketAddr) -> String + Send + Sync + 'static,
) -> (SocketAddr, Arc<Mutex<Vec<Value>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let posted = Arc::new(Mutex::new(Vec::new()));
    let (log, stream_of) = (Arc::clone(&posted), Arc::new(Mutex::new(None::<mpsc::UnboundedSender<Value>>)));
    let endpoint = endpoint(address);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (log, stream_of, endpoint) = (Arc::clone(&log), Arc::clone(&stream_of), endpoint.clone());
            tokio::spawn(async move {
                let mut buffer = Vec::new();
                while let Some(seen) = read_request(&mut stream, &mut buffer).await {
                    let answer = match (seen.verb.as_str(), seen.path.as_str()) {
                        ("GET", "/mcp") => return feed(stream, &endpoint, &stream_of).await,
                        ("POST", "/messages?s=1") => {
                            log.lock().push(seen.body.clone());
                            if let Some(answer) = answer_of(&seen) {
                                let _ = stream_of.lock().as_ref().map(|to| to.send(answer));
                            }
                            accepted()
                        }
                        _ => http(405, &[], b""),
                    };
                    for step in answer {
                        if let Do::Send(bytes) = step {
                            stream.write_all(&bytes).await.unwrap();
                        }
                    }
                }
            });
        }
    });
    (address, posted)
}

async fn feed(mut stream: TcpStream, endpoint: &str, to: &Mutex<Option<mpsc::UnboundedSender<Value>>>) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    *to.lock() = Some(sender);
    let head = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n";
    stream.write_all(head).await.unwrap();
    stream.write_all(format!("event: endpoint\ndata: {endpoint}\n\n").as_bytes()).await.unwrap();
    while let Some(message) = receiver.recv().await {
        if stream.write_all(format!("event: message\ndata: {message}\n\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

fn answer_of(seen: &Seen) -> Option<Value> {
    match seen.method() {
        "initialize" => Some(seen.result(
            json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {"listChanged": true}}}),
        )),
        method if method.starts_with("notifications/") => None,
        _ => Some(seen.result(json!({"old": true}))),
    }
}

#[tokio::test]
async fn the_old_transport_is_found_and_spoken() {
    for kind in [HttpKind::Auto, HttpKind::Sse] {
        let (address, posted) = old(|_| "/messages?s=1".into()).await;
        let mut spec = spec(&format!("http://{address}/mcp"));
        if let Transport::Http(http) = &mut spec.transport {
            http.kind = kind;
        }
        let client = client_of(spec);
        let answer = run(&client, tool_call()).await.unwrap();
        assert_eq!((answer.era, text(&answer).as_str()), (Era::Legacy, r#"{"old":true}"#));
        assert_eq!(client.status().transport, "sse");
        let methods: Vec<Value> = posted.lock().iter().map(|body| body["method"].clone()).collect();
        assert!(methods.contains(&json!("notifications/initialized")), "{methods:?}");
    }
}

#[tokio::test]
async fn peer_26_a_connection_that_is_listened_to_stays_and_is_opened_again() {
    let (address, _) = old(|_| "/messages?s=1".into()).await;
    let mut spec = spec(&format!("http://{address}/mcp"));
    if let Transport::Http(http) = &mut spec.transport {
        http.kind = HttpKind::Sse;
    }
    let client = client_of(spec);
    let mut changes = client.changes();
    client.facts(&who(&json!({})), &SessionKey::Catalog).await.unwrap();
    super::changes::sweep(&client);
    assert_eq!(client.status().sessions, 1);
    // This server knows one connection at a time: a caller's ends the catalog's.
    run(&client, tool_call()).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(20), changes.recv()).await.unwrap();
    assert_eq!(told.unwrap(), crate::ports::upstream::Change::Restarted);
    drop(changes);
    super::changes::sweep(&client);
    assert_eq!(client.status().sessions, 0, "nobody follows the changes any more");
}

#[tokio::test]
async fn an_endpoint_of_another_origin_is_refused() {
    for endpoint in
        ["http://127.0.0.1:1/messages", "//example.invalid/m", "https://127.0.0.1/m", "http://a@b/"]
    {
        let (address, posted) = old(move |_| endpoint.into()).await;
        let mut spec = spec(&format!("http://{address}/mcp"));
        if let Transport::Http(http) = &mut spec.transport {
            http.kind = HttpKind::Sse;
        }
        let fault = run(&client_of(spec), tool_call()).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Protocol, "{endpoint}: {fault}");
        assert!(posted.lock().is_empty());
    }
}

#[tokio::test]
async fn a_plain_server_without_either_transport_says_what_the_newer_one_said() {
    let fake = Fake::start(|_| http(404, &[], b"")).await;
    let fault = run(&client(&fake), tool_call()).await.unwrap_err();
    assert_eq!(fault.kind, FaultKind::Unreachable);
    assert!(fault.detail.contains("404"), "{fault}");
}
