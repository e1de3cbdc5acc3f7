//! The listener's certificate and key: read and checked before use, exchanged while running when the files
//! change. A bad new pair never replaces a good old one; a key is never logged.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::ring;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig, pki_types};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// Larger files are no certificates.
const MAX_FILE: u64 = 1024 * 1024;

/// Why a pair of files can't be used. The text names the file and never shows what is in it.
#[derive(Debug, thiserror::Error)]
pub enum CertError {
    /// A file can't be read, or is larger than 1 MiB.
    #[error("{path}: {why}", path = .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        why: String,
    },
    /// The key is unusable or is not that of the first certificate.
    #[error("{cert} and {key} can't be used together: {why}", cert = .cert.display(), key = .key.display())]
    Pair {
        /// The certificate file.
        cert: PathBuf,
        /// The key file.
        key: PathBuf,
        /// What went wrong.
        why: String,
    },
    /// The TLS library refused its own settings.
    #[error("TLS settings: {0}")]
    Settings(#[from] rustls::Error),
}

/// A certificate chain (PEM, the server's own first) and its key (PEM), as files.
#[derive(Debug)]
pub struct Certificates {
    cert: PathBuf,
    key: PathBuf,
    current: Arc<Current>,
    config: Arc<ServerConfig>,
}

/// The pair in use; every handshake asks it.
#[derive(Debug)]
struct Current(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// What tells one state of the two files from another, symbolic links followed: Kubernetes exchanges a
/// mounted secret by exchanging a link, so the path's inode changes and nothing else need.
type Print = Option<[(u64, u64, u64, i64, i64); 2]>;

impl Certificates {
    /// Reads and checks both files.
    ///
    /// # Errors
    /// The first thing that is wrong with them.
    pub fn load(cert: &Path, key: &Path) -> Result<Arc<Certificates>, CertError> {
        Certificates::load_with(cert, key, None)
    }

    /// The same, and clients may show certificates that these authorities (PEM) have issued. One that is shown and not
    /// trusted ends the handshake.
    ///
    /// # Errors
    /// The first thing that is wrong with the files.
    pub fn load_with(
        cert: &Path,
        key: &Path,
        clients: Option<&Path>,
    ) -> Result<Arc<Certificates>, CertError> {
        let current = Arc::new(Current(ArcSwap::from_pointee(read_pair(cert, key)?)));
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?;
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(ca) => builder.with_client_cert_verifier(verifier(ca)?),
        };
        let mut config = builder.with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(Certificates { cert: cert.into(), key: key.into(), current, config: Arc::new(config) }))
    }

    /// The TLS settings of a listener: TLS 1.2 and 1.3, HTTP/2 before HTTP/1.1, client certificates
    /// only where their authorities were named, no early data.
    pub(super) fn server_config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }

    /// Reads the files again and uses them from the next handshake on.
    ///
    /// # Errors
    /// What is wrong with them; the pair in use stays.
    pub fn reload(&self) -> Result<(), CertError> {
        self.current.0.store(Arc::new(read_pair(&self.cert, &self.key)?));
        Ok(())
    }

    /// Looks at the files every `every` until `stop`, and reloads when either has changed. A bad pair is
    /// logged once per change (the two files are rarely exchanged at the same instant; the next look then
    /// finds the second change).
    pub async fn watch(self: Arc<Self>, every: Duration, stop: CancellationToken) {
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut known: Print = None;
        let mut first = true;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            let this = self.clone();
            // Files may be on a network disk: never on a worker thread.
            let Ok(seen) = tokio::task::spawn_blocking(move || this.look(known, first)).await else {
                continue;
            };
            known = seen;
            first = false;
        }
    }

    /// One look: reloads when the files are not as `known`. On the first look they are reloaded in any case,
    /// since they may have changed between `load` and now.
    fn look(&self, known: Print, first: bool) -> Print {
        let seen = self.print();
        if seen == known && !first {
            return seen;
        }
        match self.reload() {
            Ok(()) if first => {}
            Ok(()) => tracing::info!(cert = %self.cert.display(), "the certificate was reloaded"),
            Err(error) => tracing::error!(%error, "the new certificate can't be used, the old one stays"),
        }
        seen
    }

    fn print(&self) -> Print {
        let of = |path: &Path| {
            let meta = std::fs::metadata(path).ok()?;
            Some((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
        };
        Some([of(&self.cert)?, of(&self.key)?])
    }
}

/// Judges clients' certificates. Showing none is no fault: other credentials may prove the caller.
fn verifier(ca: &Path) -> Result<Arc<dyn ClientCertVerifier>, CertError> {
    let mut roots = RootCertStore::empty();
    for der in CertificateDer::pem_slice_iter(&read_file(ca)?) {
        let der = der.map_err(|e| file_error(ca, format!("not a PEM certificate: {}", pem_words(&e))))?;
        roots.add(der).map_err(|e| file_error(ca, e))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(ring::default_provider()))
        .allow_unauthenticated()
        .build()
        .map_err(|e| file_error(ca, e))
}

fn read_pair(cert: &Path, key: &Path) -> Result<CertifiedKey, CertError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&read_file(cert)?)
        .collect::<Result<_, _>>()
        .map_err(|e| file_error(cert, format!("not a PEM certificate: {}", pem_words(&e))))?;
    if chain.is_empty() {
        return Err(file_error(cert, "holds no PEM certificate"));
    }
    let der = PrivateKeyDer::from_pem_slice(&read_file(key)?)
        .map_err(|e| file_error(key, format!("not a PEM private key: {}", pem_words(&e))))?;
    CertifiedKey::from_der(chain, der, &ring::default_provider()).map_err(|e| CertError::Pair {
        cert: cert.into(),
        key: key.into(),
        why: e.to_string(),
    })
}

/// The error in our own words: the library's text quotes the file.
fn pem_words(error: &pki_types::pem::Error) -> &'static str {
    use pki_types::pem::Error;
    match error {
        Error::MissingSectionEnd { .. } => "a section has no end",
        Error::IllegalSectionStart { .. } => "a section's start is malformed",
        Error::Base64Decode(_) => "a section is not base64",
        Error::NoItemsFound => "there is none in it",
        _ => "unreadable",
    }
}

fn read_file(path: &Path) -> Result<Vec<u8>, CertError> {
    let size = std::fs::metadata(path).map_err(|e| file_error(path, e))?.len();
    if size > MAX_FILE {
        return Err(file_error(path, "larger than 1 MiB"));
    }
    std::fs::read(path).map_err(|e| file_error(path, e))
}

fn file_error(path: &Path, why: impl ToString) -> CertError {
    CertError::File { path: path.into(), why: why.to_string() }
}
