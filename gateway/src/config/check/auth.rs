//! The `auth` section: issuers, fixed tokens, client certificates, egress rules, the registration shim. Fetches nothing;
//! what is wrong is told without any secret's text.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use auth::Identifier;
use auth::certificate::NameKind;
use auth::client::ClientAuth;
use auth::egress::Egress;
use auth::issuer::{Beside, ClaimNames, Issuer, Profile, Settings};
use auth::keys::{Algorithm, Timing};
use auth::registration::Shim;
use auth::tokens::parse_digest;
use ipnet::IpNet;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::bounds::seconds;
use super::front;
use crate::config::checked::{
    Auth, ClientCertificates, FixedToken, Held, HeldClient, Introspection, KeySource, Trusted,
};
use crate::config::context::{Context, Reference};
use crate::config::place::At;
use crate::config::raw;
use crate::config::raw::auth as written;
use crate::config::secret::Secret;

/// Issuers of one file: every opaque token and every unknown issuer costs a look at them.
const MAX_ISSUERS: usize = 64;

/// The whole section.
pub(super) fn check(raw: &raw::File, context: &mut Context<'_>) -> Auth {
    let Some(section) = &raw.auth else { return Auth::default() };
    let at = At::root().key("auth");
    let egress = egress(section.egress.as_ref(), &at.key("egress"), context);
    let ca = section.egress.as_ref().and_then(|egress| egress.ca.as_deref());
    let egress_ca = ca.map(|text| authorities(text, &at.key("egress").key("ca"), context));
    let issuers = issuers(section, &egress, &at.key("issuers"), context);
    let tokens = tokens(section, &at.key("tokens"), context);
    let clients = section.clients.as_ref().map(|raw| {
        let at = at.key("clients");
        if !context.places.has(&At::root().key("tls")) {
            let fix = "add `tls`: certificates of clients exist in TLS alone";
            context.problem(&at, "client certificates without TLS", fix);
        }
        let name = match raw.name {
            written::NameKind::Uri => NameKind::Uri,
            written::NameKind::Dns => NameKind::Dns,
            written::NameKind::Email => NameKind::Email,
        };
        ClientCertificates { ca: authorities(&raw.ca, &at.key("ca"), context), name }
    });
    let shim_at = at.key("registration_shim");
    let shim = section.registration_shim.as_ref().and_then(|raw| shim(raw, &issuers, &shim_at, context));
    let grace_at = at.key("stream_grace");
    let default = Auth::default();
    let stream_grace =
        context.time(&grace_at, section.stream_grace.as_ref(), default.stream_grace, seconds(0, 3600));
    Auth { issuers, tokens, clients, egress, egress_ca, shim, stream_grace }
}

fn authorities(text: &str, at: &At, context: &mut Context<'_>) -> PathBuf {
    let path = context.path(text);
    if !context.world.elsewhere
        && let Err(what) = front::read_chain(&path)
    {
        context.problem(at, what, "name a PEM file with the certificates of the authorities");
    }
    path
}

fn egress(raw: Option<&written::Egress>, at: &At, context: &mut Context<'_>) -> Egress {
    let Some(raw) = raw else { return Egress::default() };
    let mut rules = Egress { allow: Vec::new(), loopback: raw.loopback.unwrap_or(false) };
    for (index, text) in raw.allow.iter().flatten().enumerate() {
        // An address alone is a network of one.
        let one = || text.parse::<IpAddr>().ok().map(IpNet::from);
        match text.parse().ok().or_else(one) {
            Some(net) => rules.allow.push(net),
            None => {
                context.problem(
                    &at.key("allow").index(index),
                    "not a network",
                    "write 10.1.0.0/16 or fd00::/8",
                );
            }
        }
    }
    rules
}

/// A URL that is fetched: the egress rules judge what can be judged without asking for its addresses.
pub(super) fn endpoint(text: &str, egress: &Egress, at: &At, context: &mut Context<'_>) -> Option<String> {
    match egress.url(text) {
        Ok(url) => Some(url.to_string()),
        Err(error) => {
            let fix = "write an https URL without user and fragment; private addresses need `auth.egress`";
            context.problem(at, format!("the gateway doesn't connect there ({})", error.reason()), fix);
            None
        }
    }
}

