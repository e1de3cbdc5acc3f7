//! Cases A1 to A11, A18, A24 to A26, L5 and X5 from outside: what proves a caller and what does not. A server sees nothing of what
//! is refused, and never a caller's credential.

use std::io::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::Start;
use tollgate_tests::issuer::{b64, now, sha256};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::{Carrier, Scripted};

use crate::auth_kit::Kit;
use crate::support::{http, yaml};

#[test]
fn a1_only_one_bearer_token_in_the_header_is_a_credential() {
    let kit = Kit::new();
    let token = kit.good();
    let none = kit.refuses("none", &kit.bare(), 401);
    assert!(!none.header("www-authenticate").unwrap_or_default().contains("error="), "nothing was wrong yet");
    let basic = kit.bare().header("Authorization", "Basic YTpi");
    let invalid = kit.refuses("Basic", &basic, 401);
    assert!(invalid.header("www-authenticate").unwrap_or_default().contains("error=\"invalid_token\""));
    let twice = kit.with_token(&token).header("Authorization", &format!("Bearer {token}"));
    kit.refuses("two", &twice, 401);
    let query = kit.bare().path(&format!("/servers/up/mcp?access_token={token}"));
    kit.refuses("in the query", &query, 401);
    let both = kit.with_token(&token).path(&format!("/servers/up/mcp?access_token={token}"));
    kit.refuses("in both", &both, 401);
    kit.refuses("empty", &kit.bare().header("Authorization", "Bearer "), 401);
    kit.works("a good one", &token);
}

#[test]
fn a4_nothing_in_a_token_is_ever_fetched() {
    let kit = Kit::new();
    kit.works("before", &kit.good());
    let canary = TcpListener::bind("127.0.0.1:0").expect("a port");
    canary.set_nonblocking(true).expect("no waiting");
    let url = format!("http://{}/keys", canary.local_addr().expect("an address"));
    let claims =
        json!({"iss": kit.issuer.url(), "aud": "https://mcp.example/mcp", "sub": "x", "exp": now() + 600});
    for header in [
        json!({"alg": "EdDSA", "kid": "k1", "jku": url}),
        json!({"alg": "EdDSA", "kid": "k1", "x5u": url}),
        json!({"alg": "EdDSA", "kid": "k1", "x5c": [url]}),
        json!({"alg": "EdDSA", "kid": url, "jku": url}),
    ] {
        let answer = kit.call(&kit.issuer.sign(&header, &claims));
        assert!(matches!(answer.status, 200 | 401), "{header}: {}", answer.text());
    }
    let crit = json!({"alg": "EdDSA", "kid": "k1", "crit": ["x"], "x": 1});
    kit.refuses("crit", &kit.with_token(&kit.issuer.sign(&crit, &claims)), 401);
    assert!(canary.accept().is_err(), "an address of the token was connected to");
}

#[test]
fn a7_a8_a9_a10_claims_are_held_to_the_table() {
    let kit = Kit::with(", profile: rfc9068", "");
    let refused = |what: &str, more: serde_json::Value| {
        kit.refuses(what, &kit.with_token(&kit.issuer.token("alice", more)), 401);
    };
    refused("no aud", json!({"aud": null}));
    refused("another aud", json!({"aud": "https://mcp.example/mc"}));
    refused("ours and another", json!({"aud": ["https://mcp.example/mcp", "https://other.example"]}));
    refused("iss array", json!({"iss": [kit.issuer.url()]}));
    refused("iss slash", json!({"iss": format!("{}/", kit.issuer.url())}));
    refused("no exp", json!({"exp": null}));
    refused("exp text", json!({"exp": (now() + 60).to_string()}));
    refused("ended", json!({"exp": now() - 40}));
    refused("not yet", json!({"nbf": now() + 60}));
    refused("no sub", json!({"sub": null}));
    let claims =
        json!({"iss": kit.issuer.url(), "aud": "https://mcp.example/mcp", "sub": "x", "exp": now() + 600});
    let id_token = kit.issuer.sign(&json!({"alg": "EdDSA", "kid": "k1", "typ": "JWT"}), &claims);
    kit.refuses("an ID token's type", &kit.with_token(&id_token), 401);
    kit.works("a good one", &kit.good());
}

