//! Clients that take their time, and connections that are not used.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::support::{Event, Server, post, reached};
use crate::edge::{BodyFault, Limits, Options};

/// A deadline that a test wants to see passed.
const SHORT: Duration = Duration::from_millis(200);

/// Between two drips: many fit into `SHORT`.
const DRIP: Duration = Duration::from_millis(20);

fn limited(limits: Limits) -> Server {
    Server::start(Options { limits, ..Options::default() })
}

#[tokio::test]
async fn h8_header_drip_hits_the_total_deadline() {
    let mut server = limited(Limits { header_time: SHORT, ..Limits::default() });
    let mut client = server.send("GET /echo HTTP/1.1\r\nX: ").await;
    let drip = async {
        let (mut read, mut write) = client.tcp.split();
        let mut answer = [0; 12];
        loop {
            tokio::select! {
                n = tokio::io::AsyncReadExt::read_exact(&mut read, &mut answer) => { n.unwrap(); break answer }
                () = tokio::time::sleep(DRIP) => { tokio::io::AsyncWriteExt::write_all(&mut write, b"x").await.unwrap() }
            }
        }
    };
    assert_eq!(&super::support::soon(drip).await, b"HTTP/1.1 408");
    server.nothing_more();
    assert_eq!(server.counters.bad_heads.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn h8_body_drip_hits_the_total_deadline() {
    let mut server = limited(Limits { body_time: SHORT, ..Limits::default() });
    let mut client = server.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n").await;
    server.head().await;
    let refused = async {
        loop {
            tokio::select! {
                event = server.event() => break event,
                () = tokio::time::sleep(DRIP) => client.send("x").await,
            }
        }
    };
    assert!(matches!(refused.await, Event::Refused(BodyFault::Timeout)));
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
}

#[tokio::test]
async fn h8_a_connection_without_a_request_is_closed() {
    let server = limited(Limits { header_time: SHORT, ..Limits::default() });
    server.connect().await.closed().await;
    let server = limited(Limits { idle: SHORT, ..Limits::default() });
    let mut client = server.send(post("/echo", "one")).await;
    client.answer().await;
    client.closed().await;
}

#[tokio::test]
async fn h8_the_first_bytes_of_h2c_are_under_the_deadline_and_a_short_request_is_not_held_up() {
    let limits = Limits { header_time: SHORT, ..Limits::default() };
    let server = Server::start(Options { limits, h2c: true, ..Options::default() });
    server.send("PRI * HTTP/2.0\r\n\r\nSM").await.rest().await;
    let mut client = server.send("GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(client.answer().await.status, 200);
}

#[tokio::test]
async fn continue_is_said_when_the_body_is_wanted_and_only_then() {
    let mut server = Server::plain();
    let head = |path| {
        format!("POST {path} HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    };
    let mut client = server.send(head("/echo")).await;
    assert_eq!(client.until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hi").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, &answer.body[..]), (200, &b"hi"[..]));
    client.send(head("/refuse")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (403, Some("close")));
    client.closed().await;
    server.head().await;
}

#[tokio::test]
async fn too_many_connections_are_refused_and_counted() {
    let server = limited(Limits { connections: 1, ..Limits::default() });
    let mut first = server.send(post("/echo", "one")).await;
    first.answer().await;
    server.connect().await.closed().await;
    assert_eq!(server.counters.refused.load(Ordering::Relaxed), 1);
    drop(first);
    reached(&server.counters.connections, 0).await;
    assert_eq!(server.send(post("/echo", "two")).await.answer().await.body, b"two");
}

#[tokio::test]
async fn the_request_cap_closes_the_connection() {
    let server = limited(Limits { requests: Some(2), ..Limits::default() });
    let mut client = server.send(post("/echo", "one")).await;
    assert_eq!(client.answer().await.header("connection"), Some("keep-alive"));
    client.send(post("/echo", "two")).await;
    assert_eq!(client.answer().await.header("connection"), Some("close"));
    client.closed().await;
}
