//! What the two listeners are and whom they serve: addresses, TLS, the Host and Origin allow-lists.

use std::net::SocketAddr;
use std::path::Path;

use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use url::{Host, Position, Url};

use super::address;
use crate::config::checked::TlsFiles;
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw;

const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 8080);
const ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9090);

/// The front part of the checked configuration.
pub(super) struct Front {
    pub(super) listen: SocketAddr,
    pub(super) public_url: Option<Url>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) tls: Option<TlsFiles>,
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<String>,
}

/// `None` only after a problem.
pub(super) fn check(raw: &raw::File, over: Option<&str>, context: &mut Context<'_>) -> Option<Front> {
    let root = At::root();
    let listen = match (over, raw.listen.as_deref()) {
        (Some(text), _) => address::from_command_line(text, context),
        (None, Some(text)) => address::from_file(&root.key("listen"), text, context),
        (None, None) => Some(LISTEN),
    };
    let admin = admin(raw.admin.as_ref(), context);
    if let (Some(listen), Some(admin)) = (listen, admin)
        && listen == admin
        && listen.port() != 0
    {
        let at = root.key("admin").key("listen");
        context.problem(&at, format!("{admin} is the data listener's address too"), "give it another port");
    }
    let tls = raw.tls.as_ref().and_then(|tls| certificate(tls, &root.key("tls"), context));
    if raw.h2c == Some(true) && context.places.has(&root.key("tls")) {
        context.problem(
            &root.key("h2c"),
            "h2c is HTTP/2 without TLS, and `tls` is set",
            "remove one of the two",
        );
    }
    let public_url = raw.public_url.as_deref().and_then(|text| public_url(text, context));
    let hosts = hosts(raw, listen, public_url.as_ref(), context);
    let origins = origins(raw, context);
    Some(Front { listen: listen?, public_url, admin, tls, hosts, origins })
}

fn admin(raw: Option<&raw::Admin>, context: &mut Context<'_>) -> Option<SocketAddr> {
    match raw {
        None => Some(ADMIN),
        Some(raw::Admin::Off(_)) => None,
        Some(raw::Admin::On(on)) => match on.listen.as_deref() {
            None => Some(ADMIN),
            Some(text) => address::admin(&At::root().key("admin").key("listen"), text, context),
        },
    }
}

/// Reads both files, so that a wrong pair is found before the listener starts.
fn certificate(raw: &raw::Tls, at: &At, context: &mut Context<'_>) -> Option<TlsFiles> {
    let files = TlsFiles { cert: context.path(&raw.cert), key: context.path(&raw.key) };
    if context.world.elsewhere {
        return Some(files);
    }
    let chain = read_chain(&files.cert);
    if let Err(what) = &chain {
        context.problem(
            &at.key("cert"),
            what.clone(),
            "name a PEM file with the certificate chain, leaf first",
        );
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| pem_fault(&files.key, &error));
    if let Err(what) = &key {
        context.problem(&at.key("key"), what.clone(), "name a PEM file with the private key");
    }
    if others_can_read(&files.key) {
        let what = format!("others can read {}", files.key.display());
        context.warning(&at.key("key"), what, "let only its owner read it (chmod 600)");
    }
    let (Ok(chain), Ok(key)) = (chain, key) else { return None };
    if let Err(error) = CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider()) {
        let what = format!("certificate and key can't be used together: {error}");
        context.problem(at, what, "name the key that the certificate was made for");
        return None;
    }
    Some(files)
}

/// The certificates of a PEM file; what is wrong when there is none.
pub(super) fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match all {
        Ok(all) if all.is_empty() => Err(format!("{} holds no certificate", path.display())),
        Ok(all) => Ok(all),
        Err(error) => Err(pem_fault(path, &error)),
    }
}

/// Never the parser's own text: it may quote the file.
fn pem_fault(path: &Path, error: &rustls_pki_types::pem::Error) -> String {
    match error {
        rustls_pki_types::pem::Error::Io(error) => format!("can't read {}: {}", path.display(), error.kind()),
        _ => format!("{} is not the PEM file that is needed", path.display()),
    }
}

#[cfg(unix)]
fn others_can_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|kind| kind.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
fn others_can_read(_: &Path) -> bool {
    false
}

fn public_url(text: &str, context: &mut Context<'_>) -> Option<Url> {
    let at = At::root().key("public_url");
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let Some(url) = url else {
        context.problem(&at, "not an http or https URL", "write something like https://mcp.example.com");
        return None;
    };
    let bare = url.username().is_empty() && url.password().is_none();
    if !bare || url.query().is_some() || url.fragment().is_some() {
        context.problem(
            &at,
            "a URL with a user, a query or a fragment",
            "write scheme, host, port and path alone",
        );
        return None;
    }
    Some(url)
}

/// Loopback names, the public name, and what the file adds; lower case, without doubles.
fn hosts(
    raw: &raw::File,
    listen: Option<SocketAddr>,
    public: Option<&Url>,
    context: &mut Context<'_>,
) -> Vec<String> {
    let mut hosts: Vec<String> = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into();
    hosts.extend(listen.map(|address| match address {
        SocketAddr::V4(v4) => v4.ip().to_string(),
        SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
    }));
    hosts.extend(public.map(|url| url[Position::BeforeHost..Position::AfterPort].to_ascii_lowercase()));
    let at = At::root().key("hosts");
    for (index, text) in raw.hosts.iter().flatten().enumerate() {
        match host(text) {
            Some(host) => hosts.push(host),
            None => {
                let fix = "write `name` or `name:port` as in the Host header: no scheme, path or wildcard";
                context.problem(&at.index(index), "not a host", fix);
            }
        }
    }
    let mut seen = std::collections::HashSet::new();
    hosts.retain(|host| seen.insert(host.clone()));
    hosts
}

fn host(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (text.as_str(), None),
    };
    let ported =
        port.is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok());
    let named = name.is_ascii() && !name.ends_with('.') && !name.contains('*');
    // Anything that the URL rules would rewrite (1.2.3, %61) could never equal a Host header.
    let same = Host::parse(name).is_ok_and(|host| host.to_string() == name);
    (ported && named && same).then_some(text)
}

fn origins(raw: &raw::File, context: &mut Context<'_>) -> Vec<String> {
    let at = At::root().key("origins");
    let mut origins = Vec::new();
    for (index, text) in raw.origins.iter().flatten().enumerate() {
        let url = Url::parse(text).ok();
        let right =
            url.map(|url| url.origin()).filter(url::Origin::is_tuple).map(|o| o.ascii_serialization());
        match right {
            Some(right) if right == *text => origins.push(right),
            Some(right) => {
                context.problem(&at.index(index), "not as browsers send it", format!("write {right}"))
            }
            None => {
                let fix =
                    "write scheme, host and port, such as https://app.example.com; no wildcard, no null";
                context.problem(&at.index(index), "not an origin", fix);
            }
        }
    }
    origins.dedup();
    origins
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn hosts_as_in_the_header() {
        for text in ["example.com", "EXAMPLE.com:8443", "10.0.0.1", "[::1]:80", "[2001:db8::1]", "localhost"]
        {
            assert_eq!(host(text), Some(text.to_ascii_lowercase()), "{text}");
        }
        for text in [
            "",
            "https://a",
            "a/b",
            "*.example.com",
            "a.",
            "a:x",
            "a:",
            "a b",
            "::1",
            "1.2.3",
            "u@a",
            "ä.de",
            "a:70000",
        ] {
            assert_eq!(host(text), None, "{text}");
        }
    }
}
