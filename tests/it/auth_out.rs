//! Cases A18 to A20, A22 and the rest of the way out: the credential that a server gets is the configured one and no
//! other, and what a server says about authentication goes nowhere.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tollgate_tests::client::Client;
use tollgate_tests::gateway::{Gateway, Start};
use tollgate_tests::http::Answer;
use tollgate_tests::issuer::{Issuer, Mood, field, now};
use tollgate_tests::peer::{Peer, simple_tool};
use tollgate_tests::scripted::{Carrier, Scripted, Seen};

use crate::auth_kit::{Kit, section};
use crate::support::{http, yaml};

/// A server that takes only requests whose header `Authorization` passes, and counts the others.
fn guarded(
    peer: Peer,
    challenge: &str,
    passes: impl Fn(&str) -> bool + Send + Sync + 'static,
) -> (Scripted, Arc<AtomicUsize>) {
    let refused = Arc::new(AtomicUsize::new(0));
    let (count, challenge) = (Arc::clone(&refused), challenge.to_owned());
    let up = Scripted::carried(peer, Carrier::Json, move |seen, out| {
        let fine = passes(seen.header("authorization").unwrap_or_default());
        if !fine {
            count.fetch_add(1, Ordering::Relaxed);
            out.reply(401, &[("WWW-Authenticate", &challenge), ("Content-Type", "text/plain")], "go away");
        }
        !fine
    });
    (up, refused)
}

fn call(gateway: &Gateway) -> Answer {
    let client = gateway.modern().server("up");
    client.call("echo", r#"{"text":"hi"}"#)
}

fn works(what: &str, gateway: &Gateway) {
    let answer = call(gateway);
    assert_eq!(answer.status, 200, "{what}: {}", answer.text());
    assert_eq!(answer.result()["isError"], false, "{what}: {}", answer.text());
}

fn authorizations(seen: &[Seen]) -> Vec<String> {
    seen.iter().filter_map(|seen| seen.header("authorization").map(str::to_owned)).collect()
}

#[test]
fn a_bearer_token_or_a_header_goes_with_every_request() {
    let (up, refused) = guarded(Peer::modern("up"), "Bearer", |value| value == "Bearer canary-out-1");
    let more = ", auth: { bearer: \"env:OUT\" }";
    let gateway = Start::new(&yaml("", &[http("up", &up, more)])).env("OUT", "canary-out-1").start();
    works("bearer", &gateway);
    assert_eq!(refused.load(Ordering::Relaxed), 0);
    assert!(!gateway.log().contains("canary-") && !gateway.admin("/status").text().contains("canary-"));
    let up = Scripted::json(Peer::modern("up"));
    let more = ", auth: { header: { name: X-Api-Key, value: \"env:OUT\" } }";
    let gateway = Start::new(&yaml("", &[http("up", &up, more)])).env("OUT", "canary-out-2").start();
    works("header", &gateway);
    assert!(up.seen().iter().all(|seen| seen.header("x-api-key") == Some("canary-out-2")));
}

#[test]
fn a_file_is_read_again_when_it_changes() {
    let wanted = Arc::new(Mutex::new("Bearer one".to_owned()));
    let passes = Arc::clone(&wanted);
    let (up, refused) = guarded(Peer::modern("up"), "Bearer", move |value| value == passes.lock().as_str());
    let more = ", auth: { bearer: \"file:token\" }";
    let gateway = Start::new(&yaml("", &[http("up", &up, more)])).file("token", "one\n").start();
    works("the first", &gateway);
    std::fs::write(gateway.dir.path().join("token"), "two\n").expect("written");
    *wanted.lock() = "Bearer two".into();
    // Even before the file would be looked at: the refusal makes the gateway look.
    works("the second", &gateway);
    assert!(refused.load(Ordering::Relaxed) <= 1);
}

#[test]
fn a19_a_servers_challenge_goes_nowhere_and_renewal_happens_once() {
    let canary = TcpListener::bind("127.0.0.1:0").expect("a port");
    canary.set_nonblocking(true).expect("no waiting");
    let evil = format!("http://{}/.well-known/x", canary.local_addr().expect("an address"));
    let challenge = format!("Bearer resource_metadata=\"{evil}\", scope=\"evil-scope\"");
    let (up, _) = guarded(Peer::modern("up"), &challenge, |_| false);
    let more = ", auth: { bearer: \"env:OUT\" }";
    let gateway = Start::new(&yaml("", &[http("up", &up, more)])).env("OUT", "canary-out-1").start();
    let answer = call(&gateway);
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.code(), Some(7006), "{}", answer.text());
    assert!(answer.header("www-authenticate").is_none());
    assert!(!answer.text().contains("evil") && !answer.text().contains("go away"), "{}", answer.text());
    assert!(canary.accept().is_err(), "the server's address was connected to");
}

