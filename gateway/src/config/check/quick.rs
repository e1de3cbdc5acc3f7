//! What the environment adds for a quick start, where the file's `auth` says nothing of callers: a token, an issuer. Held to
//! the same rules as the file, and told by the variable's name. Where the file says who is believed it is the last word:
//! a variable that is left over in an environment must not let anybody else in.

use auth::Identifier;
use auth::issuer::{Issuer, Settings};

use super::auth::endpoint;
use super::front::Front;
use crate::config::checked::{Auth, FixedToken, Held, KeySource, Trusted};
use crate::config::context::Context;
use crate::config::place::{At, clip};
use crate::config::problem::Problem;
use crate::config::raw;
use crate::config::secret::Secret;
use crate::digest::{hex, sha256};

/// A token that proves a caller called [`CALLER`].
const TOKEN: &str = "TOLLGATE_TOKEN";
/// The issuer whose tokens are taken; keys by discovery.
const ISSUER: &str = "TOLLGATE_OAUTH_ISSUER";
/// The scopes that clients are told to ask it for.
const SCOPES: &str = "TOLLGATE_OAUTH_SCOPES";
/// The name of the token, as `principals.tokens` would name it.
const CALLER: &str = "quick-start";
/// Shorter tokens are guessed.
const LEAST: usize = 16;
/// Characters of an issuer in a message.
const MAX_SHOWN: usize = 256;

/// What was added.
#[derive(Default)]
pub(super) struct Quick {
    pub(super) token: Option<&'static str>,
    pub(super) issuer: Option<String>,
}

/// Adds what the environment says. What was added is told at every start: the file does not show it.
pub(super) fn add(
    raw: &raw::File,
    auth: &mut Auth,
    front: Option<&Front>,
    context: &mut Context<'_>,
) -> Quick {
    let mut quick = Quick::default();
    if context.world.elsewhere {
        return quick;
    }
    let said = |context: &Context<'_>, name: &str| (context.world.env)(name).filter(|text| !text.is_empty());
    if raw.auth.as_ref().is_some_and(names_callers) {
        for name in [TOKEN, ISSUER, SCOPES] {
            if said(context, name).is_some() {
                let fix = "unset it, or write into `auth` what it should add";
                warning(name, "ignored: `auth` in the file says who is believed", fix, context);
            }
        }
        return quick;
    }
    if let Some(text) = said(context, TOKEN) {
        quick.token = token(&text, auth, context);
    }
    let scopes = said(context, SCOPES);
    match (said(context, ISSUER), scopes) {
        (Some(text), scopes) => quick.issuer = issuer(text, scopes, (auth, front), context),
        (None, Some(_)) => {
            let (what, fix) =
                (format!("{SCOPES} has no effect without {ISSUER}"), format!("set {ISSUER} too"));
            warning(SCOPES, what, fix, context);
        }
        (None, None) => {}
    }
    let fix = "for more than a quick start write `auth` into the file";
    if quick.token.is_some() {
        let what = format!("its bearer is let in as the token {CALLER}, which the file does not name");
        warning(TOKEN, what, fix, context);
    }
    if let Some(issuer) = &quick.issuer {
        let what =
            format!("tokens of {} are believed, which the file does not name", clip(issuer, MAX_SHOWN));
        warning(ISSUER, what, fix, context);
    }
    quick
}

/// Whether the section says who is believed, if only that nobody is. What it says of addresses and streams alone is no
/// word on callers.
fn names_callers(auth: &raw::auth::Auth) -> bool {
    auth.issuers.is_some() || auth.tokens.is_some() || auth.clients.is_some()
}

fn warning(name: &str, what: impl Into<String>, fix: impl Into<String>, context: &mut Context<'_>) {
    let (file, path) = (name.to_owned(), String::new());
    context.warnings.push(Problem { file, line: 0, column: 0, path, what: what.into(), fix: fix.into() });
}

fn problem(name: &str, what: impl Into<String>, fix: impl Into<String>, context: &mut Context<'_>) {
    let (file, path) = (name.to_owned(), String::new());
    context.problems.push(Problem { file, line: 0, column: 0, path, what: what.into(), fix: fix.into() });
}

fn token(text: &str, auth: &mut Auth, context: &mut Context<'_>) -> Option<&'static str> {
    if text.len() < LEAST || text.bytes().any(|b| !b.is_ascii_graphic()) {
        let what = format!(
            "not a token: fewer than {LEAST} characters, or others than printable ASCII without spaces"
        );
        problem(TOKEN, what, "make one: openssl rand -hex 32", context);
        return None;
    }
    let name = Identifier::new(CALLER)?;
    let digest = Held { secret: Secret::new(hex(&sha256(text.as_bytes()))), file: None };
    auth.tokens.push(FixedToken { name, sha256: digest, expires: None });
    Some(CALLER)
}

fn issuer(
    text: String,
    scopes: Option<String>,
    (auth, front): (&mut Auth, Option<&Front>),
    context: &mut Context<'_>,
) -> Option<String> {
    let before = context.problems.len();
    // Told below: the file has no place for it.
    let found = endpoint(&text, &auth.egress, &At::root(), context);
    if found.is_none() {
        context.problems.truncate(before);
        let fix = "write an https URL; private addresses need `auth.egress` in the file";
        problem(ISSUER, "the gateway doesn't connect there", fix, context);
        return None;
    }
    // What tokens are for: the URLs that clients use.
    let base = match front {
        Some(Front { public_url: Some(url), .. }) => url.as_str().trim_end_matches('/').to_owned(),
        Some(front) if front.listen.ip().to_canonical().is_loopback() => format!("http://{}", front.listen),
        _ => {
            let fix = "set `public_url` to the URL that clients use: their tokens must be for it";
            problem(ISSUER, "no `public_url`", fix, context);
            return None;
        }
    };
    let scopes = scopes.unwrap_or_default();
    let scopes = scopes.split([' ', ',']).filter(|scope| !scope.is_empty()).map(str::to_owned).collect();
    let audiences = vec![format!("{base}/mcp"), base];
    let settings = Settings { issuer: text.clone(), audiences, scopes, ..Settings::default() };
    match Issuer::compile(settings) {
        Ok(issuer) => {
            auth.issuers.push(Trusted {
                issuer,
                keys: KeySource::Discovery,
                timing: Default::default(),
                rsa: Default::default(),
                introspection: None,
            });
            Some(text)
        }
        Err(errors) => {
            for error in errors {
                problem(ISSUER, error.to_string(), format!("correct {ISSUER} or {SCOPES}"), context);
            }
            None
        }
    }
}
