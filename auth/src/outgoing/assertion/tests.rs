//! Tests of the gateway's assertion: a server with nothing but its public key can verify it.

use ring::signature::{ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaSigningAlgorithm};

use super::*;
use crate::issuer::{Issuer, Settings};
use crate::jwt::Unverified;
use crate::keys::{Algorithm, KeySet};
use crate::principal::Identifier;
use crate::testing::{NOW, claims, issuer, pem};

fn ed25519() -> AssertionKey {
    let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    AssertionKey::from_pkcs8(der.as_ref()).unwrap()
}

fn ecdsa(with: &'static EcdsaSigningAlgorithm) -> Vec<u8> {
    EcdsaKeyPair::generate_pkcs8(with, &SystemRandom::new()).unwrap().as_ref().to_vec()
}

const ABOUT: About<'_> =
    About { issuer: "https://gw.example", server: "github", task: "support", run: "r1", id: "jti-1" };

fn sign(key: &AssertionKey, principal: &Principal, lifetime: u64) -> String {
    let assertion = Assertion { principal, about: ABOUT, now: NOW, lifetime: Duration::from_secs(lifetime) };
    key.sign(&assertion).unwrap()
}

fn caller() -> Principal {
    let Value::Object(claims) = claims() else { unreachable!() };
    crate::claims::principal(&issuer(), claims, NOW).unwrap()
}

fn body(token: &str) -> Value {
    let part = token.split('.').nth(1).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

#[test]
fn a_server_verifies_it_with_the_public_key() {
    let p256 = AssertionKey::from_pkcs8(&ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING)).unwrap();
    for key in [ed25519(), p256] {
        let set = json!({"keys": [key.jwk()]}).to_string();
        let set = KeySet::parse(set.as_bytes(), Algorithm::Rs256).unwrap();
        let public = set.get(key.kid()).unwrap();
        let token = sign(&key, &caller(), 60);
        let (message, signature) = token.rsplit_once('.').unwrap();
        let name = key.jwk()["alg"].as_str().unwrap();
        assert_eq!(public.algorithm().name(), name);
        let checked = |signature: &str| {
            let algorithm = name.parse().unwrap();
            jsonwebtoken::crypto::verify(signature, message.as_bytes(), public.decoding(), algorithm).unwrap()
        };
        assert!(checked(signature));
        assert!(!checked(&URL_SAFE_NO_PAD.encode([1; 64])));
    }
}

#[test]
fn it_names_the_caller_for_one_server_and_a_minute() {
    let all = body(&sign(&ed25519(), &caller(), 3600));
    assert_eq!(
        (&all["iss"], &all["aud"], &all["jti"], &all["task"], &all["run"]),
        (&json!("https://gw.example"), &json!("github"), &json!("jti-1"), &json!("support"), &json!("r1"))
    );
    assert_eq!((&all["iat"], &all["exp"]), (&json!(NOW), &json!(NOW + 60)));
    assert_eq!(
        all["principal"],
        json!({"kind": "oauth", "iss": crate::testing::ISSUER, "sub": "user-1", "client_id": "app", "scope": "mcp.read other"})
    );
    assert_eq!(body(&sign(&ed25519(), &caller(), 10))["exp"], json!(NOW + 10));
}

#[test]
fn callers_of_different_kinds_never_share_a_subject() {
    let id = |text: &str| Identifier::new(text).unwrap();
    let key = ed25519();
    let all = [
        Principal::Anonymous,
        Principal::Token { name: id("anonymous") },
        Principal::Token { name: id("user-1") },
        Principal::Certificate { name: CertificateName::Uri(id("user-1")) },
        Principal::Certificate { name: CertificateName::Dns(id("user-1")) },
        Principal::Certificate { name: CertificateName::Email(id("user-1")) },
        caller(),
    ];
    let subjects: std::collections::HashSet<String> =
        all.iter().map(|one| body(&sign(&key, one, 60))["sub"].to_string()).collect();
    assert_eq!(subjects.len(), all.len());
    let kinds: Vec<Value> =
        all.iter().map(|one| body(&sign(&key, one, 60))["principal"]["kind"].clone()).collect();
    assert_eq!(kinds[..4], [json!("anonymous"), json!("token"), json!("token"), json!("certificate")]);
}

#[test]
fn a18_it_is_no_access_token_for_the_gateway_itself() {
    let key = ed25519();
    let set = json!({"keys": [key.jwk()]}).to_string();
    let set = KeySet::parse(set.as_bytes(), Algorithm::Rs256).unwrap();
    let settings =
        Settings { issuer: ABOUT.issuer.into(), audiences: vec![ABOUT.server.into()], ..Settings::default() };
    let token = sign(&key, &caller(), 60);
    let read = Unverified::parse(&token).unwrap();
    let refused = read.verify(set.get(key.kid()).unwrap(), &Issuer::compile(settings).unwrap(), NOW);
    assert_eq!(refused, Err(crate::TokenError::Type));
}

#[test]
fn only_private_keys_of_the_two_kinds_are_taken() {
    assert_eq!(AssertionKey::from_pkcs8(b"").unwrap_err(), KeyError::Unusable);
    assert_eq!(
        AssertionKey::from_pkcs8(&ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING)).unwrap_err(),
        KeyError::Unusable
    );
    let rsa = pem(include_str!("../../../testdata/rsa2048.pem"));
    assert_eq!(AssertionKey::from_pkcs8(&rsa).unwrap_err(), KeyError::Unusable);
}

#[test]
fn the_key_id_is_its_thumbprint() {
    // The example of RFC 8037, appendices A.1 and A.3: its private key in PKCS#8 as openssl writes it.
    let mut der =
        vec![0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    der.extend(URL_SAFE_NO_PAD.decode("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A").unwrap());
    let key = AssertionKey::from_pkcs8(&der).unwrap();
    assert_eq!(key.jwk()["x"], "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo");
    assert_eq!(key.kid(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    assert!(!format!("{key:?}").contains("nWGx"));
}
