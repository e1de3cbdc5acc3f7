//! `audit.archive`: a URL of a known object store, and credentials that are that store's. Nothing is connected.

use url::Url;

use crate::config::checked::Archive;
use crate::config::context::{Context, Reference};
use crate::config::place::At;
use crate::config::raw::audit as raw;
use crate::config::secret::Secret;

/// The URL of an archive, or what is wrong with it and what would be right.
pub(crate) fn url(text: &str) -> Result<Url, (String, String)> {
    const FORM: &str =
        "write s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///folder";
    let fault = |what: &str| Err((what.to_owned(), FORM.to_owned()));
    let Ok(url) = Url::parse(text) else { return fault("not a URL") };
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return fault("a URL with more than a place");
    }
    let host = url.host_str().unwrap_or_default();
    match url.scheme() {
        "s3" | "gs" | "az" if host.is_empty() || url.port().is_some() => fault("no bucket"),
        "s3" | "gs" | "az" => Ok(url),
        "file" if host.is_empty() && url.path().len() > 1 => Ok(url),
        "file" => fault("not an absolute path"),
        _ => fault("no object store is known by this scheme"),
    }
}

pub(super) fn check(raw: &raw::Archive, at: &At, context: &mut Context<'_>) -> Option<Archive> {
    let url = match url(&raw.url) {
        Ok(url) => url,
        Err((what, fix)) => {
            context.problem(&at.key("url"), what, fix);
            return None;
        }
    };
    let scheme = url.scheme().to_owned();
    only(raw, &scheme, at, context);
    endpoint(raw, at, context);
    let ca = raw.ca.as_ref().map(|path| context.path(path));
    let mut secret = |key: &str, text: Option<&String>| secret(&at.key(key), text?, context);
    Some(Archive {
        endpoint: raw.endpoint.clone(),
        region: raw.region.clone(),
        allow_http: raw.allow_http.unwrap_or(false),
        ca,
        account: raw.account.clone(),
        access_key: secret("access_key", raw.access_key.as_ref()),
        secret_key: secret("secret_key", raw.secret_key.as_ref()),
        session_token: secret("session_token", raw.session_token.as_ref()),
        service_account: secret("service_account", raw.service_account.as_ref()),
        url,
    })
}

fn secret(at: &At, text: &str, context: &mut Context<'_>) -> Option<Secret> {
    match Reference::parse(text) {
        Some(reference) => context.fetch(at, &reference),
        None => {
            context.problem(at, "a credential in the file itself", "name where it is: env:NAME or file:PATH");
            None
        }
    }
}

/// What belongs to another store, or lacks its other half.
fn only(raw: &raw::Archive, scheme: &str, at: &At, context: &mut Context<'_>) {
    let given: [(&str, bool, &[&str]); 8] = [
        ("endpoint", raw.endpoint.is_some(), &["s3", "gs", "az"]),
        ("region", raw.region.is_some(), &["s3"]),
        ("allow_http", raw.allow_http.is_some(), &["s3", "gs", "az"]),
        ("ca", raw.ca.is_some(), &["s3", "gs", "az"]),
        ("account", raw.account.is_some(), &["az"]),
        ("access_key", raw.access_key.is_some(), &["s3", "az"]),
        ("secret_key", raw.secret_key.is_some(), &["s3"]),
        ("session_token", raw.session_token.is_some(), &["s3"]),
    ];
    let google = ("service_account", raw.service_account.is_some(), ["gs"].as_slice());
    for (key, there, of) in given.into_iter().chain([google]) {
        if there && !of.contains(&scheme) {
            let fix = format!("remove it, or use a URL of {}", of.join(", "));
            context.problem(&at.key(key), format!("not a setting of {scheme}"), fix);
        }
    }
    let halves = scheme == "s3" && raw.access_key.is_some() != raw.secret_key.is_some();
    if halves || (raw.session_token.is_some() && raw.access_key.is_none()) {
        let fix = "write access_key and secret_key, or neither: then the environment's count";
        context.problem(at, "half a credential", fix);
    }
}

fn endpoint(raw: &raw::Archive, at: &At, context: &mut Context<'_>) {
    let Some(text) = &raw.endpoint else { return };
    let at = at.key("endpoint");
    match Url::parse(text).ok().map(|url| (url.scheme().to_owned(), url.has_host())) {
        Some((scheme, true)) if scheme == "https" => {}
        Some((scheme, true)) if scheme == "http" => {
            if !raw.allow_http.unwrap_or(false) {
                let fix = "use https, or write allow_http: true where the network is trusted";
                context.problem(&at, "an endpoint without TLS", fix);
            }
        }
        _ => context.problem(&at, "not a URL", "write one such as https://minio.example.com:9000"),
    }
}

#[cfg(test)]
mod tests {
    use super::url;

    #[test]
    fn urls_of_archives() {
        for good in ["s3://logs", "s3://logs/a/b", "gs://logs/a", "az://logs", "file:///var/archive"] {
            assert!(url(good).is_ok(), "{good}");
        }
        for wrong in [
            "logs",
            "s3:///a",
            "s3://u:p@logs/a",
            "s3://logs/a?x=1",
            "file://host/a",
            "file:///",
            "ftp://a/b",
            "https://logs.s3.amazonaws.com/a",
        ] {
            assert!(url(wrong).is_err(), "{wrong}");
        }
    }
}
