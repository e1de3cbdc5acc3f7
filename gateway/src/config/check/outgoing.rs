//! `servers.*.auth`: the one credential that a server gets. Secrets by reference alone.

use std::time::Duration;

use auth::egress::Egress;
use auth::outgoing::{AssertionKey, MAX_LIFETIME, Target};
use auth::scope::Scopes;
use http::{HeaderName, HeaderValue};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use url::Url;

use super::auth::{client, endpoint};
use super::headers;
use crate::config::checked::{Assertion, Grantor, Held, Outgoing};
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw::auth as written;

const ONE: &str = "write one of bearer, header, client_credentials, token_exchange, assertion";

/// What the credential depends on besides its own text.
pub(super) struct Place<'a> {
    /// Where tokens may be fetched.
    pub(super) egress: &'a Egress,
    /// The gateway's public URL.
    pub(super) public: Option<&'a str>,
    /// The server's URL.
    pub(super) server: Option<&'a Url>,
}

/// `None` without a credential, and after a problem.
pub(super) fn check(
    raw: &written::Outgoing,
    place: &Place<'_>,
    at: &At,
    context: &mut Context<'_>,
) -> Option<Outgoing> {
    let written::Outgoing { bearer, header, client_credentials, token_exchange, assertion } = raw;
    let given = [
        bearer.is_some(),
        header.is_some(),
        client_credentials.is_some(),
        token_exchange.is_some(),
        assertion.is_some(),
    ];
    if given.iter().filter(|given| **given).count() != 1 {
        context.problem(at, "not exactly one credential", ONE);
        return None;
    }
    if let Some(text) = bearer {
        let at = at.key("bearer");
        return context
            .held(&at, text)
            .and_then(|held| fits_header(held, &at, context))
            .map(Outgoing::Bearer);
    }
    if let Some(raw) = header {
        return fixed_header(raw, &at.key("header"), context);
    }
    if let Some(raw) = client_credentials {
        let at = at.key("client_credentials");
        return grantor(raw, place, &at, context).map(Outgoing::ClientCredentials);
    }
    if let Some(raw) = token_exchange {
        let mut grantor = grantor(raw, place, &at.key("token_exchange"), context)?;
        // A token that is for no server in particular would be good at all of them.
        if grantor.target.audience.is_none() && grantor.target.resource.is_none() {
            grantor.target.resource = place.server.map(bare);
        }
        return Some(Outgoing::TokenExchange(grantor));
    }
    assertion.as_ref().and_then(|raw| signed(raw, place, &at.key("assertion"), context))
}

/// A server's URL as its name: the query may hold a secret.
fn bare(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.to_string()
}

fn fits_header(held: Held, at: &At, context: &mut Context<'_>) -> Option<Held> {
    let text = held.secret.expose();
    if !context.world.elsewhere && (HeaderValue::from_str(text).is_err() || text.trim() != text) {
        let fix = "one line, no control characters, no space at either end";
        context.problem(at, "the value can't stand in a header", fix);
        return None;
    }
    Some(held)
}

fn fixed_header(raw: &written::Header, at: &At, context: &mut Context<'_>) -> Option<Outgoing> {
    let held = context.held(&at.key("value"), &raw.value);
    let held = held.and_then(|held| fits_header(held, &at.key("value"), context));
    let name = raw.name.parse::<HeaderName>().ok().filter(|name| !headers::is_ours(name));
    if name.is_none() {
        let fix = "write the name of a header that the gateway does not set itself";
        context.problem(&at.key("name"), "not the name of such a header", fix);
    }
    Some(Outgoing::Header(name?, held?))
}

fn grantor(raw: &written::Grantor, place: &Place<'_>, at: &At, context: &mut Context<'_>) -> Option<Grantor> {
    let url = endpoint(&raw.token_url, place.egress, &at.key("token_url"), context);
    let own = (raw.client_id.as_str(), raw.client_secret.as_str(), raw.client_auth);
    let client = client(own, at, context);
    if raw.scope.as_deref().is_some_and(|text| Scopes::parse(text).is_none()) {
        context.problem(&at.key("scope"), "not a list of scopes", "separate scopes by spaces");
    }
    let resource = raw.resource.as_deref();
    if resource.is_some_and(|text| Url::parse(text).map_or(true, |url| url.fragment().is_some())) {
        context.problem(
            &at.key("resource"),
            "not an absolute URL without a fragment",
            "write the server's URL",
        );
    }
    let target =
        Target { resource: raw.resource.clone(), audience: raw.audience.clone(), scope: raw.scope.clone() };
    Some(Grantor { url: url?, client: client?, target })
}

fn signed(
    raw: &written::Assertion,
    place: &Place<'_>,
    at: &At,
    context: &mut Context<'_>,
) -> Option<Outgoing> {
    let at_key = at.key("key");
    let key = context.held(&at_key, &raw.key)?;
    if !context.world.elsewhere
        && let Err(what) = assertion_key(key.secret.expose())
    {
        context.problem(&at_key, what, "make one: openssl genpkey -algorithm ed25519");
    }
    let issuer = raw.issuer.as_deref().or(place.public);
    if issuer.is_none() {
        context.problem(at, "an assertion without an issuer", "set `issuer` here, or `public_url`");
    }
    let range = Duration::from_secs(1)..=MAX_LIFETIME;
    let lifetime = context.time(&at.key("lifetime"), raw.lifetime.as_ref(), MAX_LIFETIME, range);
    let audience = raw.audience.clone().or_else(|| place.server.map(bare))?;
    Some(Outgoing::Assertion(Assertion { key, issuer: issuer?.to_owned(), audience, lifetime }))
}

/// Reads a key that signs assertions.
///
/// # Errors
/// What is wrong with it, without any of its text.
pub(crate) fn assertion_key(pem: &str) -> Result<AssertionKey, String> {
    let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| "not a private key in PEM (PKCS#8)".to_owned())?;
    AssertionKey::from_pkcs8(der.secret_pkcs8_der()).map_err(|error| error.to_string())
}