/// The gateway as a client of an authorization server.
pub(super) fn client(
    (id, secret, way): (&str, &str, Option<written::ClientAuth>),
    at: &At,
    context: &mut Context<'_>,
) -> Option<HeldClient> {
    if id.is_empty() {
        context.problem(&at.key("client_id"), "an empty client id", "write the gateway's id there");
    }
    let secret = context.held(&at.key("client_secret"), secret)?;
    let auth = match way {
        Some(written::ClientAuth::Post) => ClientAuth::Post,
        Some(written::ClientAuth::Basic) | None => ClientAuth::Basic,
    };
    Some(HeldClient { id: id.to_owned(), secret, auth })
}

fn issuers(raw: &written::Auth, egress: &Egress, at: &At, context: &mut Context<'_>) -> Vec<Trusted> {
    let Some(list) = &raw.issuers else { return Vec::new() };
    if list.len() > MAX_ISSUERS {
        context.problem(at, format!("{} issuers", list.len()), format!("name at most {MAX_ISSUERS}"));
        return Vec::new();
    }
    let mut lookups = 0;
    let mut all: Vec<Trusted> = Vec::new();
    for (index, raw) in list.iter().enumerate() {
        let at = at.index(index);
        if raw.introspection.is_some() {
            lookups += 1;
        }
        if lookups == 2 && raw.introspection.is_some() {
            let what = "a second issuer with introspection";
            let fix = "keep one: an opaque token doesn't tell its issuer, and is shown to no other";
            context.problem(&at.key("introspection"), what, fix);
        }
        if list.iter().take(index).any(|other| other.issuer == raw.issuer) {
            context.problem(&at.key("issuer"), "the same issuer twice", "keep one entry with all audiences");
        }
        all.extend(issuer(raw, egress, &at, context));
    }
    all
}

fn issuer(raw: &written::Issuer, egress: &Egress, at: &At, context: &mut Context<'_>) -> Option<Trusted> {
    let keys = key_source(raw, egress, at, context);
    let introspection = raw.introspection.as_ref().and_then(|raw| {
        let at = at.key("introspection");
        let named = raw.endpoint.as_deref();
        let endpoint = named.and_then(|text| endpoint(text, egress, &at.key("endpoint"), context));
        let own = (raw.client_id.as_str(), raw.client_secret.as_str(), raw.client_auth);
        Some(Introspection { endpoint, client: client(own, &at, context)? })
    });
    let rsa = match raw.rsa.as_deref() {
        None => Algorithm::default(),
        Some(name) => Algorithm::named(name).filter(|a| a.is_rsa()).unwrap_or_else(|| {
            context.problem(
                &at.key("rsa"),
                "no RSA algorithm",
                "write RS256, RS384, RS512, PS256, PS384 or PS512",
            );
            Algorithm::default()
        }),
    };
    let timing = timing(raw, &keys, at, context);
    match Issuer::compile(settings(raw)) {
        Ok(issuer) => Some(Trusted { issuer, keys: keys?, timing, rsa, introspection }),
        Err(errors) => {
            for error in errors {
                let fix = "see the description of `auth.issuers` in `tollgate schema`";
                context.problem(&at.key("issuer"), error.to_string(), fix);
            }
            None
        }
    }
}

fn settings(raw: &written::Issuer) -> Settings {
    let audiences = match &raw.audience {
        written::Texts::One(one) => vec![one.clone()],
        written::Texts::Several(all) => all.clone(),
    };
    let beside = match &raw.other_audiences {
        None => Beside::Nobody,
        Some(all) => Beside::Listed(all.iter().cloned().collect()),
    };
    let implies: BTreeMap<_, _> = raw.implies.iter().flat_map(|rules| rules.0.iter().cloned()).collect();
    let claims = raw.claims.as_ref().map_or_else(ClaimNames::default, |raw| ClaimNames {
        groups: raw.groups.clone(),
        tenant: raw.tenant.clone(),
        task: raw.task.clone(),
        run: raw.run.clone(),
        client: raw.client.clone(),
    });
    Settings {
        issuer: raw.issuer.clone(),
        audiences,
        beside,
        profile: match raw.profile {
            Some(written::Profile::Rfc9068) => Profile::Rfc9068,
            Some(written::Profile::Plain) | None => Profile::Plain,
        },
        scopes: raw.scopes.clone().unwrap_or_default(),
        implies,
        claims,
    }
}

