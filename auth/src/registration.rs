//! A stand-in for dynamic client registration (RFC 7591), for issuers that refuse it: every request is answered with the
//! one public client that was registered by hand. It makes no client, keeps nothing, and hands out no secret; what it
//! exposes is that client's id, and an authorization-server document that differs from the issuer's own.

use serde_json::{Map, Value, json};
use url::Url;

use crate::issuer::ServerMetadata;
use crate::json;

/// Longest request in bytes.
pub const MAX_REQUEST: usize = 16 * 1024;
/// Redirect URIs in a request.
const MAX_REDIRECTS: usize = 16;
/// Longest redirect URI in bytes.
const MAX_REDIRECT: usize = 2048;

/// The client that was registered by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shim {
    client_id: String,
    redirects: Vec<Redirect>,
    scope: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Redirect {
    Exact(String),
    /// http on a loopback address with any port (RFC 8252 section 7.3): scheme, host, path and query must agree.
    Loopback(Url),
}

/// What is wrong with the shim's settings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShimError {
    /// No client id.
    #[error("the registration shim needs a client id")]
    ClientId,
    /// None is allowed, so no client could ever log in.
    #[error("the registration shim needs at least one redirect URI")]
    NoRedirect,
    /// One that is neither https, nor http on loopback, nor of an application's own scheme, or that has a fragment.
    #[error("'{0}' can't be a redirect URI")]
    Redirect(String),
}

/// Why a registration is refused, as RFC 7591 section 3.2.2 names it. HTTP 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegistrationError {
    /// A redirect URI that is not allowed, or none, or too many.
    RedirectUri,
    /// Anything else about the request.
    Metadata,
}

impl RegistrationError {
    /// `error` of the answer, and the reason as a metric's label.
    pub fn code(self) -> &'static str {
        match self {
            RegistrationError::RedirectUri => "invalid_redirect_uri",
            RegistrationError::Metadata => "invalid_client_metadata",
        }
    }

    /// The answer's body.
    pub fn document(self) -> Value {
        let description = match self {
            RegistrationError::RedirectUri => "a redirect URI is not allowed here",
            RegistrationError::Metadata => {
                "only public clients of the authorization code flow are registered here"
            }
        };
        json!({"error": self.code(), "error_description": description})
    }
}

impl Shim {
    /// Compiles the settings. A redirect URI `http://127.0.0.1/callback` without a port allows every port.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn compile(
        client_id: &str,
        redirects: &[String],
        scope: Option<String>,
    ) -> Result<Shim, Vec<ShimError>> {
        let mut errors = Vec::new();
        if client_id.is_empty() {
            errors.push(ShimError::ClientId);
        }
        if redirects.is_empty() {
            errors.push(ShimError::NoRedirect);
        }
        let mut read = Vec::new();
        for text in redirects {
            match redirect(text) {
                Some(redirect) => read.push(redirect),
                None => errors.push(ShimError::Redirect(text.clone())),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Shim { client_id: client_id.to_owned(), redirects: read, scope })
    }

    /// Answers a request with the client; HTTP 201. Of what was asked for only the redirect URIs come back.
    ///
    /// # Errors
    /// Why no client with what was asked for exists.
    pub fn register(&self, request: &[u8]) -> Result<Value, RegistrationError> {
        if request.len() > MAX_REQUEST {
            return Err(RegistrationError::Metadata);
        }
        let asked = json::object(request).map_err(|_| RegistrationError::Metadata)?;
        let redirects = self.allowed(&asked)?;
        match asked.get("token_endpoint_auth_method") {
            // Without one the client would be confidential by default, yet MCP clients that name none are public.
            None => {}
            Some(method) if method == "none" => {}
            Some(_) => return Err(RegistrationError::Metadata),
        }
        within(&asked, "grant_types", &["authorization_code", "refresh_token"])?;
        within(&asked, "response_types", &["code"])?;
        let mut answer = Map::new();
        answer.insert("client_id".into(), self.client_id.as_str().into());
        answer.insert("redirect_uris".into(), redirects.into());
        answer.insert("grant_types".into(), json!(["authorization_code", "refresh_token"]));
        answer.insert("response_types".into(), json!(["code"]));
        answer.insert("token_endpoint_auth_method".into(), "none".into());
        if let Some(scope) = &self.scope {
            answer.insert("scope".into(), scope.as_str().into());
        }
        Ok(Value::Object(answer))
    }

    fn allowed<'r>(&self, asked: &'r Map<String, Value>) -> Result<Vec<&'r str>, RegistrationError> {
        let Some(Value::Array(all)) = asked.get("redirect_uris") else {
            return Err(RegistrationError::RedirectUri);
        };
        if !(1..=MAX_REDIRECTS).contains(&all.len()) {
            return Err(RegistrationError::RedirectUri);
        }
        let fits =
            |text: &&str| text.len() <= MAX_REDIRECT && self.redirects.iter().any(|one| one.allows(text));
        all.iter().map(|one| one.as_str().filter(fits).ok_or(RegistrationError::RedirectUri)).collect()
    }
}