/// The members of a token endpoint.
fn grantor(issuer: &Issuer, more: &str) -> String {
    format!(
        "{{ token_url: \"{}/token\", client_id: gateway, client_secret: \"env:SECRET\"{more} }}",
        issuer.url()
    )
}

#[test]
fn client_credentials_are_kept_and_renewed_after_a_refusal() {
    let issuer = Issuer::start();
    let revoked = Arc::new(Mutex::new(Vec::<String>::new()));
    let bad = Arc::clone(&revoked);
    let (up, refused) = guarded(Peer::modern("up"), "Bearer", move |value| {
        value.starts_with("Bearer granted-") && !bad.lock().iter().any(|token| token == value)
    });
    let more = format!(", auth: {{ client_credentials: {} }}", grantor(&issuer, ", scope: \"a b\""));
    let head = "auth: { egress: { loopback: true } }\n";
    let start = Start::new(&yaml(head, &[http("up", &up, &more)])).env("SECRET", "canary-client-secret");
    let gateway = start.start();
    for _ in 0..5 {
        works("a kept token", &gateway);
    }
    let asked = issuer.seen("/token");
    assert_eq!(asked.len(), 1, "one token for all");
    assert_eq!(field(&asked[0].body, "grant_type").as_deref(), Some("client_credentials"));
    assert_eq!(field(&asked[0].body, "scope").as_deref(), Some("a b"));
    assert!(!asked[0].body.contains("canary-client-secret"), "the secret is in the header");
    // A token that was given just now is not thrown away at once, so let it be older than the pause.
    std::thread::sleep(std::time::Duration::from_millis(5200));
    revoked.lock().extend(authorizations(&up.seen()));
    let before = refused.load(Ordering::Relaxed);
    works("after a revocation", &gateway);
    assert_eq!(refused.load(Ordering::Relaxed), before + 1, "renewed once, called once more");
    assert_eq!(issuer.seen("/token").len(), 2);
    assert!(!gateway.log().contains("granted-") && !gateway.log().contains("canary-"));
}

#[test]
fn a_token_endpoint_that_fails_is_7006_and_is_not_flooded() {
    let issuer = Issuer::start();
    issuer.token_endpoint(Mood::Status(500));
    let up = Scripted::json(Peer::modern("up"));
    let more = format!(", auth: {{ client_credentials: {} }}", grantor(&issuer, ""));
    let head = "auth: { egress: { loopback: true } }\n";
    let gateway = Start::new(&yaml(head, &[http("up", &up, &more)])).env("SECRET", "s").start();
    for _ in 0..20 {
        let answer = call(&gateway);
        assert_eq!(answer.code(), Some(7006), "{}", answer.text());
    }
    assert!(up.seen().is_empty(), "a request without its credential");
    assert!(issuer.seen("/token").len() <= 2, "{}", issuer.seen("/token").len());
}

/// A server that shows each caller another tool: the one that is named after the token.
fn personal(issuer_tokens: Arc<Mutex<Vec<String>>>) -> Scripted {
    Scripted::carried(Peer::modern("up"), Carrier::Json, move |seen, out| {
        let value = seen.header("authorization").unwrap_or_default().to_owned();
        issuer_tokens.lock().push(value.clone());
        if !value.starts_with("Bearer granted-") {
            out.json(401, "{}");
            return true;
        }
        if seen.is("tools/list") {
            let number = value.trim_start_matches("Bearer granted-").split('-').next().unwrap_or_default();
            let tool = simple_tool(&format!("only-{number}"));
            let result = format!(
                r#"{{"resultType":"complete","ttlMs":60000,"cacheScope":"private","tools":[{tool}]}}"#
            );
            out.json(200, seen.rpc().result(&result));
            return true;
        }
        false
    })
}

