//! Servers that choose HTTP/2 by ALPN: many calls on one connection, and what its end means for each of them.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};

use h2::Reason;
use h2::server::{Connection, SendResponse};
use http::{Response, StatusCode};
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ports::upstream::FaultKind;
use mcp::era::Era;

type Tls = TlsStream<TcpStream>;

/// What the server has seen, and what the test tells it.
#[derive(Default)]
struct Seat {
    connections: AtomicUsize,
    calls: Mutex<Vec<String>>,
    heads: Mutex<Vec<http::request::Parts>>,
    open: AtomicUsize,
    most: AtomicUsize,
    resets: Mutex<Vec<Reason>>,
    news: Notify,
    /// Lets `wait` answer.
    go: CancellationToken,
}

impl Seat {
    fn called(&self, tool: &str) -> usize {
        self.calls.lock().iter().filter(|call| *call == tool).count()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let waiting = async {
            while !holds() {
                let _ = tokio::time::timeout(Duration::from_millis(20), self.news.notified()).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(20), waiting).await.is_ok(), "not in time: {what}");
    }
}

struct H2 {
    seat: Arc<Seat>,
    client: Arc<ServerClient>,
    _folder: tempfile::TempDir,
}

/// A modern server over HTTP/2 whose tools do what their names say, and a client before it.
async fn start(streams: u32) -> H2 {
    let folder = tempfile::tempdir().unwrap();
    let (acceptor, ca) = tls(&folder);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut spec = spec(&format!("https://localhost:{}/mcp?a=1", listener.local_addr().unwrap().port()));
    if let Transport::Http(http) = &mut spec.transport {
        http.ca = Some(ca);
    }
    let seat = Arc::new(Seat::default());
    let shared = Arc::clone(&seat);
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let (acceptor, seat) = (acceptor.clone(), Arc::clone(&shared));
            tokio::spawn(async move {
                let Ok(tls) = acceptor.accept(tcp).await else { return };
                assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
                let number = seat.connections.fetch_add(1, Ordering::SeqCst) + 1;
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(streams);
                connection(builder.handshake(tls).await.unwrap(), &seat, number).await;
            });
        }
    });
    H2 { seat, client: client_of(spec), _folder: folder }
}

fn tls(folder: &tempfile::TempDir) -> (TlsAcceptor, std::path::PathBuf) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (TlsAcceptor::from(Arc::new(config)), file)
}

async fn connection(mut connection: Connection<Tls, Bytes>, seat: &Arc<Seat>, number: usize) {
    while let Some(Ok((request, respond))) = connection.accept().await {
        let (head, mut body) = request.into_parts();
        let mut bytes = Vec::new();
        // The connection must be driven while the body comes.
        while let Some(data) = tokio::select! {
            data = body.data() => data,
            _ = poll_fn(|cx| connection.poll_closed(cx)) => return,
        } {
            bytes.extend_from_slice(&data.unwrap());
        }
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        let tool = body["params"]["name"].as_str().unwrap_or("discover").to_owned();
        seat.calls.lock().push(tool.clone());
        seat.heads.lock().push(head);
        seat.news.notify_waiters();
        match tool.as_str() {
            // The whole connection is lost.
            "cut" => return,
            "leave" => connection.graceful_shutdown(),
            _ => {}
        }
        tokio::spawn(stream(respond, tool, body, (Arc::clone(seat), number)));
    }
}

async fn stream(
    mut respond: SendResponse<Bytes>,
    tool: String,
    body: Value,
    (seat, number): (Arc<Seat>, usize),
) {
    let now = seat.open.fetch_add(1, Ordering::SeqCst) + 1;
    seat.most.fetch_max(now, Ordering::SeqCst);
    let first = seat.called(&tool) == 1;
    match tool.as_str() {
        "refuse" => respond.send_reset(Reason::REFUSED_STREAM),
        "refuse-once" if first => respond.send_reset(Reason::REFUSED_STREAM),
        "reset" => respond.send_reset(Reason::INTERNAL_ERROR),
        "hang" | "hang-in-stream" => {
            let body = (tool == "hang-in-stream").then(|| open(&mut respond, "text/event-stream"));
            let reason = poll_fn(|cx| respond.poll_reset(cx)).await;
            if let Some(mut body) = body {
                let reason = poll_fn(|cx| body.poll_reset(cx)).await;
                seat.resets.lock().extend(reason);
            }
            seat.resets.lock().extend(reason);
        }
        "sse" => {
            let mut body_out = open(&mut respond, "text/event-stream");
            let token = &body["params"]["_meta"]["progressToken"];
            let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": 1}});
            let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": {"on": number}});
            for (message, end) in [(progress, false), (answer, true)] {
                body_out.send_data(format!("data: {message}\n\n").into(), end).unwrap();
                tokio::task::yield_now().await;
            }
        }
        _ => {
            if tool == "wait" {
                seat.go.cancelled().await;
            }
            let result = if tool == "discover" { discovered() } else { json!({"on": number}) };
            let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result}).to_string();
            open(&mut respond, "application/json").send_data(answer.into(), true).unwrap();
        }
    }
    seat.open.fetch_sub(1, Ordering::SeqCst);
    seat.news.notify_waiters();
}