impl Redirect {
    fn allows(&self, asked: &str) -> bool {
        let pattern = match self {
            Redirect::Exact(text) => return text == asked,
            Redirect::Loopback(url) => url,
        };
        // Only the port may differ. What the URL standard would have to tidy up (`..`, other spellings of the address,
        // a user) is another text than the one it was read from, and refused.
        let Ok(mut url) = Url::parse(asked) else { return false };
        let tidy = url.as_str() == asked || url.as_str().strip_suffix('/') == Some(asked);
        tidy && url.set_port(None).is_ok() && url == *pattern
    }
}

fn redirect(text: &str) -> Option<Redirect> {
    let url = Url::parse(text).ok().filter(|url| text.len() <= MAX_REDIRECT && url.fragment().is_none())?;
    let plain = url.username().is_empty() && url.password().is_none() && !text.contains('#');
    match url.scheme() {
        _ if !plain => None,
        "https" => Some(Redirect::Exact(text.to_owned())),
        "http" if !crate::egress::is_loopback_host(&url) => None,
        "http" if url.port().is_none() => Some(Redirect::Loopback(url)),
        "http" => Some(Redirect::Exact(text.to_owned())),
        // Schemes that run or show what they hold; an application's own has a host's name in it or is its own.
        "javascript" | "data" | "file" | "vbscript" | "blob" | "about" | "ftp" | "ws" | "wss" => None,
        _ => Some(Redirect::Exact(text.to_owned())),
    }
}

fn within(asked: &Map<String, Value>, name: &str, known: &[&str]) -> Result<(), RegistrationError> {
    let fits = match asked.get(name) {
        None => true,
        Some(Value::Array(all)) => all.iter().all(|one| one.as_str().is_some_and(|one| known.contains(&one))),
        Some(_) => false,
    };
    if fits { Ok(()) } else { Err(RegistrationError::Metadata) }
}

/// What of the issuer's own document comes back under the shim's name.
const KEPT: [&str; 12] = [
    "authorization_endpoint",
    "token_endpoint",
    "jwks_uri",
    "revocation_endpoint",
    "end_session_endpoint",
    "pushed_authorization_request_endpoint",
    "require_pushed_authorization_requests",
    "scopes_supported",
    "response_modes_supported",
    "code_challenge_methods_supported",
    "ui_locales_supported",
    "service_documentation",
];

/// The authorization-server document (RFC 8414) under the shim's own identifier: the issuer's endpoints with registration
/// at the shim. `None` when the issuer's lacks an endpoint that the authorization code flow needs.
pub fn server_document(issuer: &ServerMetadata, identifier: &str, registration: &str) -> Option<Value> {
    issuer.field("authorization_endpoint")?.as_str()?;
    issuer.field("token_endpoint")?.as_str()?;
    let mut document = Map::new();
    document.insert("issuer".into(), identifier.into());
    for name in KEPT {
        if let Some(value) = issuer.field(name) {
            document.insert(name.into(), value.clone());
        }
    }
    document.insert("registration_endpoint".into(), registration.into());
    document.insert("response_types_supported".into(), json!(["code"]));
    document.insert("grant_types_supported".into(), json!(["authorization_code", "refresh_token"]));
    document.insert("token_endpoint_auth_methods_supported".into(), json!(["none"]));
    // Some issuers support S256 without saying so, and MCP clients refuse to begin unless it is said.
    document.entry("code_challenge_methods_supported").or_insert_with(|| json!(["S256"]));
    // The issuer would name itself in the authorization response (RFC 9207), and that is another name than this one.
    document.insert("authorization_response_iss_parameter_supported".into(), false.into());
    Some(Value::Object(document))
}

#[cfg(test)]
mod tests;
