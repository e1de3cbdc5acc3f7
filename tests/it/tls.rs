//! TLS on both sides: the data listener's certificate and ALPN, and servers behind TLS.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tollgate_tests::client::Client;
use tollgate_tests::gateway::{Gateway, Start};
use tollgate_tests::http::Conn;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::tls::Identity;
use tollgate_tests::wait;

use crate::support::{http, yaml};

const HEAD: &str = "tls: { cert: own.crt, key: own.key }\nlimits: { header_timeout: 1s }\n";

fn start(up: &Scripted, identity: &Identity) -> Gateway {
    let dir = Arc::new(tempfile::tempdir().expect("a folder"));
    identity.write(dir.path(), "own");
    Start::new(&yaml(HEAD, &[http("up", up, "")])).folder(&dir).start()
}

#[test]
fn the_listener_serves_over_tls_and_offers_http2_by_alpn() {
    let (up, identity) = (Scripted::json(Peer::modern("up")), Identity::new());
    let gateway = start(&up, &identity);
    assert!(gateway.stdout().contains("listening on https://"), "{}", gateway.stdout());
    let (mut conn, agreed) = identity.connect(gateway.addr, &["http/1.1"]).expect("a handshake");
    assert_eq!(agreed.as_deref(), Some("http/1.1"));
    let host = format!("localhost:{}", gateway.addr.port());
    let request = gateway.modern().server("up").request("tools/call", r#"{"name":"echo","arguments":{}}"#);
    let request = request.header("Host", &host);
    for _ in 0..3 {
        assert_eq!(conn.exchange(&request).result()["isError"], false, "kept alive");
    }
    let (_, agreed) = identity.connect(gateway.addr, &["h2", "http/1.1"]).expect("a handshake");
    assert_eq!(agreed.as_deref(), Some("h2"));
    let (_, agreed) = identity.connect(gateway.addr, &[]).expect("a handshake");
    assert_eq!(agreed, None);
    assert!(Identity::new().connect(gateway.addr, &[]).is_err(), "another authority is trusted");
    // Plain HTTP and silence are no handshakes: both end under the header's deadline.
    let start = Instant::now();
    for words in [&b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], b"", b"\x16\x03\x01"] {
        let mut plain = Conn::open(gateway.addr);
        plain.write(words);
        assert!(plain.closes(Duration::from_secs(8)), "held open after {words:?}");
        assert!(!plain.unread().starts_with(b"HTTP/1.1 200"));
    }
    assert!(start.elapsed() < Duration::from_secs(15));
    gateway.assert_alive();
}

#[test]
fn a_changed_certificate_is_taken_up_and_a_broken_one_is_not() {
    let (up, first) = (Scripted::json(Peer::modern("up")), Identity::new());
    let gateway = start(&up, &first);
    first.connect(gateway.addr, &[]).expect("the first certificate");
    std::fs::write(gateway.dir.path().join("own.crt"), "no certificate").expect("write");
    std::thread::sleep(Duration::from_millis(1500));
    first.connect(gateway.addr, &[]).expect("a broken file replaces nothing");
    let second = Identity::new();
    second.write(gateway.dir.path(), "own");
    wait::within(Duration::from_secs(60), "the second certificate", || {
        second.connect(gateway.addr, &[]).is_ok()
    });
    gateway.assert_alive();
}

#[test]
fn a_missing_certificate_is_a_refused_start() {
    let said = Start::new(&yaml(HEAD, &["  up: { url: \"http://127.0.0.1:1/\" }\n".into()])).attempt().err();
    assert!(said.is_some_and(|s| s.contains("own.crt")), "half a gateway was started");
}

#[test]
fn servers_behind_tls_are_checked_against_their_authority() {
    let identity = Identity::new();
    let up = Scripted::tls(&identity, Peer::modern("up"));
    let entry = |ca: &str| {
        format!(
            "  up: {{ url: \"https://localhost:{}/mcp\"{ca}, timeouts: {{ connect: 2s, initialize: 3s }} }}\n",
            up.addr.port()
        )
    };
    let trusting = Start::new(&yaml("", &[entry(", ca: up.crt")])).file("up.crt", &identity.cert_pem).start();
    let answer = trusting.modern().server("up").call("echo", "{}");
    assert_eq!(answer.result()["isError"], false, "{}", answer.text());
    up.assert_clean();
    // It may still be reading the server's other lists.
    drop(trusting);
    let before = up.seen().len();
    let doubting = Start::new(&yaml("", &[entry("")])).start();
    let answer = doubting.modern().server("up").call("echo", "{}");
    assert_eq!(answer.code(), Some(7001), "{}", answer.text());
    let other =
        Start::new(&yaml("", &[entry(", ca: up.crt")])).file("up.crt", &Identity::new().cert_pem).start();
    assert_eq!(other.modern().server("up").call("echo", "{}").code(), Some(7001));
    assert_eq!(up.seen().len(), before, "words to a server that proved nothing");
}