fn open(respond: &mut SendResponse<Bytes>, kind: &str) -> h2::SendStream<Bytes> {
    let head = Response::builder().status(StatusCode::OK).header("content-type", kind).body(()).unwrap();
    respond.send_response(head, false).unwrap()
}

fn tool(name: &str) -> Call {
    let mut call = a_call("tools/call", &json!({"name": name, "arguments": {}}));
    call.mirrored.name = Some(name.into());
    call
}

async fn on(client: &Arc<ServerClient>, name: &str) -> String {
    text(&run(client, tool(name)).await.unwrap_or_else(|fault| panic!("{name}: {fault}")))
}

#[tokio::test]
async fn many_calls_at_once_share_one_connection_answered_as_json_or_stream() {
    let server = start(100).await;
    let mut loud = tool("sse");
    loud.progress = true;
    let (heard, answer) = finish(begin(&server.client, loud).await.unwrap()).await;
    assert!(matches!(heard.as_slice(), [Event::Progress(_)]), "{heard:?}");
    assert_eq!(answer.unwrap().era, Era::Modern);
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let client = Arc::clone(&server.client);
            tokio::spawn(async move { on(&client, "wait").await })
        })
        .collect();
    server.seat.until("twenty calls", || server.seat.open.load(Ordering::SeqCst) == 20).await;
    let others = (0..20).map(|n| on(&server.client, if n % 2 == 0 { "json" } else { "sse" }));
    let others = futures_util::future::join_all(others).await;
    server.seat.go.cancel();
    for answer in others {
        assert_eq!(answer, r#"{"on":1}"#);
    }
    for call in waiting {
        assert_eq!(call.await.unwrap(), r#"{"on":1}"#);
    }
    assert_eq!(server.seat.connections(), 1);
}

#[tokio::test]
async fn requests_over_http2_are_in_its_form() {
    let server = start(100).await;
    on(&server.client, "json").await;
    let heads = server.seat.heads.lock();
    for head in heads.iter() {
        let uri = &head.uri;
        assert_eq!((uri.scheme_str(), uri.host(), uri.path()), (Some("https"), Some("localhost"), "/mcp"));
        assert_eq!(uri.query(), Some("a=1"));
        for name in ["host", "connection", "transfer-encoding"] {
            assert!(!head.headers.contains_key(name), "{name}");
        }
        assert!(head.headers.contains_key("mcp-method") && head.headers.contains_key("content-length"));
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_resets_its_stream_and_no_other() {
    let server = start(100).await;
    let client = Arc::clone(&server.client);
    let waiting = tokio::spawn(async move { on(&client, "wait").await });
    for (n, name) in ["hang", "hang-in-stream"].into_iter().enumerate() {
        let client = Arc::clone(&server.client);
        let hanging = tokio::spawn(async move { run(&client, tool(name)).await.map(drop) });
        server.seat.until("the call", || server.seat.called(name) == 1).await;
        hanging.abort();
        server.seat.until("the reset", || server.seat.resets.lock().len() > n).await;
    }
    assert!(server.seat.resets.lock().iter().all(|reason| *reason == Reason::CANCEL));
    server.seat.go.cancel();
    assert_eq!(waiting.await.unwrap(), r#"{"on":1}"#);
    assert_eq!(on(&server.client, "json").await, r#"{"on":1}"#, "the connection lives");
}

#[tokio::test]
async fn a_server_that_takes_one_stream_at_a_time_gets_one_at_a_time() {
    let server = start(1).await;
    on(&server.client, "json").await;
    let calls = (0..10).map(|n| on(&server.client, if n % 2 == 0 { "json" } else { "sse" }));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer, r#"{"on":1}"#);
    }
    assert_eq!((server.seat.most.load(Ordering::SeqCst), server.seat.connections()), (1, 1));
}

#[tokio::test]
async fn a_server_that_is_going_away_finishes_its_calls_and_gets_no_more() {
    let server = start(100).await;
    on(&server.client, "json").await;
    let client = Arc::clone(&server.client);
    let waiting = tokio::spawn(async move { on(&client, "wait").await });
    server.seat.until("the call", || server.seat.called("wait") == 1).await;
    assert_eq!(on(&server.client, "leave").await, r#"{"on":1}"#);
    let calls = (0..5).map(|_| on(&server.client, "json"));
    futures_util::future::join_all(calls).await;
    assert_eq!(on(&server.client, "json").await, r#"{"on":2}"#);
    assert_eq!(server.seat.connections(), 2, "one new connection for all");
    server.seat.go.cancel();
    assert_eq!(waiting.await.unwrap(), r#"{"on":1}"#, "what was under way is finished");
    assert_eq!((server.seat.called("leave"), server.seat.called("wait")), (1, 1));
}

#[tokio::test]
async fn what_the_server_refused_unseen_is_sent_again_and_not_for_ever() {
    let server = start(100).await;
    assert_eq!(on(&server.client, "refuse-once").await, r#"{"on":1}"#);
    assert_eq!(server.seat.called("refuse-once"), 2);
    let fault = run(&server.client, tool("refuse")).await.unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Unreachable, false), "{fault}");
    assert_eq!(server.seat.called("refuse"), 3);
    let fault = run(&server.client, tool("reset")).await.unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Dropped, true), "{fault}");
    assert_eq!(server.seat.called("reset"), 1, "another reset proves nothing");
}

#[tokio::test]
async fn a_lost_connection_ends_its_calls_none_is_repeated_and_the_next_gets_another() {
    let server = start(100).await;
    let client = Arc::clone(&server.client);
    let waiting = tokio::spawn(async move { run(&client, tool("wait")).await });
    server.seat.until("the call", || server.seat.called("wait") == 1).await;
    let fault = run(&server.client, tool("cut")).await.unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Dropped, true), "{fault}");
    let fault = waiting.await.unwrap().unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Dropped, true), "{fault}");
    assert_eq!(on(&server.client, "json").await, r#"{"on":2}"#);
    assert_eq!((server.seat.called("cut"), server.seat.called("wait")), (1, 1));
}

/// One HTTP/2 frame.
fn frame(kind: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, 0, 0, 0, 0, stream];
    frame.extend_from_slice(payload);
    frame
}

