//! Hostile tokens: every flipped bit, every cut, and texts that are no tokens.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::keys::{Algorithm, KeySet};
use crate::testing::{NOW, Signer, b64, claims, issuer, keys};

fn accepted(token: &str, set: &KeySet, issuer: &Issuer) -> bool {
    let Ok(read) = Unverified::parse(token) else { return false };
    let Some(key) = set.get(read.kid()).cloned() else { return false };
    read.verify(&key, issuer, NOW).is_ok()
}

/// A pseudo-random sequence (xorshift), the same in each run.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap()).unwrap()
    }
}

/// Flips bits of the token's text and of what it encodes: the latter always gives text that decodes, so that the
/// signature is what refuses it.
fn flip(token: &str, random: &mut Sequence) -> Option<String> {
    if random.below(4) == 0 {
        let mut bytes = token.as_bytes().to_vec();
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(7);
        return String::from_utf8(bytes).ok();
    }
    let mut parts: Vec<Vec<u8>> =
        token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).unwrap()).collect();
    let part = [0, 1, 1, 2][random.below(4)];
    for _ in 0..=random.below(3) {
        let at = random.below(parts[part].len());
        parts[part][at] ^= 1 << random.below(8);
    }
    let texts: Vec<String> = parts.iter().map(b64).collect();
    Some(texts.join(".")).filter(|flipped| flipped != token)
}

#[test]
fn a26_of_a_hundred_thousand_flipped_tokens_none_is_accepted() {
    let issuer = issuer();
    let mut tried = 0;
    for (seed, algorithm) in
        (1u64..).zip([Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa, Algorithm::Ps256])
    {
        let signer = Signer::new(algorithm);
        let set = keys(&[signer.jwk("k")]);
        let token = signer.sign("k", &claims());
        assert!(accepted(&token, &set, &issuer), "{algorithm:?}");
        let mut random = Sequence(0x9e37_79b9_7f4a_7c15 ^ seed);
        let mut left = 26_000;
        while left > 0 {
            let Some(flipped) = flip(&token, &mut random) else { continue };
            assert!(!accepted(&flipped, &set, &issuer), "{algorithm:?}: {flipped}");
            left -= 1;
            tried += 1;
        }
    }
    assert!(tried >= 100_000);
}

#[test]
fn a26_a_cut_or_longer_token_is_refused() {
    let signer = Signer::new(Algorithm::Es256);
    let (set, issuer) = (keys(&[signer.jwk("k")]), issuer());
    let token = signer.sign("k", &claims());
    for end in 0..token.len() {
        assert!(!accepted(&token[..end], &set, &issuer), "{end}");
    }
    for more in [".", "=", "A", " ", "\n", ".A", ".A.A"] {
        assert!(!accepted(&format!("{token}{more}"), &set, &issuer), "{more:?}");
        assert!(!accepted(&format!("{more}{token}"), &set, &issuer), "{more:?}");
    }
}

#[test]
fn a26_a_signature_never_fits_other_claims_or_another_header() {
    let signer = Signer::new(Algorithm::Es256);
    let (set, issuer) = (keys(&[signer.jwk("k")]), issuer());
    let (one, mut changed) = (signer.sign("k", &claims()), claims());
    changed["sub"] = json!("admin");
    let other = signer.sign("k", &changed);
    let parts = |token: &str| token.split('.').map(str::to_owned).collect::<Vec<_>>();
    let (one, other) = (parts(&one), parts(&other));
    assert!(!accepted(&format!("{}.{}.{}", one[0], other[1], one[2]), &set, &issuer));
    assert!(accepted(&format!("{}.{}.{}", one[0], one[1], one[2]), &set, &issuer));
}

#[test]
fn texts_that_are_no_token_are_refused() {
    let (header, body) = (b64(r#"{"alg":"ES256","kid":"k"}"#), b64(claims().to_string()));
    for (token, refused) in [
        (String::new(), TokenError::Malformed),
        ("..".into(), TokenError::Malformed),
        ("a.b.c".into(), TokenError::Malformed),
        (format!("{header}.{body}"), TokenError::Malformed),
        (format!("{header}.{body}.a.b.c"), TokenError::Malformed),
        (format!("{header}=.{body}.a"), TokenError::Malformed),
        (format!("{}.{body}.a", b64("[]")), TokenError::Malformed),
        (
            format!("{}.{body}.a", b64("{\"alg\":\"ES256\",\"alg\":\"none\",\"kid\":\"k\"}")),
            TokenError::Malformed,
        ),
        (format!("{header}.{}.a", b64("\"text\"")), TokenError::Malformed),
        (format!("{header}.{}.a", b64("{\"iss\":\"a\",\"iss\":\"b\"}")), TokenError::Malformed),
        (format!("{header}.{}.a", b64("{\"sub\":\"a\"}")), TokenError::Issuer),
        (format!("{header}.{}.a", b64("{\"iss\":[\"a\"]}")), TokenError::Issuer),
        ("a".repeat(MAX_TOKEN + 1), TokenError::TooLarge),
        (".".repeat(MAX_TOKEN), TokenError::Malformed),
    ] {
        assert_eq!(Unverified::parse(&token).err(), Some(refused), "{:.80}", token);
    }
}

#[test]
fn deeply_nested_claims_and_twice_named_ones_are_refused_though_signed() {
    let signer = Signer::new(Algorithm::Es256);
    let (set, issuer) = (keys(&[signer.jwk("k")]), issuer());
    let header = r#"{"alg":"ES256","typ":"at+jwt","kid":"k"}"#;
    let whole = claims().to_string();
    let body = whole.strip_suffix('}').unwrap();
    assert!(accepted(&signer.token(header, &format!("{body},\"x\":1}}")), &set, &issuer));
    let deep = format!("{body},\"x\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    assert!(!accepted(&signer.token(header, &deep), &set, &issuer));
    for twice in ["\"sub\":\"admin\"", "\"s\\u0075b\":\"admin\"", "\"x\":{\"a\":1,\"a\":1}"] {
        assert!(!accepted(&signer.token(header, &format!("{body},{twice}}}")), &set, &issuer), "{twice}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_fail(text in "\\PC{0,200}|[A-Za-z0-9_-]{0,40}(\\.[A-Za-z0-9_-]{0,40}){0,4}") {
        prop_assert_eq!(has_form(&text), text.matches('.').count() == 2);
        if let Ok(read) = Unverified::parse(&text) {
            prop_assert!(!read.kid().is_empty());
        }
    }

    #[test]
    fn no_header_makes_the_reader_fail(alg in "\\PC{0,9}", kid in "\\PC{0,300}", typ in "\\PC{0,9}") {
        let header = json!({"alg": alg, "kid": kid, "typ": typ}).to_string();
        let token = format!("{}.{}.AA", b64(header), b64(claims().to_string()));
        let good = (1..=MAX_KID).contains(&kid.len());
        prop_assert_eq!(Unverified::parse(&token).is_ok(), good);
    }
}
