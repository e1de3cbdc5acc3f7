//! Listen addresses: an IP address and a port, loopback unless something proves callers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::config::context::Context;
use crate::config::place::{At, clip};
use crate::config::problem::Problem;

const FORM: &str = "write an IP address and a port, such as 127.0.0.1:8080 or [::1]:8080";

/// What is wrong, and what would be right.
type Fault = (String, String);

/// An address of the file. `open`: whether it may be another than loopback.
pub(super) fn from_file(at: &At, text: &str, open: bool, context: &mut Context<'_>) -> Option<SocketAddr> {
    let address = parse(text, at.shown(), open);
    address.map_err(|(what, fix)| context.problem(at, what, fix)).ok()
}

/// An address of the command line, under the same rule.
pub(super) fn from_command_line(text: &str, open: bool, context: &mut Context<'_>) -> Option<SocketAddr> {
    let problem =
        |(what, fix)| Problem { file: "--listen".into(), line: 0, column: 0, path: String::new(), what, fix };
    parse(text, "--listen", open).map_err(|fault| context.problems.push(problem(fault))).ok()
}

fn parse(text: &str, setting: &str, open: bool) -> Result<SocketAddr, Fault> {
    let named = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let address = match named {
        Some(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        None => text
            .parse()
            .map_err(|_| (format!("`{}` is not a listen address", clip(text, 64)), FORM.to_owned()))?,
    };
    if open || address.ip().to_canonical().is_loopback() {
        return Ok(address);
    }
    let what =
        format!("{setting} is {address}, which is not a loopback address, and nothing authenticates its callers");
    let fix = match setting {
        "admin.listen" => "listen on 127.0.0.1 or [::1]: the admin listener has no authentication",
        _ => "listen on 127.0.0.1 or [::1], or configure `auth.issuers`, `auth.tokens` or `auth.clients`",
    };
    Err((what, fix.into()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn only_loopback_with_a_port() {
        for text in ["127.0.0.1:8080", "127.9.9.9:0", "[::1]:1", "localhost:80", "[::ffff:127.0.0.1]:1"] {
            assert!(parse(text, "listen", false).unwrap().ip().to_canonical().is_loopback(), "{text}");
        }
        for text in
            ["", "8080", ":8080", "127.0.0.1", "example.com:80", "localhost:x", "127.0.0.1:70000", "::1:80"]
        {
            assert!(parse(text, "listen", false).unwrap_err().0.contains("not a listen address"), "{text}");
        }
        for text in ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            let (what, _) = parse(text, "listen", false).unwrap_err();
            assert!(what.starts_with("listen is ") && what.contains("not a loopback"), "{what}");
        }
    }
}
