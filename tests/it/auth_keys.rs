//! Cases A12 to A15 from outside: keys that rotate, vanish, or come from where they must not; opaque tokens. Bounded
//! requests to the issuer, whatever callers send.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_tests::gateway::{Gateway, Start};
use tollgate_tests::issuer::{AUDIENCE, Issuer, Mood, field, now};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait;

use crate::auth_kit::{Kit, section};
use crate::support::{http, yaml};

#[test]
fn a12_a_new_key_is_found_and_an_old_one_dropped() {
    let kit = Kit::with(", jwks_refresh: 1s", "");
    let old = kit.good();
    kit.works("the first key", &old);
    kit.issuer.add_key("k2");
    let claims = json!({"iss": kit.issuer.url(), "aud": AUDIENCE, "sub": "alice", "exp": now() + 600});
    let new = kit.issuer.sign(&json!({"alg": "EdDSA", "kid": "k2"}), &claims);
    wait::until("the new key", || kit.call(&new).status == 200);
    kit.works("the first key still", &old);
    kit.issuer.drop_key("k1");
    // The token was verified before: what was remembered goes with its key.
    wait::until("the end of the first key", || kit.call(&old).status == 401);
    kit.works("the second key", &new);
}

#[test]
fn a12_a_failing_issuer_leaves_good_tokens_alone() {
    let kit = Kit::with(", jwks_refresh: 1s", "");
    let token = kit.good();
    kit.works("before", &token);
    let moods = [
        Mood::Status(500),
        Mood::Garbage,
        Mood::Huge(10 << 20),
        Mood::Redirect("http://127.0.0.1:1/".into()),
    ];
    for mood in moods {
        let before = kit.issuer.seen("/jwks").len();
        kit.issuer.jwks(mood.clone());
        wait::until("a failed fetch", || {
            kit.works(&format!("{mood:?}"), &token);
            kit.issuer.seen("/jwks").len() > before
        });
        kit.works(&format!("after {mood:?}"), &kit.issuer.token("bob", json!({})));
    }
    // An empty set is an answer: the issuer has revoked all keys.
    kit.issuer.jwks(Mood::Empty);
    wait::until("all keys revoked", || kit.call(&token).status == 401);
    kit.gateway.assert_alive();
}

#[test]
fn a12_keys_that_were_never_had_close_the_door_for_now() {
    let kit = Kit::new();
    kit.issuer.jwks(Mood::Status(503));
    let token = kit.good();
    let answer = kit.refuses("no keys", &kit.with_token(&token), 503);
    assert!(answer.header("retry-after").is_some(), "{answer:?}");
    assert_eq!(answer.error()["data"]["retryable"], true, "{}", answer.text());
    kit.issuer.jwks(Mood::Well);
    wait::until("the keys", || kit.call(&token).status == 200);
}

#[test]
fn a12_a_slow_issuer_is_asked_once_for_all() {
    let kit = Kit::new();
    kit.issuer.jwks(Mood::Slow(Duration::from_millis(500)));
    let token = kit.good();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..12).map(|_| scope.spawn(|| kit.call(&token).status)).collect();
        calls.into_iter().map(|call| call.join().expect("a call")).collect()
    });
    assert_eq!(statuses, [200; 12]);
    assert_eq!(kit.issuer.seen("/jwks").len(), 1);
}

#[test]
fn a13_random_key_ids_cost_one_fetch_for_each_cooldown() {
    let kit = Kit::new();
    kit.works("before", &kit.good());
    let begun = Instant::now();
    let claims = json!({"iss": kit.issuer.url(), "aud": AUDIENCE, "sub": "x", "exp": now() + 600});
    for n in 0..400 {
        let token = kit.issuer.sign(&json!({"alg": "EdDSA", "kid": format!("random-{n}")}), &claims);
        // Refused once the issuer was asked, else told to come again: it may be the id of a new key.
        assert!(matches!(kit.call(&token).status, 401 | 503), "{n}");
    }
    let most = 2 + usize::try_from(begun.elapsed().as_secs()).expect("a number");
    let fetched = kit.issuer.seen("/jwks").len();
    assert!(fetched <= most, "{fetched} fetches in {:?}", begun.elapsed());
    kit.works("a good one all the while", &kit.good());
}

