//! Servers that break the rules: cases U1 to U11, A20.

use super::*;
use crate::ports::upstream::FaultKind;

async fn fault_of(script: impl Fn(&Seen) -> Vec<Do> + Send + Sync + 'static) -> Fault {
    let fake = modern(script).await;
    run(&client(&fake), tool_call()).await.unwrap_err()
}

#[tokio::test]
async fn u1_an_answer_that_is_not_one_json_message_is_a_protocol_fault() {
    let json = [("content-type", "application/json")];
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("html", b"<html></html>".to_vec()),
        ("empty", Vec::new()),
        ("truncated", br#"{"jsonrpc":"2.0","id":2,"result":{"a":"#.to_vec()),
        ("junk behind", br#"{"jsonrpc":"2.0","id":2,"result":{}}x"#.to_vec()),
        ("twice", br#"{"jsonrpc":"2.0","id":2,"result":{}}{"jsonrpc":"2.0","id":2,"result":{}}"#.to_vec()),
        ("duplicate keys", br#"{"jsonrpc":"2.0","id":2,"result":{"a":1,"a":2}}"#.to_vec()),
        ("a batch", br#"[{"jsonrpc":"2.0","id":2,"result":{}}]"#.to_vec()),
        ("bytes", vec![0xff, 0xfe, 0x00]),
    ];
    for (name, body) in cases {
        let shown = body.clone();
        let fault = fault_of(move |_| http(200, &json, &body)).await;
        assert_eq!(fault.kind, FaultKind::Protocol, "{name}: {fault}");
        let leaked = String::from_utf8_lossy(&shown).into_owned();
        assert!(leaked.is_empty() || !fault.detail.contains(&leaked), "{name}");
    }
}

#[tokio::test]
async fn u1_a_wrong_content_type_or_status_is_a_protocol_fault() {
    for kind in ["text/html", "text/plain", "application/jsonp", "multipart/mixed"] {
        let fault = fault_of(move |seen| {
            http(200, &[("content-type", kind)], seen.result(json!({})).to_string().as_bytes())
        })
        .await;
        assert_eq!(fault.kind, FaultKind::Protocol, "{kind}");
    }
    let none = fault_of(|seen| http(200, &[], seen.result(json!({})).to_string().as_bytes())).await;
    assert_eq!(none.kind, FaultKind::Protocol);
    assert_eq!(fault_of(|_| accepted()).await.kind, FaultKind::Protocol);
    assert_eq!(fault_of(|_| http(204, &[], b"")).await.kind, FaultKind::Protocol);
}

#[tokio::test]
async fn u2_an_answer_with_another_id_is_refused_in_json_and_in_streams() {
    for streamed in [false, true] {
        for id in [json!(999), json!("2"), json!(null), json!(2.0), json!(-2)] {
            let named = id.clone();
            let fault = fault_of(move |_| {
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": {}});
                if streamed { sse(&[answer]) } else { reply(200, &answer) }
            })
            .await;
            assert_eq!(fault.kind, FaultKind::Protocol, "{named} {streamed}: {fault}");
        }
    }
}

#[tokio::test]
async fn u3_a_broken_envelope_is_refused() {
    let cases: [fn(&Seen) -> Value; 7] = [
        |s| json!({"jsonrpc": "2.0", "id": s.id(), "result": {}, "error": {"code": 1, "message": "x"}}),
        |s| json!({"jsonrpc": "2.0", "id": s.id()}),
        |s| json!({"jsonrpc": "2.0", "id": s.id(), "error": {"code": "1", "message": "x"}}),
        |s| json!({"jsonrpc": "2.0", "id": s.id(), "error": {"code": 1}}),
        |s| json!({"jsonrpc": "2.0", "id": s.id(), "result": []}),
        |s| json!({"jsonrpc": "1.0", "id": s.id(), "result": {}}),
        |s| json!({"jsonrpc": "2.0", "id": s.id(), "method": "ping"}),
    ];
    for (n, make) in cases.into_iter().enumerate() {
        let fault = fault_of(move |seen| reply(200, &make(seen))).await;
        assert_eq!(fault.kind, FaultKind::Protocol, "{n}: {fault}");
    }
}

#[tokio::test]
async fn u8_an_answer_over_the_limit_is_cut_off_while_it_arrives() {
    let declared = fault_of(|_| {
        let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 99999999\r\n\r\n{";
        vec![Do::Send(head.into()), Do::Hang]
    })
    .await;
    assert_eq!(declared.kind, FaultKind::TooLarge);
    let endless = || (0..100).map(|_| chunk(&" ".repeat(4096))).chain([Do::Hang]);
    let json = fault_of(move |_| {
        let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
        [Do::Send(head.into())].into_iter().chain(endless()).collect()
    })
    .await;
    assert_eq!(json.kind, FaultKind::TooLarge);
    // S4: the same as one line without an end.
    let line = fault_of(move |_| [sse_head(), chunk("data: ")].into_iter().chain(endless()).collect()).await;
    assert_eq!(line.kind, FaultKind::TooLarge);
    // An answer of just the limit passes.
    let fake = modern(|seen| {
        let empty = seen.result(json!({"a": ""})).to_string().len();
        reply(200, &seen.result(json!({"a": "x".repeat((64 << 10) - empty)})))
    })
    .await;
    run(&client(&fake), tool_call()).await.unwrap();
}

#[tokio::test]
async fn u9_a_server_that_never_answers_tls_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut spec = spec(&format!("https://{}/mcp", listener.local_addr().unwrap()));
    spec.timeouts.connect = Duration::from_millis(200);
    let client = client_of(spec);
    let fault = run(&client, tool_call()).await.unwrap_err();
    assert_eq!((fault.kind, fault.dispatched), (FaultKind::Unreachable, false));
    let status = client.status();
    assert_eq!(status.connected, Some(false));
    assert!(status.last_error.is_some());
}

#[tokio::test]
async fn u9_an_answer_that_breaks_off_is_dropped_not_guessed() {
    let cases: [fn(&Seen) -> Vec<Do>; 5] = [
        |_| vec![Do::Close],
        |_| vec![Do::Send(b"HTTP/1.1 200 X\r\ncontent-type: app".to_vec()), Do::Close],
        |seen| {
            let body = seen.result(json!({})).to_string();
            let head = "HTTP/1.1 200 X\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n";
            vec![Do::Send(format!("{head}{body}").into_bytes()), Do::Close]
        },
        |_| vec![sse_head(), chunk(": still here\n\n"), Do::Close],
        |seen| vec![sse_head(), chunk(&format!("data: {}", seen.result(json!({})))), last_chunk()],
    ];
    for (n, script) in cases.into_iter().enumerate() {
        let fault = fault_of(script).await;
        assert_eq!((fault.kind, fault.dispatched), (FaultKind::Dropped, true), "{n}: {fault}");
    }
}

#[tokio::test]
async fn u9_comments_keep_nothing_alive_that_the_caller_has_left() {
    let fake = modern(|_| {
        let comments = (0..10_000).flat_map(|_| [chunk(": x\n"), Do::Wait(Duration::from_millis(5))]);
        [sse_head()].into_iter().chain(comments).chain([Do::Hang]).collect()
    })
    .await;
    let client = client(&fake);
    let mut events = begin(&client, tool_call()).await.unwrap();
    let nothing = tokio::time::timeout(Duration::from_millis(300), events.next()).await;
    assert!(nothing.is_err(), "a comment is no event");
}

#[tokio::test]
async fn u10_an_encoded_answer_is_refused_unread() {
    for encoding in ["gzip", "br", "zstd", "gzip, identity"] {
        let fault = fault_of(move |seen| {
            let headers = [("content-type", "application/json"), ("content-encoding", encoding)];
            http(200, &headers, seen.result(json!({})).to_string().as_bytes())
        })
        .await;
        assert_eq!(fault.kind, FaultKind::Protocol, "{encoding}");
    }
}

#[tokio::test]
async fn u11_headers_of_an_answer_change_nothing() {
    let fake = modern(|seen| {
        let headers = [
            ("content-type", "application/json"),
            ("set-cookie", "a=b"),
            ("mcp-session-id", "unasked"),
            ("location", "http://127.0.0.1:1/"),
            ("access-control-allow-origin", "*"),
        ];
        http(200, &headers, seen.result(json!({})).to_string().as_bytes())
    })
    .await;
    let client = client(&fake);
    run(&client, tool_call()).await.unwrap();
    run(&client, tool_call()).await.unwrap();
    let seen = fake.last("tools/call");
    assert_eq!((seen.header("cookie"), seen.header("mcp-session-id")), (None, None));
}

#[tokio::test]
async fn a20_a_redirect_is_not_followed_and_the_credential_goes_nowhere() {
    let other = Fake::start(|seen| reply(200, &seen.result(json!({})))).await;
    for status in [301, 302, 303, 307, 308] {
        let target = other.url();
        let fake = modern(move |_| http(status, &[("location", target.as_str())], b"")).await;
        let mut spec = spec(&fake.url());
        if let Transport::Http(http) = &mut spec.transport {
            let secret = crate::config::Secret::new("Bearer canary");
            http.headers.push((::http::header::AUTHORIZATION, secret));
        }
        let client = client_of(spec);
        let fault = run(&client, tool_call()).await.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Protocol, "{status}");
        assert!(!fault.detail.contains("canary"));
        assert_eq!(fake.last("tools/call").header("authorization"), Some("Bearer canary"));
    }
    assert_eq!(other.connections(), 0);
}
