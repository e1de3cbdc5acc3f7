//! Connections over HTTP/1.1: when one is used again, when it is not, and what is sent how often.

use std::future::pending;

use http::Response;
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use super::*;
use crate::adapters::outbound::Body;
use crate::adapters::upstream::net::Net;
use crate::lanes::{self, Lanes};
use crate::ports::upstream::{Behalf, FaultKind};

fn net_at(address: SocketAddr) -> Arc<Net> {
    net_of(&spec(&format!("http://{address}/mcp")))
}

fn net_of(spec: &Server) -> Arc<Net> {
    let Transport::Http(http) = &spec.transport else { panic!("no URL") };
    Arc::new(Net::new(http, &spec.timeouts, None).unwrap())
}

async fn post(net: &Net, body: &str) -> Result<Response<Body>, Fault> {
    let sent = net.post(net.headers(&Behalf::gateway()), Bytes::from(body.to_owned()));
    tokio::time::timeout(Duration::from_secs(20), sent).await.expect("the request hangs")
}

/// POSTs and reads the answer to its end.
async fn whole(net: &Net, body: &str) -> Result<Bytes, String> {
    let answer = post(net, body).await.map_err(|fault| fault.to_string())?;
    let body = tokio::time::timeout(Duration::from_secs(20), answer.into_body().collect()).await;
    Ok(body.expect("the answer hangs").map_err(|e| e.to_string())?.to_bytes())
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(20), waiting).await.is_ok(), "not in time: {what}");
}

/// One answer for each number in the body.
async fn scripted(answers: Vec<Vec<Do>>) -> Fake {
    Fake::start(move |seen| {
        let number = seen.body.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap();
        answers[number].clone()
    })
    .await
}