#[test]
fn a14_private_addresses_are_no_place_for_keys() {
    let canary = TcpListener::bind("127.0.0.1:0").expect("a port");
    canary.set_nonblocking(true).expect("no waiting");
    let port = canary.local_addr().expect("an address").port();
    let refused = |jwks: &str| {
        let head = format!(
            "auth: {{ issuers: [{{ issuer: \"https://idp.example\", audience: a, jwks: \"{jwks}\" }}] }}\n"
        );
        let failed = Start::new(&yaml(&head, &[])).attempt().err();
        let text = failed.unwrap_or_else(|| panic!("{jwks} was taken"));
        assert!(text.contains("doesn't connect there"), "{jwks}: {text}");
    };
    for host in ["127.0.0.1", "127.1", "0x7f.1", "[::1]", "[::ffff:10.0.0.1]", "169.254.169.254", "10.0.0.1"]
    {
        refused(&format!("https://{host}:{port}/keys"));
    }
    refused("http://idp.example/keys");
    refused("https://user@idp.example/keys");
    // A name passes the look at the file, and what it leads to does not pass the look at the address.
    let head = format!(
        "auth: {{ issuers: [{{ issuer: \"https://idp.example\", audience: \"{AUDIENCE}\", \
         jwks: \"https://localhost:{port}/keys\" }}] }}\n"
    );
    let up = Scripted::json(Peer::modern("up"));
    let gateway = Start::new(&yaml(&head, &[http("up", &up, "")])).start();
    let issuer = Issuer::start();
    let token = issuer.token("alice", json!({"iss": "https://idp.example"}));
    assert_eq!(call(&gateway, &token), 503);
    assert!(canary.accept().is_err(), "a private address was connected to");
}

fn call(gateway: &Gateway, token: &str) -> u16 {
    use tollgate_tests::client::Client;
    let request = gateway.modern().server("up").request("tools/call", r#"{"name":"echo","arguments":{}}"#);
    request.header("Authorization", &format!("Bearer {token}")).send(gateway.addr).status
}

#[test]
fn a14_a_redirect_is_not_followed() {
    let kit = Kit::new();
    let canary = TcpListener::bind("127.0.0.1:0").expect("a port");
    canary.set_nonblocking(true).expect("no waiting");
    let url = format!("http://{}/jwks", canary.local_addr().expect("an address"));
    kit.issuer.jwks(Mood::Redirect(url.clone()));
    kit.refuses("keys behind a redirect", &kit.with_token(&kit.good()), 503);
    kit.issuer.metadata(Mood::Redirect(url));
    std::thread::sleep(Duration::from_millis(1100));
    kit.refuses("metadata behind a redirect", &kit.with_token(&kit.good()), 503);
    assert!(canary.accept().is_err(), "a redirect was followed");
}

#[test]
fn a15_metadata_of_another_issuer_is_not_used() {
    let kit = Kit::new();
    kit.issuer.metadata(Mood::Foreign);
    kit.refuses("foreign metadata", &kit.with_token(&kit.good()), 503);
    assert!(kit.issuer.seen("/jwks").is_empty(), "its keys were fetched");
}

#[test]
fn opaque_tokens_are_looked_up_and_remembered_shortly() {
    let issuer = Issuer::start();
    let lookup = ", introspection: { client_id: gateway, client_secret: \"env:LOOKUP\" }";
    let up = Scripted::json(Peer::modern("up"));
    let head = section(&issuer, lookup, "");
    let start = Start::new(&yaml(&head, &[http("up", &up, "")])).env("LOOKUP", "canary-lookup-secret");
    let gateway = start.start();
    let active =
        json!({"active": true, "sub": "alice", "aud": AUDIENCE, "scope": "mcp.read", "exp": now() + 600});
    issuer.opaque("opaque-1", active.clone());
    issuer.opaque("opaque-2", json!({"active": true, "sub": "alice", "aud": "https://other.example"}));
    issuer.opaque("opaque.with.dots", active);
    for _ in 0..5 {
        assert_eq!(call(&gateway, "opaque-1"), 200);
        assert_eq!(call(&gateway, "opaque-2"), 401, "for another audience");
        assert_eq!(call(&gateway, "opaque-3"), 401, "not active");
    }
    assert_eq!(call(&gateway, "opaque.with.dots"), 200);
    let asked = issuer.seen("/introspect");
    assert_eq!(asked.len(), 4, "each token once");
    assert_eq!(field(&asked[0].body, "token").as_deref(), Some("opaque-1"));
    assert!(asked[0].header("authorization").is_some_and(|value| value.starts_with("Basic ")));
    issuer.introspection(Mood::Status(500));
    assert_eq!(call(&gateway, "opaque-4"), 503, "a failure to ask is no refusal");
    issuer.introspection(Mood::Well);
    issuer.opaque("opaque-4", json!({"active": true, "sub": "bob", "aud": AUDIENCE}));
    assert_eq!(call(&gateway, "opaque-4"), 200);
    assert!(!gateway.log().contains("opaque-") && !gateway.log().contains("canary-"));
}
