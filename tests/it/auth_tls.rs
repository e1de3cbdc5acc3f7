//! Client certificates: whom they prove, and that one of another authority, or of the wrong kind of name, proves nobody.

use std::sync::Arc;

use tollgate_tests::client::Client;
use tollgate_tests::gateway::{Gateway, Start};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::tls::{Authority, Certified, Identity};

use crate::support::{http, yaml};

const HEAD: &str = "tls: { cert: own.crt, key: own.key }\nauth: { clients: { ca: ca.crt, name: uri } }\n";

fn call(gateway: &Gateway, own: &Identity, certified: Option<&Certified>, alpn: &str) -> Option<u16> {
    let (mut conn, _) = own.connect_as(gateway.addr, &[alpn], certified).ok()?;
    let host = format!("localhost:{}", gateway.addr.port());
    let request = gateway.modern().server("up").request("tools/call", r#"{"name":"echo","arguments":{}}"#);
    let answer = conn.try_exchange(&request.header("Host", &host)).ok()?;
    Some(answer.status)
}

#[test]
fn a_certificate_of_the_authority_proves_its_name() {
    let (up, own) = (Scripted::json(Peer::modern("up")), Identity::new());
    let (ours, theirs) = (Authority::new(), Authority::new());
    let dir = Arc::new(tempfile::tempdir().expect("a folder"));
    own.write(dir.path(), "own");
    let start = Start::new(&yaml(HEAD, &[http("up", &up, "")])).file("ca.crt", &ours.cert_pem).folder(&dir);
    let gateway = start.start();
    let named = ours.issue("spiffe://example/agent");
    assert_eq!(call(&gateway, &own, Some(&named), "http/1.1"), Some(200));
    assert_eq!(call(&gateway, &own, None, "http/1.1"), Some(401), "none shown");
    assert_eq!(
        call(&gateway, &own, Some(&ours.issue("agent.example")), "http/1.1"),
        Some(401),
        "a DNS name alone"
    );
    let foreign = call(&gateway, &own, Some(&theirs.issue("spiffe://example/agent")), "http/1.1");
    assert_eq!(foreign, None, "another authority's ends the handshake");
    let calls = up.calls();
    assert_eq!(calls, 1, "the server saw one call");
    assert!(up.seen().iter().all(|seen| !seen.text().contains("spiffe")));
}

#[test]
fn certificates_without_tls_are_refused_at_the_start() {
    let ours = Authority::new();
    let head = "auth: { clients: { ca: ca.crt, name: uri } }\n";
    let failed = Start::new(&yaml(head, &[])).file("ca.crt", &ours.cert_pem).attempt();
    assert!(failed.is_err_and(|text| text.contains("client certificates without TLS")));
}
