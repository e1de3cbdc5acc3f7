//! Tokens from a token endpoint: the forms that ask for them (RFC 6749 section 4.4, RFC 8693, RFC 8707) and what of the
//! answer is believed. An answer's error text is never passed on: it is the endpoint's, not the caller's.

use std::time::Duration;

use serde_json::Value;

use crate::client::{Client, FormRequest};
use crate::json;
use crate::secret::Secret;

/// Longest answer in bytes.
pub const MAX_GRANT: usize = 64 * 1024;
/// Longest token in bytes that is put into a header.
const MAX_TOKEN: usize = 32 * 1024;
/// Life of a token whose answer doesn't tell it: RFC 6749 only recommends that it does.
const ASSUMED: Duration = Duration::from_secs(5 * 60);
/// Longest life that is believed.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";

/// What a token is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The server's URL (RFC 8707).
    pub resource: Option<String>,
    /// The server's name at the issuer, where that is how it is known.
    pub audience: Option<String>,
    /// The scopes, separated by spaces.
    pub scope: Option<String>,
}

impl Target {
    fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = [("resource", &self.resource), ("audience", &self.audience), ("scope", &self.scope)];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }
}

/// Asks for a token of the gateway's own.
pub fn client_credentials(client: &Client, target: &Target) -> FormRequest {
    let fields: Vec<_> = [("grant_type", "client_credentials")].into_iter().chain(target.fields()).collect();
    client.request(&fields)
}

/// Asks for a token on behalf of a caller, whose access token is the subject.
pub fn exchange(client: &Client, subject: &Secret, target: &Target) -> FormRequest {
    let fields: Vec<_> = [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", subject.expose()),
        ("subject_token_type", ACCESS_TOKEN),
        ("requested_token_type", ACCESS_TOKEN),
    ]
    .into_iter()
    .chain(target.fields())
    .collect();
    client.request(&fields)
}

/// A token that was given.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The token, fit for a header.
    pub token: Secret,
    /// How long it lives from when it was asked for.
    pub lifetime: Duration,
}

/// Why no token was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("no token: {}", self.reason())]
pub enum GrantError {
    /// Over 64 KiB.
    TooLarge,
    /// No JSON object, or without a usable token.
    Malformed,
    /// A token that is not sent as a bearer token.
    TokenType,
    /// A lifetime that is none.
    Lifetime,
    /// `invalid_client`, or status 401: the gateway's own credential is refused.
    InvalidClient,
    /// `invalid_grant`: the subject's token is refused.
    InvalidGrant,
    /// `invalid_target` (RFC 8707), or `invalid_scope`.
    InvalidTarget,
    /// Any other refusal.
    Refused,
    /// A status that is neither success nor refusal.
    Status,
}

impl GrantError {
    /// The reason as a metric's label.
    pub fn reason(self) -> &'static str {
        match self {
            GrantError::TooLarge => "too_large",
            GrantError::Malformed => "malformed",
            GrantError::TokenType => "token_type",
            GrantError::Lifetime => "lifetime",
            GrantError::InvalidClient => "invalid_client",
            GrantError::InvalidGrant => "invalid_grant",
            GrantError::InvalidTarget => "invalid_target",
            GrantError::Refused => "refused",
            GrantError::Status => "status",
        }
    }
}

/// Reads the answer of a token endpoint.
///
/// # Errors
/// Why there is no token.
pub fn grant(status: u16, document: &[u8]) -> Result<Grant, GrantError> {
    if document.len() > MAX_GRANT {
        return Err(GrantError::TooLarge);
    }
    match status {
        200 => {}
        400..=499 => return Err(refusal(status, document)),
        _ => return Err(GrantError::Status),
    }
    let answer = json::object(document).map_err(|_| GrantError::Malformed)?;
    match answer.get("token_type") {
        Some(Value::String(kind)) if kind.eq_ignore_ascii_case("bearer") => {}
        _ => return Err(GrantError::TokenType),
    }
    let token = match answer.get("access_token") {
        Some(Value::String(token)) if is_header_safe(token) => Secret::new(token.clone()),
        _ => return Err(GrantError::Malformed),
    };
    let lifetime = match answer.get("expires_in") {
        None | Some(Value::Null) => ASSUMED,
        // Some write the number as text.
        Some(Value::String(text)) => Duration::from_secs(text.parse().map_err(|_| GrantError::Lifetime)?),
        Some(number) => Duration::from_secs(number.as_u64().ok_or(GrantError::Lifetime)?),
    };
    if lifetime.is_zero() {
        return Err(GrantError::Lifetime);
    }
    Ok(Grant { token, lifetime: lifetime.min(LONGEST) })
}

fn refusal(status: u16, document: &[u8]) -> GrantError {
    let error =
        json::object(document).ok().and_then(|answer| Some(answer.get("error")?.as_str()?.to_owned()));
    match error.as_deref() {
        Some("invalid_client" | "unauthorized_client") => GrantError::InvalidClient,
        Some("invalid_grant") => GrantError::InvalidGrant,
        Some("invalid_target" | "invalid_scope") => GrantError::InvalidTarget,
        _ if status == 401 => GrantError::InvalidClient,
        _ => GrantError::Refused,
    }
}

/// Visible ASCII alone: nothing that could end a header line.
fn is_header_safe(token: &str) -> bool {
    (1..=MAX_TOKEN).contains(&token.len()) && token.bytes().all(|b| (0x21..=0x7e).contains(&b))
}

#[cfg(test)]
mod tests;
