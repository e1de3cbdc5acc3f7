//! Tests of the verification: what is accepted, and what a token can't do whoever wrote it.

use serde_json::json;

use super::*;
use crate::issuer::Settings;
use crate::keys::Algorithm;
use crate::testing::{AUDIENCE, ISSUER, NOW, Signer, b64, claims, issuer, keys, settings};

/// What a gateway does with a token: reads it, finds the key by its id, verifies.
fn verify(token: &str, set: &crate::keys::KeySet, issuer: &Issuer) -> Result<Principal, TokenError> {
    let read = Unverified::parse(token)?;
    assert!(read.issuer().len() <= MAX_TOKEN);
    let key = set.get(read.kid()).ok_or(TokenError::UnknownKey)?.clone();
    read.verify(&key, issuer, NOW)
}

#[test]
fn every_algorithm_verifies_its_own_tokens() {
    for algorithm in Algorithm::ALL {
        let signer = Signer::new(algorithm);
        let token = signer.sign("k", &claims());
        let principal = verify(&token, &keys(&[signer.jwk("k")]), &issuer()).unwrap();
        let Principal::Oauth(oauth) = principal else { panic!("{algorithm:?}") };
        assert_eq!((&*oauth.issuer, &*oauth.subject, oauth.expires), (ISSUER, "user-1", NOW + 300));
        assert_eq!(oauth.client_id.as_deref(), Some("app"));
        assert_eq!(oauth.scopes.text(), "mcp.read other");
    }
}

#[test]
fn a3_algorithm_none_is_refused() {
    let signer = Signer::new(Algorithm::Rs256);
    let set = keys(&[signer.jwk("k")]);
    let good = signer.sign("k", &claims());
    let signature = good.rsplit('.').next().unwrap();
    for alg in ["none", "None", "nOnE", "NONE", "", "rs256", "RS256 ", "HS256"] {
        let message =
            format!("{}.{}", b64(json!({"alg": alg, "kid": "k"}).to_string()), b64(claims().to_string()));
        for signature in ["", signature] {
            let refused = verify(&format!("{message}.{signature}"), &set, &issuer());
            assert_eq!(refused, Err(TokenError::Algorithm), "{alg}");
        }
    }
    for header in [r#"{"kid":"k"}"#, r#"{"kid":"k","alg":null}"#, r#"{"kid":"k","alg":["RS256"]}"#] {
        let token = signer.token(header, &claims().to_string());
        assert_eq!(verify(&token, &set, &issuer()), Err(TokenError::Algorithm), "{header}");
    }
}

#[test]
fn a3_a_public_key_is_no_shared_secret() {
    let signer = Signer::new(Algorithm::Rs256);
    let jwk = signer.jwk("k");
    let set = keys(std::slice::from_ref(&jwk));
    let message = format!(
        "{}.{}",
        b64(json!({"alg": "HS256", "typ": "at+jwt", "kid": "k"}).to_string()),
        b64(claims().to_string())
    );
    let n = URL_SAFE_NO_PAD.decode(jwk["n"].as_str().unwrap()).unwrap();
    for secret in [jwk.to_string().into_bytes(), n, include_bytes!("../../testdata/rsa2048.pem").to_vec()] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let token = format!("{message}.{}", b64(ring::hmac::sign(&key, message.as_bytes())));
        assert_eq!(verify(&token, &set, &issuer()), Err(TokenError::Algorithm));
    }
}

#[test]
fn a3_an_algorithm_other_than_the_keys_is_refused_even_with_a_right_signature() {
    for (key_says, signed_by) in [
        (Algorithm::Rs256, Algorithm::Rs384),
        (Algorithm::Rs256, Algorithm::Ps256),
        (Algorithm::Ps256, Algorithm::Rs256),
        (Algorithm::Es256, Algorithm::Rs256),
        (Algorithm::Rs256, Algorithm::Es256),
        (Algorithm::EdDsa, Algorithm::Es256),
    ] {
        let set = keys(&[Signer::new(key_says).jwk("k")]);
        let other = Signer::new(signed_by);
        let token = other.sign("k", &claims());
        assert_eq!(verify(&token, &set, &issuer()), Err(TokenError::Algorithm));
        // With the right name in the header the signature is of another kind.
        let header = json!({"alg": key_says.name(), "typ": "at+jwt", "kid": "k"}).to_string();
        let lied = other.token(&header, &claims().to_string());
        assert_eq!(verify(&lied, &set, &issuer()), Err(TokenError::Signature), "{key_says:?} {signed_by:?}");
    }
}

