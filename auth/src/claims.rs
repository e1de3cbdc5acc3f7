//! The claims of a token, checked and made into a principal: the one table for JWTs and for introspection answers. It
//! reads no clock and trusts no type: a number that is a string is refused, not converted.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::error::TokenError;
use crate::issuer::Issuer;
use crate::principal::{Identifier, Oauth, Principal};
use crate::scope::Scopes;

/// How far clocks may differ, in seconds.
pub const LEEWAY: u64 = 30;
/// The last second of the year 9999: a time beyond is no time.
const MAX_TIME: u64 = 253_402_300_799;
/// Values in `aud`.
const MAX_AUDIENCES: usize = 32;
/// Groups that are read.
const MAX_GROUPS: usize = 1000;

type Claims = Map<String, Value>;

/// Checks all claims at `now`, in seconds since 1970 UTC. The signature, or the issuer's word, was checked before.
pub(crate) fn principal(issuer: &Issuer, claims: Claims, now: u64) -> Result<Principal, TokenError> {
    match claims.get("iss") {
        Some(Value::String(iss)) if iss == &**issuer.issuer() => {}
        _ => return Err(TokenError::Issuer),
    }
    audience(issuer, claims.get("aud"))?;
    let expires = times(&claims, now)?;
    no_other_kind(&claims)?;
    let subject = match claims.get("sub") {
        Some(Value::String(sub)) => Identifier::new(sub).ok_or(TokenError::Subject)?,
        _ => return Err(TokenError::Subject),
    };
    let names = issuer.claim_names();
    let named = |name: &Option<String>| match name {
        Some(name) => identifier(lookup(&claims, name)),
        None => Ok(None),
    };
    let client_id = match &names.client {
        Some(name) => identifier(lookup(&claims, name))?,
        // `azp` is where OpenID providers put it (OpenID Connect Core section 2).
        None => identifier(claims.get("client_id").or_else(|| claims.get("azp")))?,
    };
    let groups = match &names.groups {
        Some(name) => groups(lookup(&claims, name))?,
        None => Vec::new(),
    };
    Ok(Principal::Oauth(Arc::new(Oauth {
        issuer: issuer.issuer().clone(),
        subject,
        client_id,
        tenant: named(&names.tenant)?,
        groups,
        scopes: issuer.hierarchy().expand(scopes(&claims)?),
        task: named(&names.task)?,
        run: named(&names.run)?,
        expires,
        claims,
    })))
}

/// `aud` names this gateway, and no one else unless the configuration says so: a token that others accept as well can
/// be taken by them and used here (RFC 8707 section 2).
fn audience(issuer: &Issuer, aud: Option<&Value>) -> Result<(), TokenError> {
    let accepted = match aud {
        Some(Value::String(one)) => issuer.is_audience(one),
        Some(Value::Array(all)) if all.len() <= MAX_AUDIENCES => {
            let mut ours = false;
            for one in all {
                let Value::String(one) = one else { return Err(TokenError::Audience) };
                if issuer.is_audience(one) {
                    ours = true;
                } else if !issuer.allows_beside(one) {
                    return Err(TokenError::Audience);
                }
            }
            ours
        }
        _ => false,
    };
    accepted.then_some(()).ok_or(TokenError::Audience)
}

/// The three times; `exp` must be there. Tells `exp`.
fn times(claims: &Claims, now: u64) -> Result<u64, TokenError> {
    let expires = time(claims, "exp")?.ok_or(TokenError::Time)?;
    let (not_before, issued) = (time(claims, "nbf")?, time(claims, "iat")?);
    if now >= expires.saturating_add(LEEWAY) {
        return Err(TokenError::Expired);
    }
    let latest = now.saturating_add(LEEWAY);
    if not_before.is_some_and(|time| time > latest) {
        return Err(TokenError::NotYetValid);
    }
    if issued.is_some_and(|time| time > latest) {
        return Err(TokenError::IssuedInFuture);
    }
    Ok(expires)
}

/// A NumericDate (RFC 7519 section 2): whole seconds, or a fraction, which is cut off.
fn time(claims: &Claims, name: &str) -> Result<Option<u64>, TokenError> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let seconds = match (value.as_u64(), value.as_f64()) {
        (Some(whole), _) => whole,
        // The cast saturates, and what it cuts off is less than a second.
        (None, Some(fraction)) if fraction >= 0.0 && fraction.is_finite() => fraction as u64,
        _ => return Err(TokenError::Time),
    };
    if seconds > MAX_TIME { Err(TokenError::Time) } else { Ok(Some(seconds)) }
}

/// Tokens that an issuer signs with the same key for other purposes.
fn no_other_kind(claims: &Claims) -> Result<(), TokenError> {
    // `at_hash` and `c_hash` stand in ID tokens alone; Keycloak tells the kind in a claim.
    let id_token = claims.contains_key("at_hash")
        || claims.contains_key("c_hash")
        || claims.get("typ").and_then(Value::as_str).is_some_and(|typ| typ.eq_ignore_ascii_case("id"));
    if id_token {
        return Err(TokenError::IdToken);
    }
    // A token bound to a key (RFC 7800) is worthless without its proof, which isn't asked for here: taking it as a
    // bearer token would undo the binding (RFC 9449 section 7.2).
    if claims.contains_key("cnf") {
        return Err(TokenError::SenderConstrained);
    }
    Ok(())
}

/// `scope` (RFC 9068 section 2.2.3), or else `scp` as Entra and Okta have it; each a list or an array.
fn scopes(claims: &Claims) -> Result<Scopes, TokenError> {
    let read = match claims.get("scope").or_else(|| claims.get("scp")) {
        None => Some(Scopes::default()),
        Some(Value::String(list)) => Scopes::parse(list),
        Some(Value::Array(all)) => {
            let texts: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
            texts.and_then(Scopes::collect)
        }
        Some(_) => None,
    };
    read.ok_or(TokenError::Scope)
}

/// A claim that the configuration gives a meaning: absent is absent, but what is there must be usable. To pass over a
/// task claim of the wrong type would let its holder choose another task.
fn identifier(value: Option<&Value>) -> Result<Option<Identifier>, TokenError> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Identifier::new(text).map(Some).ok_or(TokenError::Claim),
        Some(_) => Err(TokenError::Claim),
    }
}

fn groups(value: Option<&Value>) -> Result<Vec<Identifier>, TokenError> {
    match value {
        None => Ok(Vec::new()),
        Some(Value::String(_)) => Ok(identifier(value)?.into_iter().collect()),
        Some(Value::Array(all)) if all.len() <= MAX_GROUPS => {
            all.iter().map(|one| one.as_str().and_then(Identifier::new).ok_or(TokenError::Claim)).collect()
        }
        Some(_) => Err(TokenError::Claim),
    }
}

/// A claim by its name, or by a JSON Pointer (RFC 6901) when the name begins with `/`: `/realm_access/roles`.
fn lookup<'c>(claims: &'c Claims, name: &str) -> Option<&'c Value> {
    let Some(pointer) = name.strip_prefix('/') else { return claims.get(name) };
    let (first, rest) = match pointer.split_once('/') {
        Some((first, rest)) => (first, format!("/{rest}")),
        None => (pointer, String::new()),
    };
    claims.get(&first.replace("~1", "/").replace("~0", "~"))?.pointer(&rest)
}

#[cfg(test)]
mod tests;
