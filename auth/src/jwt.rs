//! JWT access tokens (RFC 7519, RFC 8725, RFC 9068). The algorithm comes from the key, the key from the issuer's set by
//! `kid`; nothing in a token ever names a key, a certificate or an address to take one from.

pub(crate) mod provider;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::error::TokenError;
use crate::issuer::{Issuer, Profile};
use crate::json;
use crate::keys::{Key, MAX_KID};
use crate::principal::Principal;

/// Longest token in bytes.
pub const MAX_TOKEN: usize = 16 * 1024;

/// A token that was read and not yet verified: good for finding its issuer and key, and for nothing else.
pub struct Unverified<'t> {
    token: &'t str,
    algorithm: String,
    kid: String,
    typ: Option<String>,
    issuer: String,
    claims: Map<String, Value>,
}

/// Whether a token has a JWT's form, three parts; anything else is opaque (RFC 7662).
pub fn has_form(token: &str) -> bool {
    token.split('.').count() == 3
}

impl<'t> Unverified<'t> {
    /// Reads a token in compact form.
    ///
    /// # Errors
    /// What about its form or its header is refused, whoever signed it.
    pub fn parse(token: &'t str) -> Result<Unverified<'t>, TokenError> {
        if token.len() > MAX_TOKEN {
            return Err(TokenError::TooLarge);
        }
        let mut parts = token.split('.');
        let (Some(header), Some(claims), Some(_), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::Malformed);
        };
        let header = part(header)?;
        // What these ask for changes how the rest is to be read. None of it is supported, so none of it is ignored.
        if ["crit", "b64", "zip", "enc"].iter().any(|name| header.contains_key(*name)) {
            return Err(TokenError::Critical);
        }
        let Some(Value::String(algorithm)) = header.get("alg") else { return Err(TokenError::Algorithm) };
        let kid = match header.get("kid") {
            Some(Value::String(kid)) if (1..=MAX_KID).contains(&kid.len()) => kid.clone(),
            _ => return Err(TokenError::KeyId),
        };
        let typ = match header.get("typ") {
            None => None,
            Some(Value::String(typ)) => Some(media_type(typ)),
            Some(_) => return Err(TokenError::Type),
        };
        let claims = part(claims)?;
        let Some(Value::String(issuer)) = claims.get("iss") else { return Err(TokenError::Issuer) };
        Ok(Unverified { token, algorithm: algorithm.clone(), kid, typ, issuer: issuer.clone(), claims })
    }

    /// The issuer that the token claims: look it up among the configured ones, exactly as it stands.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The key id, 1 to 256 bytes of anything: look it up in that issuer's keys and use it for nothing else.
    pub fn kid(&self) -> &str {
        &self.kid
    }

    /// Verifies the token with a key of that issuer and checks its claims at `now`, in seconds since 1970 UTC.
    ///
    /// # Errors
    /// The first rule that the token breaks.
    pub fn verify(self, key: &Key, issuer: &Issuer, now: u64) -> Result<Principal, TokenError> {
        self.check_type(issuer.profile())?;
        if self.algorithm != key.algorithm().name() {
            return Err(TokenError::Algorithm);
        }
        // The library's `decode` would read header and claims once more, by rules that read the clock and let an array
        // pass as `iss`. Only its signature check is wanted, with the algorithm told by the key.
        let (message, signature) = self.token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        match jsonwebtoken::crypto::verify(signature, message.as_bytes(), key.decoding(), key.library()) {
            Ok(true) => {}
            Ok(false) => return Err(TokenError::Signature),
            Err(_) => return Err(TokenError::Malformed),
        }
        crate::claims::principal(issuer, self.claims, now)
    }

    /// RFC 9068 section 4 wants `at+jwt`. Without that profile, tokens of most providers say `JWT` or nothing; a type
    /// of its own always means something other than an access token (RFC 8725 section 3.11).
    fn check_type(&self, profile: Profile) -> Result<(), TokenError> {
        match (profile, self.typ.as_deref()) {
            (_, Some("at+jwt")) | (Profile::Plain, None | Some("jwt")) => Ok(()),
            _ => Err(TokenError::Type),
        }
    }
}

fn part(text: &str) -> Result<Map<String, Value>, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Malformed)?;
    json::object(&bytes).map_err(|_| TokenError::Malformed)
}

/// A media type as `typ` abbreviates it (RFC 7515 section 4.1.9).
fn media_type(typ: &str) -> String {
    let lower = typ.to_ascii_lowercase();
    lower.strip_prefix("application/").map(str::to_owned).unwrap_or(lower)
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
