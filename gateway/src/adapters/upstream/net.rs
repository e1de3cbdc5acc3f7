//! The HTTP client of one server: pooled, TLS by rustls, HTTP/2 where the server offers it. It sends no header that
//! is not built here, never follows a redirect, and never repeats a request of which a byte was written.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::Either;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::Full;
use url::Url;

use super::heads;
use crate::adapters::credentials::Credential;
use crate::adapters::outbound::{Body, Conns, connector, relative};
use crate::config::{HttpServer, Timeouts};
use crate::ports::upstream::{Behalf, Fault, FaultKind};

/// The headers of a request, and on whose behalf it is made. The credential is put in when it is sent.
#[derive(Clone)]
pub(super) struct Headers {
    map: HeaderMap,
    /// None where there is no credential: who calls says nothing then.
    behalf: Option<Behalf>,
}

impl Headers {
    /// The same for another caller of the same session, or the same caller with a newer credential.
    pub(super) fn on_behalf(mut self, behalf: &Behalf) -> Headers {
        self.behalf = self.behalf.map(|_| behalf.clone());
        self
    }
}

impl Deref for Headers {
    type Target = HeaderMap;

    fn deref(&self) -> &HeaderMap {
        &self.map
    }
}

impl DerefMut for Headers {
    fn deref_mut(&mut self) -> &mut HeaderMap {
        &mut self.map
    }
}

/// Sends requests to one server.
pub(super) struct Net {
    conns: Arc<Conns>,
    url: Url,
    /// Path and query of the URL.
    path: Uri,
    base: HeaderMap,
    /// The same with places for what a call adds.
    places: HeaderMap,
    credential: Option<Arc<Credential>>,
}

impl Net {
    /// Makes the client; nothing is connected yet.
    ///
    /// # Errors
    /// The URL or the file of authorities is unusable.
    pub(super) fn new(
        spec: &HttpServer,
        timeouts: &Timeouts,
        credential: Option<Arc<Credential>>,
    ) -> Result<Net, Fault> {
        let bad = |what: String| Fault::early(FaultKind::Unreachable, what);
        let uri: Uri = spec.url.as_str().parse().map_err(|e| bad(format!("the URL cannot be used: {e}")))?;
        let plain = spec.ca.is_none() && spec.url.scheme() == "http";
        let connector = connector(spec.ca.as_deref(), plain, None, timeouts.connect).map_err(bad)?;
        let conns = Conns::new(connector, &uri).ok_or_else(|| bad("the URL names no host".to_owned()))?;
        let (path, mut base) = (relative(&uri), base_headers(spec));
        if let Some(host) = uri.authority().and_then(|authority| authority.as_str().parse().ok()) {
            base.insert(header::HOST, host);
        }
        let places = heads::places(&base);
        Ok(Net { conns, url: spec.url.clone(), path, base, places, credential })
    }

    /// Its connections.
    #[cfg(test)]
    pub(super) fn conns(&self) -> &Conns {
        &self.conns
    }

    /// Connections that are open.
    pub(super) fn open(&self) -> usize {
        self.conns.open()
    }

    /// The configured URL.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The headers of every request: to be completed by the caller.
    pub(super) fn headers(&self, behalf: &Behalf) -> Headers {
        Headers { map: self.base.clone(), behalf: self.behalf(behalf) }
    }

    /// The same with places for what a call adds.
    pub(super) fn call_headers(&self, behalf: &Behalf) -> Headers {
        Headers { map: self.places.clone(), behalf: self.behalf(behalf) }
    }

    fn behalf(&self, behalf: &Behalf) -> Option<Behalf> {
        self.credential.is_some().then(|| behalf.clone())
    }

    /// POSTs a message to the configured URL and waits for the answer's head. The caller sets the deadline; dropping
    /// the future closes the exchange.
    pub(super) fn post(
        &self,
        headers: Headers,
        body: Bytes,
    ) -> impl Future<Output = Result<Response<Body>, Fault>> + Send {
        self.send(Method::POST, self.path.clone(), headers, body)
    }

    /// POSTs to another URL of the same origin (old HTTP+SSE).
    pub(super) async fn post_to(
        &self,
        uri: Uri,
        headers: Headers,
        body: Bytes,
    ) -> Result<Response<Body>, Fault> {
        self.send(Method::POST, relative(&uri), headers, body).await
    }

    /// GETs an event stream.
    pub(super) async fn get(&self, mut headers: Headers) -> Result<Response<Body>, Fault> {
        headers.remove(header::CONTENT_TYPE);
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        self.send(Method::GET, self.path.clone(), headers, Bytes::new()).await
    }

    /// DELETEs a session.
    pub(super) async fn delete(&self, mut headers: Headers) -> Result<Response<Body>, Fault> {
        headers.remove(header::CONTENT_TYPE);
        self.send(Method::DELETE, self.path.clone(), headers, Bytes::new()).await
    }

    fn send(
        &self,
        method: Method,
        uri: Uri,
        headers: Headers,
        body: Bytes,
    ) -> impl Future<Output = Result<Response<Body>, Fault>> + Send {
        let Headers { map, behalf } = headers;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = map;
        // A request is large and is handed on by value: no more futures than needed hold a place for it.
        match &self.credential {
            None => Either::Left(self.conns.send(request)),
            Some(credential) => {
                let behalf = behalf.unwrap_or_else(Behalf::gateway);
                Either::Right(Box::pin(self.authorized(credential, behalf, request)))
            }
        }
    }

    /// Sends a request with the server's credential. One that the server refuses is renewed once, where that is worth a
    /// try: a request that got 401 was not executed. The answer's own words about authentication are not looked at.
    async fn authorized(
        &self,
        credential: &Credential,
        behalf: Behalf,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, Fault> {
        let shown = credential.present(&behalf).await?;
        let mut first = request.clone();
        first.headers_mut().insert(shown.name.clone(), shown.value.clone());
        let response = self.conns.send(first).await?;
        if response.status() != StatusCode::UNAUTHORIZED || !credential.refused(&behalf, &shown).await {
            return Ok(response);
        }
        drop(response);
        let shown = credential.present(&behalf).await.map_err(|fault| Fault { dispatched: true, ..fault })?;
        let mut second = request;
        second.headers_mut().insert(shown.name, shown.value);
        self.conns.send(second).await
    }
}

fn base_headers(spec: &HttpServer) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(16);
    for (name, value) in spec.header_values() {
        map.append(name, value);
    }
    // After the configured ones: these are the protocol's.
    map.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    map.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    map.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    map.insert(header::USER_AGENT, HeaderValue::from_static(concat!("tollgate/", env!("CARGO_PKG_VERSION"))));
    map
}
