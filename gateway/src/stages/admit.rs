//! Stage 1: looks at the head alone, before a byte of the body is read. Method, path, `Host` and `Origin`
//! allow-lists, `Accept`, content type and encoding. No header value alone ever lets a request skip a later check.

use std::sync::Arc;

use http::{HeaderMap, Method, header};

use crate::config::Checked;
use crate::reject::{Reject, Why};
use crate::stages::challenge::{self, Page};
use crate::who::Who;
use crate::wire::{self, Head};

/// What the client wants of the endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// One message.
    Post,
    /// The legacy era's stream of notifications.
    Get,
    /// The end of a legacy session.
    Delete,
    /// A browser's CORS preflight.
    Preflight,
    /// What the gateway says of itself to clients without a credential.
    Page(Page),
}

/// Which servers an endpoint shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// `/mcp`: all servers, names prefixed.
    All,
    /// `/servers/{server}/mcp`: one server, names unchanged.
    One(String),
}

/// How the request came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// Over HTTP: mirrored headers count, legacy sessions are sealed ids.
    Http,
    /// Over the stdin of `tollgate stdio`: there are no headers, the process is the session.
    Stdio,
}

/// A request whose head was accepted.
#[derive(Clone, Debug)]
pub struct Admitted {
    /// What it asks of the endpoint.
    pub verb: Verb,
    /// Which endpoint.
    pub endpoint: Endpoint,
    /// The task that the URL names.
    pub task: Option<String>,
    /// What follows the `?` of the URL.
    pub query: Option<String>,
    /// Whose client certificate the connection was opened with.
    pub certified: Option<Arc<Who>>,
    /// Its header fields.
    pub headers: HeaderMap,
    /// How it came.
    pub via: Via,
    /// The `Origin` that was accepted, to be named in the answer.
    pub origin: Option<header::HeaderValue>,
}

/// The longest id of a server or name of a task, in bytes.
const MAX_ID: usize = 32;

/// Accepts or refuses a head.
///
/// # Errors
/// 400, 403, 404, 405, 406, 415, 431 as the reason's row says.
pub fn admit(config: &Checked, head: Head) -> Result<Admitted, Reject> {
    check_size(config, &head.headers)?;
    check_host(config, &head.headers)?;
    let origin = check_origin(config, &head.headers)?;
    let (page, path) = match challenge::page(config, &head.path) {
        Some((page, path)) => (Some(page), path),
        None => (None, head.path.as_str()),
    };
    let (task, endpoint) = endpoint(path)?;
    let verb = match page {
        Some(page) if head.method != Method::OPTIONS => challenge::verb(page, &head.method)?,
        _ => verb(&head.method)?,
    };
    match verb {
        Verb::Post => {
            check_body_headers(&head.headers)?;
            check_accept(&head.headers, &["application/json", "text/event-stream"])?;
        }
        // Whether there is a GET at all is for the session to say.
        Verb::Get | Verb::Delete | Verb::Preflight | Verb::Page(_) => {}
    }
    Ok(Admitted {
        verb,
        endpoint,
        task,
        query: head.query,
        certified: None,
        headers: head.headers,
        via: Via::Http,
        origin,
    })
}

fn check_size(config: &Checked, headers: &HeaderMap) -> Result<(), Reject> {
    let size: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if size > config.limits.header_bytes {
        let text = format!("the header block is larger than {} bytes", config.limits.header_bytes);
        return Err(Reject::new(Why::Headers, text));
    }
    Ok(())
}

fn check_host(config: &Checked, headers: &HeaderMap) -> Result<(), Reject> {
    let refuse =
        || Reject::new(Why::Host, "this Host is not served here; add it to `hosts` in the configuration");
    let host = wire::host(headers).ok_or_else(refuse)?;
    let name = wire::host_name(&host);
    if config.hosts.iter().any(|allowed| *allowed == host || *allowed == name) {
        return Ok(());
    }
    Err(refuse())
}

/// A browser names the page's origin; other clients name none. More than one, or one that is not listed, is refused.
fn check_origin(config: &Checked, headers: &HeaderMap) -> Result<Option<header::HeaderValue>, Reject> {
    let mut all = headers.get_all(header::ORIGIN).iter();
    let Some(origin) = all.next() else { return Ok(None) };
    let listed = |text: &str| config.origins.iter().any(|o| o == text) || own_origin(headers, text);
    if all.next().is_none() && origin.to_str().is_ok_and(listed) {
        return Ok(Some(origin.clone()));
    }
    Err(Reject::new(Why::Origin, "this Origin is not allowed; add it to `origins` in the configuration"))
}

/// The gateway's own origin: the page came from the same, already accepted, `Host` on a loopback name.
fn own_origin(headers: &HeaderMap, origin: &str) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else { return false };
    let loopback = matches!(wire::host_name(host), "localhost" | "127.0.0.1" | "[::1]");
    let same = |scheme: &str| origin.strip_prefix(scheme).is_some_and(|rest| rest == host);
    loopback && (same("http://") || same("https://"))
}

