//! How connections are made: TLS by rustls with the system's or a file's authorities, one deadline for TCP and TLS
//! together, and a resolver that lets no address through that the egress rules refuse.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use auth::egress::Egress;
use http::Uri;
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What connections are made with.
pub(in crate::adapters) type Connector = Timed<HttpsConnector<HttpConnector<Guarded>>>;

/// A connector. `plain`: only http URLs will be asked of it. `rules`: what a name may lead to; none for the servers of
/// the configuration, which may be anywhere.
///
/// # Errors
/// The file of authorities is unusable.
pub(in crate::adapters) fn connector(
    ca: Option<&Path>,
    plain: bool,
    rules: Option<&Egress>,
    within: Duration,
) -> Result<Connector, String> {
    let tls = tls_config(ca, plain)?;
    let mut tcp = HttpConnector::new_with_resolver(Guarded { rules: rules.cloned().map(Arc::new) });
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(Duration::from_secs(30)));
    tcp.set_connect_timeout(Some(within));
    let https = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .enable_http2()
        .wrap_connector(tcp);
    Ok(Timed { inner: https, within })
}

/// Path and query alone.
pub(in crate::adapters) fn relative(uri: &Uri) -> Uri {
    uri.path_and_query().cloned().map_or_else(|| Uri::from_static("/"), Uri::from)
}

/// Resolves a name once. The connection goes to what passed here and the name is never asked for again, so an answer
/// that changes afterwards changes nothing.
#[derive(Clone)]
pub(in crate::adapters) struct Guarded {
    rules: Option<Arc<Egress>>,
}

impl Service<Name> for Guarded {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let rules = self.rules.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = GaiResolver::new().call(name).await?.collect();
            permitted(found, rules.as_deref())
        })
    }
}

fn permitted(
    found: Vec<SocketAddr>,
    rules: Option<&Egress>,
) -> Result<std::vec::IntoIter<SocketAddr>, BoxError> {
    let Some(rules) = rules else { return Ok(found.into_iter()) };
    let passed: Vec<SocketAddr> =
        found.into_iter().filter(|address| rules.address(address.ip()).is_ok()).collect();
    if passed.is_empty() { Err("no address that may be connected to".into()) } else { Ok(passed.into_iter()) }
}

/// An error and its causes on one bounded line.
pub(in crate::adapters) fn chain(error: &dyn std::error::Error) -> String {
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

fn tls_config(ca: Option<&Path>, plain: bool) -> Result<ClientConfig, String> {
    match ca {
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
        None if plain => Ok(builder()?.with_root_certificates(RootCertStore::empty()).with_no_client_auth()),
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
pub(in crate::adapters) struct Timed<C> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a14_of_a_name_only_checked_addresses_are_connected_to() {
        let all =
            |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let rules = Egress::default();
        let mixed = all(&["169.254.169.254:80", "93.184.216.34:80", "[::ffff:10.0.0.1]:80"]);
        let passed: Vec<_> = permitted(mixed, Some(&rules)).unwrap().collect();
        assert_eq!(passed, all(&["93.184.216.34:80"]));
        assert!(permitted(all(&["127.0.0.1:80", "[::1]:80"]), Some(&rules)).is_err());
        assert_eq!(permitted(all(&["127.0.0.1:80"]), None).unwrap().count(), 1);
    }
}
