//! The second check: what the values mean, alone and together. Goes on after a problem, so that all are found;
//! makes a [`Checked`] only when there is none.

mod address;
mod audit;
mod auth;
mod bounds;
mod cost;
mod credential;
mod front;
mod headers;
mod http_server;
mod keys;
mod meter;
mod outgoing;
mod quick;
mod server;
mod stdio_server;
mod tasks;
mod tracing;

use super::checked::Checked;
use super::context::Context;
use super::place::At;
use super::problem::Problem;
use super::raw;

pub(crate) use audit::archive_url;
pub(crate) use credential::{looks_secret, names_secret};
pub(crate) use outgoing::assertion_key;
pub(crate) use server::valid_id;

/// Turns the raw file into a checked one. `listen` is the command line's override.
pub(crate) fn check(
    raw: &raw::File,
    listen: Option<&str>,
    mut context: Context<'_>,
) -> Result<Checked, Vec<Problem>> {
    let context = &mut context;
    let root = At::root();
    let front = front::check(raw, listen, context);
    let mut auth = auth::check(raw, context);
    let quick = quick::add(raw, &mut auth, front.as_ref(), context);
    let servers = server::all(raw, &auth.egress, context);
    let limits = bounds::front(raw.limits.as_ref(), &root.key("limits"), context);
    let names_max = bounds::names(raw.names.as_ref(), &root.key("names"), context);
    let lists = bounds::lists(raw.lists.as_ref(), &root.key("lists"), context);
    let legacy = bounds::legacy(raw.legacy.as_ref(), &root.key("legacy"), context);
    let log = bounds::log(raw.log.as_ref(), &root.key("log"), context);
    let drain = bounds::drain(raw.drain.as_ref(), &root.key("drain"), context);
    let keys = keys::check(raw.keys.as_ref(), &root.key("keys"), context);
    let audit = audit::check(raw.audit.as_ref(), &root.key("audit"), context);
    let meter = meter::check(raw.meter.as_ref(), &root.key("meter"), context);
    let tracing = tracing::check(raw.tracing.as_ref(), &root.key("tracing"), context);
    let ground = ground(raw, front.as_ref(), &quick);
    let tasks = tasks::check(raw, &ground, context);
    address::guard(raw, listen, (&ground, front.as_ref()), context);
    let (Some(front), Some(keys), true) = (front, keys, context.problems.is_empty()) else {
        return Err(std::mem::take(&mut context.problems));
    };
    Ok(Checked {
        listen: front.listen,
        public_url: front.public_url,
        admin: front.admin,
        tls: front.tls,
        h2c: raw.h2c.unwrap_or(false),
        hosts: front.hosts,
        origins: front.origins,
        auth,
        servers,
        tasks: tasks.all,
        default_task: tasks.default,
        limits,
        names_max,
        lists,
        legacy,
        keys,
        audit,
        meter,
        tracing,
        digest: [0; 32],
        log,
        drain,
        warnings: std::mem::take(&mut context.warnings),
    })
}

/// What tasks and the listener depend on, by its text: what is wrong in a section is told there.
fn ground<'a>(
    raw: &'a raw::File,
    front: Option<&front::Front>,
    quick: &'a quick::Quick,
) -> tasks::Ground<'a> {
    let auth = raw.auth.as_ref();
    let issuers = auth.and_then(|auth| auth.issuers.as_ref()).into_iter().flatten();
    let tokens = auth.and_then(|auth| auth.tokens.as_ref()).into_iter().flatten();
    tasks::Ground {
        loopback: front.is_none_or(|front| front.listen.ip().to_canonical().is_loopback()),
        issuers: issuers.map(|issuer| issuer.issuer.as_str()).chain(quick.issuer.as_deref()).collect(),
        tokens: tokens.map(|token| token.name.as_str()).chain(quick.token).collect(),
        certificates: auth.is_some_and(|auth| auth.clients.is_some()),
        servers: raw.servers.iter().flat_map(|map| map.0.iter().map(|(id, _)| id.as_str())).collect(),
    }
}
