//! The end of a listener.

use std::time::Duration;

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::support::{Client, Event, Server, post, reached};
use crate::edge::{Drained, Options};

/// A client in the middle of a stream, and the other end of it.
async fn streaming(server: &mut Server) -> (Client, mpsc::Sender<Bytes>) {
    let mut client = server.send(post("/stream", "")).await;
    server.head().await;
    server.body().await;
    let frames = server.stream().await;
    client.head_answer().await;
    (client, frames)
}

#[tokio::test]
async fn drain_closes_idle_connections_and_the_listener_at_once() {
    let server = Server::plain();
    let addr = server.addr;
    let mut idle = server.send(post("/echo", "one")).await;
    idle.answer().await;
    let mut silent = server.connect().await;
    reached(&server.counters.connections, 2).await;
    assert_eq!(server.stop().await, Drained { cut: 0 });
    idle.closed().await;
    silent.closed().await;
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn drain_lets_a_stream_end_and_closes_after_it() {
    let mut server = Server::plain();
    let addr = server.addr;
    let (mut client, frames) = streaming(&mut server).await;
    server.shutdown.cancel();
    super::support::soon(async { while TcpStream::connect(addr).await.is_ok() {} }).await;
    frames.send("last".into()).await.unwrap();
    assert_eq!(client.chunk().await, b"last");
    drop(frames);
    assert_eq!(client.chunk().await, b"");
    client.closed().await;
    assert_eq!(server.ended().await, Drained { cut: 0 });
}

#[tokio::test]
async fn drain_answers_a_request_that_is_being_sent_and_says_close() {
    let mut server = Server::plain();
    let mut client = server.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nh").await;
    server.head().await;
    server.shutdown.cancel();
    client.send("i").await;
    let answer = client.answer().await;
    assert_eq!((&answer.body[..], answer.header("connection")), (&b"hi"[..], Some("close")));
    client.closed().await;
    assert_eq!(server.ended().await, Drained { cut: 0 });
}

#[tokio::test]
async fn drain_cuts_what_is_left_at_the_deadline() {
    let mut server = Server::start(Options { drain: Duration::from_millis(100), ..Options::default() });
    let (mut client, frames) = streaming(&mut server).await;
    server.shutdown.cancel();
    assert!(matches!(server.event().await, Event::Dropped));
    assert!(frames.is_closed());
    assert_eq!(server.ended().await, Drained { cut: 1 });
    client.rest().await;
}
