//! From Pingora's request header to our `Head`: the limits and refusals that Pingora leaves to us. It never
//! reads a body and never answers.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Version, request};
use pingora_core::protocols::http::ServerSession;
use smallvec::SmallVec;

use super::Limits;
use super::line::Line;
use crate::wire::Head;

/// Whether a field belongs to one connection (RFC 9110 §7.6.1): the handler never sees it, and `Upgrade` is ignored.
fn is_hop(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection"
            | "upgrade"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "proxy-authorization"
            | "keep-alive"
            | "proxy-connection"
            | "http2-settings"
    )
}

/// What the edge itself needs of a header, after the header has gone to the handler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Framing {
    /// `Content-Length`, when there is one and no transfer coding.
    pub(super) declared: Option<u64>,
    /// `Expect: 100-continue`: the client may wait for us before it sends the body (RFC 9110 §10.1.1).
    pub(super) expects: bool,
    /// An HTTP/1.0 client: no chunked coding towards it.
    pub(super) http10: bool,
    /// A HEAD request: no body in the answer.
    pub(super) head_only: bool,
}

/// Where the requests of one connection come from.
#[derive(Clone)]
pub(super) struct From {
    /// The peer's address.
    pub(super) peer: SocketAddr,
    /// Whether the connection is under TLS.
    pub(super) tls: bool,
    /// The client's certificate, checked by TLS.
    pub(super) certificate: Option<Arc<[u8]>>,
}

impl From {
    /// The far end of a connection.
    pub(super) fn of(line: &Line, peer: SocketAddr) -> From {
        From { peer, tls: line.is_tls(), certificate: line.certificate() }
    }
}

/// Takes the header out of a session whose header has been read and validated by Pingora.
///
/// # Errors
/// The status to answer with (400 or 431); the connection is then closed.
pub(super) fn take(
    session: &mut ServerSession,
    from: &From,
    limits: &Limits,
) -> Result<(Head, Framing), StatusCode> {
    let version_h2 = session.is_http2();
    if let ServerSession::H1(h1) = session
        && has_bare_line_feed(&h1.get_headers_raw_bytes())
    {
        return Err(StatusCode::BAD_REQUEST);
    }
    // The body's framing is fixed from the header now, before the header is taken away.
    session.is_body_done();
    let target = target(session.req_header().raw_path())?;
    let mut parts = replace(session);
    check_size(&parts.headers, version_h2, limits)?;
    host(&mut parts)?;
    let framing = framing(&parts)?;
    // Looked for among the few that came: each removal would hash its name, and hardly any is there.
    let found: SmallVec<[HeaderName; 2]> = parts.headers.keys().filter(|key| is_hop(key)).cloned().collect();
    for name in found {
        parts.headers.remove(name);
    }
    let (path, query) = target;
    let head = Head {
        method: parts.method,
        path,
        query,
        headers: parts.headers,
        peer: Some(from.peer),
        tls: from.tls,
        version_h2,
        certificate: from.certificate.clone(),
    };
    Ok((head, framing))
}

/// Leaves Pingora a header with what it still looks at (method and version) and takes the rest. Without the
/// header's fields it can't be talked into an upgrade either.
fn replace(session: &mut ServerSession) -> request::Parts {
    let (mut rest, ()) = Request::new(()).into_parts();
    rest.method = session.req_header().method.clone();
    rest.version = session.req_header().version;
    std::mem::replace(session.req_header_mut(), rest.into()).into()
}

/// RFC 9112 §2.2 lets a recipient take a line feed alone for a line end; front ends differ there, so it is
/// refused.
fn has_bare_line_feed(raw: &[u8]) -> bool {
    let before = |at: usize| at.checked_sub(1).and_then(|at| raw.get(at));
    memchr::memchr_iter(b'\n', raw).any(|at| before(at) != Some(&b'\r'))
}

/// Path and query as they came. Only absolute paths: what is before the path in absolute form has been
/// compared with `Host` by Pingora and is dropped; `*` and authority form are not for an origin server like
/// this one.
fn target(raw: &[u8]) -> Result<(String, Option<String>), StatusCode> {
    let text = std::str::from_utf8(raw).map_err(|_| StatusCode::BAD_REQUEST)?;
    // Nearly all begin with a slash, and no scheme does.
    let parts = if text.starts_with('/') { None } else { text.split_once("://") };
    let text = match parts {
        Some((scheme, rest)) if is_http(scheme) => {
            match rest.find(['/', '?']).and_then(|at| rest.get(at..)) {
                Some(path) if path.starts_with('/') => path,
                Some(_) => return Err(StatusCode::BAD_REQUEST),
                None => "/",
            }
        }
        _ => text,
    };
    if !text.starts_with('/') {
        return Err(StatusCode::BAD_REQUEST);
    }
    Ok(match text.split_once('?') {
        Some((path, query)) => (path.to_owned(), Some(query.to_owned())),
        None => (text.to_owned(), None),
    })
}

fn is_http(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
}

/// The number of fields, and on HTTP/2 their size (on HTTP/1.1 the bytes were counted while they came).
fn check_size(headers: &HeaderMap, h2: bool, limits: &Limits) -> Result<(), StatusCode> {
    let size = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len().saturating_add(value.len());
    let too_many = headers.len() > limits.header_count;
    let too_large = h2 && headers.iter().map(size).sum::<usize>() > limits.header_bytes;
    if too_many || too_large { Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE) } else { Ok(()) }
}

/// Exactly one `Host` (RFC 9112 §3.2); HTTP/2's `:authority` becomes one. Only HTTP/1.0 may leave it out.
fn host(parts: &mut request::Parts) -> Result<(), StatusCode> {
    if parts.headers.contains_key(header::HOST) {
        return Ok(());
    }
    let authority = parts.uri.authority().map(|a| HeaderValue::from_str(a.as_str()));
    match authority {
        Some(Ok(value)) => {
            parts.headers.insert(header::HOST, value);
            Ok(())
        }
        None if parts.version == Version::HTTP_10 => Ok(()),
        _ => Err(StatusCode::BAD_REQUEST),
    }
}

/// Exactly one length, or the one coding `chunked`. RFC 9112 §6.3 lets a recipient fold equal lengths and §6.1 names
/// more codings; what two parsers could read in two ways is refused here.
fn framing(parts: &request::Parts) -> Result<Framing, StatusCode> {
    let (mut length, mut coding, mut expect) = (None, None, None);
    // One walk over all fields: to look each of them up costs a hash.
    for (name, value) in &parts.headers {
        let before = match *name {
            header::CONTENT_LENGTH => length.replace(value),
            header::TRANSFER_ENCODING => coding.replace(value),
            header::EXPECT => {
                expect = expect.or(Some(value));
                None
            }
            _ => None,
        };
        if before.is_some() {
            return Err(StatusCode::BAD_REQUEST);
        }
    }
    let digits = |value: &HeaderValue| value.as_bytes().iter().all(u8::is_ascii_digit);
    let chunked = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"chunked");
    if !(length.is_none_or(digits) && coding.is_none_or(chunked)) {
        return Err(StatusCode::BAD_REQUEST);
    }
    // Pingora has validated it.
    let declared = length.and_then(|value| value.to_str().ok()?.parse().ok());
    let http10 = parts.version == Version::HTTP_10;
    let waits = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    Ok(Framing {
        declared: declared.filter(|_| coding.is_none()),
        expects: !http10 && expect.is_some_and(waits),
        http10,
        head_only: parts.method == Method::HEAD,
    })
}
