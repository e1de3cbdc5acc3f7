//! Who is calling, proven by a credential. It never holds the credential itself, only what was proven by it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::scope::Scopes;

/// Longest name, subject or other field of a principal, in bytes.
pub const MAX_IDENTIFIER: usize = 1024;

/// A text that identifies: not empty, at most 1 KiB, and without control characters, so that NUL can separate fields
/// and a log line stays one line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier(Arc<str>);

impl Identifier {
    /// The text, unless it is empty, too long or holds a control character.
    pub fn new(text: &str) -> Option<Identifier> {
        let fits = !text.is_empty() && text.len() <= MAX_IDENTIFIER && !text.chars().any(char::is_control);
        fits.then(|| Identifier(text.into()))
    }
}

impl Deref for Identifier {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A caller, proven by a credential. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// Nobody in particular: only accepted from this machine (a loopback listener, or a host on stdio).
    Anonymous,
    /// The holder of a static token.
    Token {
        /// The token's configured name.
        name: Identifier,
    },
    /// The subject of an access token.
    Oauth(Arc<Oauth>),
    /// The holder of a client certificate.
    Certificate {
        /// The name in the certificate.
        name: CertificateName,
    },
}

/// What an issuer said of a caller. Its `Debug` leaves out the claims, which hold what is no log's business.
#[derive(Clone, PartialEq, Eq)]
pub struct Oauth {
    /// The issuer, exactly as configured.
    pub issuer: Identifier,
    /// The subject, unique within the issuer.
    pub subject: Identifier,
    /// The client that the token was issued to (RFC 9068 section 2.2).
    pub client_id: Option<Identifier>,
    /// The tenant, when the issuer's configuration names a claim for it.
    pub tenant: Option<Identifier>,
    /// Groups, when the issuer's configuration names a claim for them.
    pub groups: Vec<Identifier>,
    /// The scopes held, with those that they imply.
    pub scopes: Scopes,
    /// The task that the token is for, when the issuer's configuration names a claim for it.
    pub task: Option<Identifier>,
    /// The run that the token is for, when the issuer's configuration names a claim for it.
    pub run: Option<Identifier>,
    /// When the token ends, in seconds since 1970 UTC.
    pub expires: u64,
    /// All claims, for conditions; bounded by the token's size.
    pub claims: Map<String, Value>,
}

impl fmt::Debug for Oauth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Oauth");
        shown
            .field("issuer", &self.issuer)
            .field("subject", &self.subject)
            .field("client_id", &self.client_id);
        shown.field("tenant", &self.tenant).field("task", &self.task).field("run", &self.run);
        shown.field("scopes", &self.scopes).field("expires", &self.expires).finish_non_exhaustive()
    }
}

/// The name in a client certificate (RFC 5280 section 4.2.1.6).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CertificateName {
    /// A URI, such as a SPIFFE id.
    Uri(Identifier),
    /// A host name, in lower case.
    Dns(Identifier),
    /// A mail address.
    Email(Identifier),
}

impl Principal {
    /// The text that everything bound to this principal is bound to. Two principals never share one: each kind has its
    /// own prefix and its fields are separated by NUL, which no field may hold. Scopes, groups, claims and the expiry
    /// are no part of it: they change from token to token of the same caller.
    pub fn canonical(&self) -> String {
        match self {
            Principal::Anonymous => "anonymous".to_owned(),
            Principal::Token { name } => format!("token\0{}", &**name),
            Principal::Oauth(oauth) => {
                let or_empty = |field: &Option<Identifier>| field.as_deref().unwrap_or_default().to_owned();
                let (client, tenant) = (or_empty(&oauth.client_id), or_empty(&oauth.tenant));
                format!("oauth\0{}\0{}\0{client}\0{tenant}", &*oauth.issuer, &*oauth.subject)
            }
            Principal::Certificate { name } => {
                let (kind, name) = match name {
                    CertificateName::Uri(name) => ("uri", name),
                    CertificateName::Dns(name) => ("dns", name),
                    CertificateName::Email(name) => ("email", name),
                };
                format!("certificate\0{kind}\0{}", &**name)
            }
        }
    }

    /// When the credential ends, in seconds since 1970 UTC, where it says so itself: an answer that still streams then
    /// is cut.
    pub fn expires(&self) -> Option<u64> {
        match self {
            Principal::Oauth(oauth) => Some(oauth.expires),
            _ => None,
        }
    }

    /// The scopes held: none but an access token carries any.
    pub fn scopes(&self) -> Option<&Scopes> {
        match self {
            Principal::Oauth(oauth) => Some(&oauth.scopes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
