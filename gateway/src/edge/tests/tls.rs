//! TLS: both protocols by ALPN, and certificates that change while the listener runs.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Version;
use http_body_util::{BodyExt, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::support::{Server, post, reached, soon};
use crate::edge::certs::Certificates;
use crate::edge::{Limits, Options};

/// A folder with `cert.pem` and `key.pem`.
struct Files(TempDir);

impl Files {
    fn new() -> Files {
        Files(TempDir::new().unwrap())
    }

    fn cert(&self) -> PathBuf {
        self.0.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.0.path().join("key.pem")
    }

    fn load(&self) -> Arc<Certificates> {
        Certificates::load(&self.cert(), &self.key()).unwrap()
    }
}

/// Writes a new pair into `folder` and returns its certificate, which is its own root.
fn issue(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

type Https = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A client that trusts this one certificate.
fn client(trusted: &CertificateDer<'static>, h2: bool) -> Https {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_only();
    let connector = if h2 { builder.enable_http2().build() } else { builder.enable_http1().build() };
    Client::builder(TokioExecutor::new()).build(connector)
}

/// One request; the protocol and the body, or the error's text.
async fn call(server: &Server, client: &Https) -> Result<(Version, Bytes), String> {
    let uri = format!("https://localhost:{}/echo", server.addr.port());
    let request = http::Request::post(uri).body(Full::new(Bytes::from_static(b"hi"))).unwrap();
    let answer = soon(client.request(request)).await.map_err(|e| format!("{e:?}"))?;
    let version = answer.version();
    Ok((version, soon(answer.into_body().collect()).await.unwrap().to_bytes()))
}

fn server(certs: Arc<Certificates>, limits: Limits) -> Server {
    Server::start(Options { tls: Some(certs), limits, ..Options::default() })
}

#[tokio::test]
async fn both_protocols_by_alpn() {
    let files = Files::new();
    let cert = issue(files.0.path());
    let mut server = server(files.load(), Limits::default());
    for (h2, version) in [(true, Version::HTTP_2), (false, Version::HTTP_11)] {
        let client = client(&cert, h2);
        for _ in 0..2 {
            assert_eq!(call(&server, &client).await, Ok((version, Bytes::from_static(b"hi"))));
            let head = server.head().await;
            assert!(head.tls && head.version_h2 == h2 && head.headers.contains_key("host"));
            server.body().await;
        }
    }
}

#[tokio::test]
async fn h8_the_handshake_is_under_a_deadline() {
    let files = Files::new();
    issue(files.0.path());
    let limits = Limits { handshake: Duration::from_millis(100), ..Limits::default() };
    let server = server(files.load(), limits);
    server.send("\x16\x03\x01").await.closed().await;
    server.send(post("/echo", "")).await.rest().await;
    reached(&server.counters.handshakes_failed, 2).await;
}

/// Waits until a new connection is accepted under `cert`.
async fn trusted(server: &Server, cert: &CertificateDer<'static>) {
    soon(async { while call(server, &client(cert, true)).await.is_err() {} }).await;
}

#[tokio::test]
async fn a_new_pair_is_taken_a_bad_one_is_not() {
    let files = Files::new();
    let first = issue(files.0.path());
    let certs = files.load();
    let server = server(certs.clone(), Limits::default());
    let kept = client(&first, true);
    call(&server, &kept).await.unwrap();
    let stop = CancellationToken::new();
    let watch = tokio::spawn(certs.clone().watch(Duration::from_millis(10), stop.clone()));
    // Another pair's key alone does not fit.
    let other = Files::new();
    issue(other.0.path());
    std::fs::copy(other.key(), files.key()).unwrap();
    assert!(certs.reload().unwrap_err().to_string().contains("can't be used together"));
    std::fs::write(files.cert(), "-----BEGIN CERTIFICATE-----\nAAAA").unwrap();
    assert!(certs.reload().is_err());
    call(&server, &client(&first, true)).await.unwrap();
    let second = issue(files.0.path());
    trusted(&server, &second).await;
    assert!(call(&server, &client(&first, true)).await.is_err());
    // The open connection lives on.
    call(&server, &kept).await.unwrap();
    stop.cancel();
    soon(watch).await.unwrap();
}

#[tokio::test]
async fn a_mounted_secret_is_exchanged_by_its_link() {
    let root = TempDir::new().unwrap();
    let folder = |name: &str| {
        let path = root.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let (one, two) = (folder("..one"), folder("..two"));
    let (_, second) = (issue(&one), issue(&two));
    // As Kubernetes lays it out: files are links through `..data`, which is exchanged by a rename.
    symlink("..one", root.path().join("..data")).unwrap();
    for name in ["cert.pem", "key.pem"] {
        symlink(format!("..data/{name}"), root.path().join(name)).unwrap();
    }
    let certs = Certificates::load(&root.path().join("cert.pem"), &root.path().join("key.pem")).unwrap();
    let server = server(certs.clone(), Limits::default());
    let stop = CancellationToken::new();
    let watch = tokio::spawn(certs.watch(Duration::from_millis(10), stop.clone()));
    symlink("..two", root.path().join("..tmp")).unwrap();
    std::fs::rename(root.path().join("..tmp"), root.path().join("..data")).unwrap();
    trusted(&server, &second).await;
    stop.cancel();
    soon(watch).await.unwrap();
}

#[test]
fn files_are_checked_before_use_and_never_shown() {
    let files = Files::new();
    let load = || Certificates::load(&files.cert(), &files.key()).unwrap_err().to_string();
    assert!(load().contains("cert.pem"));
    issue(files.0.path());
    let key = std::fs::read_to_string(files.key()).unwrap();
    std::fs::write(files.key(), key.replace("-----END PRIVATE KEY-----", "")).unwrap();
    let error = load();
    assert!(error.contains("key.pem") && error.contains("no end"), "{error}");
    std::fs::write(files.key(), key.replace("M", "!")).unwrap();
    let error = load();
    assert!(key.lines().all(|line| line.is_empty() || !error.contains(line)), "{error}");
    std::fs::write(files.cert(), &key).unwrap();
    assert!(load().contains("holds no PEM certificate"));
    std::fs::write(files.cert(), "").unwrap();
    assert!(load().contains("holds no PEM certificate"));
}