#[test]
fn a4_a_token_brings_no_key_of_its_own() {
    let (ours, evil) = (Signer::new(Algorithm::Es256), Signer::new(Algorithm::Es256));
    let set = keys(&[ours.jwk("k")]);
    for (name, value) in [
        ("jwk", evil.jwk("k")),
        ("jku", json!("https://evil.example/keys")),
        ("x5u", json!("https://evil.example/cert")),
        ("x5c", json!(["AAAA"])),
    ] {
        let mut header = json!({"alg": "ES256", "typ": "at+jwt", "kid": "k"});
        header[name] = value;
        let forged = evil.token(&header.to_string(), &claims().to_string());
        assert_eq!(verify(&forged, &set, &issuer()), Err(TokenError::Signature), "{name}");
        // It is passed over in a token that is good without it.
        let good = ours.token(&header.to_string(), &claims().to_string());
        assert!(verify(&good, &set, &issuer()).is_ok(), "{name}");
    }
}

#[test]
fn a4_what_changes_the_meaning_is_refused() {
    let signer = Signer::new(Algorithm::Es256);
    let set = keys(&[signer.jwk("k")]);
    for (name, value) in [
        ("crit", json!(["exp"])),
        ("crit", json!([])),
        ("crit", json!(["b64"])),
        ("b64", json!(false)),
        ("b64", json!(true)),
        ("zip", json!("DEF")),
        ("enc", json!("A128GCM")),
    ] {
        let mut header = json!({"alg": "ES256", "typ": "at+jwt", "kid": "k"});
        header[name] = value;
        let token = signer.token(&header.to_string(), &claims().to_string());
        assert_eq!(verify(&token, &set, &issuer()), Err(TokenError::Critical), "{name}");
    }
}

