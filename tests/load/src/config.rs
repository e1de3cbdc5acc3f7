//! The Tollgate configurations that are measured.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use crate::mcp::Era;
use crate::tools::MANY_SERVERS;

/// One server `echo` of one era.
pub(crate) fn one_server(echo: SocketAddr, era: Era) -> String {
    with_servers([("echo".to_owned(), format!("http://{echo}{}", era.echo_path()))])
}

/// Who issues the token of the measured caller, and for whom.
pub(crate) const ISSUER: &str = "https://issuer.test";
pub(crate) const AUDIENCE: &str = "https://tollgate.test/mcp";

/// The modern server `echo` behind everything that a platform team would switch on.
pub(crate) fn guarded(echo: SocketAddr, keys: &Path) -> String {
    let task = format!(
        "auth:\n  issuers:\n    - issuer: {ISSUER}\n      audience: {AUDIENCE}\n      jwks: \"file:{}\"\n\
         default_task: load\n\
         tasks:\n  load:\n    principals: {{ issuers: [\"{ISSUER}\"], scopes: [mcp.read] }}\n\
         \x20   allow: [\"echo__*\"]\n    rules:\n      - {{ tool: \"echo__*\", when: \"args.limit <= 100\" }}\n\
         \x20   limits: {{ calls: 1000000/s, concurrency: 1000, budget_calls: 1000000000 }}\n\
         \x20   redact: {{ groups: [secrets, keys] }}\n",
        keys.display()
    );
    one_server(echo, Era::Modern) + &task
}

/// The modern server `echo` with a journal of this durability.
pub(crate) fn journalled(echo: SocketAddr, durability: &str) -> String {
    one_server(echo, Era::Modern).replace("durability: off", &format!("durability: {durability}"))
}

/// The modern server `echo` with the meter there.
pub(crate) fn metered(echo: SocketAddr, placement: &str) -> String {
    one_server(echo, Era::Modern) + &format!("meter: {{ placement: \"{placement}\" }}\n")
}

/// 200 servers with 25 tools each.
pub(crate) fn many_servers(echo: SocketAddr) -> String {
    with_servers(numbered(echo, MANY_SERVERS))
}

/// The modern server `echo` among 199 others.
pub(crate) fn one_among_many(echo: SocketAddr) -> String {
    let first = ("echo".to_owned(), format!("http://{echo}{}", Era::Modern.echo_path()));
    with_servers(std::iter::once(first).chain(numbered(echo, MANY_SERVERS - 1)))
}

fn numbered(echo: SocketAddr, count: usize) -> impl Iterator<Item = (String, String)> {
    (1..=count).map(move |number| (format!("s{number:03}"), format!("http://{echo}/s/{number}/mcp")))
}

fn with_servers(servers: impl IntoIterator<Item = (String, String)>) -> String {
    // The proxies beside it keep no journal either.
    let mut yaml = String::from(
        "listen: 127.0.0.1:0\nadmin: { listen: 127.0.0.1:0 }\naudit: { durability: off }\nservers:\n",
    );
    for (name, url) in servers {
        let _ = writeln!(yaml, "  {name}: {{ url: \"{url}\" }}");
    }
    yaml
}
