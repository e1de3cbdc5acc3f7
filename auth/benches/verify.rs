//! What one access token costs with its key at hand, from the text to the principal: `cargo bench -p tollgate-auth`.
//! Times are those of the processor, so that a busy machine changes little.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use auth::issuer::{Issuer, Settings};
use auth::jwt::Unverified;
use auth::keys::{Algorithm, KeyCache, KeySet, Timing};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{Criterion, criterion_group, criterion_main};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents,
};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tollgate_auth as auth;

const NOW: u64 = 1_800_000_000;
const ISSUER: &str = "https://idp.example.com/realms/platform";
const AUDIENCE: &str = "https://mcp.example.com/mcp";

/// The time that this thread had a processor for.
struct CpuTime;

fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        cpu()
    }

    fn end(&self, start: Duration) -> Duration {
        cpu() - start
    }

    fn add(&self, one: &Duration, other: &Duration) -> Duration {
        *one + *other
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// A public key and what signs with its private one.
type Made = (Value, Box<dyn Fn(&[u8]) -> Vec<u8>>);

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rs256() -> Made {
    let text = include_str!("../testdata/rsa2048.pem");
    let body: String = text.lines().filter(|line| !line.starts_with('-')).collect();
    let pair = RsaKeyPair::from_pkcs8(&STANDARD.decode(body).unwrap()).unwrap();
    let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
    let sign = move |message: &[u8]| {
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
        signature
    };
    (json!({"kty": "RSA", "n": b64(n), "e": b64(e)}), Box::new(sign))
}

fn es256() -> Made {
    let random = SystemRandom::new();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref().to_vec();
    let jwk = json!({"kty": "EC", "crv": "P-256", "x": b64(&point[1..33]), "y": b64(&point[33..])});
    (jwk, Box::new(move |message| pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()))
}

fn eddsa() -> Made {
    let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap();
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "x": b64(pair.public_key())});
    (jwk, Box::new(move |message| pair.sign(message).as_ref().to_vec()))
}

/// A token such as providers give out, about 900 bytes with an RSA signature.
fn token(algorithm: &str, sign: &dyn Fn(&[u8]) -> Vec<u8>) -> String {
    let header = json!({"alg": algorithm, "typ": "at+jwt", "kid": "key-1"});
    let claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "6f1c2f0e-3f60-4a35-9c5e-0f4f6c1c9a11", "azp": "claude-code",
        "client_id": "claude-code", "scope": "mcp.read mcp.write profile", "exp": NOW + 300, "iat": NOW, "nbf": NOW,
        "jti": "b0c2b9b2-8c86-4a0e-bb9d-2c64d2d0b7aa", "acr": "1", "realm_access": {"roles": ["support", "dev", "ops"]},
        "email": "user@example.com", "preferred_username": "user",
    });
    let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
    format!("{message}.{}", b64(sign(message.as_bytes())))
}

fn verify(criterion: &mut Criterion<CpuTime>) {
    let settings =
        Settings { issuer: ISSUER.into(), audiences: vec![AUDIENCE.into()], ..Settings::default() };
    let issuer = Issuer::compile(settings).unwrap();
    for (name, (mut jwk, sign)) in [("RS256", rs256()), ("ES256", es256()), ("EdDSA", eddsa())] {
        jwk["kid"] = "key-1".into();
        let set = json!({"keys": [jwk]}).to_string();
        let set = KeySet::parse(set.as_bytes(), Algorithm::Rs256).unwrap();
        let key = set.get("key-1").unwrap().clone();
        let token = token(name, &*sign);
        criterion.bench_function(&format!("verify/{name}"), |bencher| {
            bencher
                .iter(|| Unverified::parse(black_box(&token)).unwrap().verify(&key, &issuer, NOW).unwrap());
        });
        criterion.bench_function(&format!("parse/{name}"), |bencher| {
            bencher.iter(|| Unverified::parse(black_box(&token)).unwrap().kid().len());
        });
    }
    let mut cache = KeyCache::new(Timing::default());
    cache.fetched(Some(KeySet::default()), Duration::ZERO);
    criterion.bench_function("lookup/unknown", |bencher| {
        bencher.iter(|| cache.lookup(black_box("random"), Duration::from_secs(1)).fetch);
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(CpuTime);
    targets = verify
}
criterion_main!(benches);
