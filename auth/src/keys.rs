//! The keys of one issuer, from its JWK set (RFC 7517). A key that can't be used safely is dropped with its reason and
//! never repaired; a key has exactly one algorithm, and a symmetric one never becomes a key.

mod cache;
mod curve;
mod jwk;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jsonwebtoken::DecodingKey;
use serde_json::Value;

use crate::json;

pub use cache::{Found, KeyCache, Lookup, Report, Timing};

/// Longest JWK set in bytes.
pub const MAX_SET: usize = 1024 * 1024;
/// Keys in a set.
pub const MAX_KEYS: usize = 100;
/// Longest key id in bytes.
pub const MAX_KID: usize = 256;

/// A signature algorithm (RFC 7518 section 3.1, RFC 8037).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    #[default]
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// ECDSA over P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All that are known here.
    pub const ALL: [Algorithm; 9] = [
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
    ];

    /// Its name in `alg`.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::EdDsa => "EdDSA",
        }
    }

    /// The algorithm of this name, in exactly this spelling.
    pub fn named(name: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Whether it works with RSA keys.
    pub fn is_rsa(self) -> bool {
        !matches!(self, Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa)
    }

    fn library(self) -> jsonwebtoken::Algorithm {
        match self {
            Algorithm::Rs256 => jsonwebtoken::Algorithm::RS256,
            Algorithm::Rs384 => jsonwebtoken::Algorithm::RS384,
            Algorithm::Rs512 => jsonwebtoken::Algorithm::RS512,
            Algorithm::Ps256 => jsonwebtoken::Algorithm::PS256,
            Algorithm::Ps384 => jsonwebtoken::Algorithm::PS384,
            Algorithm::Ps512 => jsonwebtoken::Algorithm::PS512,
            Algorithm::Es256 => jsonwebtoken::Algorithm::ES256,
            Algorithm::Es384 => jsonwebtoken::Algorithm::ES384,
            Algorithm::EdDsa => jsonwebtoken::Algorithm::EdDSA,
        }
    }
}

/// A public key that tokens are verified with, by one algorithm.
#[derive(Debug)]
pub struct Key {
    algorithm: Algorithm,
    decoding: DecodingKey,
}

impl Key {
    fn new(algorithm: Algorithm, decoding: DecodingKey) -> Key {
        crate::jwt::provider::install();
        Key { algorithm, decoding }
    }

    /// The one algorithm that it is for.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(crate) fn decoding(&self) -> &DecodingKey {
        &self.decoding
    }

    pub(crate) fn library(&self) -> jsonwebtoken::Algorithm {
        self.algorithm.library()
    }
}

/// Why a whole set is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// Over 1 MiB.
    #[error("the key set is over 1 MiB")]
    TooLarge,
    /// No JSON object with an array `keys`, or a name twice in one object.
    #[error("the key set can't be read")]
    Malformed,
    /// Over 100 keys.
    #[error("the key set has over {MAX_KEYS} keys")]
    TooManyKeys,
}

/// Why one key of a set is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// No object, or a member is missing or has the wrong form.
    Malformed,
    /// No `kid`, or one over 256 bytes.
    KeyId,
    /// Another key of the set has the same `kid`.
    DuplicateKeyId,
    /// A symmetric key: whoever could verify with it could sign.
    Symmetric,
    /// A private key, published: anyone could sign with it.
    Private,
    /// `use` or `key_ops` say that it is for something other than verifying signatures.
    Use,
    /// `kty` or `crv` is not known here.
    Type,
    /// `alg` is not known here, or doesn't fit the key.
    Algorithm,
    /// RSA under 2048 or over 8192 bits, or with an unusable exponent.
    Size,
    /// A point that is not on its curve, or of small order.
    Point,
}

impl DropReason {
    /// The reason as a metric's label.
    pub fn reason(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::KeyId => "kid",
            DropReason::DuplicateKeyId => "duplicate_kid",
            DropReason::Symmetric => "symmetric",
            DropReason::Private => "private",
            DropReason::Use => "use",
            DropReason::Type => "type",
            DropReason::Algorithm => "algorithm",
            DropReason::Size => "size",
            DropReason::Point => "point",
        }
    }
}

/// The usable keys of a set, by `kid`.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: HashMap<String, Arc<Key>>,
    unusable: HashSet<String>,
    dropped: Vec<DropReason>,
}

impl KeySet {
    /// Reads a JWK set. An RSA key without `alg` fits several algorithms and gets `rsa`; others have only one.
    ///
    /// # Errors
    /// Why nothing of the set is used. A single bad key is no error, see [`KeySet::dropped`].
    pub fn parse(document: &[u8], rsa: Algorithm) -> Result<KeySet, SetError> {
        if document.len() > MAX_SET {
            return Err(SetError::TooLarge);
        }
        let set = json::object(document).map_err(|_| SetError::Malformed)?;
        let Some(Value::Array(entries)) = set.get("keys") else { return Err(SetError::Malformed) };
        if entries.len() > MAX_KEYS {
            return Err(SetError::TooManyKeys);
        }
        // Unusable keys count: a `kid` that stands for two keys is no name for either of them.
        let mut uses: HashMap<&str, usize> = HashMap::new();
        for kid in entries.iter().filter_map(|entry| entry.get("kid")?.as_str()) {
            *uses.entry(kid).or_default() += 1;
        }
        let mut read = KeySet::default();
        for entry in entries {
            let reason = match jwk::key(entry, rsa) {
                Ok((kid, _)) if uses.get(kid).is_some_and(|n| *n > 1) => DropReason::DuplicateKeyId,
                Ok((kid, key)) => {
                    read.keys.insert(kid.to_owned(), Arc::new(key));
                    continue;
                }
                Err(reason) => reason,
            };
            let kid = entry.get("kid").and_then(Value::as_str).filter(|kid| kid.len() <= MAX_KID);
            read.unusable.extend(kid.map(str::to_owned));
            read.dropped.push(reason);
        }
        Ok(read)
    }

    /// The key of this id: a look-up and nothing else.
    pub fn get(&self, kid: &str) -> Option<&Arc<Key>> {
        self.keys.get(kid)
    }

    /// Whether the issuer has a key of this id that can't be used: its tokens are refused, and no other key is waited for.
    pub fn is_unusable(&self, kid: &str) -> bool {
        self.unusable.contains(kid) && !self.keys.contains_key(kid)
    }

    /// The ids of its keys.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(|kid| &**kid)
    }

    /// How many keys can be used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether none can be used.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Why the others can't, in the set's order.
    pub fn dropped(&self) -> &[DropReason] {
        &self.dropped
    }
}

#[cfg(test)]
mod tests;
