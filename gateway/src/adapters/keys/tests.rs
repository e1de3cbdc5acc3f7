//! Rules for keys over a scripted network and a paused clock: A11 to A13, and what is remembered of tokens.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use auth::client::FormRequest;
use auth::issuer::{Issuer, Settings};
use auth::keys::{Algorithm, Timing};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use super::*;
use crate::adapters::outbound::{Document, FetchError};
use crate::config::{Auth, KeySource, Trusted};

const NOW: u64 = 1_800_000_000;
const URL: &str = "https://idp.example/jwks";

/// A network of documents.
#[derive(Default)]
struct Net {
    documents: Mutex<HashMap<String, Value>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Obtain for Net {
    async fn get(&self, url: &str, _: usize) -> Result<Document, FetchError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let found = self.documents.lock().get(url).cloned().ok_or(FetchError::Late)?;
        Ok(Document { status: 200, body: found.to_string().into() })
    }

    async fn post(&self, url: &str, _: &FormRequest, cap: usize) -> Result<Document, FetchError> {
        self.get(url, cap).await
    }
}

struct Bench {
    net: Arc<Net>,
    pair: Ed25519KeyPair,
    keys: Keyring,
}

fn at(secs: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(secs)
}

impl Bench {
    fn new() -> Bench {
        let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap();
        let net = Arc::new(Net::default());
        let issuer = Issuer::compile(Settings {
            issuer: "https://idp.example".into(),
            audiences: vec!["us".into()],
            ..Settings::default()
        });
        let trusted = Trusted {
            issuer: issuer.unwrap(),
            keys: KeySource::Url(URL.into()),
            timing: Timing::default(),
            rsa: Algorithm::default(),
            introspection: None,
        };
        let obtain: Arc<dyn Obtain> = net.clone();
        let keys = Keyring::new(&Auth { issuers: vec![trusted], ..Auth::default() }, &obtain).unwrap();
        let bench = Bench { net, pair, keys };
        bench.publish(&["k1"]);
        bench
    }

    fn publish(&self, kids: &[&str]) {
        let b64 = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let x = b64(self.pair.public_key().as_ref());
        let jwk = |kid: &&str| json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": kid, "alg": "EdDSA"});
        let set = json!({"keys": kids.iter().map(jwk).collect::<Vec<_>>()});
        self.net.documents.lock().insert(URL.into(), set);
    }

    fn token(&self, kid: &str, exp: u64) -> String {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let claims = json!({"iss": "https://idp.example", "aud": "us", "sub": "alice", "exp": exp});
        let message = format!("{}.{}", part(json!({"alg": "EdDSA", "kid": kid})), part(claims));
        let signature = self.pair.sign(message.as_bytes());
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }

    fn asked(&self) -> usize {
        self.net.asked.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a11_a_clock_that_jumps_revives_no_token_and_drops_no_key() {
    let bench = Bench::new();
    let token = bench.token("k1", NOW + 60);
    assert!(bench.keys.present(&token, at(NOW)).await.is_ok());
    assert_eq!(bench.keys.present(&token, at(NOW + 3600)).await.unwrap_err(), Denied::Invalid("expired"));
    assert!(bench.keys.present(&token, at(NOW)).await.is_ok(), "back again");
    assert!(bench.keys.present(&token, at(NOW + 60 + LEEWAY - 1)).await.is_ok());
    assert!(bench.keys.present(&token, at(NOW + 60 + LEEWAY)).await.is_err(), "remembered, and ended");
    assert_eq!(bench.asked(), 1, "the wall clock is no reason to fetch keys");
}

#[tokio::test(start_paused = true)]
async fn a12_stale_keys_serve_for_a_while_and_then_no_more() {
    let bench = Bench::new();
    let token = bench.token("k1", NOW + 100_000);
    assert!(bench.keys.present(&token, at(NOW)).await.is_ok());
    bench.net.documents.lock().clear();
    let timing = Timing::default();
    tokio::time::advance(timing.refresh + Duration::from_secs(1)).await;
    for _ in 0..3 {
        assert!(bench.keys.present(&token, at(NOW)).await.is_ok(), "the issuer fails, the token is good");
        tokio::time::advance(timing.stale / 5).await;
    }
    tokio::time::advance(timing.stale).await;
    let denied = bench.keys.present(&token, at(NOW)).await.unwrap_err();
    assert!(matches!(denied, Denied::Unavailable(_)), "{denied:?}");
    bench.publish(&["k1"]);
    tokio::time::advance(timing.cooldown).await;
    assert!(bench.keys.present(&token, at(NOW)).await.is_ok(), "open again");
}

#[tokio::test(start_paused = true)]
async fn a13_unknown_key_ids_cost_one_fetch_for_each_cooldown() {
    let bench = Bench::new();
    assert!(bench.keys.present(&bench.token("k1", NOW + 60), at(NOW)).await.is_ok());
    for n in 0..1000 {
        let token = bench.token(&format!("random-{n}"), NOW + 60);
        assert_eq!(bench.keys.present(&token, at(NOW)).await.unwrap_err(), Denied::Invalid("unknown_key"));
    }
    assert_eq!(bench.asked(), 1, "within the first cooldown");
    tokio::time::advance(Timing::default().cooldown).await;
    for n in 0..1000 {
        let token = bench.token(&format!("later-{n}"), NOW + 60);
        assert!(bench.keys.present(&token, at(NOW)).await.is_err());
    }
    assert_eq!(bench.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn a12_what_was_remembered_goes_with_its_key() {
    let bench = Bench::new();
    let token = bench.token("k1", NOW + 100_000);
    let who = bench.keys.present(&token, at(NOW)).await.unwrap();
    let again = bench.keys.present(&token, at(NOW)).await.unwrap();
    assert!(Arc::ptr_eq(&who, &again), "verified once");
    bench.publish(&["k2"]);
    tokio::time::advance(Timing::default().refresh).await;
    // The old set serves while the new one is on its way.
    assert!(bench.keys.present(&token, at(NOW)).await.is_ok());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(bench.keys.present(&token, at(NOW)).await.unwrap_err(), Denied::Invalid("unknown_key"));
}

#[tokio::test]
async fn other_issuers_and_other_texts_prove_nobody() {
    let bench = Bench::new();
    let forged = bench.token("k1", NOW + 60).replace('.', "..");
    for text in ["opaque", "a.b.c", "..", forged.as_str()] {
        assert!(bench.keys.present(text, at(NOW)).await.is_err(), "{text}");
    }
    assert_eq!(bench.asked(), 0, "no fetch for what can't be a token");
    assert!(bench.keys.certificate(b"x").is_err());
}
