//! The name of a client in its certificate. That the certificate was issued by a trusted CA, is in force and may be used
//! by a client was checked by TLS before; here one name is chosen, and the subject's common name is never one.

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::principal::{CertificateName, Identifier, Principal};

/// Longest certificate in bytes.
const MAX_CERTIFICATE: usize = 64 * 1024;

/// Which kind of subject alternative name tells the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// A URI, such as a SPIFFE id.
    Uri,
    /// A host name.
    Dns,
    /// A mail address.
    Email,
}

/// Why a certificate names no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("certificate refused: {}", self.reason())]
pub enum CertificateError {
    /// It can't be read.
    Malformed,
    /// It has no name of the kind.
    NoName,
    /// It has several, and which one calls can't be told.
    SeveralNames,
    /// Its name is a pattern, empty, over 1 KiB, or holds control characters.
    Name,
}

impl CertificateError {
    /// The reason as a metric's label.
    pub fn reason(self) -> &'static str {
        match self {
            CertificateError::Malformed => "malformed",
            CertificateError::NoName => "no_name",
            CertificateError::SeveralNames => "several_names",
            CertificateError::Name => "name",
        }
    }
}

/// The caller that a certificate (DER) names.
///
/// # Errors
/// It names none, or more than one.
pub fn principal(certificate: &[u8], kind: NameKind) -> Result<Principal, CertificateError> {
    if certificate.len() > MAX_CERTIFICATE {
        return Err(CertificateError::Malformed);
    }
    let (rest, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::Malformed)?;
    if !rest.is_empty() {
        return Err(CertificateError::Malformed);
    }
    let names = parsed.subject_alternative_name().map_err(|_| CertificateError::Malformed)?;
    let names = names.map(|extension| extension.value.general_names.as_slice()).unwrap_or_default();
    let mut found = names.iter().filter_map(|name| match (kind, name) {
        (NameKind::Uri, GeneralName::URI(text))
        | (NameKind::Dns, GeneralName::DNSName(text))
        | (NameKind::Email, GeneralName::RFC822Name(text)) => Some(*text),
        _ => None,
    });
    let text = found.next().ok_or(CertificateError::NoName)?;
    if found.next().is_some() {
        return Err(CertificateError::SeveralNames);
    }
    named(kind, text).map(|name| Principal::Certificate { name })
}

fn named(kind: NameKind, text: &str) -> Result<CertificateName, CertificateError> {
    // A certificate for all hosts of a domain is no one's name.
    if kind == NameKind::Dns && text.contains('*') {
        return Err(CertificateError::Name);
    }
    let name = |text: &str| Identifier::new(text).ok_or(CertificateError::Name);
    Ok(match kind {
        NameKind::Uri => CertificateName::Uri(name(text)?),
        NameKind::Dns => CertificateName::Dns(name(&text.to_ascii_lowercase())?),
        NameKind::Email => CertificateName::Email(name(text)?),
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, KeyPair, SanType};

    use super::*;

    fn certificate(names: Vec<SanType>) -> Vec<u8> {
        let mut params = CertificateParams::default();
        params.subject_alt_names = names;
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn uri(text: &str) -> SanType {
        SanType::URI(text.try_into().unwrap())
    }

    fn dns(text: &str) -> SanType {
        SanType::DnsName(text.try_into().unwrap())
    }

    fn email(text: &str) -> SanType {
        SanType::Rfc822Name(text.try_into().unwrap())
    }

    #[test]
    fn the_configured_kind_of_name_tells_the_caller() {
        let all = certificate(vec![dns("Host.Example"), uri("spiffe://a/b"), email("a@b.example")]);
        let id = |text| Identifier::new(text).unwrap();
        for (kind, name) in [
            (NameKind::Uri, CertificateName::Uri(id("spiffe://a/b"))),
            (NameKind::Dns, CertificateName::Dns(id("host.example"))),
            (NameKind::Email, CertificateName::Email(id("a@b.example"))),
        ] {
            assert_eq!(principal(&all, kind), Ok(Principal::Certificate { name }));
        }
    }

    #[test]
    fn no_name_several_names_and_patterns_are_refused() {
        let one_uri = certificate(vec![uri("spiffe://a/b")]);
        assert_eq!(principal(&one_uri, NameKind::Dns), Err(CertificateError::NoName));
        assert_eq!(principal(&certificate(vec![]), NameKind::Uri), Err(CertificateError::NoName));
        let two = certificate(vec![uri("spiffe://a/b"), uri("spiffe://a/c")]);
        assert_eq!(principal(&two, NameKind::Uri), Err(CertificateError::SeveralNames));
        assert_eq!(
            principal(&certificate(vec![dns("*.a.example")]), NameKind::Dns),
            Err(CertificateError::Name)
        );
        let nul = certificate(vec![dns("good.example\0.evil.example")]);
        assert_eq!(principal(&nul, NameKind::Dns), Err(CertificateError::Name));
    }

    #[test]
    fn what_is_no_certificate_is_refused() {
        let good = certificate(vec![uri("spiffe://a/b")]);
        for cut in 0..good.len() {
            assert!(principal(&good[..cut], NameKind::Uri).is_err(), "{cut}");
        }
        let longer = [&good[..], b"x"].concat();
        assert_eq!(principal(&longer, NameKind::Uri), Err(CertificateError::Malformed));
        let mut params = CertificateParams::default();
        // A subject alternative name that is no list of names.
        params
            .custom_extensions
            .push(CustomExtension::from_oid_content(&[2, 5, 29, 17], vec![0x30, 0x05, 0x01]));
        let broken = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert!(principal(broken.der(), NameKind::Uri).is_err());
    }
}
