//! A server behind a URL.

use url::{Host, Url};

use super::{front, headers};
use crate::config::checked::{HttpKind, HttpServer};
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw;

/// `None` only after a problem.
pub(super) fn check(raw: &raw::Server, at: &At, context: &mut Context<'_>) -> Option<HttpServer> {
    let url = raw.url.as_deref().and_then(|text| url(text, &at.key("url"), context));
    let headers = headers::check(raw.headers.as_ref(), &at.key("headers"), context);
    let ca = raw.ca.as_deref().map(|text| context.path(text));
    if let Some(path) = ca.as_ref().filter(|_| !context.world.elsewhere)
        && let Err(what) = front::read_chain(path)
    {
        context.problem(&at.key("ca"), what, "name a PEM file with the certificates of the authorities");
    }
    let url = url?;
    if url.scheme() == "http"
        && !local(&url)
        && headers.iter().any(|(name, _)| super::names_secret(name.as_str()))
    {
        let what = "credentials go over plain HTTP to another machine";
        context.warning(&at.key("url"), what, "use https");
    }
    if url.scheme() == "http" && ca.is_some() {
        context.problem(&at.key("ca"), "`ca` without TLS", "use an https URL, or remove `ca`");
    }
    let kind = match raw.kind {
        Some(raw::Kind::Http) => HttpKind::StreamableHttp,
        Some(raw::Kind::Sse) => HttpKind::Sse,
        Some(raw::Kind::Auto) | None => HttpKind::Auto,
    };
    Some(HttpServer { url, kind, headers, ca })
}

/// The URL's text never gets into a message: some servers want a secret in it.
fn url(text: &str, at: &At, context: &mut Context<'_>) -> Option<Url> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(url) = url else {
        context.problem(at, "not an http or https URL", "write something like https://mcp.example.com/mcp");
        return None;
    };
    if !url.username().is_empty() || url.password().is_some() {
        let fix = "put the credential into `headers`, by reference (`Authorization: Basic env:NAME`)";
        context.problem(at, "a user or password in the URL", fix);
        return None;
    }
    if url.fragment().is_some() {
        context.problem(at, "a fragment (`#...`) in the URL", "remove it: it is never sent");
        return None;
    }
    if url.query_pairs().any(|(name, value)| super::names_secret(&name) || super::looks_secret(&value)) {
        let fix = "use `headers` with a reference if the server allows it: URLs end up in logs";
        context.warning(at, "what looks like a credential in the URL", fix);
    }
    Some(url)
}

fn local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}
