//! Headers that a server gets with every request. Refuses those that the gateway or HTTP itself sets, and
//! credentials that stand in the file.

use http::{HeaderName, HeaderValue};

use super::{looks_secret, names_secret};
use crate::config::context::{Context, Reference};
use crate::config::place::At;
use crate::config::raw::Ordered;
use crate::config::secret::Secret;

/// Set by HTTP or by the protocol; a fixed value would break either.
const OURS: [&str; 21] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "origin",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Whether the gateway or HTTP sets it.
pub(super) fn is_ours(header: &HeaderName) -> bool {
    OURS.contains(&header.as_str()) || header.as_str().starts_with("mcp-param-")
}

/// The headers without those that are wrong.
pub(super) fn check(
    raw: Option<&Ordered<String>>,
    at: &At,
    context: &mut Context<'_>,
) -> Vec<(HeaderName, Secret)> {
    let mut headers: Vec<(HeaderName, Secret)> = Vec::new();
    for (name, text) in raw.iter().flat_map(|headers| &headers.0) {
        let at = at.key(name);
        let Ok(header) = name.parse::<HeaderName>() else {
            context.name_problem(&at, "not the name of a header", "write letters, digits and - alone");
            continue;
        };
        if is_ours(&header) {
            context.name_problem(&at, "a header that the gateway sets itself", "remove it");
            continue;
        }
        if headers.iter().any(|(other, _)| *other == header) {
            context.name_problem(&at, "the same header twice (case does not count)", "keep one of the two");
            continue;
        }
        if let Some(secret) = value(name, text, &at, context) {
            headers.push((header, secret));
        }
    }
    headers
}

fn value(name: &str, text: &str, at: &At, context: &mut Context<'_>) -> Option<Secret> {
    let (scheme, reference) = split(text);
    let secret = match &reference {
        Some(reference) => {
            let secret = context.fetch(at, reference)?;
            Secret::new(format!("{scheme}{}", secret.expose()))
        }
        None if names_secret(name) => {
            let fix = "name where it is: env:NAME or file:PATH, also after a scheme (`Bearer env:NAME`)";
            context.problem(at, "a credential in the file itself", fix);
            return None;
        }
        None => {
            if looks_secret(text) {
                context.warning(
                    at,
                    "what looks like a credential in the file itself",
                    "use env:NAME or file:PATH",
                );
            }
            Secret::new(text)
        }
    };
    let good = HeaderValue::from_str(secret.expose()).is_ok() && secret.expose().trim() == secret.expose();
    if !good && !context.world.elsewhere {
        let fix = "one line, no control characters, no space at either end";
        context.problem(at, "the value can't stand in a header", fix);
        return None;
    }
    Some(secret)
}

/// A scheme with its space, and the reference after it: `Bearer env:NAME`.
fn split(text: &str) -> (&str, Option<Reference>) {
    if let Some(reference) = Reference::parse(text) {
        return ("", Some(reference));
    }
    let Some((word, rest)) = text.split_once(' ') else { return ("", None) };
    if word.is_empty() || !word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return ("", None);
    }
    let scheme = text.get(..word.len() + 1).unwrap_or_default();
    (scheme, Reference::parse(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_may_stand_before_a_reference() {
        let env = Some(Reference::Env("A".into()));
        assert_eq!(split("env:A"), ("", env.clone()));
        assert_eq!(split("Bearer env:A"), ("Bearer ", env));
        for text in ["Bearer x", "a b env:A", " env:A", "", "Bearer"] {
            assert_eq!(split(text).1, None, "{text}");
        }
    }
}
