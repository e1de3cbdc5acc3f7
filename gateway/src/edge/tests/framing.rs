//! Where a request begins and ends, and what is refused for it.

use tokio::io::AsyncWriteExt;

use super::support::{BODY_CAP, Event, Server, post};
use crate::edge::{BodyFault, Limits, Options};

/// Sends each request on a connection of its own: it must be answered with one of `statuses`, the connection
/// must end, and the handler must not have seen it.
async fn all_refused(requests: &[&[u8]], statuses: &[u16]) {
    let mut server = Server::plain();
    for request in requests {
        let mut client = server.send(request).await;
        let shown = String::from_utf8_lossy(&request[..request.len().min(200)]).into_owned();
        let answer = client.answer().await;
        assert!(statuses.contains(&answer.status), "{} for {shown:?}", answer.status);
        assert_eq!(answer.header("connection"), Some("close"), "{shown:?}");
    }
    server.nothing_more();
    server.stop().await;
}

#[tokio::test]
async fn h1_length_and_chunked_is_read_as_chunked_and_always_closes() {
    let mut server = Server::plain();
    for fields in [
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 4",
        "tRansfer-encoding: CHUNKED\r\ncontent-LENGTH: 4",
    ] {
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
        let request =
            format!("POST /echo HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n2\r\nhi\r\n0\r\n\r\n{smuggled}");
        let mut client = server.send(request).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, &answer.body[..]), (200, &b"hi"[..]));
        assert_eq!(answer.header("connection"), Some("close"));
        client.closed().await;
        assert_eq!(server.head().await.path, "/echo");
        assert_eq!(server.body().await, "hi");
        server.nothing_more();
    }
}

#[tokio::test]
async fn h2_transfer_codings_other_than_one_final_chunked_are_refused() {
    all_refused(
        &[
            b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
            b"POST /echo HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
            b"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n",
        ],
        &[400],
    )
    .await;
}

#[tokio::test]
async fn h3_an_upgrade_is_ignored_and_a_request_in_its_body_stays_a_body() {
    let mut server = Server::plain();
    let inner = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n";
    let request = format!(
        "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: websocket\r\n\
         HTTP2-Settings: AAMAAABk\r\nContent-Length: {}\r\n\r\n{inner}",
        inner.len()
    );
    let mut client = server.send(request).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, &answer.body[..]), (200, inner.as_bytes()));
    assert_eq!(answer.header("upgrade"), None);
    let head = server.head().await;
    assert_eq!(head.path, "/echo");
    for name in ["upgrade", "connection", "http2-settings"] {
        assert!(!head.headers.contains_key(name), "{name}");
    }
    assert_eq!(server.body().await, inner);
    server.nothing_more();
}

