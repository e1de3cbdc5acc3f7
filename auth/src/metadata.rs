//! What this gateway says of itself to clients without a sufficient credential: protected-resource metadata (RFC 9728)
//! and `WWW-Authenticate` (RFC 6750). It never lets a caller's text into a header as it came.

use serde_json::{Map, Value, json};

/// Where the metadata of a resource is (RFC 9728 section 3).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
/// The endpoint that the well-known path without a suffix stands for.
pub const ROOT_ENDPOINT: &str = "/mcp";
/// Longest description in a challenge, in bytes.
const MAX_DESCRIPTION: usize = 200;

/// The path of the metadata of an endpoint: its own path inserted after the well-known one.
pub fn well_known_path(endpoint: &str) -> String {
    format!("{WELL_KNOWN}{endpoint}")
}

/// The endpoint that a path asks the metadata of; `None` for other paths. The endpoint has the form of one of the
/// gateway's, but whether its task or server exists is not known here.
pub fn endpoint_of(path: &str) -> Option<&str> {
    match path.strip_prefix(WELL_KNOWN)? {
        "" => Some(ROOT_ENDPOINT),
        endpoint => is_endpoint(endpoint).then_some(endpoint),
    }
}

/// `/mcp`, `/tasks/{task}/mcp`, `/servers/{server}/mcp` or `/tasks/{task}/servers/{server}/mcp`, with names as the
/// configuration allows them.
fn is_endpoint(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    path.starts_with('/')
        && match parts.as_slice() {
            ["mcp"] => true,
            ["tasks" | "servers", name, "mcp"] => is_name(name),
            ["tasks", task, "servers", server, "mcp"] => is_name(task) && is_name(server),
            _ => false,
        }
}

/// `[a-z][a-z0-9-]{0,31}`.
fn is_name(name: &str) -> bool {
    name.len() <= 32
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// A protected resource, as its metadata document tells it.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// The URL that clients use, without query and fragment.
    pub resource: &'a str,
    /// The issuers of its tokens; at least one, or there is no document.
    pub authorization_servers: &'a [&'a str],
    /// The scopes to ask for.
    pub scopes: &'a [&'a str],
    /// A name for people.
    pub name: Option<&'a str>,
}

impl Resource<'_> {
    /// The document (RFC 9728 section 2); `None` without an issuer. `offline_access` is never in it: a resource has no
    /// use for a refresh token.
    pub fn document(&self) -> Option<Value> {
        if self.authorization_servers.is_empty() {
            return None;
        }
        let mut document = Map::new();
        document.insert("resource".into(), self.resource.into());
        document.insert("authorization_servers".into(), self.authorization_servers.into());
        let scopes: Vec<&str> = self.scopes.iter().copied().filter(|s| *s != "offline_access").collect();
        if !scopes.is_empty() {
            document.insert("scopes_supported".into(), scopes.into());
        }
        document.insert("bearer_methods_supported".into(), json!(["header"]));
        if let Some(name) = self.name {
            document.insert("resource_name".into(), name.into());
        }
        Some(Value::Object(document))
    }
}

/// Why a client is asked for another credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// None was sent: there is no error to name (RFC 6750 section 3.1). HTTP 401.
    NoCredential,
    /// The one sent is not accepted. HTTP 401.
    InvalidToken,
    /// It lacks scopes for this call. HTTP 403.
    InsufficientScope,
}

impl Asked {
    /// The HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Asked::NoCredential | Asked::InvalidToken => 401,
            Asked::InsufficientScope => 403,
        }
    }

    fn error(self) -> Option<&'static str> {
        match self {
            Asked::NoCredential => None,
            Asked::InvalidToken => Some("invalid_token"),
            Asked::InsufficientScope => Some("insufficient_scope"),
        }
    }
}

/// A challenge.
#[derive(Clone, Copy, Debug)]
pub struct Challenge<'a> {
    /// Why.
    pub asked: Asked,
    /// The URL of the metadata document, when an issuer is configured.
    pub resource_metadata: Option<&'a str>,
    /// For a 403 all scopes that the call needs, at once; else the scopes to ask for.
    pub scopes: &'a [&'a str],
    /// What happened, for people.
    pub description: Option<&'a str>,
}

impl Challenge<'_> {
    /// The value of `WWW-Authenticate`: printable ASCII, whatever the texts hold.
    pub fn header(&self) -> String {
        let scopes: Vec<&str> = self.scopes.iter().copied().filter(|s| crate::scope::is_scope(s)).collect();
        let scopes = scopes.join(" ");
        let parameters = [
            ("resource_metadata", self.resource_metadata.map(quotable)),
            ("scope", (!scopes.is_empty()).then_some(scopes)),
            ("error", self.asked.error().map(str::to_owned)),
            ("error_description", self.description.map(description)),
        ];
        let all: Vec<String> = parameters
            .into_iter()
            .filter_map(|(name, value)| value.map(|value| format!("{name}=\"{value}\"")))
            .collect();
        if all.is_empty() { "Bearer".to_owned() } else { format!("Bearer {}", all.join(", ")) }
    }
}

/// What may stand in quotes without an escape (RFC 6750 section 3): the rest becomes `?`.
fn quotable(text: &str) -> String {
    text.chars().map(|c| if matches!(c, ' '..='~') && c != '"' && c != '\\' { c } else { '?' }).collect()
}

fn description(text: &str) -> String {
    let mut short = quotable(text);
    short.truncate(MAX_DESCRIPTION);
    short
}

#[cfg(test)]
mod tests;