#[test]
fn a5_the_key_id_is_looked_up_and_nothing_else() {
    let signer = Signer::new(Algorithm::Es256);
    let set = keys(&[signer.jwk("k")]);
    for kid in
        ["../../dev/null", "' OR 1=1 --", "K", "k ", "k\0", "http://evil.example/", &"k".repeat(MAX_KID)]
    {
        assert_eq!(
            verify(&signer.sign(kid, &claims()), &set, &issuer()),
            Err(TokenError::UnknownKey),
            "{kid}"
        );
    }
    for kid in [json!(null), json!(1), json!(["k"]), json!(""), json!("k".repeat(MAX_KID + 1))] {
        let header = json!({"alg": "ES256", "typ": "at+jwt", "kid": kid}).to_string();
        let token = signer.token(&header, &claims().to_string());
        assert_eq!(verify(&token, &set, &issuer()), Err(TokenError::KeyId), "{kid}");
    }
    let none = signer.token(r#"{"alg":"ES256","typ":"at+jwt"}"#, &claims().to_string());
    assert_eq!(verify(&none, &set, &issuer()), Err(TokenError::KeyId));
    let huge = signer.sign(&"k".repeat(1024 * 1024), &claims());
    assert_eq!(verify(&huge, &set, &issuer()), Err(TokenError::TooLarge));
}

#[test]
fn a6_empty_signatures_are_refused() {
    for algorithm in [Algorithm::Es256, Algorithm::Es384, Algorithm::EdDsa] {
        let signer = Signer::new(algorithm);
        let set = keys(&[signer.jwk("k")]);
        let token = signer.sign("k", &claims());
        let (message, signature) = token.rsplit_once('.').unwrap();
        let length = URL_SAFE_NO_PAD.decode(signature).unwrap().len();
        for bytes in [vec![0; length], vec![0xff; length], vec![], vec![0; 1], vec![0; 8 * 1024]] {
            let forged = format!("{message}.{}", b64(bytes));
            assert_eq!(verify(&forged, &set, &issuer()), Err(TokenError::Signature), "{algorithm:?}");
        }
    }
}

#[test]
fn a6_an_eddsa_signature_has_one_form() {
    let signer = Signer::new(Algorithm::EdDsa);
    let set = keys(&[signer.jwk("k")]);
    let token = signer.sign("k", &claims());
    let (message, signature) = token.rsplit_once('.').unwrap();
    let mut bytes = URL_SAFE_NO_PAD.decode(signature).unwrap();
    // S + L is S for whoever doesn't look: L = 2^252 + 27742317777372353535851937790883648493, little-endian.
    let order: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let mut carry = 0u16;
    for (byte, add) in bytes[32..].iter_mut().zip(order) {
        carry += u16::from(*byte) + u16::from(add);
        *byte = carry as u8;
        carry >>= 8;
    }
    assert_eq!(carry, 0);
    assert_eq!(verify(&format!("{message}.{}", b64(bytes)), &set, &issuer()), Err(TokenError::Signature));
    assert!(verify(&token, &set, &issuer()).is_ok());
}

#[test]
fn a10_the_type_is_looked_at() {
    let signer = Signer::new(Algorithm::Es256);
    let set = keys(&[signer.jwk("k")]);
    let plain = issuer();
    let strict = Issuer::compile(Settings { profile: Profile::Rfc9068, ..settings() }).unwrap();
    for (typ, plainly, strictly) in [
        (json!("at+jwt"), true, true),
        (json!("AT+JWT"), true, true),
        (json!("application/at+jwt"), true, true),
        (json!("JWT"), true, false),
        (json!("application/jwt"), true, false),
        (json!("id_token+jwt"), false, false),
        (json!("logout+jwt"), false, false),
        (json!("dpop+jwt"), false, false),
        (json!(""), false, false),
        (json!(7), false, false),
    ] {
        let header = json!({"alg": "ES256", "typ": typ, "kid": "k"}).to_string();
        let token = signer.token(&header, &claims().to_string());
        for (issuer, good) in [(&plain, plainly), (&strict, strictly)] {
            let result = verify(&token, &set, issuer).map(|_| ());
            assert_eq!(result, if good { Ok(()) } else { Err(TokenError::Type) }, "{typ}");
        }
    }
    let untyped = signer.token(r#"{"alg":"ES256","kid":"k"}"#, &claims().to_string());
    assert!(verify(&untyped, &set, &plain).is_ok());
    assert_eq!(verify(&untyped, &set, &strict), Err(TokenError::Type));
}

#[test]
fn a10_an_id_token_is_no_access_token() {
    let signer = Signer::new(Algorithm::Es256);
    let set = keys(&[signer.jwk("k")]);
    for (name, value) in [("at_hash", json!("x")), ("c_hash", json!("x")), ("typ", json!("ID"))] {
        let mut claims = claims();
        claims[name] = value;
        assert_eq!(verify(&signer.sign("k", &claims), &set, &issuer()), Err(TokenError::IdToken), "{name}");
    }
    let mut bound = claims();
    bound["cnf"] = json!({"jkt": "x"});
    assert_eq!(verify(&signer.sign("k", &bound), &set, &issuer()), Err(TokenError::SenderConstrained));
}

#[test]
fn a8_another_issuers_key_verifies_nothing() {
    let (ours, other) = (Signer::new(Algorithm::Es256), Signer::new(Algorithm::Es256));
    // The same key id at two issuers: a token of the one never passes at the other.
    assert_eq!(
        verify(&other.sign("k", &claims()), &keys(&[ours.jwk("k")]), &issuer()),
        Err(TokenError::Signature)
    );
    let elsewhere =
        Issuer::compile(Settings { issuer: "https://other.example".into(), ..settings() }).unwrap();
    assert_eq!(
        verify(&ours.sign("k", &claims()), &keys(&[ours.jwk("k")]), &elsewhere),
        Err(TokenError::Issuer)
    );
}

#[test]
fn no_refusal_holds_any_of_the_token() {
    let signer = Signer::new(Algorithm::Es256);
    let token = signer.sign("kid-canary", &json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "sub-canary"}));
    let refused = verify(&token, &keys(&[signer.jwk("kid-canary")]), &issuer()).unwrap_err();
    let shown = format!("{refused} {refused:?} {}", refused.reason());
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(refused, TokenError::Time);
}