#[tokio::test]
async fn h4_a_small_body_behind_an_early_refusal_is_dropped_and_the_next_request_is_parsed_cleanly() {
    let mut server = Server::plain();
    let mut client = server.send(post("/refuse", "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (403, Some("keep-alive")));
    client.send(post("/echo", "next")).await;
    assert_eq!(client.answer().await.body, b"next");
    assert_eq!(server.head().await.path, "/refuse");
    assert_eq!(server.head().await.path, "/echo");
    assert_eq!(server.body().await, "next");
    server.nothing_more();
}

#[tokio::test]
async fn h4_a_large_body_behind_an_early_refusal_closes_the_connection() {
    let mut server = Server::plain();
    let mut client = server.send("POST /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n").await;
    // The answer comes although nothing of the body has.
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (403, Some("close")));
    client.send("GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n").await;
    client.closed().await;
    assert_eq!(server.head().await.path, "/refuse");
    server.nothing_more();
}

#[tokio::test]
async fn h4_a_body_that_nobody_wants_is_dropped() {
    let mut server = Server::plain();
    let mut client = server.send(post("/bodyless", "whatever")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (200, Some("keep-alive")));
    server.head().await;
    assert_eq!(server.body().await, "");
}

#[tokio::test]
async fn h5_ambiguous_lengths_are_refused() {
    let requests: Vec<String> =
        ["+5", "0x5", "5,6", "18446744073709551616", "-1", "5 5", "5;", "", "5\r\nContent-Length: 6"]
            .iter()
            .map(|n| format!("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: {n}\r\n\r\nhello"))
            .collect();
    let requests: Vec<&[u8]> = requests.iter().map(|r| r.as_bytes()).collect();
    all_refused(&requests, &[400]).await;
}

#[tokio::test]
async fn h5_identical_lengths_are_refused_too() {
    let server = Server::plain();
    for fields in ["Content-Length: 5\r\nContent-Length: 5", "Content-Length: 5, 5"] {
        let mut client =
            server.send(format!("POST /echo HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\nhello")).await;
        assert_eq!(client.answer().await.status, 400, "{fields}");
    }
}

#[tokio::test]
async fn h6_a_request_in_the_same_packet_is_never_answered() {
    let mut server = Server::plain();
    let mut client = server.send(post("/echo", "one") + &post("/echo", "two")).await;
    assert_eq!(client.answer().await.body, b"one");
    client.closed().await;
    server.head().await;
    assert_eq!(server.body().await, "one");
    server.nothing_more();
}

#[tokio::test]
async fn h6_bytes_behind_a_running_request_are_no_departure_and_no_request() {
    let mut server = Server::plain();
    let mut client = server.send(post("/stream", "")).await;
    server.head().await;
    server.body().await;
    let frames = server.stream().await;
    client.send(post("/echo", "two")).await;
    frames.send("still here".into()).await.unwrap();
    let answer = client.head_answer().await;
    assert_eq!(answer.status, 200);
    assert_eq!(client.chunk().await, b"still here");
    drop(frames);
    assert_eq!(client.chunk().await, b"");
    client.tcp.shutdown().await.unwrap();
    // Seen while the stream ran: dropped, and the connection closed. Not seen before its end: a request of
    // its own.
    let rest = client.rest().await;
    assert!(
        rest.is_empty() || (rest.starts_with("HTTP/1.1 200") && rest.ends_with("\r\n\r\ntwo")),
        "{rest:?}"
    );
    assert!(matches!(server.event().await, Event::Dropped));
    if rest.is_empty() {
        server.nothing_more();
    }
}

#[tokio::test]
async fn h6_a_line_end_behind_the_body_does_not_hide_a_departure() {
    let mut server = Server::plain();
    let mut client = server.send(post("/wait", "")).await;
    server.head().await;
    server.body().await;
    client.send("\r\n").await;
    client.tcp.shutdown().await.unwrap();
    assert!(matches!(server.event().await, Event::Gone));
    client.closed().await;
    server.nothing_more();
}

#[tokio::test]
async fn h7_malformed_headers_are_refused() {
    let many: String = (0..257).map(|n| format!("X-{n}: 1\r\n")).collect();
    let many = format!("GET /echo HTTP/1.1\r\nHost: h\r\n{many}\r\n");
    let over = format!("GET /echo HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(33 * 1024));
    let endless = format!("GET /echo HTTP/1.1\r\nHost: h\r\nX: {}", "x".repeat(1024 * 1024));
    let malformed: &[&[u8]] = &[
        b"GET /echo HTTP/1.1\nHost: h\n\n",
        b"GET /echo HTTP/1.1\r\nHost: h\nX: 1\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nHost: h\r\nX: 1\r\n folded\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nHost: h\r\nX: a\0b\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nHost: h\r\nX : 1\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nHost: h\r\n: 1\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n",
        b"GET /echo HTTP/3.0\r\nHost: h\r\n\r\n",
        b"G\x01T /echo HTTP/1.1\r\nHost: h\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        many.as_bytes(),
    ];
    all_refused(malformed, &[400]).await;
    all_refused(&[over.as_bytes(), endless.as_bytes()], &[431]).await;
}

#[tokio::test]
async fn h7_header_limits_are_exact() {
    let limits = Limits { header_bytes: 300, header_count: 3, ..Limits::default() };
    let server = Server::start(Options { limits, ..Options::default() });
    for (pad, fields, status) in [(200, 3, 200), (264, 2, 200), (265, 2, 431), (10, 4, 431)] {
        let start = "GET /echo HTTP/1.1\r\nHost: h\r\n";
        let extra: String = (0..fields - 2).map(|_| "Y: 1\r\n").collect();
        let request = format!("{start}X: {}\r\n{extra}\r\n", "x".repeat(pad));
        if fields == 2 {
            assert_eq!(request.len(), 300 + usize::from(status == 431), "the test's own sum");
        }
        assert_eq!(server.send(request).await.answer().await.status, status, "{pad} {fields}");
    }
}

#[tokio::test]
async fn h9_ambiguous_authorities_are_refused() {
    all_refused(
        &[
            b"GET /echo HTTP/1.1\r\n\r\n",
            b"GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            b"GET /echo HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            b"GET http://b/echo HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET http://u@a/echo HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /echo HTTP/1.1\r\nHost: u@a\r\n\r\n",
            b"GET http://a/echo HTTP/1.1\r\n\r\n",
            b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n",
        ],
        &[400],
    )
    .await;
}

#[tokio::test]
async fn h9_absolute_form_that_agrees_with_host_is_its_path() {
    let mut server = Server::plain();
    for (target, path, query) in [
        ("http://a/echo?x=1", "/echo", Some("x=1")),
        ("HTTP://a", "/", None),
        ("http://a/x://y", "/x://y", None),
    ] {
        let mut client = server.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        assert_eq!(client.answer().await.status, 200);
        let head = server.head().await;
        assert_eq!((head.path.as_str(), head.query.as_deref()), (path, query));
        server.body().await;
    }
}

#[tokio::test]
async fn h16_paths_reach_the_handler_untouched() {
    let mut server = Server::plain();
    for path in
        ["/mcp/../admin", "//mcp", "/%2e%2e/x", "/mcp;x", "/mcp/", "/MCP", "/a%00b", "/%2fmcp", "/./mcp"]
    {
        let mut client = server.send(format!("GET {path}?q=/%2e HTTP/1.1\r\nHost: h\r\n\r\n")).await;
        assert_eq!(client.answer().await.status, 200);
        let head = server.head().await;
        assert_eq!((head.path.as_str(), head.query.as_deref()), (path, Some("q=/%2e")));
        assert!(!head.version_h2 && !head.tls);
        server.body().await;
    }
}

#[tokio::test]
async fn j16_a_declared_length_over_the_cap_is_refused_before_it_is_read() {
    let mut server = Server::plain();
    let length = BODY_CAP + 1;
    let mut client =
        server.send(format!("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n")).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
    client.send("x".repeat(1000)).await;
    client.closed().await;
    server.head().await;
    assert!(matches!(server.event().await, Event::Refused(BodyFault::TooLarge)));
    server.nothing_more();
}

#[tokio::test]
async fn j16_chunks_without_end_are_cut_at_the_cap() {
    let mut server = Server::plain();
    let mut client =
        server.send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
    for _ in 0..=BODY_CAP / 0x1000 {
        client.send(&chunk).await;
    }
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
    server.head().await;
    assert!(matches!(server.event().await, Event::Refused(BodyFault::TooLarge)));
    server.nothing_more();
}

#[tokio::test]
async fn j16_a_body_at_the_cap_passes_and_a_short_one_is_no_request() {
    let mut server = Server::plain();
    let mut client = server.send(post("/echo", &"x".repeat(BODY_CAP))).await;
    assert_eq!(client.answer().await.body.len(), BODY_CAP);
    server.head().await;
    assert_eq!(server.body().await.len(), BODY_CAP);
    let client = server.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nshort").await;
    server.head().await;
    drop(client);
    assert!(matches!(server.event().await, Event::Refused(BodyFault::Gone)));
}

#[tokio::test]
async fn malformed_chunks_are_refused() {
    let mut server = Server::plain();
    for chunks in ["x\r\nhi\r\n0\r\n\r\n", "-1\r\nhi\r\n", "2\r\nhiXX0\r\n\r\n", "FFFFFFFFFFFFFFFFF\r\nhi"] {
        let head = "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut client = server.send(format!("{head}{chunks}")).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("connection")), (400, Some("close")), "{chunks:?}");
        server.head().await;
        assert!(matches!(server.event().await, Event::Refused(BodyFault::Malformed)), "{chunks:?}");
    }
    server.nothing_more();
}
