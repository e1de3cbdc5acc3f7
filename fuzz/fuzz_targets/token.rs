//! Access tokens: no text is ever accepted that was not signed, and of signed claims only those that a second, plain
//! reading of them allows.
#![no_main]

use std::sync::LazyLock;

use auth::Principal;
use auth::issuer::{Issuer, Settings};
use auth::jwt::Unverified;
use auth::keys::{Algorithm, KeySet};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use libfuzzer_sys::fuzz_target;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

const NOW: u64 = 1_800_000_000;
const ISSUER: &str = "https://i.example";
const AUDIENCE: &str = "https://g.example/mcp";

struct Fixture {
    pair: Ed25519KeyPair,
    set: KeySet,
    issuer: Issuer,
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a seed");
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]}).to_string();
    let settings = Settings { issuer: ISSUER.into(), audiences: vec![AUDIENCE.into()], ..Settings::default() };
    Fixture {
        pair,
        set: KeySet::parse(set.as_bytes(), Algorithm::Rs256).expect("a set"),
        issuer: Issuer::compile(settings).expect("an issuer"),
    }
});

fn verify(token: &str) -> Option<Principal> {
    let read = Unverified::parse(token).ok()?;
    let key = FIXTURE.set.get(read.kid())?.clone();
    read.verify(&key, &FIXTURE.issuer, NOW).ok()
}

fuzz_target!(|data: &[u8]| {
    if let Ok(text) = std::str::from_utf8(data) {
        assert!(verify(text).is_none(), "a forged token");
    }
    let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"EdDSA","typ":"at+jwt","kid":"k"}"#);
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(data));
    let signature = URL_SAFE_NO_PAD.encode(FIXTURE.pair.sign(message.as_bytes()));
    let Some(principal) = verify(&format!("{message}.{signature}")) else { return };
    let Principal::Oauth(oauth) = principal else { panic!("another kind") };
    let claims: Value = serde_json::from_slice(data).expect("JSON");
    assert_eq!(claims["iss"], ISSUER);
    match &claims["aud"] {
        Value::String(one) => assert_eq!(one, AUDIENCE),
        Value::Array(all) => assert!(!all.is_empty() && all.iter().all(|one| one == AUDIENCE)),
        other => panic!("{other}"),
    }
    assert!(claims["exp"].as_f64().expect("a number") + 31.0 > NOW as f64);
    assert_eq!(claims["sub"], *oauth.subject);
    assert!(!oauth.subject.contains('\0') && claims.get("cnf").is_none());
});
