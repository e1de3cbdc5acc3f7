//! A server behind a URL.

use url::{Host, Url};

use super::server::Around;
use super::{front, headers, outgoing};
use crate::config::checked::{HttpKind, HttpServer, Outgoing};
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw;

/// `None` only after a problem.
pub(super) fn check(
    raw: &raw::Server,
    at: &At,
    (egress, public): Around<'_>,
    context: &mut Context<'_>,
) -> Option<HttpServer> {
    let url = raw.url.as_deref().and_then(|text| url(text, &at.key("url"), context));
    let headers = headers::check(raw.headers.as_ref(), &at.key("headers"), context);
    let ca = raw.ca.as_deref().map(|text| context.path(text));
    if let Some(path) = ca.as_ref().filter(|_| !context.world.elsewhere)
        && let Err(what) = front::read_chain(path)
    {
        context.problem(&at.key("ca"), what, "name a PEM file with the certificates of the authorities");
    }
    let place = outgoing::Place { egress, public, server: url.as_ref() };
    let credential = raw.auth.as_ref().and_then(|raw| outgoing::check(raw, &place, &at.key("auth"), context));
    let taken = match &credential {
        Some(Outgoing::Header(name, _)) => Some(name.clone()),
        Some(_) => Some(http::header::AUTHORIZATION),
        None => None,
    };
    if headers.iter().any(|(name, _)| taken.as_ref() == Some(name)) {
        context.problem(&at.key("auth"), "the same header by `headers` and by `auth`", "keep one of the two");
    }
    let url = url?;
    if url.scheme() == "http"
        && !local(&url)
        && (credential.is_some() || headers.iter().any(|(name, _)| super::names_secret(name.as_str())))
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
    if kind == HttpKind::Sse && credential.as_ref().is_some_and(Outgoing::per_principal) {
        let fix = "use a streamable HTTP server, or a credential of the gateway's own";
        context.problem(&at.key("auth"), "a credential for each caller over the old HTTP+SSE transport", fix);
    }
    Some(HttpServer { url, kind, headers, credential, ca })
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
