//! Tests of the egress guard.

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn strict() -> Egress {
    Egress::default()
}

/// One or two of each network that is not public.
const SPECIAL: &str = "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.127.255.255 127.0.0.1 127.255.0.1 \
    169.254.169.254 169.254.0.1 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.88.99.1 \
    192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 \
    255.255.255.255";

#[test]
fn a14_addresses_that_are_not_public_are_refused_in_every_form() {
    for address in SPECIAL.split_ascii_whitespace() {
        let [a, b, c, d] = address.parse::<Ipv4Addr>().unwrap().octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        for form in [
            address.to_owned(),
            format!("::ffff:{address}"),
            format!("::{address}"),
            format!("64:ff9b::{address}"),
            format!("64:ff9b:1::{address}"),
            format!("2002:{high:x}:{low:x}::1"),
            format!("2606:4700::5efe:{address}"),
            format!("2606:4700::200:5efe:{address}"),
            format!("fe80::{address}"),
        ] {
            assert_eq!(strict().address(ip(&form)), Err(EgressError::Address), "{form}");
        }
    }
    for address in [
        "::",
        "::1",
        "::2",
        "fc00::1",
        "fd12:3456::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "100::1",
        "2001::1",
        "2001:10::1",
        "2001:db8::1",
        "3fff::1",
        "4000::1",
        "5f00::1",
    ] {
        assert_eq!(strict().address(ip(address)), Err(EgressError::Address), "{address}");
    }
}

#[test]
fn public_addresses_pass() {
    for address in [
        "1.1.1.1",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "198.17.0.1",
        "223.255.255.255",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2606:4700::1111",
        "2001:4860:4860::8888",
        "2a00:1450::1",
        "2002:808:808::1",
    ] {
        assert_eq!(strict().address(ip(address)), Ok(()), "{address}");
    }
}

#[test]
fn a14_only_listed_networks_are_allowed_beside() {
    let listed =
        Egress { allow: vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()], loopback: false };
    for good in ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "fd12::1", "1.1.1.1"] {
        assert_eq!(listed.address(ip(good)), Ok(()), "{good}");
    }
    for bad in ["10.2.0.1", "::ffff:10.2.0.1", "127.0.0.1", "169.254.169.254", "fe80::1", "::10.1.2.3"] {
        assert_eq!(listed.address(ip(bad)), Err(EgressError::Address), "{bad}");
    }
    // A listed translator doesn't open what is behind it.
    let translator = Egress { allow: vec!["64:ff9b::/96".parse().unwrap()], loopback: false };
    assert_eq!(translator.address(ip("64:ff9b::169.254.169.254")), Err(EgressError::Address));
    let loopback = Egress { allow: vec![], loopback: true };
    for (address, good) in [
        ("127.0.0.1", true),
        ("::1", true),
        ("::ffff:127.0.0.1", true),
        ("10.0.0.1", false),
        ("0.0.0.0", false),
    ] {
        assert_eq!(loopback.address(ip(address)).is_ok(), good, "{address}");
    }
}

#[test]
fn a14_an_address_is_read_as_connecting_would_read_it() {
    for host in [
        "169.254.169.254",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "017700000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:a00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "0",
        "127。0。0。1",
        "１２７.0.0.1",
        "169.254.43518",
        "[fd00:ec2::254]",
    ] {
        for path in ["", "/", ":443/keys", "/a?b"] {
            let url = format!("https://{host}{path}");
            assert_eq!(strict().url(&url), Err(EgressError::Address), "{url}");
        }
    }
}

#[test]
fn urls_are_https_and_plain() {
    for (url, expected) in [
        ("https://idp.example.com/keys?x=1", Ok(())),
        ("HTTPS://IDP.EXAMPLE.COM", Ok(())),
        ("https://1.1.1.1:8443/keys", Ok(())),
        ("https://idp.example.com/a@b", Ok(())),
        ("http://idp.example.com/", Err(EgressError::Scheme)),
        ("http://127.0.0.1/", Err(EgressError::Scheme)),
        ("http://localhost/", Err(EgressError::Scheme)),
        ("file:///etc/passwd", Err(EgressError::Scheme)),
        ("ftp://a.example/", Err(EgressError::Scheme)),
        ("gopher://a.example/", Err(EgressError::Scheme)),
        ("javascript:alert(1)", Err(EgressError::Scheme)),
        ("https://user@idp.example.com/", Err(EgressError::UserInfo)),
        ("https://user:pass@idp.example.com/", Err(EgressError::UserInfo)),
        ("https://:@idp.example.com/", Err(EgressError::UserInfo)),
        ("https://@idp.example.com/", Err(EgressError::UserInfo)),
        ("https://idp.example.com@evil.example/", Err(EgressError::UserInfo)),
        ("https://idp.example.com/#x", Err(EgressError::Fragment)),
        ("https://idp.example.com/#", Err(EgressError::Fragment)),
        ("https://", Err(EgressError::Malformed)),
        ("https:// a/", Err(EgressError::Malformed)),
        ("https://a.example/\r\nX: y", Err(EgressError::Malformed)),
        ("https://a.example/\t", Err(EgressError::Malformed)),
        ("idp.example.com", Err(EgressError::Malformed)),
        ("//idp.example.com", Err(EgressError::Malformed)),
        ("", Err(EgressError::Malformed)),
    ] {
        assert_eq!(strict().url(url).map(|_| ()), expected, "{url}");
    }
    let long = format!("https://a.example/{}", "a".repeat(MAX_URL));
    assert_eq!(strict().url(&long), Err(EgressError::Malformed));
}

#[test]
fn http_goes_to_loopback_alone_and_only_where_allowed() {
    let loopback = Egress { allow: vec![], loopback: true };
    for good in ["http://127.0.0.1:1/", "http://localhost:1/", "http://[::1]:1/", "https://127.0.0.1/"] {
        assert!(loopback.url(good).is_ok(), "{good}");
    }
    for bad in [
        "http://1.1.1.1/",
        "http://localhost.evil.example/",
        "http://127.0.0.1.evil.example/",
        "http://10.0.0.1/",
    ] {
        assert_eq!(loopback.url(bad), Err(EgressError::Scheme), "{bad}");
    }
    assert_eq!(loopback.url("https://10.0.0.1/"), Err(EgressError::Address));
}
