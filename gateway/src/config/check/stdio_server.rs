//! A server that the gateway starts itself. Nothing is started here; what can be seen to fail is said.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bounds::seconds;
use super::{looks_secret, names_secret};
use crate::config::checked::{Isolation, StdioServer};
use crate::config::context::{Context, Reference, variable_name};
use crate::config::place::At;
use crate::config::raw;
use crate::config::secret::Secret;

/// What a program usually needs of its surroundings; holds no credential.
const INHERITED: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_ALL", "TZ", "TMPDIR"];

/// `None` only after a problem.
pub(super) fn check(raw: &raw::Server, at: &At, context: &mut Context<'_>) -> Option<StdioServer> {
    let env = environment(raw, &at.key("env"), context);
    let inherit_env = inherited(raw, &at.key("inherit_env"), context);
    let args = arguments(raw, &at.key("args"), context);
    let cwd = raw.cwd.as_deref().map(|text| context.path(text));
    if let Some(cwd) = cwd.as_ref().filter(|cwd| !context.world.elsewhere && !cwd.is_dir()) {
        context.problem(&at.key("cwd"), format!("{} is not a folder", cwd.display()), "name one that exists");
    }
    let idle =
        context.time(&at.key("idle"), raw.idle.as_ref(), Duration::from_secs(600), seconds(1, 7 * 86_400));
    let max_processes = context.count(&at.key("max_processes"), raw.max_processes, 32, 1..=10_000);
    let command = command(raw.command.as_deref()?, at, context)?;
    warn_of_missing(&command, &env, &inherit_env, at, context);
    let isolation = raw.isolation.map(|isolation| match isolation {
        raw::Isolation::Shared => Isolation::Shared,
        raw::Isolation::Session => Isolation::Session,
    });
    Some(StdioServer { command, args, env, inherit_env, cwd, isolation, idle, max_processes })
}

fn command(text: &str, at: &At, context: &mut Context<'_>) -> Option<String> {
    let at = at.key("command");
    if text.trim().is_empty() || text.contains('\0') {
        context.problem(&at, "not a program", "write its name or path");
        return None;
    }
    let path = if text.contains('/') { context.path(text) } else { PathBuf::from(text) };
    if text.contains(char::is_whitespace) && !path.exists() {
        let fix = "no shell is used: write the program alone, its arguments into `args: [...]`";
        context.problem(&at, "a program and its arguments in one text", fix);
        return None;
    }
    Some(path.to_string_lossy().into_owned())
}

/// Whether the program is there is only a warning: it may be installed later, and a failed start is reported by name.
fn warn_of_missing(
    command: &str,
    env: &[(String, Secret)],
    inherited: &[String],
    at: &At,
    context: &mut Context<'_>,
) {
    if context.world.elsewhere {
        return;
    }
    let at = at.key("command");
    if command.contains('/') {
        if !Path::new(command).is_file() {
            context.warning(&at, format!("there is no program {command}"), "check the path");
        }
        return;
    }
    let own = env.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.expose().to_owned());
    let path = own.or_else(|| {
        inherited.iter().any(|name| name == "PATH").then(|| (context.world.env)("PATH")).flatten()
    });
    let Some(path) = path else {
        let fix = "write the program's full path, or let it have a PATH (`inherit_env` or `env`)";
        context.warning(&at, "the program is looked up in PATH and gets none", fix);
        return;
    };
    if !std::env::split_paths(&path).any(|folder| folder.join(command).is_file()) {
        context.warning(&at, format!("no program {command} in PATH"), "install it, or write its full path");
    }
}

fn arguments(raw: &raw::Server, at: &At, context: &mut Context<'_>) -> Vec<String> {
    let args = raw.args.clone().unwrap_or_default();
    for (index, text) in args.iter().enumerate() {
        let at = at.index(index);
        let value = text.split_once('=').map_or(text.as_str(), |(_, value)| value);
        if text.contains('\0') {
            context.problem(&at, "a NUL character", "remove it");
        } else if Reference::parse(value).is_some() {
            let fix = "pass it in `env`: every user of the machine can read arguments";
            context.warning(&at, "references are not resolved in arguments; it is passed as it stands", fix);
        } else if looks_secret(value) {
            let fix = "pass it in `env` by reference: every user of the machine can read arguments";
            context.warning(&at, "what looks like a credential in an argument", fix);
        }
    }
    args
}

fn environment(raw: &raw::Server, at: &At, context: &mut Context<'_>) -> Vec<(String, Secret)> {
    let mut env = Vec::new();
    for (name, text) in raw.env.iter().flat_map(|env| &env.0) {
        let at = at.key(name);
        if !variable_name(name) {
            context.name_problem(&at, "not the name of a variable", "write letters, digits and _");
            continue;
        }
        let secret = match Reference::parse(text) {
            Some(reference) => context.fetch(&at, &reference),
            None => {
                if !text.is_empty() && (names_secret(name) || looks_secret(text)) {
                    let what = "what looks like a credential in the file itself";
                    context.warning(&at, what, "use env:NAME or file:PATH");
                }
                Some(Secret::new(text.as_str()))
            }
        };
        match secret {
            Some(secret) if secret.expose().contains('\0') => {
                context.problem(&at, "the value holds a NUL character", "remove it");
            }
            Some(secret) => env.push((name.clone(), secret)),
            None => {}
        }
    }
    env
}

fn inherited(raw: &raw::Server, at: &At, context: &mut Context<'_>) -> Vec<String> {
    let Some(names) = &raw.inherit_env else { return INHERITED.map(str::to_owned).into() };
    for (index, name) in names.iter().enumerate() {
        if !variable_name(name) {
            let fix = "write each variable's name alone: letters, digits and _; no wildcard";
            context.problem(&at.index(index), "not the name of a variable", fix);
        }
    }
    names.clone()
}