#[tokio::test]
async fn a_connection_is_used_again_after_every_kind_of_whole_answer() {
    let late_end = vec![sse_head(), event(&json!(1)), Do::Wait(Duration::from_millis(50)), last_chunk()];
    let bare = vec![Do::Send(b"HTTP/1.1 204 X\r\n\r\n".to_vec())];
    let empty = vec![Do::Send(b"HTTP/1.1 202 X\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_vec())];
    let chunks = vec![sse_head(), chunk("a"), chunk("b"), last_chunk()];
    let hint = [Do::Send(b"HTTP/1.1 103 X\r\nlink: <x>\r\n\r\n".to_vec())];
    let hinted = hint.into_iter().chain(reply(200, &json!({}))).collect();
    let answers = vec![reply(200, &json!({})), late_end, bare, empty, chunks, hinted, http(500, &[], b"no")];
    let kinds = answers.len();
    let fake = scripted(answers).await;
    let net = net_at(fake.address);
    for _ in 0..3 {
        for number in 0..kinds {
            whole(&net, &number.to_string()).await.unwrap();
            assert_eq!(net.conns().idle(), 1, "after answer {number}");
        }
    }
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn an_empty_answer_that_nobody_reads_gives_its_connection_back() {
    let chunked = vec![Do::Send(b"HTTP/1.1 202 X\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n".to_vec())];
    let fake = scripted(vec![accepted(), chunked, http(400, &[], b"a short reason")]).await;
    let net = net_at(fake.address);
    for number in [0, 1, 2, 1, 0] {
        drop(post(&net, &number.to_string()).await.unwrap());
        assert_eq!(net.conns().idle(), 1, "after answer {number}");
    }
    assert_eq!(fake.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_gets_no_request() {
    let closing = reply(200, &json!({})).into_iter().chain([Do::Close]).collect();
    let fake = scripted(vec![closing]).await;
    let net = net_at(fake.address);
    for turn in 1..=10 {
        whole(&net, "0").await.unwrap();
        until("the end to be noticed", || net.conns().idle() == 0).await;
        assert_eq!((fake.connections(), fake.seen().len()), (turn, turn));
    }
}

#[tokio::test]
async fn a_server_that_says_close_is_taken_at_its_word() {
    let fake = scripted(vec![http(200, &[("connection", "close")], b"{}")]).await;
    let net = net_at(fake.address);
    for _ in 0..3 {
        assert_eq!(whole(&net, "0").await.unwrap(), "{}");
        assert_eq!(net.conns().idle(), 0);
    }
    assert_eq!(fake.connections(), 3);
}

#[tokio::test]
async fn u2_bytes_behind_an_answer_never_answer_the_next_request() {
    let forged = b"HTTP/1.1 200 X\r\ncontent-length: 6\r\n\r\nforged".to_vec();
    let at_once = [reply(200, &json!(1)), vec![Do::Send(forged.clone())]].concat();
    // A proxy that tells an idle client of its time-out.
    let timeout = b"HTTP/1.1 408 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec();
    let later =
        [reply(200, &json!(1)), vec![Do::Wait(Duration::from_millis(50)), Do::Send(timeout)]].concat();
    let fake = scripted(vec![at_once, later]).await;
    let net = net_at(fake.address);
    for turn in 1..=3 {
        for number in ["0", "1"] {
            assert_eq!(whole(&net, number).await.unwrap(), "1", "{turn}");
            until("the connection to be given up", || net.conns().idle() == 0).await;
        }
    }
    assert_eq!(fake.connections(), 6);
}

#[tokio::test]
async fn what_came_on_an_idle_connection_is_seen_before_the_next_request_is_written() {
    let moment = || Do::Wait(Duration::from_millis(20));
    let forged = b"HTTP/1.1 200 X\r\ncontent-length: 6\r\n\r\nforged".to_vec();
    let stray = [reply(200, &json!(1)), vec![moment(), Do::Send(forged)]].concat();
    let closing = [reply(200, &json!(1)), vec![moment(), Do::Close]].concat();
    let fake = scripted(vec![stray, closing]).await;
    let net = net_at(fake.address);
    for turn in 1..=6 {
        assert_eq!(whole(&net, &(turn % 2).to_string()).await.unwrap(), "1");
        // Nobody looks at it meanwhile.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!((fake.connections(), fake.seen().len()), (turn, turn));
    }
}

#[tokio::test]
async fn a_request_that_may_have_been_read_is_never_sent_again() {
    let fake = scripted(vec![vec![Do::Close], reply(200, &json!({}))]).await;
    let net = net_at(fake.address);
    let fault = post(&net, "0").await.map(drop).unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Dropped, true), "on a new connection: {fault}");
    whole(&net, "1").await.unwrap();
    let fault = post(&net, "0").await.map(drop).unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Dropped, true), "on a used one: {fault}");
    assert_eq!((fake.connections(), fake.seen().len()), (2, 3));
}

#[tokio::test]
async fn a_stream_or_a_request_that_is_dropped_closes_its_connection() {
    let fake = scripted(vec![vec![sse_head(), event(&json!(1)), Do::Hang], vec![Do::Hang]]).await;
    let net = net_at(fake.address);
    let mut stream = post(&net, "0").await.unwrap().into_body();
    stream.frame().await.unwrap().unwrap();
    drop(stream);
    fake.wait_left(1).await;
    let waiting = tokio::spawn(async move { post(&net, "1").await.map(drop) });
    until("the second request", || fake.seen().len() == 2).await;
    waiting.abort();
    fake.wait_left(2).await;
}

/// A server on plain sockets for one connection after another.
async fn plain<F>(serve: impl Fn(TcpStream) -> F + Send + Sync + 'static) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_is_taken_is_heard_and_ends_the_connection() {
    let address = plain(|mut stream| async move {
        let mut start = [0; 512];
        assert!(stream.read(&mut start).await.unwrap() > 0);
        let early = b"HTTP/1.1 413 X\r\ncontent-type: text/plain\r\ncontent-length: 3\r\n\r\nbig";
        stream.write_all(early).await.unwrap();
        pending::<()>().await;
    })
    .await;
    let net = net_at(address);
    for _ in 0..2 {
        let large = "x".repeat(32 << 20);
        let answer = post(&net, &large).await.unwrap();
        assert_eq!(answer.status(), 413);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "big");
        assert_eq!(net.conns().idle(), 0, "half a request is still to be written");
    }
}

