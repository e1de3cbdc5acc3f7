//! One JWK (RFC 7517, RFC 7518 section 6, RFC 8037) made into a key. Looks at what a key says it is for before it looks
//! at the key, and never at `x5c`, `x5u` or any other place that could hold another key.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde_json::{Map, Value};

use super::{Algorithm, DropReason, Key, MAX_KID, curve};

/// Bits of an RSA modulus.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;
/// Bytes of an RSA exponent.
const MAX_EXPONENT: usize = 4;

type Jwk = Map<String, Value>;

/// The key and its id.
pub(super) fn key(entry: &Value, rsa: Algorithm) -> Result<(&str, Key), DropReason> {
    let jwk = entry.as_object().ok_or(DropReason::Malformed)?;
    let kind = jwk.get("kty").and_then(Value::as_str).ok_or(DropReason::Malformed)?;
    if kind == "oct" {
        return Err(DropReason::Symmetric);
    }
    if jwk.contains_key("d") {
        return Err(DropReason::Private);
    }
    let kid = match jwk.get("kid") {
        Some(Value::String(kid)) if (1..=MAX_KID).contains(&kid.len()) => kid,
        _ => return Err(DropReason::KeyId),
    };
    verifies(jwk)?;
    let fits: &[Algorithm] = match (kind, jwk.get("crv").and_then(Value::as_str)) {
        ("RSA", _) => &Algorithm::ALL,
        ("EC", Some("P-256")) => &[Algorithm::Es256],
        ("EC", Some("P-384")) => &[Algorithm::Es384],
        ("OKP", Some("Ed25519")) => &[Algorithm::EdDsa],
        _ => return Err(DropReason::Type),
    };
    let algorithm = match (jwk.get("alg"), fits) {
        (None, [only]) => *only,
        (None, _) => rsa,
        (Some(Value::String(name)), _) => Algorithm::named(name).ok_or(DropReason::Algorithm)?,
        (Some(_), _) => return Err(DropReason::Malformed),
    };
    if !fits.contains(&algorithm) || algorithm.is_rsa() != (kind == "RSA") {
        return Err(DropReason::Algorithm);
    }
    let decoding = match kind {
        "RSA" => rsa_key(jwk)?,
        "EC" => curve::ec(algorithm, &bytes(jwk, "x")?, &bytes(jwk, "y")?)?,
        _ => curve::ed25519(&bytes(jwk, "x")?)?,
    };
    Ok((kid, Key::new(algorithm, decoding)))
}

/// `use` and `key_ops` are each optional, and each binding when there.
fn verifies(jwk: &Jwk) -> Result<(), DropReason> {
    match jwk.get("use") {
        None => {}
        Some(Value::String(purpose)) if purpose == "sig" => {}
        Some(_) => return Err(DropReason::Use),
    }
    match jwk.get("key_ops") {
        None => Ok(()),
        Some(Value::Array(all)) if all.iter().any(|one| one == "verify") => Ok(()),
        Some(_) => Err(DropReason::Use),
    }
}

fn rsa_key(jwk: &Jwk) -> Result<DecodingKey, DropReason> {
    let (n, e) = (number(jwk, "n")?, number(jwk, "e")?);
    let bits = n.first().map_or(0, |first| n.len() * 8 - first.leading_zeros() as usize);
    let odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    let exponent = odd(&e) && e.len() <= MAX_EXPONENT && *e != [1];
    if !RSA_BITS.contains(&bits) || !odd(&n) || !exponent {
        return Err(DropReason::Size);
    }
    Ok(DecodingKey::from_rsa_raw_components(&n, &e))
}

/// A whole number without leading zeros, which some issuers write although RFC 7518 section 2 forbids it.
fn number(jwk: &Jwk, name: &str) -> Result<Vec<u8>, DropReason> {
    Ok(bytes(jwk, name)?.into_iter().skip_while(|byte| *byte == 0).collect())
}

fn bytes(jwk: &Jwk, name: &str) -> Result<Vec<u8>, DropReason> {
    let text = jwk.get(name).and_then(Value::as_str).ok_or(DropReason::Malformed)?;
    URL_SAFE_NO_PAD.decode(text).map_err(|_| DropReason::Malformed)
}
