//! Answers as they are made, and clients that leave or do not read.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout};

use super::support::{ENDS, Event, LARGE, Server, post, reached};
use crate::edge::{Limits, Options};

#[tokio::test]
async fn a_stream_is_sent_frame_by_frame_and_the_connection_kept() {
    let mut server = Server::plain();
    let mut client = server.send(post("/stream", "")).await;
    server.head().await;
    server.body().await;
    let frames = server.stream().await;
    let answer = client.head_answer().await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.header("content-length"), None);
    for n in 0..3 {
        // Each frame arrives before the next is made.
        frames.send(format!("data: {n}\n\n").into()).await.unwrap();
        assert_eq!(client.chunk().await, format!("data: {n}\n\n").as_bytes());
    }
    drop(frames);
    assert_eq!(client.chunk().await, b"");
    assert!(matches!(server.event().await, Event::Dropped));
    client.send(post("/ready", "")).await;
    assert_eq!(client.answer().await.body, b"onetwo");
    assert_eq!(server.counters.departed.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_http10_client_gets_a_stream_without_chunks() {
    let server = Server::plain();
    let mut client = server.send("GET /ready HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").await;
    let text = client.rest().await;
    assert!(text.ends_with("\r\n\r\nonetwo"), "{text:?}");
    assert!(text.contains("onnection: close\r\n"), "{text:?}");
}

#[tokio::test]
async fn head_and_204_have_no_body() {
    let server = Server::plain();
    let mut client = server.send("HEAD /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc").await;
    assert_eq!(client.head_answer().await.header("content-length"), Some("3"));
    client.send("HEAD /ready HTTP/1.1\r\nHost: h\r\n\r\n").await;
    assert_eq!(client.head_answer().await.status, 200);
    client.send("GET /empty HTTP/1.1\r\nHost: h\r\n\r\n").await;
    let answer = client.head_answer().await;
    assert_eq!((answer.status, answer.header("content-length")), (204, None));
    client.send(post("/echo", "next")).await;
    assert_eq!(client.answer().await.body, b"next");
}

#[tokio::test]
async fn h17_a_client_that_leaves_cancels_the_running_call_at_once() {
    let mut server = Server::plain();
    let client = server.send(post("/wait", "")).await;
    server.head().await;
    server.body().await;
    drop(client);
    assert!(matches!(server.event().await, Event::Gone));
    reached(&server.counters.departed, 1).await;
    reached(&server.counters.in_flight, 0).await;
    reached(&server.counters.connections, 0).await;
}

#[tokio::test]
async fn h17_a_half_close_is_a_departure() {
    let mut server = Server::plain();
    let mut client = server.send(post("/wait", "")).await;
    server.head().await;
    server.body().await;
    client.tcp.shutdown().await.unwrap();
    assert!(matches!(server.event().await, Event::Gone));
    client.closed().await;
}

#[tokio::test]
async fn h17_a_client_that_leaves_a_silent_stream_has_its_frames_dropped_at_once() {
    let mut server = Server::plain();
    let mut client = server.send(post("/stream", "")).await;
    server.head().await;
    server.body().await;
    let frames = server.stream().await;
    client.head_answer().await;
    drop(client);
    assert!(matches!(server.event().await, Event::Dropped));
    assert!(frames.is_closed());
    reached(&server.counters.departed, 1).await;
}

#[tokio::test]
async fn s5_a_slow_reader_is_waited_for_with_one_frame_in_hand_and_then_closed() {
    let limits = Limits { write_time: Duration::from_millis(300), ..Limits::default() };
    let mut server = Server::start(Options { limits, ..Options::default() });
    let mut client = server.send(post("/stream", "")).await;
    server.head().await;
    server.body().await;
    let frames = server.stream().await;
    client.head_answer().await;
    let frame = Bytes::from(vec![b'x'; 60_000]);
    let mut sent = 0usize;
    // The channel holds one frame; nobody reads, so sending must soon stop and then fail.
    while frames.send(frame.clone()).await.is_ok() {
        sent += 1;
        assert!(sent < 1000, "60 MB were taken without a reader");
    }
    reached(&server.counters.slow_readers, 1).await;
    reached(&server.counters.connections, 0).await;
    client.rest().await;
}

#[tokio::test]
async fn s5_a_large_answer_to_a_client_that_does_not_read_is_cut() {
    let limits = Limits { write_time: Duration::from_millis(300), ..Limits::default() };
    let server = Server::start(Options { limits, ..Options::default() });
    let client = server.send(post("/large", "")).await;
    reached(&server.counters.slow_readers, 1).await;
    reached(&server.counters.connections, 0).await;
    drop(client);
}

#[tokio::test]
async fn a_large_answer_is_whole() {
    let server = Server::plain();
    let mut client = server.send(post("/large", "")).await;
    let answer = client.answer().await;
    assert_eq!(answer.body.len(), LARGE);
    assert!(answer.body.iter().enumerate().all(|(n, byte)| *byte == (n % 251) as u8));
}

#[tokio::test]
async fn s5_a_stream_that_gives_up_does_so_also_while_a_slow_reader_blocks_it() {
    for (path, is_cut) in [("/ends", true), ("/lifted", false)] {
        let limits = Limits { write_time: Duration::from_secs(60), ..Limits::default() };
        let mut server = Server::start(Options { limits, ..Options::default() });
        let mut client = server.send(post(path, "")).await;
        server.head().await;
        server.body().await;
        let frames = server.stream().await;
        client.head_answer().await;
        let start = Instant::now();
        let flood = async { while frames.send(vec![b'x'; 1 << 20].into()).await.is_ok() {} };
        let ended = timeout(ENDS * 4, flood).await.is_ok();
        assert_eq!(ended, is_cut, "{path}");
        if is_cut {
            assert!(start.elapsed() >= ENDS / 2, "{:?}", start.elapsed());
            assert!(matches!(server.event().await, Event::Dropped));
            reached(&server.counters.slow_readers, 1).await;
            reached(&server.counters.connections, 0).await;
        }
    }
}