#[test]
fn a3_a5_a26_what_was_not_signed_so_proves_nobody() {
    let kit = Kit::new();
    let token = kit.good();
    kit.works("whole", &token);
    let parts: Vec<&str> = token.split('.').collect();
    let claims = parts[1];
    for alg in ["none", "None", "HS256", "RS256", "ES256"] {
        let header = b64(json!({"alg": alg, "kid": "k1", "typ": "at+jwt"}).to_string());
        kit.refuses(alg, &kit.with_token(&format!("{header}.{claims}.{}", parts[2])), 401);
        kit.refuses(alg, &kit.with_token(&format!("{header}.{claims}.")), 401);
    }
    let bytes = token.as_bytes();
    for at in (0..bytes.len()).step_by(bytes.len() / 40) {
        let mut flipped = bytes.to_vec();
        flipped[at] = if flipped[at] == b'A' { b'B' } else { b'A' };
        if flipped == bytes {
            continue;
        }
        let text = String::from_utf8(flipped).expect("text");
        let answer = kit.call(&text);
        // The last digit of a part may hold bits that stand for nothing.
        assert!(answer.status == 401 || text.split('.').eq(token.split('.')), "{at}: {}", answer.text());
    }
}

#[test]
fn a18_x5_a_callers_credential_reaches_no_server_and_no_text() {
    let kit = Kit::new();
    let canary = "canary-q7w8e9r0t1y2";
    let token = kit.issuer.token("alice", json!({"secret": canary}));
    let request = kit
        .with_token(&token)
        .header("Cookie", "session=canary-cookie-123456")
        .header("Proxy-Authorization", "Basic canary-proxy-123456")
        .header("DPoP", "canary-dpop-123456")
        .header("X-Api-Key", "canary-apikey-123456")
        .header("X-Forwarded-For", "203.0.113.77")
        .header("Forwarded", "for=203.0.113.77");
    assert_eq!(request.send(kit.gateway.addr).status, 200);
    let bad = format!("{}x", kit.issuer.token("mallory", json!({"secret": canary})));
    kit.refuses("a broken one", &kit.with_token(&bad), 401);
    let mut sinks = vec![
        kit.gateway.log(),
        kit.gateway.stdout(),
        kit.gateway.admin("/metrics").text(),
        kit.gateway.admin("/status").text(),
        kit.gateway.admin("/capability").text(),
    ];
    sinks.extend(kit.up.seen().iter().map(|seen| seen.text()));
    let secrets = [token.as_str(), bad.as_str()];
    for sink in &sinks {
        for secret in secrets {
            for at in (0..secret.len() - 8).step_by(3) {
                assert!(!sink.contains(&secret[at..at + 8]), "8 bytes of a token in: {sink}");
            }
        }
        for word in ["canary-", "203.0.113.77", canary] {
            assert!(!sink.contains(word), "{word} in: {sink}");
        }
    }
    assert!(kit.up.seen().iter().all(|seen| seen.header("authorization").is_none()));
}

#[test]
fn a24_a_session_of_another_principal_is_unknown() {
    let kit = Kit::before(Scripted::json(Peer::legacy("up")), "", "", "");
    let (alice, bob) = (kit.good(), kit.issuer.token("bob", json!({})));
    let begin = Legacy::initialize("/servers/up/mcp", "2025-06-18", &json!({}));
    let answer = begin.header("Authorization", &format!("Bearer {alice}")).send(kit.gateway.addr);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let session = answer.header("mcp-session-id").expect("a session").to_owned();
    let list = |token: Option<&str>| {
        let body = r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#;
        let mut request = tollgate_tests::http::Request::post("/servers/up/mcp", body)
            .header("Mcp-Session-Id", &session)
            .header("MCP-Protocol-Version", "2025-06-18");
        if let Some(token) = token {
            request = request.header("Authorization", &format!("Bearer {token}"));
        }
        request.send(kit.gateway.addr)
    };
    assert_eq!(list(Some(&alice)).status, 200);
    assert_eq!(list(Some(&bob)).status, 404, "another's session");
    assert_eq!(list(None).status, 401, "a session id is no credential");
    let newer = kit.issuer.token("alice", json!({"scope": "mcp.read"}));
    assert_eq!(list(Some(&newer)).status, 200, "another token of the same principal");
}

