//! What the tests of this crate share: keys made when they run, tokens signed with them, an issuer.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RSA_PSS_SHA384, RSA_PSS_SHA512, RsaKeyPair, RsaPublicKeyComponents,
};
use serde_json::{Value, json};

use crate::issuer::{Issuer, Settings};
use crate::keys::{Algorithm, KeySet};

/// The moment at which the tests take place, in seconds since 1970 UTC.
pub(crate) const NOW: u64 = 1_800_000_000;
pub(crate) const ISSUER: &str = "https://idp.example.com/realms/platform";
pub(crate) const AUDIENCE: &str = "https://mcp.example.com/mcp";

pub(crate) fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn pem(text: &str) -> Vec<u8> {
    let body: String = text.lines().filter(|line| !line.starts_with("-----")).collect();
    STANDARD.decode(body).unwrap()
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// A private key with the algorithm that it signs by.
pub(crate) struct Signer {
    algorithm: Algorithm,
    pair: Pair,
}

impl Signer {
    pub(crate) fn new(algorithm: Algorithm) -> Signer {
        let random = SystemRandom::new();
        let ec = |with: &'static EcdsaSigningAlgorithm| {
            let der = EcdsaKeyPair::generate_pkcs8(with, &random).unwrap();
            Pair::Ec(EcdsaKeyPair::from_pkcs8(with, der.as_ref(), &random).unwrap())
        };
        let pair = match algorithm {
            Algorithm::Es256 => ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
            Algorithm::Es384 => ec(&ECDSA_P384_SHA384_FIXED_SIGNING),
            Algorithm::EdDsa => {
                let der = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
                Pair::Ed(Ed25519KeyPair::from_pkcs8(der.as_ref()).unwrap())
            }
            _ => Pair::Rsa(RsaKeyPair::from_pkcs8(&pem(include_str!("../testdata/rsa2048.pem"))).unwrap()),
        };
        Signer { algorithm, pair }
    }

    /// The public key as a JWK with `kid` and `alg`.
    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({"kty": "RSA", "n": b64(n), "e": b64(e)})
            }
            Pair::Ec(pair) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let crv = if x.len() == 32 { "P-256" } else { "P-384" };
                json!({"kty": "EC", "crv": crv, "x": b64(x), "y": b64(y)})
            }
            Pair::Ed(pair) => json!({"kty": "OKP", "crv": "Ed25519", "x": b64(pair.public_key())}),
        };
        jwk["kid"] = kid.into();
        jwk["alg"] = self.algorithm.name().into();
        jwk
    }

    pub(crate) fn raw(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let padding: &'static dyn ring::signature::RsaEncoding = match self.algorithm {
                    Algorithm::Rs384 => &RSA_PKCS1_SHA384,
                    Algorithm::Rs512 => &RSA_PKCS1_SHA512,
                    Algorithm::Ps256 => &RSA_PSS_SHA256,
                    Algorithm::Ps384 => &RSA_PSS_SHA384,
                    Algorithm::Ps512 => &RSA_PSS_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(padding, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }

    /// A token with exactly this header and these claims, as texts.
    pub(crate) fn token(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", b64(header), b64(claims));
        format!("{message}.{}", b64(self.raw(message.as_bytes())))
    }

    /// A token with this key's header and these claims.
    pub(crate) fn sign(&self, kid: &str, claims: &Value) -> String {
        let header = json!({"alg": self.algorithm.name(), "typ": "at+jwt", "kid": kid});
        self.token(&header.to_string(), &claims.to_string())
    }
}

/// A set with these keys, as its text.
pub(crate) fn set(keys: &[Value]) -> String {
    json!({"keys": keys}).to_string()
}

pub(crate) fn keys(keys: &[Value]) -> KeySet {
    KeySet::parse(set(keys).as_bytes(), Algorithm::Rs256).unwrap()
}

pub(crate) fn settings() -> Settings {
    Settings { issuer: ISSUER.into(), audiences: vec![AUDIENCE.into()], ..Settings::default() }
}

pub(crate) fn issuer() -> Issuer {
    Issuer::compile(settings()).unwrap()
}

/// Claims that are accepted.
pub(crate) fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": AUDIENCE, "sub": "user-1", "client_id": "app", "scope": "mcp.read other",
        "exp": NOW + 300, "iat": NOW, "jti": "1",
    })
}

/// The same with one claim changed; `null` takes it out.
pub(crate) fn claims_with(name: &str, value: Value) -> Value {
    let mut all = claims();
    all[name] = value;
    all.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    all
}
