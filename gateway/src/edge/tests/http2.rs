//! HTTP/2, here without TLS: the same handler, streams instead of connections.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::support::{BODY_CAP, Event, LARGE, Server, reached, soon};
use crate::edge::{BodyFault, Drained, Limits, Options};

type Sender = SendRequest<Full<Bytes>>;

fn h2c(limits: Limits) -> Server {
    Server::start(Options { limits, h2c: true, ..Options::default() })
}

/// A client and its connection's task.
async fn client(server: &Server) -> (Sender, JoinHandle<Result<(), hyper::Error>>) {
    let tcp = TcpStream::connect(server.addr).await.unwrap();
    let (sender, connection) = soon(handshake(TokioExecutor::new(), TokioIo::new(tcp))).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn post(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let uri = format!("http://host.example{path}");
    Request::post(uri).version(Version::HTTP_2).body(Full::new(body.into())).unwrap()
}

#[tokio::test]
async fn h2_requests_share_a_connection_and_authority_is_host() {
    let mut server = h2c(Limits::default());
    let (mut sender, _connection) = client(&server).await;
    let (one, two) =
        (sender.send_request(post("/echo?a=%2e", "one")), sender.send_request(post("/large", "")));
    let one = soon(one).await.unwrap();
    assert_eq!((one.status(), one.version()), (StatusCode::OK, Version::HTTP_2));
    assert_eq!(soon(one.into_body().collect()).await.unwrap().to_bytes(), "one");
    let two = soon(two).await.unwrap();
    assert_eq!(soon(two.into_body().collect()).await.unwrap().to_bytes().len(), LARGE);
    let head = server.head().await;
    assert_eq!((head.path.as_str(), head.query.as_deref()), ("/echo", Some("a=%2e")));
    assert_eq!(head.headers["host"], "host.example");
    assert!(head.version_h2);
}

#[tokio::test]
async fn h17_a_reset_stream_cancels_its_call_and_no_other() {
    let mut server = h2c(Limits::default());
    let (mut sender, _connection) = client(&server).await;
    let waiting = tokio::spawn(sender.send_request(post("/wait", "")));
    server.head().await;
    server.body().await;
    let stream = soon(sender.send_request(post("/stream", ""))).await.unwrap();
    server.head().await;
    server.body().await;
    let frames = server.stream().await;
    waiting.abort();
    assert!(matches!(server.event().await, Event::Gone));
    frames.send("alive".into()).await.unwrap();
    let mut body = stream.into_body();
    assert_eq!(soon(body.frame()).await.unwrap().unwrap().into_data().unwrap(), "alive");
    drop(body);
    assert!(matches!(server.event().await, Event::Dropped));
    reached(&server.counters.departed, 2).await;
    reached(&server.counters.in_flight, 0).await;
}

#[tokio::test]
async fn h17_a_lost_connection_cancels_all_its_streams() {
    let mut server = h2c(Limits::default());
    // A runtime of its own, since the client's connection can only be lost by ending its tasks.
    let elsewhere =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let addr = server.addr;
    elsewhere.spawn(async move {
        let tcp = TcpStream::connect(addr).await.unwrap();
        let (mut sender, connection): (Sender, _) =
            handshake(TokioExecutor::new(), TokioIo::new(tcp)).await.unwrap();
        tokio::spawn(connection);
        let _one = tokio::spawn(sender.send_request(post("/wait", "")));
        sender.send_request(post("/wait", "")).await.ok();
    });
    for _ in 0..4 {
        assert!(matches!(server.event().await, Event::Head(_) | Event::Body(_)));
    }
    elsewhere.shutdown_background();
    assert!(matches!(server.event().await, Event::Gone));
    assert!(matches!(server.event().await, Event::Gone));
    reached(&server.counters.connections, 0).await;
}

#[tokio::test]
async fn j16_an_http2_body_over_the_cap_is_refused() {
    let mut server = h2c(Limits::default());
    let (mut sender, _connection) = client(&server).await;
    let answer = soon(sender.send_request(post("/echo", vec![b'x'; BODY_CAP + 1]))).await.unwrap();
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    server.head().await;
    assert!(matches!(server.event().await, Event::Refused(BodyFault::TooLarge)));
    let answer = soon(sender.send_request(post("/refuse", "small"))).await.unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn h7_http2_headers_over_the_cap_are_refused() {
    let server = h2c(Limits { header_count: 10, ..Limits::default() });
    let (mut sender, _connection) = client(&server).await;
    let mut many = post("/echo", "");
    for n in 0..20 {
        many.headers_mut()
            .insert(http::HeaderName::try_from(format!("x-{n}")).unwrap(), "1".parse().unwrap());
    }
    assert_eq!(soon(sender.send_request(many)).await.unwrap().status(), 431);
    let mut large = post("/echo", "");
    large.headers_mut().insert("x", "x".repeat(40_000).parse().unwrap());
    let refused = soon(sender.send_request(large)).await;
    assert!(refused.map_or(true, |answer| answer.status() == 431));
}

#[tokio::test]
async fn s5_an_http2_client_that_opens_no_window_is_cut() {
    let mut server = h2c(Limits { write_time: Duration::from_millis(300), ..Limits::default() });
    let (mut sender, _connection) = client(&server).await;
    let answer = soon(sender.send_request(post("/stream", ""))).await.unwrap();
    server.head().await;
    server.body().await;
    let frames = server.stream().await;
    let mut sent = 0;
    while frames.send(vec![b'x'; 60_000].into()).await.is_ok() {
        sent += 1;
        assert!(sent < 1000, "60 MB were taken without a reader");
    }
    reached(&server.counters.slow_readers, 1).await;
    // The connection and its other streams live on.
    let other = soon(sender.send_request(post("/echo", "other"))).await.unwrap();
    assert_eq!(soon(other.into_body().collect()).await.unwrap().to_bytes(), "other");
    drop(answer);
}

#[tokio::test]
async fn h8_an_idle_http2_connection_is_closed_but_not_one_with_a_stream() {
    let mut server = h2c(Limits { h2_idle: Duration::from_millis(100), ..Limits::default() });
    let (mut sender, connection) = client(&server).await;
    let answer = soon(sender.send_request(post("/stream", ""))).await.unwrap();
    server.head().await;
    server.body().await;
    let frames = server.stream().await;
    let (_other, idle) = client(&server).await;
    soon(idle).await.unwrap().unwrap();
    frames.send("still here".into()).await.unwrap();
    drop(frames);
    assert_eq!(soon(answer.into_body().collect()).await.unwrap().to_bytes(), "still here");
    soon(connection).await.unwrap().unwrap();
}

#[tokio::test]
async fn h8_an_http2_preface_without_anything_behind_it_is_closed() {
    let server = h2c(Limits { h2_idle: Duration::from_millis(100), ..Limits::default() });
    let mut client = server.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    let mut all = Vec::new();
    soon(client.tcp.read_to_end(&mut all)).await.unwrap();
    reached(&server.counters.connections, 0).await;
}

#[tokio::test]
async fn drain_ends_http2_connections_after_their_streams() {
    let mut server = h2c(Limits::default());
    let (mut sender, connection) = client(&server).await;
    let (_idle, idle) = client(&server).await;
    let answer = soon(sender.send_request(post("/stream", ""))).await.unwrap();
    server.head().await;
    server.body().await;
    let frames = server.stream().await;
    server.shutdown.cancel();
    soon(idle).await.unwrap().unwrap();
    frames.send("last".into()).await.unwrap();
    drop(frames);
    assert_eq!(soon(answer.into_body().collect()).await.unwrap().to_bytes(), "last");
    soon(connection).await.unwrap().unwrap();
    assert_eq!(server.ended().await, Drained { cut: 0 });
}

/// The preface, an empty SETTINGS frame and the first frame of a header block that goes on.
fn begun() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes.extend([0, 0, 1, 1, 0, 0, 0, 0, 1, 0x83]);
    bytes
}

#[tokio::test]
async fn h8_an_http2_header_block_that_does_not_end_has_the_header_time_and_no_more() {
    let limits = Limits { header_time: Duration::from_millis(300), ..Limits::default() };
    for drips in [false, true] {
        let server = h2c(limits.clone());
        let mut client = server.send(begun()).await;
        let (mut reader, mut writer) = client.tcp.split();
        let drip = async {
            let field = [0, 0, 4, 9, 0, 0, 0, 0, 1, 0x00, 0x01, b'x', 0x00];
            while drips && writer.write_all(&field).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            std::future::pending::<()>().await;
        };
        let mut all = Vec::new();
        let start = tokio::time::Instant::now();
        tokio::select! {
            _ = soon(reader.read_to_end(&mut all)) => {}
            () = drip => {}
        }
        assert!(start.elapsed() >= Duration::from_millis(250), "{drips}: {:?}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(10), "{drips}: {:?}", start.elapsed());
        reached(&server.counters.connections, 0).await;
    }
}

#[tokio::test]
async fn h8_the_header_time_ends_no_http2_connection_between_frames_or_within_a_body() {
    let limits = Limits { header_time: Duration::from_millis(200), ..Limits::default() };
    let mut server = h2c(limits);
    let (mut sender, _connection) = client(&server).await;
    let answer = soon(sender.send_request(post("/stream", ""))).await.unwrap();
    server.head().await;
    server.body().await;
    let frames = server.stream().await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let other = soon(sender.send_request(post("/echo", "still"))).await.unwrap();
    assert_eq!(soon(other.into_body().collect()).await.unwrap().to_bytes(), "still");
    drop(frames);
    soon(answer.into_body().collect()).await.unwrap();
}
