//! What clients without a sufficient credential are told: which pages say where to get one, and the challenge that points
//! to them. Addresses are made of the configuration and of the `Host` that was accepted; nothing here lets anybody in.

use auth::metadata::{self, Asked, Challenge};
use http::Method;

use crate::config::Checked;
use crate::reject::{Reject, Why};
use crate::stages::admit::{Admitted, Endpoint, Verb};
use crate::wire;

/// The registration shim's own path: its identifier is the base URL with this behind it.
pub const SHIM: &str = "/oauth";
/// Where its authorization-server metadata is (RFC 8414 section 3.1).
const SHIM_METADATA: &str = "/.well-known/oauth-authorization-server/oauth";
/// Where clients register at it (RFC 7591).
pub const SHIM_REGISTER: &str = "/oauth/register";

/// What the gateway says of itself without a credential.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Page {
    /// Protected-resource metadata of an endpoint (RFC 9728).
    Resource,
    /// The registration shim's authorization-server metadata (RFC 8414).
    Server,
    /// The registration shim itself.
    Register,
}

/// The page at a path, and the endpoint that it is about. The shim's pages exist only where it is configured.
pub fn page<'p>(config: &Checked, path: &'p str) -> Option<(Page, &'p str)> {
    if let Some(endpoint) = metadata::endpoint_of(path) {
        return Some((Page::Resource, endpoint));
    }
    config.auth.shim.as_ref()?;
    match path {
        SHIM_METADATA => Some((Page::Server, metadata::ROOT_ENDPOINT)),
        SHIM_REGISTER => Some((Page::Register, metadata::ROOT_ENDPOINT)),
        _ => None,
    }
}

/// What a method asks of a page.
///
/// # Errors
/// 405.
pub fn verb(page: Page, method: &Method) -> Result<Verb, Reject> {
    let right = if page == Page::Register { Method::POST } else { Method::GET };
    if *method == right {
        return Ok(Verb::Page(page));
    }
    Err(Reject::new(Why::MethodNotAllowed, format!("use {right} here")))
}

/// The URL before every path: `public_url`, else the `Host` that the client used and was accepted.
pub fn base(config: &Checked, admitted: &Admitted) -> Option<String> {
    if let Some(public) = public(config) {
        return Some(public);
    }
    let scheme = if config.tls.is_some() { "https" } else { "http" };
    wire::host(&admitted.headers).map(|host| format!("{scheme}://{host}"))
}

/// The same, where the configuration alone says it.
pub fn public(config: &Checked) -> Option<String> {
    config.public_url.as_ref().map(|url| url.as_str().trim_end_matches('/').to_owned())
}

/// The path of the endpoint.
pub fn path(admitted: &Admitted) -> String {
    let task = admitted.task.as_ref().map(|task| format!("/tasks/{task}")).unwrap_or_default();
    match &admitted.endpoint {
        Endpoint::All => format!("{task}/mcp"),
        Endpoint::One(server) => format!("{task}/servers/{server}/mcp"),
    }
}

/// The address of the metadata of an endpoint; without one, of `/mcp`.
pub fn resource_metadata(base: &str, admitted: Option<&Admitted>) -> String {
    let endpoint = admitted.map_or_else(|| metadata::ROOT_ENDPOINT.to_owned(), path);
    format!("{base}{}", metadata::well_known_path(&endpoint))
}

