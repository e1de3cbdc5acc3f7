//! Tests of key sets: what is a key, and what is not.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::{Signer, b64, keys, pem, set};

fn dropped(jwk: Value) -> DropReason {
    let read = keys(&[jwk]);
    assert!(read.is_empty());
    read.dropped()[0]
}

fn with(algorithm: Algorithm, name: &str, value: Value) -> Value {
    let mut jwk = Signer::new(algorithm).jwk("k");
    jwk[name] = value;
    jwk.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    jwk
}

#[test]
fn each_kind_of_key_is_read_with_its_algorithm() {
    for algorithm in Algorithm::ALL {
        let read = keys(&[Signer::new(algorithm).jwk("k")]);
        assert_eq!(read.get("k").unwrap().algorithm(), algorithm);
        assert_eq!(Algorithm::named(algorithm.name()), Some(algorithm));
    }
    for (algorithm, implied) in [
        (Algorithm::Ps512, Algorithm::Rs256),
        (Algorithm::Es256, Algorithm::Es256),
        (Algorithm::Es384, Algorithm::Es384),
        (Algorithm::EdDsa, Algorithm::EdDsa),
    ] {
        let read = keys(&[with(algorithm, "alg", Value::Null)]);
        assert_eq!(read.get("k").unwrap().algorithm(), implied);
    }
    let unnamed = set(&[with(Algorithm::Rs256, "alg", Value::Null)]);
    let read = KeySet::parse(unnamed.as_bytes(), Algorithm::Ps256).unwrap();
    assert_eq!(read.get("k").unwrap().algorithm(), Algorithm::Ps256);
}

#[test]
fn a5_what_a_key_says_it_is_for_is_binding() {
    for (name, value, reason) in [
        ("use", json!("enc"), DropReason::Use),
        ("use", json!(7), DropReason::Use),
        ("key_ops", json!(["encrypt"]), DropReason::Use),
        ("key_ops", json!([]), DropReason::Use),
        ("key_ops", json!("verify"), DropReason::Use),
        ("alg", json!("HS256"), DropReason::Algorithm),
        ("alg", json!("none"), DropReason::Algorithm),
        ("alg", json!("RSA-OAEP"), DropReason::Algorithm),
        ("alg", json!("ES256"), DropReason::Algorithm),
        ("alg", json!(7), DropReason::Malformed),
        ("kty", json!("EC"), DropReason::Type),
        ("kty", json!("rsa"), DropReason::Type),
        ("kty", json!(7), DropReason::Malformed),
        ("kid", Value::Null, DropReason::KeyId),
        ("kid", json!(""), DropReason::KeyId),
        ("kid", json!("k".repeat(MAX_KID + 1)), DropReason::KeyId),
        ("n", Value::Null, DropReason::Malformed),
        ("n", json!("*"), DropReason::Malformed),
        ("e", json!(7), DropReason::Malformed),
    ] {
        assert_eq!(dropped(with(Algorithm::Rs256, name, value.clone())), reason, "{name} {value}");
    }
    for (name, value) in
        [("use", json!("sig")), ("key_ops", json!(["sign", "verify"])), ("x5u", json!("https://e"))]
    {
        assert_eq!(keys(&[with(Algorithm::Rs256, name, value)]).len(), 1, "{name}");
    }
    for alg in ["ES384", "RS256", "EdDSA"] {
        assert_eq!(dropped(with(Algorithm::Es256, "alg", json!(alg))), DropReason::Algorithm, "{alg}");
    }
    assert_eq!(dropped(with(Algorithm::Es256, "crv", json!("P-521"))), DropReason::Type);
    assert_eq!(dropped(with(Algorithm::EdDsa, "crv", json!("X25519"))), DropReason::Type);
    assert_eq!(dropped(json!("text")), DropReason::Malformed);
}

#[test]
fn a5_a_key_id_that_stands_twice_names_no_key() {
    let one = Signer::new(Algorithm::Es256).jwk("k");
    let other = Signer::new(Algorithm::Rs256).jwk("k");
    let mut encryption = Signer::new(Algorithm::Rs256).jwk("k");
    encryption["use"] = json!("enc");
    let third = Signer::new(Algorithm::EdDsa).jwk("other");
    let read = keys(&[one.clone(), other, third.clone()]);
    assert_eq!((read.len(), read.get("k").is_none()), (1, true));
    assert_eq!(read.dropped(), [DropReason::DuplicateKeyId, DropReason::DuplicateKeyId]);
    assert!(keys(&[one.clone(), encryption]).get("k").is_none());
    assert_eq!(keys(&[one.clone(), one, third]).len(), 1);
}

#[test]
fn a6_weak_keys_are_dropped() {
    let rsa1024 = ring_free_modulus(&pem(include_str!("../../testdata/rsa1024.pem")));
    assert_eq!(dropped(with(Algorithm::Rs256, "n", json!(b64(rsa1024)))), DropReason::Size);
    for n in [vec![], vec![0; 256], vec![0xff; 255], vec![0xfe; 256], vec![0xff; 1025]] {
        assert_eq!(dropped(with(Algorithm::Rs256, "n", json!(b64(&n)))), DropReason::Size, "{}", n.len());
    }
    for e in [vec![], vec![0], vec![1], vec![0, 1], vec![2], vec![1, 0, 0], vec![1, 0, 0, 0, 1]] {
        assert_eq!(dropped(with(Algorithm::Rs256, "e", json!(b64(&e)))), DropReason::Size, "{e:?}");
    }
    // Leading zeros don't make a number longer.
    let padded = [vec![0; 200], vec![0xff; 200]].concat();
    assert_eq!(dropped(with(Algorithm::Rs256, "n", json!(b64(padded)))), DropReason::Size);
}

