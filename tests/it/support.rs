//! Configurations and checks that several topics share.

use std::path::Path;

use tollgate_tests::client::{Client, Modern};
use tollgate_tests::gateway::{Gateway, Start};
use tollgate_tests::http::{Answer, Request};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

/// The scripted stdio server's program.
pub(crate) const CHILD: &str = env!("CARGO_BIN_EXE_scripted-stdio");

/// A server entry over HTTP; `more` are further members, each `, key: value`.
pub(crate) fn http(id: &str, server: &Scripted, more: &str) -> String {
    format!("  {id}: {{ url: \"{}\"{more} }}\n", server.url())
}

/// A server entry of a scripted child process.
pub(crate) fn child(id: &str, args: &[&str], more: &str) -> String {
    let args: Vec<String> = args.iter().map(|a| format!("{a:?}")).collect();
    format!("  {id}: {{ command: {CHILD:?}, args: [{}]{more} }}\n", args.join(", "))
}

/// A server entry run by `sh -c SCRIPT`.
pub(crate) fn shell(id: &str, script: &str, more: &str) -> String {
    format!("  {id}: {{ command: sh, args: [\"-c\", {script:?}]{more} }}\n")
}

/// A whole configuration.
pub(crate) fn yaml(head: &str, servers: &[String]) -> String {
    format!("{head}servers:\n{}", servers.concat())
}

/// The two seal keys of the tests, as environment variables.
pub(crate) const SEAL_A: (&str, &str) = ("SEAL_A", "CzBVep/E6Q4zWH2ix+wRNluApcrvFDleg6jN8hc8YYY=");
pub(crate) const SEAL_B: (&str, &str) = ("SEAL_B", "ZZrPBDluo9gNQnes4RZLgLXqH1SJvvMoXZLH/DFmm9A=");

/// A gateway that seals with these keys.
pub(crate) fn sealed(head: &str, servers: &[String], keys: &[(&str, &str)]) -> Gateway {
    let refs: Vec<String> = keys.iter().map(|(name, _)| format!("\"env:{name}\"")).collect();
    let head = format!("{head}keys: {{ seal: [{}] }}\n", refs.join(", "));
    keys.iter().fold(Start::new(&yaml(&head, servers)), |start, (name, value)| start.env(name, value)).start()
}

/// One gateway before one scripted server called `up`.
pub(crate) struct Bench {
    pub(crate) up: Scripted,
    pub(crate) gateway: Gateway,
}

impl Bench {
    /// Before a modern server.
    pub(crate) fn modern() -> Bench {
        Bench::of(Scripted::json(Peer::modern("up")), "", "")
    }

    /// Before a legacy server.
    pub(crate) fn legacy() -> Bench {
        Bench::of(Scripted::json(Peer::legacy("up")), "", "")
    }

    /// Before this server, with more configuration.
    pub(crate) fn of(up: Scripted, head: &str, more: &str) -> Bench {
        let gateway = Gateway::start(&yaml(head, &[http("up", &up, more)]));
        Bench { up, gateway }
    }

    /// A modern client of the server's own endpoint.
    pub(crate) fn client(&self) -> Modern {
        self.gateway.modern().server("up")
    }

    /// A good call, to be changed by a test.
    pub(crate) fn good(&self) -> Request {
        self.client().request("tools/call", r#"{"name":"echo","arguments":{"text":"hi"}}"#)
    }

    /// Sends what must be refused: with this status and code, unseen by the server, by a gateway that lives on.
    pub(crate) fn refuses(&self, what: &str, request: &Request, status: &[u16], code: Option<i64>) -> Answer {
        let before = self.up.calls();
        let answer = request.try_send(self.gateway.addr).unwrap_or_else(|e| panic!("{what}: no answer: {e}"));
        let text = answer.text();
        assert!(
            status.contains(&answer.status),
            "{what}: status {} is not of {status:?}: {text}",
            answer.status
        );
        if let Some(code) = code {
            assert_eq!(answer.code(), Some(code), "{what}: {text}");
        }
        if let Some(code) = answer.code() {
            assert!(allowed_code(code), "{what}: code {code} may not be emitted");
        }
        assert_eq!(self.up.calls(), before, "{what}: the server was asked: {:?}", self.up.seen().last());
        self.gateway.assert_alive();
        answer
    }

    /// Proves that a good call still works.
    pub(crate) fn still_works(&self) {
        let answer = self.good().send(self.gateway.addr);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.result()["isError"], false, "{}", answer.text());
    }
}

/// The codes that the gateway may emit: JSON-RPC's, the specification's three, -32002 (legacy) and its own.
pub(crate) fn allowed_code(code: i64) -> bool {
    matches!(code, -32700 | -32600..=-32600 | -32601 | -32602 | -32603 | -32002 | -32022..=-32020 | 7001..=7008)
}

/// The text of a file, empty while it is absent.
pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The numbers behind a word at the start of lines (`started 123`).
pub(crate) fn numbers(text: &str, word: &str) -> Vec<u32> {
    text.lines().filter_map(|l| l.strip_prefix(word)?.trim().parse().ok()).collect()
}
