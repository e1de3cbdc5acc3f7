//! The gateway's own word on a caller, signed for one server and for a minute at most: a JWT (RFC 7519) that the server
//! verifies with the gateway's public key. It tells who calls, never with which credential.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Map, Value, json};

use crate::principal::{CertificateName, Principal};

/// Longest life of an assertion.
pub const MAX_LIFETIME: Duration = Duration::from_secs(60);

/// Why a key can't sign assertions, or didn't.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No Ed25519 or P-256 private key in PKCS#8.
    #[error("the key must be an Ed25519 or P-256 private key in PKCS#8")]
    Unusable,
    /// The system's random numbers failed.
    #[error("the signature could not be made")]
    Signing,
}

enum Signer {
    Ed25519(Box<Ed25519KeyPair>),
    P256(Box<EcdsaKeyPair>),
}

/// The key that assertions are signed with.
pub struct AssertionKey {
    signer: Signer,
    algorithm: &'static str,
    kid: String,
    jwk: Value,
    random: SystemRandom,
}

impl std::fmt::Debug for AssertionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AssertionKey({})", self.kid)
    }
}

/// What an assertion is about, beside the caller.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The gateway's identifier, the `iss`.
    pub issuer: &'a str,
    /// The one server that it is for, the `aud`.
    pub server: &'a str,
    /// The task.
    pub task: &'a str,
    /// The run.
    pub run: &'a str,
    /// Unique for each assertion, the `jti`: a server that has seen it refuses it.
    pub id: &'a str,
}

/// A caller's assertion.
#[derive(Clone, Copy, Debug)]
pub struct Assertion<'a> {
    /// The caller.
    pub principal: &'a Principal,
    /// What it is about.
    pub about: About<'a>,
    /// Now, in seconds since 1970 UTC.
    pub now: u64,
    /// How long it lives; a minute at most, whatever stands here.
    pub lifetime: Duration,
}

impl AssertionKey {
    /// Reads a private key in PKCS#8 (DER).
    ///
    /// # Errors
    /// It is none that can be used.
    pub fn from_pkcs8(der: &[u8]) -> Result<AssertionKey, KeyError> {
        let random = SystemRandom::new();
        // Files made by openssl hold no public key beside the private one, which `from_pkcs8` would demand.
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            let x = URL_SAFE_NO_PAD.encode(pair.public_key());
            let thumbed = members([("crv", "Ed25519"), ("kty", "OKP"), ("x", &x)]);
            return Ok(AssertionKey::new(Signer::Ed25519(Box::new(pair)), thumbed, "EdDSA"));
        }
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der, &random)
            .map_err(|_| KeyError::Unusable)?;
        let Some((x, y)) = pair.public_key().as_ref().get(1..).and_then(|point| point.split_at_checked(32))
        else {
            return Err(KeyError::Unusable);
        };
        let [x, y] = [x, y].map(|number| URL_SAFE_NO_PAD.encode(number));
        let thumbed = members([("crv", "P-256"), ("kty", "EC"), ("x", &x), ("y", &y)]);
        Ok(AssertionKey::new(Signer::P256(Box::new(pair)), thumbed, "ES256"))
    }

    /// `thumbed` holds the members that the thumbprint covers, in its order (RFC 7638).
    fn new(signer: Signer, thumbed: Map<String, Value>, algorithm: &'static str) -> AssertionKey {
        let text = Value::Object(thumbed.clone()).to_string();
        let kid = URL_SAFE_NO_PAD.encode(digest(&SHA256, text.as_bytes()));
        let mut jwk = thumbed;
        for (name, value) in [("kid", kid.as_str()), ("use", "sig"), ("alg", algorithm)] {
            jwk.insert(name.to_owned(), value.into());
        }
        AssertionKey { signer, algorithm, kid, jwk: Value::Object(jwk), random: SystemRandom::new() }
    }

    /// The public key as a JWK, for servers to verify with; its `kid` is its thumbprint.
    pub fn jwk(&self) -> &Value {
        &self.jwk
    }

    /// The key's id.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Signs an assertion.
    ///
    /// # Errors
    /// The system's random numbers failed.
    pub fn sign(&self, assertion: &Assertion<'_>) -> Result<String, KeyError> {
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = json!({"typ": "tollgate+jwt", "alg": self.algorithm, "kid": self.kid});
        let message = format!("{}.{}", part(header), part(claims(assertion)));
        let signature = match &self.signer {
            Signer::Ed25519(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
            Signer::P256(pair) => {
                let signed = pair.sign(&self.random, message.as_bytes());
                signed.map_err(|_| KeyError::Signing)?.as_ref().to_vec()
            }
        };
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

fn members<const N: usize>(all: [(&str, &str); N]) -> Map<String, Value> {
    all.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

fn claims(assertion: &Assertion<'_>) -> Value {
    let Assertion { principal, about, now, lifetime } = assertion;
    // Names of different kinds and issuers could be alike; a `sub` has to be unique at its issuer (RFC 7519 4.1.2).
    let subject = URL_SAFE_NO_PAD.encode(digest(&SHA256, principal.canonical().as_bytes()));
    json!({
        "iss": about.issuer,
        "sub": subject,
        "aud": about.server,
        "iat": now,
        "exp": now.saturating_add((*lifetime).min(MAX_LIFETIME).as_secs()),
        "jti": about.id,
        "task": about.task,
        "run": about.run,
        "principal": facts(principal),
    })
}

/// Who the caller is. Claims other than these stay here: an issuer's token can hold what is no server's business.
fn facts(principal: &Principal) -> Value {
    let mut facts = Map::new();
    let mut put = |name: &str, value: &str| facts.insert(name.to_owned(), value.into());
    match principal {
        Principal::Anonymous => {
            put("kind", "anonymous");
        }
        Principal::Token { name } => {
            put("kind", "token");
            put("name", name);
        }
        Principal::Certificate { name } => {
            put("kind", "certificate");
            match name {
                CertificateName::Uri(name) => put("uri", name),
                CertificateName::Dns(name) => put("dns", name),
                CertificateName::Email(name) => put("email", name),
            };
        }
        Principal::Oauth(oauth) => {
            put("kind", "oauth");
            put("iss", &oauth.issuer);
            put("sub", &oauth.subject);
            for (name, value) in [("client_id", &oauth.client_id), ("tenant", &oauth.tenant)] {
                if let Some(value) = value {
                    put(name, value);
                }
            }
            put("scope", &oauth.scopes.text());
        }
    }
    Value::Object(facts)
}

#[cfg(test)]
mod tests;
