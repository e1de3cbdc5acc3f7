//! Certificates and TLS streams for the tests. Trusts only what it made itself.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};

use crate::http::Conn;

/// A self-signed certificate for `localhost` and 127.0.0.1.
pub struct Identity {
    /// PEM of the certificate.
    pub cert_pem: String,
    /// PEM of the key.
    pub key_pem: String,
    der: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    /// A new one.
    pub fn new() -> Identity {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()])
            .expect("a certificate");
        Identity {
            cert_pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
            der: made.cert.der().clone(),
            key: made.signing_key.serialize_der(),
        }
    }

    /// Writes `NAME.crt` and `NAME.key`.
    pub fn write(&self, dir: &Path, name: &str) {
        std::fs::write(dir.join(format!("{name}.crt")), &self.cert_pem).expect("write a certificate");
        std::fs::write(dir.join(format!("{name}.key")), &self.key_pem).expect("write a key");
    }

    /// The server side.
    pub fn server(&self) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::try_from(self.key.clone()).expect("a key");
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![self.der.clone()], key)
            .expect("a usable certificate");
        Arc::new(config)
    }

    /// A TLS connection that trusts this certificate alone; gives the protocol agreed by ALPN too.
    pub fn connect(&self, addr: SocketAddr, alpn: &[&str]) -> Result<(Conn, Option<String>), String> {
        self.connect_as(addr, alpn, None)
    }

    /// The same, showing a client certificate where there is one.
    pub fn connect_as(
        &self,
        addr: SocketAddr,
        alpn: &[&str],
        certified: Option<&Certified>,
    ) -> Result<(Conn, Option<String>), String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match certified {
            None => builder.with_no_client_auth(),
            Some(certified) => {
                let key = PrivateKeyDer::try_from(certified.key.clone()).expect("a key");
                builder.with_client_auth_cert(vec![certified.der.clone()], key).expect("a usable certificate")
            }
        };
        config.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
        let name = ServerName::try_from("localhost").expect("a name");
        let mut tls = ClientConnection::new(Arc::new(config), name).map_err(|e| e.to_string())?;
        let mut tcp = TcpStream::connect_timeout(&addr, crate::wait::LONG).map_err(|e| e.to_string())?;
        tcp.set_read_timeout(Some(crate::wait::LONG)).map_err(|e| e.to_string())?;
        while tls.is_handshaking() {
            tls.complete_io(&mut tcp).map_err(|e| e.to_string())?;
        }
        let agreed = tls.alpn_protocol().map(|p| String::from_utf8_lossy(p).into_owned());
        let clone = tcp.try_clone().map_err(|e| e.to_string())?;
        Ok((Conn::over(Box::new(StreamOwned::new(tls, tcp)), clone), agreed))
    }
}

impl Default for Identity {
    fn default() -> Identity {
        Identity::new()
    }
}

/// An authority that issues client certificates.
pub struct Authority {
    /// PEM of its certificate.
    pub cert_pem: String,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

/// A client's certificate and key.
pub struct Certified {
    der: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Default for Authority {
    fn default() -> Authority {
        Authority::new()
    }
}

impl Authority {
    /// A new one.
    pub fn new() -> Authority {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.key_usages =
            vec![rcgen::KeyUsagePurpose::KeyCertSign, rcgen::KeyUsagePurpose::DigitalSignature];
        let cert = params.self_signed(&key).expect("a certificate");
        Authority { cert_pem: cert.pem(), issuer: rcgen::Issuer::new(params, key) }
    }

    /// A client certificate with this name: a URI when it has a scheme, else a DNS name.
    pub fn issue(&self, name: &str) -> Certified {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut params = rcgen::CertificateParams::new(Vec::new()).expect("parameters");
        let text = name.try_into().expect("a name");
        params.subject_alt_names = vec![match name.contains("://") {
            true => rcgen::SanType::URI(text),
            false => rcgen::SanType::DnsName(text),
        }];
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate");
        Certified { der: cert.der().clone(), key: key.serialize_der() }
    }
}