/// A server whose calls send progress for as long as somebody listens.
fn endless() -> Scripted {
    Scripted::carried(Peer::modern("up"), Carrier::Sse, |seen, out| {
        if !seen.is("tools/call") {
            return false;
        }
        let token = seen.rpc().param(&["_meta", "progressToken"]).unwrap_or_default();
        out.stream(&[]);
        for n in 0..600 {
            let params = json!({"progressToken": token, "progress": n});
            let note = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
            out.event(&note.to_string());
            if out.wait_gone(Duration::from_millis(100)) {
                break;
            }
        }
        true
    })
}

#[test]
fn a25_a_stream_is_cut_when_its_credential_has_ended() {
    let kit = Kit::before(endless(), "", "  stream_grace: 1s\n", "");
    let token = kit.issuer.token("alice", json!({"exp": now() + 2}));
    let client = kit.gateway.modern().server("up").meta("progressToken", "1");
    let request = client.request("tools/call", r#"{"name":"echo","arguments":{}}"#);
    let begun = Instant::now();
    let answer = request.header("Authorization", &format!("Bearer {token}")).send(kit.gateway.addr);
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
    assert!(!answer.notifications().is_empty(), "{}", answer.text());
    let last = answer.response();
    assert_eq!(last["error"]["data"]["reason"], "credential_ended", "{last}");
    assert_eq!(last["error"]["data"]["retryable"], false, "{last}");
    tollgate_tests::wait::until("a record", || kit.gateway.log().contains("credential_ended"));
}

#[test]
fn l5_forwarding_headers_make_nobody_local() {
    let kit = Kit::new();
    for (name, value) in [
        ("X-Forwarded-For", "127.0.0.1"),
        ("Forwarded", "for=127.0.0.1"),
        ("X-Real-Ip", "127.0.0.1"),
        ("X-Forwarded-User", "admin"),
        ("X-Remote-User", "admin"),
        ("X-Client-Cert", "x"),
    ] {
        kit.refuses(name, &kit.bare().header(name, value), 401);
    }
}

#[test]
fn peer_13_no_header_stands_for_a_credential() {
    let kit = Kit::new();
    for name in ["router-key", "x-gw-auth", "x-mcp-init-host", "tollgate-task", "x-internal", "mcp-init-host"]
    {
        kit.refuses(name, &kit.bare().header(name, "secret-api-key"), 401);
        kit.refuses(name, &kit.bare().header(name, "default"), 401);
    }
}

#[test]
fn fixed_tokens_are_known_by_their_digest_and_read_again() {
    let up = Scripted::json(Peer::modern("up"));
    let digest =
        |text: &str| sha256(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let head = format!(
        "auth:\n  tokens:\n    - {{ name: ci, sha256: \"file:ci.sha256\" }}\n    - {{ name: old, sha256: \"{}\", \
         expires: 2020-01-31 }}\n    - {{ name: other, sha256: \"{}\" }}\n",
        digest("old-token"),
        digest("other-token"),
    );
    let start = Start::new(&yaml(&head, &[http("up", &up, "")])).file("ci.sha256", &digest("first-token"));
    let gateway = start.start();
    let call = |token: &str| {
        let request =
            gateway.modern().server("up").request("tools/call", r#"{"name":"echo","arguments":{}}"#);
        request.header("Authorization", &format!("Bearer {token}")).send(gateway.addr).status
    };
    assert_eq!(call("first-token"), 200);
    assert_eq!(call("other-token"), 200);
    assert_eq!(call("old-token"), 401, "ended");
    assert_eq!(call(&digest("first-token")), 401, "the digest is no token");
    let path = gateway.dir.path().join("ci.sha256");
    let mut file = std::fs::File::create(path).expect("the file");
    writeln!(file, "{}  -", digest("second-token")).expect("written");
    tollgate_tests::wait::until("the new token", || call("second-token") == 200);
    assert_eq!(call("first-token"), 401, "the old one is none any more");
    assert_eq!(call("other-token"), 200);
}