#[tokio::test]
async fn a_call_behind_the_last_stream_of_a_goaway_is_sent_again() {
    const PREFACE: usize = 24;
    let folder = tempfile::tempdir().unwrap();
    let (acceptor, ca) = tls(&folder);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut spec = spec(&format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port()));
    if let Transport::Http(http) = &mut spec.transport {
        http.ca = Some(ca);
    }
    let seat = Arc::new(Seat::default());
    let shared = Arc::clone(&seat);
    tokio::spawn(async move {
        // The first connection ends before it has looked at anything; streams up to 0 were looked at.
        let mut tls = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        let mut got = vec![0; PREFACE + 9];
        tls.read_exact(&mut got).await.unwrap();
        let last = [frame(4, 0, &[]), frame(7, 0, &[0; 8])].concat();
        let mut part = [0; 4096];
        // Until its request is there.
        while !got.windows(8).any(|w| w == b"discover") {
            let n = tls.read(&mut part).await.unwrap();
            got.extend_from_slice(&part[..n]);
        }
        tls.write_all(&last).await.unwrap();
        tls.flush().await.unwrap();
        let tls = acceptor.accept(listener.accept().await.unwrap().0).await.unwrap();
        connection(h2::server::handshake(tls).await.unwrap(), &shared, 2).await;
    });
    let client = client_of(spec);
    assert_eq!(on(&client, "json").await, r#"{"on":2}"#);
    assert_eq!(*seat.calls.lock(), ["discover", "json"]);
}