#[test]
fn a22_a18_each_caller_has_its_own_exchanged_token_and_its_own_list() {
    let values = Arc::new(Mutex::new(Vec::new()));
    let up = personal(Arc::clone(&values));
    let issuer = Issuer::start();
    let more = format!(", auth: {{ token_exchange: {} }}", grantor(&issuer, ""));
    let head = section(&issuer, "", "");
    let gateway = Start::new(&yaml(&head, &[http("up", &up, &more)])).env("SECRET", "s").start();
    let list = |token: &str| -> Vec<String> {
        let request = gateway.modern().server("up").request("tools/list", "{}");
        let answer = request.header("Authorization", &format!("Bearer {token}")).send(gateway.addr);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let tools = answer.result()["tools"].clone();
        tools
            .as_array()
            .expect("tools")
            .iter()
            .map(|t| t["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    let (alice, bob) = (issuer.token("alice", json!({})), issuer.token("bob", json!({})));
    let (hers, his) = (list(&alice), list(&bob));
    assert_eq!((hers.len(), his.len()), (1, 1));
    assert_ne!(hers, his, "one caller's list was shown to another");
    assert_eq!((list(&alice), list(&bob)), (hers, his), "kept for each");
    let asked = issuer.seen("/token");
    assert_eq!(asked.len(), 2, "one exchange for each caller");
    for (seen, token) in asked.iter().zip([&alice, &bob]) {
        assert_eq!(field(&seen.body, "subject_token").as_ref(), Some(token));
        assert_eq!(field(&seen.body, "resource"), Some(up.url()), "for this server alone");
    }
    for value in values.lock().iter() {
        assert!(!value.contains(&alice) && !value.contains(&bob), "a caller's token reached the server");
    }
}

#[test]
fn an_exchange_needs_an_access_token() {
    let up = Scripted::json(Peer::modern("up"));
    let issuer = Issuer::start();
    let more = format!(", auth: {{ token_exchange: {} }}", grantor(&issuer, ""));
    let digest: String =
        tollgate_tests::issuer::sha256(b"fixed-token").iter().map(|byte| format!("{byte:02x}")).collect();
    let head = section(&issuer, "", &format!("  tokens: [{{ name: ci, sha256: \"{digest}\" }}]\n"));
    let gateway = Start::new(&yaml(&head, &[http("up", &up, &more)])).env("SECRET", "s").start();
    let request = gateway.modern().server("up").request("tools/call", r#"{"name":"echo","arguments":{}}"#);
    let answer = request.header("Authorization", "Bearer fixed-token").send(gateway.addr);
    assert_eq!(answer.code(), Some(7006), "{}", answer.text());
    assert!(issuer.seen("/token").is_empty(), "a fixed token was shown to the issuer");
    assert!(up.seen().is_empty());
}

#[test]
fn an_assertion_says_who_calls_and_never_with_which_token() {
    use base64::Engine;
    let kit_up = Scripted::json(Peer::modern("up"));
    let issuer = Issuer::start();
    let more =
        ", auth: { assertion: { key: \"file:key.pem\", issuer: \"https://gw.example\", lifetime: 30s } }";
    let head = section(&issuer, "", "");
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key").serialize_pem();
    let start = Start::new(&yaml(&head, &[http("up", &kit_up, more)])).file("key.pem", &key);
    let gateway = start.start();
    let token = issuer.token("alice", json!({"private": "canary-claim"}));
    let request = gateway.modern().server("up").request("tools/call", r#"{"name":"echo","arguments":{}}"#);
    let answer = request.header("Authorization", &format!("Bearer {token}")).send(gateway.addr);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let seen = kit_up.seen_of("tools/call");
    let value = seen[0].header("authorization").expect("an assertion").to_owned();
    let claims = value.trim_start_matches("Bearer ").split('.').nth(1).expect("claims").to_owned();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).expect("base64");
    let claims: Value = serde_json::from_slice(&bytes).expect("JSON");
    assert_eq!(claims["iss"], "https://gw.example");
    assert_eq!(claims["aud"], kit_up.url());
    assert_eq!(claims["principal"]["sub"], "alice", "{claims}");
    assert_eq!(claims["task"], "default");
    let life = claims["exp"].as_u64().expect("exp") - now();
    assert!(life <= 31, "{life}");
    assert!(!claims.to_string().contains("canary") && !value.contains(&token));
}

#[test]
fn a18_the_callers_token_is_not_the_servers() {
    let up = Scripted::json(Peer::modern("up"));
    let kit = Kit::before(up, "", "", ", auth: { bearer: \"env:PATH\" }");
    let token = kit.good();
    kit.works("a call", &token);
    let path = std::env::var("PATH").expect("a path");
    assert!(kit.up.seen().iter().all(|seen| seen.header("authorization") == Some(&format!("Bearer {path}"))));
}