/// The modulus of a PKCS#8 key of 1024 bits, which ring won't read: the first integer of 129 bytes.
fn ring_free_modulus(der: &[u8]) -> Vec<u8> {
    let at = der.windows(4).position(|w| w == [0x02, 0x81, 0x81, 0x00]).unwrap() + 4;
    der[at..at + 128].to_vec()
}

#[test]
fn a6_symmetric_and_private_keys_are_dropped() {
    assert_eq!(
        dropped(json!({"kty": "oct", "kid": "k", "k": "AAAA", "alg": "HS256"})),
        DropReason::Symmetric
    );
    assert_eq!(
        dropped(json!({"kty": "oct", "kid": "k", "k": "AAAA", "alg": "RS256"})),
        DropReason::Symmetric
    );
    for algorithm in [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa] {
        assert_eq!(dropped(with(algorithm, "d", json!("AAAA"))), DropReason::Private);
    }
}

#[test]
fn a6_points_off_their_curve_are_dropped() {
    for (algorithm, size) in [(Algorithm::Es256, 32), (Algorithm::Es384, 48)] {
        let jwk = Signer::new(algorithm).jwk("k");
        let mut swapped = jwk.clone();
        (swapped["x"], swapped["y"]) = (jwk["y"].clone(), jwk["x"].clone());
        assert_eq!(dropped(swapped), DropReason::Point);
        for (x, y) in [
            (vec![0; size], vec![0; size]),
            (vec![0xff; size], vec![0xff; size]),
            (vec![1; size], vec![2; size]),
        ] {
            let mut off = jwk.clone();
            (off["x"], off["y"]) = (json!(b64(x)), json!(b64(y)));
            assert_eq!(dropped(off), DropReason::Point);
        }
        for bytes in [vec![1; size - 1], vec![1; size + 1], vec![]] {
            assert_eq!(dropped(with(algorithm, "x", json!(b64(bytes)))), DropReason::Malformed);
        }
    }
}

#[test]
fn a6_ed25519_points_of_small_order_are_dropped() {
    // For these, R = the identity and S = 0 is a signature of any text, or of one text in eight at least.
    let forged: Vec<u8> = std::iter::once(1).chain([0; 63]).collect();
    let mut forgeable = 0;
    for y in curve_small_order() {
        for sign in [0, 0x80] {
            let mut x = y;
            x[31] |= sign;
            assert_eq!(dropped(with(Algorithm::EdDsa, "x", json!(b64(x)))), DropReason::Point);
            let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, x);
            forgeable += usize::from((0u8..64).any(|text| key.verify(&[text], &forged).is_ok()));
        }
    }
    assert!(forgeable >= 8, "the list has nothing to do with forgeries: {forgeable}");
    for bytes in [vec![], vec![9; 31], vec![9; 33]] {
        assert_eq!(dropped(with(Algorithm::EdDsa, "x", json!(b64(bytes)))), DropReason::Malformed);
    }
}

fn curve_small_order() -> Vec<[u8; 32]> {
    super::curve::SMALL_ORDER.to_vec()
}

#[test]
fn a12_whole_sets_are_bounded() {
    let key = json!({"kty": "oct", "kid": "k"});
    let parse = |text: &str| KeySet::parse(text.as_bytes(), Algorithm::Rs256).map(|set| set.dropped().len());
    assert_eq!(parse(&set(&vec![key.clone(); MAX_KEYS])), Ok(MAX_KEYS));
    assert_eq!(parse(&set(&vec![key.clone(); MAX_KEYS + 1])), Err(SetError::TooManyKeys));
    assert!(parse(&set(&vec![key; 10_000])).is_err());
    assert_eq!(parse(&" ".repeat(10 * 1024 * 1024)), Err(SetError::TooLarge));
    for text in ["", "[]", "{}", r#"{"keys":{}}"#, r#"{"keys":null}"#, r#"{"keys":[],"keys":[]}"#, "<html>"] {
        assert_eq!(parse(text), Err(SetError::Malformed), "{text}");
    }
    assert_eq!(parse(r#"{"keys":[]}"#), Ok(0));
}

#[test]
fn one_bad_key_leaves_the_others() {
    let good = Signer::new(Algorithm::Es256).jwk("good");
    let read = keys(&[json!(7), json!({}), good, json!({"kty": "oct", "kid": "x"})]);
    assert!(read.get("good").is_some());
    assert_eq!(read.dropped(), [DropReason::Malformed, DropReason::Malformed, DropReason::Symmetric]);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_fail(text in "\\PC{0,60}|\\{\"keys\":\\[\\PC{0,60}\\]\\}") {
        let _read = KeySet::parse(text.as_bytes(), Algorithm::Rs256);
    }

    #[test]
    fn no_members_make_the_reader_fail(kty in "RSA|EC|OKP|oct", crv in "P-256|P-384|Ed25519", bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
        let text = b64(&bytes);
        let jwk = json!({"kty": kty, "crv": crv, "kid": "k", "n": text, "e": text, "x": text, "y": text});
        prop_assert!(keys(&[jwk]).len() <= usize::from(kty == "OKP" && bytes.len() == 32));
    }
}
