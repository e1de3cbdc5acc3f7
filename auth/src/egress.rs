//! Where the gateway may connect to on the word of a configuration or a metadata document: rules for URLs and for the
//! addresses that they lead to. It resolves nothing: whoever connects resolves once, asks here for each address, and
//! connects to an address that passed, never to the name again.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use url::{Host, Url};

/// Longest URL in bytes.
const MAX_URL: usize = 2048;

/// Why a connection isn't made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("not connected: {}", self.reason())]
pub enum EgressError {
    /// No URL, or over 2 KiB.
    Malformed,
    /// Not https; http goes to loopback alone, where that is allowed.
    Scheme,
    /// A user or password in the URL.
    UserInfo,
    /// No host.
    Host,
    /// A fragment in the URL.
    Fragment,
    /// An address that is not on the public Internet and not allowed.
    Address,
}

impl EgressError {
    /// The reason as a metric's label.
    pub fn reason(self) -> &'static str {
        match self {
            EgressError::Malformed => "malformed",
            EgressError::Scheme => "scheme",
            EgressError::UserInfo => "userinfo",
            EgressError::Host => "host",
            EgressError::Fragment => "fragment",
            EgressError::Address => "address",
        }
    }
}

/// The rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// Networks that are allowed although they are not public, as the configuration lists them.
    pub allow: Vec<IpNet>,
    /// Whether loopback is allowed, and http on it: for development.
    pub loopback: bool,
}

impl Egress {
    /// Checks a URL; when its host is an address, the address as well.
    ///
    /// # Errors
    /// Why nothing connects to it.
    pub fn url(&self, text: &str) -> Result<Url, EgressError> {
        if text.len() > MAX_URL || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(EgressError::Malformed);
        }
        // The URL standard reads 0x7f.1, 127.1 and 2130706433 as the address that they are.
        let url = Url::parse(text).map_err(|_| EgressError::Malformed)?;
        match url.scheme() {
            "https" => {}
            "http" if self.loopback && is_loopback_host(&url) => {}
            _ => return Err(EgressError::Scheme),
        }
        // `@` with nothing before it leaves no trace in the parsed form, yet other readers see a user there.
        let authority = text.split_once("://").map_or("", |(_, rest)| rest);
        let authority = authority.split(['/', '?', '#', '\\']).next().unwrap_or_default();
        if authority.contains('@') || !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::UserInfo);
        }
        if url.fragment().is_some() {
            return Err(EgressError::Fragment);
        }
        match url.host() {
            Some(Host::Ipv4(ip)) => self.address(ip.into())?,
            Some(Host::Ipv6(ip)) => self.address(ip.into())?,
            Some(Host::Domain(name)) if !name.is_empty() => {}
            _ => return Err(EgressError::Host),
        }
        Ok(url)
    }

    /// Checks one address that a host's name led to. A name with several addresses is used only with those that pass.
    ///
    /// # Errors
    /// Nothing connects to it.
    pub fn address(&self, address: IpAddr) -> Result<(), EgressError> {
        let listed = |ip: &IpAddr| self.allow.iter().any(|net| net.contains(ip));
        let passes = |ip: &IpAddr| is_public(*ip) || listed(ip) || (self.loopback && ip.is_loopback());
        if forms(address).iter().all(passes) { Ok(()) } else { Err(EgressError::Address) }
    }
}

/// Whether a URL's host is this machine by its very name or address.
pub(crate) fn is_loopback_host(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// All addresses that a connection to this one may reach: itself, and the IPv4 address inside of it. An IPv4-mapped
/// address is nothing but the IPv4 address.
fn forms(address: IpAddr) -> Vec<IpAddr> {
    let IpAddr::V6(v6) = address else { return vec![address] };
    let octets = v6.octets();
    let embedded = |at: usize| {
        let four: Option<[u8; 4]> = octets.get(at..at + 4).and_then(|four| four.try_into().ok());
        four.map(|four| IpAddr::V4(Ipv4Addr::from(four)))
    };
    if v6.to_ipv4_mapped().is_some() {
        return embedded(12).into_iter().collect();
    }
    let inner = match v6.segments() {
        // NAT64 (RFC 6052) and 6to4 (RFC 3056).
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded(12),
        [0x2002, ..] => embedded(2),
        // ISATAP (RFC 5214).
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => embedded(12),
        _ => None,
    };
    [Some(address), inner].into_iter().flatten().collect()
}

/// Whether an address is on the public Internet, by the registries of special-purpose addresses (RFC 6890) and more
/// narrowly: what is reserved for any other use is not.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(ip) => !SPECIAL_V4.iter().any(|net| net.contains(&ip)),
        IpAddr::V6(ip) => {
            is_nat64(ip) || (GLOBAL_V6.contains(&ip) && !SPECIAL_V6.iter().any(|net| net.contains(&ip)))
        }
    }
}

/// The well-known prefix leads to the IPv4 address inside, which is checked as well.
fn is_nat64(ip: Ipv6Addr) -> bool {
    matches!(ip.segments(), [0x64, 0xff9b, 0, 0, 0, 0, ..])
}

const fn v4(a: u8, b: u8, c: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), prefix)
}

const fn v6(a: u16, b: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), prefix)
}

/// This network, private, CGNAT, loopback, link-local with the metadata services, protocol assignments, documentation,
/// 6to4 relays, benchmarks, multicast, reserved and broadcast.
const SPECIAL_V4: [Ipv4Net; 15] = [
    v4(0, 0, 0, 8),
    v4(10, 0, 0, 8),
    v4(100, 64, 0, 10),
    v4(127, 0, 0, 8),
    v4(169, 254, 0, 16),
    v4(172, 16, 0, 12),
    v4(192, 0, 0, 24),
    v4(192, 0, 2, 24),
    v4(192, 88, 99, 24),
    v4(192, 168, 0, 16),
    v4(198, 18, 0, 15),
    v4(198, 51, 100, 24),
    v4(203, 0, 113, 24),
    v4(224, 0, 0, 4),
    v4(240, 0, 0, 4),
];

/// Global unicast: everything outside (unspecified, loopback, unique local, link-local, multicast, …) is not public.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);
/// Inside of it: protocol assignments with Teredo, documentation.
const SPECIAL_V6: [Ipv6Net; 3] = [v6(0x2001, 0, 23), v6(0x2001, 0xdb8, 32), v6(0x3fff, 0, 20)];

#[cfg(test)]
mod tests;
