//! Opaque tokens, looked up at their issuer (RFC 7662): the request's form, what of the answer is believed, and a bounded
//! cache of both outcomes. Tokens are remembered by their digest alone.

use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use serde_json::Value;

use crate::client::{Client, FormRequest};
use crate::digest::{self, Digest};
use crate::error::TokenError;
use crate::issuer::Issuer;
use crate::json;
use crate::principal::Principal;

/// Longest answer in bytes.
pub const MAX_ANSWER: usize = 64 * 1024;
/// Longest time that a principal is remembered: as long may a revoked token still be used.
pub const MAX_AGE: Duration = Duration::from_secs(60);
/// How long a refusal is remembered.
pub const REFUSED_AGE: Duration = Duration::from_secs(10);

/// The request that looks up a token; the caller POSTs it to the introspection endpoint.
pub fn request(client: &Client, token: &str) -> FormRequest {
    client.request(&[("token", token), ("token_type_hint", "access_token")])
}

/// Reads the answer at `now`, in seconds since 1970 UTC. The issuer is the one that was asked, so it need not name
/// itself; if it does, it has to be right. Audience, times, subject and scopes are checked as those of a JWT are. An
/// answer without `exp` counts as one that ends when the cache forgets it.
///
/// # Errors
/// The token is not active, or not for us.
pub fn answer(issuer: &Issuer, document: &[u8], now: u64) -> Result<Principal, TokenError> {
    if document.len() > MAX_ANSWER {
        return Err(TokenError::TooLarge);
    }
    let mut claims = json::object(document).map_err(|_| TokenError::Malformed)?;
    match claims.remove("active") {
        Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => return Err(TokenError::Inactive),
        _ => return Err(TokenError::Malformed),
    }
    match claims.get("token_type") {
        None => {}
        Some(Value::String(kind)) if kind.eq_ignore_ascii_case("bearer") => {}
        // Keycloak and others name the token's kind by its URI or as `access_token`.
        Some(Value::String(kind)) if kind.ends_with("access_token") => {}
        Some(_) => return Err(TokenError::Type),
    }
    // A token without a resource owner is its client's own: RFC 7662 leaves `sub` out, a JWT would name the client there
    // (RFC 9068 section 2.2), whose issuer keeps such subjects and users apart (section 5).
    if let (false, Some(client)) = (claims.contains_key("sub"), claims.get("client_id").cloned()) {
        claims.insert("sub".to_owned(), client);
    }
    claims.entry("iss").or_insert_with(|| Value::from(&**issuer.issuer()));
    claims.entry("exp").or_insert_with(|| Value::from(now.saturating_add(MAX_AGE.as_secs())));
    crate::claims::principal(issuer, claims, now)
}

/// The outcomes that are remembered.
#[derive(Debug)]
pub struct Cache {
    entries: LruCache<Digest, Entry>,
}

#[derive(Debug)]
struct Entry {
    outcome: Result<Principal, TokenError>,
    until: Duration,
}

impl Cache {
    /// A cache of at most so many tokens.
    pub fn new(tokens: NonZeroUsize) -> Cache {
        Cache { entries: LruCache::new(tokens) }
    }

    /// What a token is, if that is remembered: asked of this issuer at `now`, in seconds since 1970 UTC, and `age`,
    /// monotonic since any fixed moment. A token that has ended by either clock is no longer remembered.
    pub fn get(
        &mut self,
        issuer: &Issuer,
        token: &str,
        now: u64,
        age: Duration,
    ) -> Option<Result<Principal, TokenError>> {
        let entry = self.entries.get(&key(issuer, token))?;
        let ended = |principal: &Principal| principal.expires().is_some_and(|end| now >= end);
        if age >= entry.until || entry.outcome.as_ref().is_ok_and(ended) {
            return None;
        }
        Some(entry.outcome.clone())
    }

    /// Remembers what the issuer said at `age`, by the same clock: a principal for at most a minute, a refusal shortly.
    /// Failures to ask are no outcome and must not be put here.
    pub fn put(
        &mut self,
        issuer: &Issuer,
        token: &str,
        outcome: Result<Principal, TokenError>,
        age: Duration,
    ) {
        let keep = if outcome.is_ok() { MAX_AGE } else { REFUSED_AGE };
        self.entries.put(key(issuer, token), Entry { outcome, until: age.saturating_add(keep) });
    }

    /// How many tokens are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn key(issuer: &Issuer, token: &str) -> Digest {
    digest::of_parts(&[issuer.issuer(), token])
}

#[cfg(test)]
mod tests;
