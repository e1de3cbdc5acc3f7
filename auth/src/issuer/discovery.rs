//! The metadata of an authorization server (RFC 8414, OpenID Connect Discovery): where it may be, and what of it is
//! believed. A document that names another issuer is never used, whatever address it came from.

use serde_json::{Map, Value};
use url::Url;

use crate::json;

/// Longest metadata document in bytes.
pub const MAX_METADATA: usize = 256 * 1024;

/// The addresses to try, in the order of the MCP authorization specification: RFC 8414 with the issuer's path inserted,
/// OpenID Connect with the path inserted, OpenID Connect with the path first. Empty for what is no http(s) URL.
pub fn candidates(issuer: &str) -> Vec<String> {
    let Ok(url) = Url::parse(issuer) else { return Vec::new() };
    if !matches!(url.scheme(), "https" | "http") {
        return Vec::new();
    }
    let origin = url.origin().ascii_serialization();
    let path = url.path().trim_end_matches('/');
    let inserted = ["oauth-authorization-server", "openid-configuration"]
        .map(|n| format!("{origin}/.well-known/{n}{path}"));
    let mut all = Vec::from(inserted);
    if !path.is_empty() {
        all.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    all
}

/// Why a metadata document is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// Over 256 KiB, no JSON object, or a key twice.
    #[error("no usable JSON object")]
    Malformed,
    /// `issuer` isn't exactly the issuer that was asked (RFC 8414 section 3.3).
    #[error("the document names another issuer")]
    Issuer,
}

/// What an authorization server says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerMetadata {
    fields: Map<String, Value>,
}

impl ServerMetadata {
    /// Reads the document of `issuer`.
    ///
    /// # Errors
    /// It can't be read, or belongs to another issuer.
    pub fn parse(document: &[u8], issuer: &str) -> Result<ServerMetadata, MetadataError> {
        if document.len() > MAX_METADATA {
            return Err(MetadataError::Malformed);
        }
        let fields = json::object(document).map_err(|_| MetadataError::Malformed)?;
        match fields.get("issuer") {
            Some(Value::String(named)) if named == issuer => Ok(ServerMetadata { fields }),
            _ => Err(MetadataError::Issuer),
        }
    }

    /// Where its keys are. Before it is fetched, the egress guard has to pass it like any other address.
    pub fn jwks_uri(&self) -> Option<&str> {
        self.text("jwks_uri")
    }

    /// Where tokens are given out.
    pub fn token_endpoint(&self) -> Option<&str> {
        self.text("token_endpoint")
    }

    /// Where opaque tokens are looked up (RFC 7662).
    pub fn introspection_endpoint(&self) -> Option<&str> {
        self.text("introspection_endpoint")
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str)
    }
}