/// The same rejection with what tells the client how to do better, where a credential could help.
#[must_use]
pub fn dress(config: &Checked, admitted: &Admitted, mut reject: Reject) -> Reject {
    let asked = match reject.why {
        Why::NoCredential => Asked::NoCredential,
        Why::Credential => Asked::InvalidToken,
        Why::Scope => Asked::InsufficientScope,
        _ => return reject,
    };
    // Without an issuer there is no document to point to.
    let base = base(config, admitted).filter(|_| !config.auth.issuers.is_empty());
    let url = base.map(|base| resource_metadata(&base, Some(admitted)));
    let scopes: Vec<&str> = match asked {
        Asked::InsufficientScope => reject.scopes.iter().map(String::as_str).collect(),
        Asked::NoCredential | Asked::InvalidToken => config.auth.scopes(),
    };
    let description = (asked == Asked::InsufficientScope).then_some(&*reject.public);
    let challenge = Challenge { asked, resource_metadata: url.as_deref(), scopes: &scopes, description };
    reject.challenge = Some(challenge.header());
    reject
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::path::Path;

    use http::HeaderMap;

    use super::*;
    use crate::config::{Options, Source, check_text};
    use crate::stages::admit::Via;

    fn config(head: &str) -> Checked {
        let text = format!(
            "{head}auth: {{ issuers: [{{ issuer: \"https://idp.example\", audience: a, scopes: [r, w] }}] }}\nservers: {{}}\n"
        );
        let source = Source { name: "t", bytes: text.as_bytes(), base: Path::new("/") };
        check_text(&source, &Options::default(), &|_| None).unwrap()
    }

    fn admitted() -> Admitted {
        let mut headers = HeaderMap::new();
        headers.insert("host", "LOCALHOST:8080".parse().unwrap());
        Admitted {
            verb: Verb::Post,
            endpoint: Endpoint::One("docs".into()),
            task: Some("support".into()),
            query: None,
            certified: None,
            headers,
            via: Via::Http,
            origin: None,
        }
    }

    #[test]
    fn a1_the_challenge_points_to_the_endpoints_own_metadata() {
        let reject = dress(&config(""), &admitted(), Reject::new(Why::NoCredential, "x"));
        let path = "/.well-known/oauth-protected-resource/tasks/support/servers/docs/mcp";
        let want = format!("Bearer resource_metadata=\"http://localhost:8080{path}\", scope=\"r w\"");
        assert_eq!(reject.challenge, Some(want));
        let public = config("public_url: https://mcp.example.com/base/\n");
        let reject = dress(&public, &admitted(), Reject::new(Why::Credential, "x"));
        let challenge = reject.challenge.unwrap();
        assert!(challenge.contains(&format!("\"https://mcp.example.com/base{path}\"")), "{challenge}");
        assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
    }

    #[test]
    fn a16_a_call_that_needs_scopes_names_all_of_them_at_once() {
        let reject = Reject::new(Why::Scope, "this call needs more").needs(["mcp.read", "mcp.write"]);
        let challenge = dress(&config(""), &admitted(), reject).challenge.unwrap();
        assert!(challenge.contains("scope=\"mcp.read mcp.write\""), "{challenge}");
        assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
        assert!(challenge.contains("resource_metadata="), "{challenge}");
    }

    #[test]
    fn a17_a_challenge_is_one_header_line_whatever_a_tool_is_called() {
        let name = "tool \"x\\\r\nSet-Cookie: a=b\u{7f}é";
        let reject = Reject::new(Why::Scope, format!("{name} needs more")).needs(["a b", "ok", "b\"c"]);
        let challenge = dress(&config(""), &admitted(), reject).challenge.unwrap();
        assert!(challenge.bytes().all(|b| (0x20..0x7f).contains(&b)), "{challenge}");
        assert!(challenge.contains("scope=\"ok\"") && !challenge.contains('\\'), "{challenge}");
        assert_eq!(challenge.matches('"').count() % 2, 0, "{challenge}");
    }

    #[test]
    fn the_shims_pages_exist_only_where_it_is_configured() {
        let off = config("");
        assert!(page(&off, SHIM_METADATA).is_none() && page(&off, SHIM_REGISTER).is_none());
        assert_eq!(page(&off, "/.well-known/oauth-protected-resource"), Some((Page::Resource, "/mcp")));
        assert!(page(&off, "/.well-known/oauth-authorization-server").is_none());
    }
}