#[tokio::test]
async fn idle_connections_end_after_four_seconds() {
    let (told, mut ended) = tokio::sync::mpsc::unbounded_channel();
    let address = plain(move |mut stream| {
        let told = told.clone();
        async move {
            let mut part = [0; 4096];
            assert!(stream.read(&mut part).await.unwrap() > 0);
            let Do::Send(bytes) = reply(200, &json!({})).remove(0) else { return };
            stream.write_all(&bytes).await.unwrap();
            let start = Instant::now();
            while stream.read(&mut part).await.is_ok_and(|n| n > 0) {}
            told.send(start.elapsed()).unwrap();
        }
    })
    .await;
    let net = net_at(address);
    futures_util::future::join_all((0..3).map(|_| whole(&net, "0"))).await;
    assert_eq!(net.conns().idle(), 3);
    for _ in 0..3 {
        let idle = tokio::time::timeout(Duration::from_secs(20), ended.recv()).await.unwrap().unwrap();
        assert!(idle >= Duration::from_millis(3900) && idle < Duration::from_secs(10), "{idle:?}");
    }
}

#[tokio::test]
async fn no_more_than_256_idle_connections_are_kept() {
    let (release, _) = tokio::sync::watch::channel(0);
    let come = release.clone();
    let address = plain(move |mut stream| {
        let come = come.clone();
        async move {
            let mut part = [0; 4096];
            assert!(stream.read(&mut part).await.unwrap() > 0);
            come.send_modify(|n| *n += 1);
            // All are answered once the last has come.
            come.subscribe().wait_for(|n| *n >= 257).await.unwrap();
            let Do::Send(bytes) = reply(200, &json!({})).remove(0) else { return };
            stream.write_all(&bytes).await.unwrap();
            while stream.read(&mut part).await.is_ok_and(|n| n > 0) {}
        }
    })
    .await;
    let net = net_at(address);
    let done = futures_util::future::join_all((0..257).map(|_| whole(&net, "0"))).await;
    assert!(done.iter().all(Result::is_ok));
    assert_eq!(net.conns().idle(), 256);
}

#[tokio::test]
async fn u9_connecting_has_one_deadline_for_tcp_and_tls_together() {
    let address = plain(|stream| async move {
        pending::<()>().await;
        drop(stream);
    })
    .await;
    let mut spec = spec(&format!("https://{address}/mcp"));
    spec.timeouts.connect = Duration::from_millis(300);
    let (net, start) = (net_of(&spec), Instant::now());
    let fault = post(&net, "0").await.map(drop).unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Unreachable, false), "{fault}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_connection_that_only_another_lane_uses_is_replaced_by_one_of_that_lanes_own() {
    let fake = scripted(vec![reply(200, &json!({}))]).await;
    let net = net_at(fake.address);
    let lanes = tokio::task::spawn_blocking(|| Lanes::start().unwrap()).await.unwrap();
    let (lane, _place) = lanes.places().take().unwrap();
    let on_lane = || {
        let net = Arc::clone(&net);
        lane.spawn(async move { whole(&net, "0").await.unwrap() })
    };
    // The first is opened outside of the lanes, as by a list that is read at the start. Taking turns moves nothing.
    for _ in 0..9 {
        whole(&net, "0").await.unwrap();
        on_lane().await.unwrap();
        assert_eq!((net.conns().idle_on(lanes::NONE), net.conns().idle()), (1, 1));
    }
    assert_eq!(fake.connections(), 1);
    // There are never two: the first goes before the other comes.
    for _ in 0..60 {
        on_lane().await.unwrap();
        assert_eq!((net.conns().open(), net.conns().idle()), (1, 1));
    }
    assert_eq!((fake.connections(), net.conns().idle_on(lanes::NONE)), (2, 0));
    tokio::task::spawn_blocking(move || drop(lanes)).await.unwrap();
}
