//! The HTTP client of one server: pooled, TLS by rustls, HTTP/2 where the server offers it. It sends no header that
//! is not built here, never follows a redirect, and never repeats a request of which a byte was written.

use std::fmt::Write as _;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::Full;
use hyper_rustls::{ConfigBuilderExt, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tower_service::Service;
use url::Url;

use super::body::Body;
use super::conns::Conns;
use crate::config::{HttpServer, Timeouts};
use crate::ports::upstream::{Fault, FaultKind};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Sends requests to one server.
pub(super) struct Net {
    conns: Arc<Conns>,
    url: Url,
    /// Path and query of the URL.
    path: Uri,
    base: HeaderMap,
}

impl Net {
    /// Makes the client; nothing is connected yet.
    ///
    /// # Errors
    /// The URL or the file of authorities is unusable.
    pub(super) fn new(spec: &HttpServer, timeouts: &Timeouts) -> Result<Net, Fault> {
        let bad = |what: String| Fault::early(FaultKind::Unreachable, what);
        let uri: Uri = spec.url.as_str().parse().map_err(|e| bad(format!("the URL cannot be used: {e}")))?;
        let tls = tls_config(spec).map_err(bad)?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(30)));
        tcp.set_connect_timeout(Some(timeouts.connect));
        let https = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .enable_http2()
            .wrap_connector(tcp);
        let connector = Timed { inner: https, within: timeouts.connect };
        let conns = Conns::new(connector, &uri).ok_or_else(|| bad("the URL names no host".to_owned()))?;
        let (path, mut base) = (relative(&uri), base_headers(spec));
        if let Some(host) = uri.authority().and_then(|authority| authority.as_str().parse().ok()) {
            base.insert(header::HOST, host);
        }
        Ok(Net { conns, url: spec.url.clone(), path, base })
    }

    /// Its connections.
    #[cfg(test)]
    pub(super) fn conns(&self) -> &Conns {
        &self.conns
    }

    /// The configured URL.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The headers of every request: to be completed by the caller.
    pub(super) fn headers(&self) -> HeaderMap {
        self.base.clone()
    }

    /// POSTs a message to the configured URL and waits for the answer's head. The caller sets the deadline; dropping
    /// the future closes the exchange.
    pub(super) async fn post(&self, headers: HeaderMap, body: Bytes) -> Result<Response<Body>, Fault> {
        self.send(Method::POST, self.path.clone(), headers, body).await
    }

    /// POSTs to another URL of the same origin (old HTTP+SSE).
    pub(super) async fn post_to(
        &self,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Body>, Fault> {
        self.send(Method::POST, relative(&uri), headers, body).await
    }

    /// GETs an event stream.
    pub(super) async fn get(&self, mut headers: HeaderMap) -> Result<Response<Body>, Fault> {
        headers.remove(header::CONTENT_TYPE);
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        self.send(Method::GET, self.path.clone(), headers, Bytes::new()).await
    }

    /// DELETEs a session.
    pub(super) async fn delete(&self, mut headers: HeaderMap) -> Result<Response<Body>, Fault> {
        headers.remove(header::CONTENT_TYPE);
        self.send(Method::DELETE, self.path.clone(), headers, Bytes::new()).await
    }

    async fn send(
        &self,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Body>, Fault> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        self.conns.send(request).await
    }
}

/// Path and query alone.
fn relative(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from)
}

/// An error and its causes on one bounded line.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        if text.len() > 400 {
            break;
        }
        let _ = write!(text, ": {cause}");
        next = cause.source();
    }
    text
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

fn tls_config(spec: &HttpServer) -> Result<ClientConfig, String> {
    match &spec.ca {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            let pems = CertificateDer::pem_file_iter(path)
                .map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
            for pem in pems {
                let pem = pem.map_err(|e| format!("{} is not PEM: {e}", path.display()))?;
                roots.add(pem).map_err(|e| format!("{}: {e}", path.display()))?;
            }
            if roots.is_empty() {
                return Err(format!("{} holds no certificate", path.display()));
            }
            Ok(builder()?.with_root_certificates(roots).with_no_client_auth())
        }
        // Nothing is ever redirected, so a plain URL needs no roots.
        None if spec.url.scheme() == "http" => {
            Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
        }
        None => system_config(),
    }
}

/// The system's roots, read once for all servers; Mozilla's where the system has none.
fn system_config() -> Result<ClientConfig, String> {
    static SYSTEM: OnceLock<ClientConfig> = OnceLock::new();
    if let Some(config) = SYSTEM.get() {
        return Ok(config.clone());
    }
    let with_roots = match builder()?.with_native_roots() {
        Ok(with_roots) => with_roots,
        Err(_) => builder()?.with_webpki_roots(),
    };
    Ok(SYSTEM.get_or_init(|| with_roots.with_no_client_auth()).clone())
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| format!("TLS cannot be set up: {e}"))
}

/// A connector under one deadline for TCP and TLS together: hyper's own covers TCP alone, and a server that accepts
/// and never answers the handshake would hold the call (U9).
#[derive(Clone)]
pub(super) struct Timed<C> {
    inner: C,
    within: Duration,
}

impl<C> Service<Uri> for Timed<C>
where
    C: Service<Uri, Error = BoxError>,
    C::Future: Send + 'static,
    C::Response: 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.inner.call(uri);
        let within = self.within;
        Box::pin(async move {
            match tokio::time::timeout(within, connecting).await {
                Ok(done) => done,
                Err(_) => Err(format!("no connection within {within:?}").into()),
            }
        })
    }
}