/// Paths are compared as they are on the wire: nothing is decoded or normalised, so nothing can be smuggled.
fn endpoint(path: &str) -> Result<(Option<String>, Endpoint), Reject> {
    let unknown = || {
        Reject::new(
            Why::NotFound,
            "no such endpoint; use /mcp or /servers/{server}/mcp, below /tasks/{task} too",
        )
    };
    let (task, rest) = match path.strip_prefix("/tasks/").map(|rest| rest.split_once('/')) {
        None => (None, path.strip_prefix('/').ok_or_else(unknown)?),
        Some(Some((task, rest))) if is_id(task) => (Some(task.to_owned()), rest),
        Some(_) => return Err(unknown()),
    };
    if rest == "mcp" {
        return Ok((task, Endpoint::All));
    }
    let server = rest.strip_prefix("servers/").and_then(|rest| rest.strip_suffix("/mcp"));
    let server = server.filter(|server| is_id(server)).ok_or_else(unknown)?;
    Ok((task, Endpoint::One(server.to_owned())))
}

/// Ids of servers and names of tasks.
fn is_id(text: &str) -> bool {
    text.len() <= MAX_ID
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

fn verb(method: &Method) -> Result<Verb, Reject> {
    match *method {
        Method::POST => Ok(Verb::Post),
        Method::GET => Ok(Verb::Get),
        Method::DELETE => Ok(Verb::Delete),
        Method::OPTIONS => Ok(Verb::Preflight),
        _ => Err(Reject::new(Why::MethodNotAllowed, "use POST for a message")),
    }
}

fn check_body_headers(headers: &HeaderMap) -> Result<(), Reject> {
    let encoded = headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"));
    if encoded {
        return Err(Reject::new(Why::ContentType, "encoded bodies are not accepted; send the body as it is"));
    }
    let mut types = headers.get_all(header::CONTENT_TYPE).iter();
    let kind = types.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    if types.next().is_some() || !is_json(kind) {
        return Err(Reject::new(Why::ContentType, "the body must be application/json in UTF-8"));
    }
    Ok(())
}

fn is_json(kind: &str) -> bool {
    let mut parts = kind.split(';');
    let json = parts.next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    json && parts.all(|part| match part.trim().split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            value.trim_matches('"').eq_ignore_ascii_case("utf-8")
        }
        _ => true,
    })
}

/// All of `wanted` must be acceptable, be it through a wildcard. Weights are not looked at, but for 0.
///
/// # Errors
/// 406 naming what is wanted.
pub fn check_accept(headers: &HeaderMap, wanted: &[&str]) -> Result<(), Reject> {
    let accepts = |kind: &str| {
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).any(|value| {
            value.split(',').any(|range| {
                let mut parts = range.split(';').map(str::trim);
                let name = parts.next().unwrap_or_default();
                let zero = parts.any(|p| matches!(p, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
                !zero && covers(name, kind)
            })
        })
    };
    if wanted.iter().all(|kind| accepts(kind)) {
        return Ok(());
    }
    Err(Reject::new(Why::Accept, format!("Accept must list {}", wanted.join(" and "))))
}

fn covers(range: &str, kind: &str) -> bool {
    if range == "*/*" || range.eq_ignore_ascii_case(kind) {
        return true;
    }
    let family = kind.split('/').next().unwrap_or_default();
    range.strip_suffix("/*").is_some_and(|of| of.eq_ignore_ascii_case(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h16_paths_are_compared_as_sent() {
        let one = || Endpoint::One("docs".into());
        assert_eq!(endpoint("/mcp").unwrap(), (None, Endpoint::All));
        assert_eq!(endpoint("/servers/docs/mcp").unwrap(), (None, one()));
        assert_eq!(endpoint("/tasks/t/mcp").unwrap(), (Some("t".into()), Endpoint::All));
        assert_eq!(endpoint("/tasks/t/servers/docs/mcp").unwrap(), (Some("t".into()), one()));
        for bad in [
            "//mcp",
            "/mcp/",
            "/mcp/../admin",
            "/%6dcp",
            "/mcp;x",
            "/servers//mcp",
            "/servers/../mcp",
            "/servers/A/mcp",
            "/servers/docs/tasks/t/mcp",
            "/tasks//mcp",
            "/tasks/mcp",
            "/tasks/t",
            "/tasks/t//mcp",
            "/tasks/../mcp",
            "mcp",
            "/",
        ] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn h13_content_types_and_accept() {
        assert!(is_json("application/json") && is_json("Application/JSON; charset=\"UTF-8\""));
        for bad in ["", "text/plain", "application/json; charset=utf-16", "application/jsonx"] {
            assert!(!is_json(bad), "{bad}");
        }
        let mut headers = HeaderMap::new();
        let both = ["application/json", "text/event-stream"];
        assert!(check_accept(&headers, &both).is_err());
        headers.insert(header::ACCEPT, "application/json".parse().unwrap());
        assert!(check_accept(&headers, &both).is_err());
        headers.insert(header::ACCEPT, "application/*, text/event-stream;q=0.5".parse().unwrap());
        assert!(check_accept(&headers, &both).is_ok());
        headers.insert(header::ACCEPT, "*/*".parse().unwrap());
        assert!(check_accept(&headers, &both).is_ok());
    }
}
