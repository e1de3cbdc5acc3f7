//! Both client eras against both server eras, over HTTP with JSON and SSE answers and over stdio: one gateway
//! before six servers, every method on each pair.

mod content;
mod identity;
mod notifications;
mod probing;

use serde_json::Value;
use tollgate_tests::client::{Client, Legacy};
use tollgate_tests::gateway::Gateway;
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;
use tollgate_tests::wait;

use crate::support::{child, http, read, yaml};

/// The ids of the six servers. The first letter is the era.
pub(crate) const SERVERS: [&str; 6] = ["m-json", "m-sse", "l-json", "l-sse", "m-child", "l-child"];

/// Six servers behind one gateway.
pub(crate) struct Matrix {
    pub(crate) gateway: Gateway,
    pub(crate) http: Vec<(&'static str, Scripted)>,
    logs: tempfile_dir::Dir,
}

mod tempfile_dir {
    //! A folder for the children's logs.

    /// Removed when dropped.
    pub(crate) struct Dir(std::path::PathBuf);

    impl Dir {
        pub(crate) fn new() -> Dir {
            let unique = format!("tollgate-it-{}-{}", std::process::id(), tollgate_tests::client::next_id());
            let path = std::env::temp_dir().join(unique);
            std::fs::create_dir_all(&path).expect("a folder");
            Dir(path)
        }

        pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Dir {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

pub(crate) use tempfile_dir::Dir;

impl Matrix {
    pub(crate) fn start() -> Matrix {
        let logs = Dir::new();
        let http_servers = vec![
            ("m-json", Scripted::json(Peer::modern("m-json"))),
            ("m-sse", Scripted::sse(Peer::modern("m-sse"))),
            ("l-json", Scripted::json(Peer::legacy("l-json"))),
            ("l-sse", Scripted::sse(Peer::legacy("l-sse"))),
        ];
        let mut servers: Vec<String> = http_servers.iter().map(|(id, s)| http(id, s, "")).collect();
        for (id, era) in [("m-child", "modern"), ("l-child", "legacy")] {
            let log = logs.file(id);
            servers.push(child(id, &["--era", era, "--name", id, "--log", &log.to_string_lossy()], ""));
        }
        Matrix { gateway: Gateway::start(&yaml("", &servers)), http: http_servers, logs }
    }

    /// Runs a check for every server with a client of each era at the server's own endpoint.
    pub(crate) fn each(&self, check: impl Fn(&str, &dyn Client)) {
        for server in SERVERS {
            check(server, &self.gateway.modern().server(server));
            check(server, &Legacy::server(self.gateway.addr, server));
        }
        self.assert_clean();
    }

    /// Fails if the gateway broke a rule towards any server.
    pub(crate) fn assert_clean(&self) {
        for (_, server) in &self.http {
            server.assert_clean();
        }
        for id in ["m-child", "l-child"] {
            let log = read(&self.logs.file(id));
            let broken: Vec<&str> = log.lines().filter(|l| l.starts_with("violation")).collect();
            assert!(broken.is_empty(), "{id}: {broken:#?}");
        }
        self.gateway.assert_alive();
    }

    /// The last message with this method that a server received.
    pub(crate) fn last(&self, server: &str, method: &str) -> String {
        if let Some((_, up)) = self.http.iter().find(|(id, _)| *id == server) {
            return up.seen_of(method).pop().unwrap_or_else(|| panic!("{server} saw no {method}")).body;
        }
        let quoted = format!("\"method\":\"{method}\"");
        let found = || {
            let log = read(&self.logs.file(server));
            log.lines().rev().find(|l| l.starts_with("< ") && l.contains(&quoted)).map(|l| l[2..].to_owned())
        };
        wait::until("the child's log", || found().is_some());
        found().expect("found")
    }
}

/// Whether a client is a modern one, by what it sends.
pub(crate) fn is_modern(client: &dyn Client) -> bool {
    client.request("x", "{}").headers.iter().any(|(n, _)| n == "Mcp-Method")
}

/// Checks the members that the client's era demands or forbids in a result.
pub(crate) fn check_era(what: &str, client: &dyn Client, result: &Value, cacheable: bool) {
    if is_modern(client) {
        assert_eq!(result["resultType"], "complete", "{what}: {result}");
        assert_eq!(result.get("ttlMs").is_some_and(Value::is_u64), cacheable, "{what}: ttlMs: {result}");
        assert_eq!(
            result.get("cacheScope").is_some_and(|s| s == "private"),
            cacheable,
            "{what}: cacheScope: {result}"
        );
    } else {
        for member in ["resultType", "ttlMs", "cacheScope"] {
            assert!(result.get(member).is_none(), "{what}: {member} for a legacy client: {result}");
        }
    }
}