fn key_source(
    raw: &written::Issuer,
    egress: &Egress,
    at: &At,
    context: &mut Context<'_>,
) -> Option<KeySource> {
    let at_keys = at.key("jwks");
    match raw.jwks.as_deref() {
        None => endpoint(&raw.issuer, egress, &at.key("issuer"), context).map(|_| KeySource::Discovery),
        Some(text) if Reference::parse(text).is_some() => {
            let held = context.held(&at_keys, text)?;
            if !context.world.elsewhere
                && let Err(error) =
                    auth::keys::KeySet::parse(held.secret.expose().as_bytes(), Algorithm::default())
            {
                context.problem(&at_keys, error.to_string(), "name a JWK set: {\"keys\": [...]}");
            }
            Some(KeySource::Held(held))
        }
        Some(text) => endpoint(text, egress, &at_keys, context).map(KeySource::Url),
    }
}

/// A file costs nothing to read, so it is looked at often.
fn timing(raw: &written::Issuer, keys: &Option<KeySource>, at: &At, context: &mut Context<'_>) -> Timing {
    let mut timing = Timing::default();
    if let Some(KeySource::Held(_)) = keys {
        let second = Duration::from_secs(1);
        timing = Timing { refresh: second * 10, cooldown: second, unknown: second, ..timing };
    }
    let refresh =
        context.time(&at.key("jwks_refresh"), raw.jwks_refresh.as_ref(), timing.refresh, seconds(1, 86_400));
    let cooldown =
        context.time(&at.key("jwks_cooldown"), raw.jwks_cooldown.as_ref(), timing.cooldown, seconds(1, 3600));
    // A key that is still unknown after the cooldown may be asked for again soon after it.
    Timing { refresh, cooldown, unknown: timing.unknown.min(cooldown * 10), ..timing }
}

fn tokens(raw: &written::Auth, at: &At, context: &mut Context<'_>) -> Vec<FixedToken> {
    let mut all: Vec<FixedToken> = Vec::new();
    for (index, raw) in raw.tokens.iter().flatten().enumerate() {
        let at = at.index(index);
        let Some(name) = Identifier::new(&raw.name) else {
            context.problem(
                &at.key("name"),
                "not a name",
                "write 1 to 1024 characters without control characters",
            );
            continue;
        };
        if all.iter().any(|other| other.name == name) {
            context.problem(&at.key("name"), "the same name twice", "give each token its own name");
        }
        let expires = raw.expires.as_deref().and_then(|text| expires(text, &at.key("expires"), context));
        let Some(sha256) = digest(&raw.sha256, &at.key("sha256"), context) else { continue };
        let same = |other: &FixedToken| {
            parse_digest(other.sha256.secret.expose()) == parse_digest(sha256.secret.expose())
        };
        if !context.world.elsewhere && all.iter().any(same) {
            context.problem(&at.key("sha256"), "the same token under two names", "keep one of the two");
        }
        all.push(FixedToken { name, sha256, expires });
    }
    all
}

/// A digest is no secret, so it may stand in the file; a token's own text in its place is told without being shown.
fn digest(text: &str, at: &At, context: &mut Context<'_>) -> Option<Held> {
    let held = match Reference::parse(text) {
        Some(_) => context.held(at, text)?,
        None => Held { secret: Secret::new(text), file: None },
    };
    if parse_digest(held.secret.expose()).is_none() && !context.world.elsewhere {
        let fix = "write 64 hex digits: printf %s \"$TOKEN\" | sha256sum";
        context.problem(at, "not the SHA-256 of a token", fix);
        return None;
    }
    Some(held)
}

/// A day ends with its last second.
fn expires(text: &str, at: &At, context: &mut Context<'_>) -> Option<u64> {
    let whole_day = text.parse::<Date>().ok().and_then(|day| day.tomorrow().ok());
    let moment = match whole_day {
        Some(next) => next.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp()),
        None => text.parse::<Timestamp>().ok(),
    };
    let seconds = moment.and_then(|moment| u64::try_from(moment.as_second()).ok());
    if seconds.is_none() {
        context.problem(at, "not a time", "write 2027-01-31 or 2027-01-31T12:00:00Z");
    }
    seconds
}

fn shim(
    raw: &written::Shim,
    issuers: &[Trusted],
    at: &At,
    context: &mut Context<'_>,
) -> Option<(String, Shim)> {
    if !issuers.iter().any(|trusted| **trusted.issuer.issuer() == *raw.issuer) {
        context.problem(
            &at.key("issuer"),
            "not one of `auth.issuers`",
            "name an issuer exactly as it stands there",
        );
    }
    match Shim::compile(&raw.client_id, &raw.redirect_uris, raw.scope.clone()) {
        Ok(shim) => Some((raw.issuer.clone(), shim)),
        Err(errors) => {
            for error in errors {
                let fix = "name the client as it is registered at the issuer";
                context.problem(at, error.to_string(), fix);
            }
            None
        }
    }
}
