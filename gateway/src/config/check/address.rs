//! Listen addresses: an IP address and a port. The data listener leaves the loopback addresses only where something
//! proves callers and tasks say what each may do; the admin listener never does.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::config::context::Context;
use crate::config::place::{At, clip};
use crate::config::problem::Problem;
use crate::config::raw;

use super::front::Front;
use super::tasks::Ground;

const FORM: &str = "write an IP address and a port, such as 127.0.0.1:8080 or [::1]:8080";

/// What is wrong, and what would be right.
type Fault = (String, String);

/// An address of the file.
pub(super) fn from_file(at: &At, text: &str, context: &mut Context<'_>) -> Option<SocketAddr> {
    let address = parse(text);
    address.map_err(|(what, fix)| context.problem(at, what, fix)).ok()
}

/// An address of the command line.
pub(super) fn from_command_line(text: &str, context: &mut Context<'_>) -> Option<SocketAddr> {
    let problem =
        |(what, fix)| Problem { file: "--listen".into(), line: 0, column: 0, path: String::new(), what, fix };
    parse(text).map_err(|fault| context.problems.push(problem(fault))).ok()
}

fn parse(text: &str) -> Result<SocketAddr, Fault> {
    let named = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let address = match named {
        Some(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        None => text
            .parse()
            .map_err(|_| (format!("`{}` is not a listen address", clip(text, 64)), FORM.to_owned()))?,
    };
    Ok(address)
}

/// An address of the admin listener: nothing proves its callers.
pub(super) fn admin(at: &At, text: &str, context: &mut Context<'_>) -> Option<SocketAddr> {
    let address = from_file(at, text, context)?;
    if !is_loopback(&address) {
        let what = format!("{} is {address}, which is not a loopback address", at.shown());
        context.problem(at, what, "listen on 127.0.0.1 or [::1]: nobody is authenticated there");
        return None;
    }
    Some(address)
}

fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Holds the data listener to the rule above.
pub(super) fn guard(
    raw: &raw::File,
    over: Option<&str>,
    (ground, front): (&Ground<'_>, Option<&Front>),
    context: &mut Context<'_>,
) {
    let Some(listen) = front.map(|front| front.listen).filter(|listen| !is_loopback(listen)) else { return };
    let setting = if over.is_some() { "--listen" } else { "listen" };
    let mut refuse = |lacks: &str, fix: &str| {
        let what = format!("{setting} is {listen}, which is not a loopback address, {lacks}");
        if over.is_some() {
            let file = "--listen".into();
            let (path, fix) = (String::new(), fix.to_owned());
            context.problems.push(Problem { file, line: 0, column: 0, path, what, fix });
        } else {
            context.problem(&At::root().key("listen"), what, fix);
        }
    };
    // Judged by the text: what is wrong in a section was reported.
    if !ground.credentials() {
        let fix = "set `auth` (issuers, tokens or client certificates), or listen on 127.0.0.1 or [::1]";
        refuse("and no `auth` proves who calls", fix);
    }
    if raw.tasks.is_none() {
        refuse("and no `tasks` say what callers may do", "write `tasks`, or listen on 127.0.0.1 or [::1]");
    }
}

#[cfg(test)]
mod tests {
    use super::{is_loopback, parse};

    #[test]
    fn an_address_with_a_port() {
        for text in ["127.0.0.1:8080", "127.9.9.9:0", "[::1]:1", "localhost:80", "[::ffff:127.0.0.1]:1"] {
            assert!(parse(text).unwrap().ip().to_canonical().is_loopback(), "{text}");
        }
        for text in
            ["", "8080", ":8080", "127.0.0.1", "example.com:80", "localhost:x", "127.0.0.1:70000", "::1:80"]
        {
            assert!(parse(text).unwrap_err().0.contains("not a listen address"), "{text}");
        }
        for text in ["0.0.0.0:8080", "[::]:8080", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            assert!(!is_loopback(&parse(text).unwrap()), "{text}");
        }
    }
}
