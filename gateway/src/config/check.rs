//! The second check: what the values mean, alone and together. Goes on after a problem, so that all are found;
//! makes a [`Checked`] only when there is none.

mod address;
mod auth;
mod bounds;
mod credential;
mod front;
mod headers;
mod http_server;
mod keys;
mod outgoing;
mod server;
mod stdio_server;

use super::checked::{Checked, Task};
use super::context::Context;
use super::place::At;
use super::problem::Problem;
use super::raw;

pub(crate) use credential::{looks_secret, names_secret};
pub(crate) use outgoing::assertion_key;
pub(crate) use server::valid_id;

/// The task that exists without a `tasks` section.
const IMPLICIT_TASK: &str = "default";

/// Turns the raw file into a checked one. `listen` is the command line's override.
pub(crate) fn check(
    raw: &raw::File,
    listen: Option<&str>,
    mut context: Context<'_>,
) -> Result<Checked, Vec<Problem>> {
    let context = &mut context;
    let root = At::root();
    let front = front::check(raw, listen, context);
    let auth = auth::check(raw, context);
    let servers = server::all(raw, &auth.egress, context);
    let limits = bounds::front(raw.limits.as_ref(), &root.key("limits"), context);
    let names_max = bounds::names(raw.names.as_ref(), &root.key("names"), context);
    let lists = bounds::lists(raw.lists.as_ref(), &root.key("lists"), context);
    let legacy = bounds::legacy(raw.legacy.as_ref(), &root.key("legacy"), context);
    let log = bounds::log(raw.log.as_ref(), &root.key("log"), context);
    let drain = bounds::drain(raw.drain.as_ref(), &root.key("drain"), context);
    let keys = keys::check(raw.keys.as_ref(), &root.key("keys"), context);
    let default_task = default_task(raw, context);
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
        tasks: vec![Task { name: default_task.clone(), implicit: true }],
        default_task,
        limits,
        names_max,
        lists,
        legacy,
        keys,
        log,
        drain,
        warnings: std::mem::take(&mut context.warnings),
    })
}

fn default_task(raw: &raw::File, context: &mut Context<'_>) -> String {
    let at = At::root().key("default_task");
    if raw.default_task.as_deref().is_some_and(|name| name != IMPLICIT_TASK) {
        context.problem(&at, "there is no such task", "remove it: this build has the task `default` alone");
    }
    let fix = "policies come with a later build; until then only loopback callers reach the gateway";
    context.warning(&At::root(), "no tasks: the implicit task `default` allows every caller everything", fix);
    IMPLICIT_TASK.to_owned()
}
