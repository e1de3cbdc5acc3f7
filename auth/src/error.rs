//! Why a credential is refused. Never holds any text of the credential: each reason is one word of a fixed list, fit
//! for a metric's label.

/// Why an access token is refused. To its sender all of these are `invalid_token` (RFC 6750 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("access token refused: {}", self.reason())]
pub enum TokenError {
    /// Over 16 KiB.
    TooLarge,
    /// Neither a JWT nor anything else that is known here.
    Malformed,
    /// The header's `alg` is not the key's.
    Algorithm,
    /// The header asks for what is not understood: `crit`, `b64`, `zip`, `enc`.
    Critical,
    /// No `kid`, or one that no key could have.
    KeyId,
    /// `typ` says that this is no access token.
    Type,
    /// An ID token.
    IdToken,
    /// No key of the issuer has this `kid`.
    UnknownKey,
    /// The issuer's keys are not known, or too old.
    KeysUnavailable,
    /// The signature doesn't fit.
    Signature,
    /// `iss` is not exactly the issuer.
    Issuer,
    /// `aud` is not this gateway, or names others as well.
    Audience,
    /// No usable `sub`.
    Subject,
    /// No usable `exp`, `nbf` or `iat`.
    Time,
    /// `exp` is past.
    Expired,
    /// `nbf` is to come.
    NotYetValid,
    /// `iat` is to come.
    IssuedInFuture,
    /// A scope list that is none.
    Scope,
    /// A claim that the configuration names has the wrong type.
    Claim,
    /// Bound to a key that the sender would have to prove (`cnf`): not a bearer token.
    SenderConstrained,
    /// The issuer says that it is not active (RFC 7662).
    Inactive,
}

impl TokenError {
    /// The reason as a metric's label.
    pub fn reason(self) -> &'static str {
        match self {
            TokenError::TooLarge => "too_large",
            TokenError::Malformed => "malformed",
            TokenError::Algorithm => "algorithm",
            TokenError::Critical => "critical",
            TokenError::KeyId => "kid",
            TokenError::Type => "type",
            TokenError::IdToken => "id_token",
            TokenError::UnknownKey => "unknown_key",
            TokenError::KeysUnavailable => "keys_unavailable",
            TokenError::Signature => "signature",
            TokenError::Issuer => "issuer",
            TokenError::Audience => "audience",
            TokenError::Subject => "subject",
            TokenError::Time => "time",
            TokenError::Expired => "expired",
            TokenError::NotYetValid => "not_yet_valid",
            TokenError::IssuedInFuture => "issued_in_future",
            TokenError::Scope => "scope",
            TokenError::Claim => "claim",
            TokenError::SenderConstrained => "sender_constrained",
            TokenError::Inactive => "inactive",
        }
    }
}
