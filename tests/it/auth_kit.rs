//! What the tests of credentials share: a gateway between an issuer and a server.

use serde_json::json;
use tollgate_tests::client::Client;
use tollgate_tests::gateway::{Gateway, Start};
use tollgate_tests::http::{Answer, Request};
use tollgate_tests::issuer::{AUDIENCE, Issuer};
use tollgate_tests::peer::Peer;
use tollgate_tests::scripted::Scripted;

use crate::support::{http, yaml};

/// A gateway that believes one issuer, in front of one server called `up`.
pub(crate) struct Kit {
    pub(crate) issuer: Issuer,
    pub(crate) up: Scripted,
    pub(crate) gateway: Gateway,
}

/// The `auth` section; `issuer` are further members of the issuer, `more` further lines of the section.
pub(crate) fn section(issuer: &Issuer, members: &str, more: &str) -> String {
    format!(
        "auth:\n  egress: {{ loopback: true }}\n  issuers:\n    - {{ issuer: \"{}\", audience: \"{AUDIENCE}\", \
         scopes: [mcp.read, mcp.write], implies: {{ mcp.write: [mcp.read] }}, jwks_cooldown: 1s{members} }}\n{more}",
        issuer.url()
    )
}

impl Kit {
    pub(crate) fn new() -> Kit {
        Kit::with("", "")
    }

    /// See [`section`].
    pub(crate) fn with(members: &str, more: &str) -> Kit {
        Kit::before(Scripted::json(Peer::modern("up")), members, more, "")
    }

    /// Before this server, with further members of it.
    pub(crate) fn before(up: Scripted, members: &str, more: &str, server: &str) -> Kit {
        let issuer = Issuer::start();
        let head = section(&issuer, members, more);
        let gateway = Start::new(&yaml(&head, &[http("up", &up, server)])).start();
        Kit { issuer, up, gateway }
    }

    /// An access token that is good here.
    pub(crate) fn good(&self) -> String {
        self.issuer.token("alice", json!({}))
    }

    /// A call without a credential.
    pub(crate) fn bare(&self) -> Request {
        let client = self.gateway.modern().server("up");
        client.request("tools/call", r#"{"name":"echo","arguments":{"text":"hi"}}"#)
    }

    /// A call with a credential.
    pub(crate) fn with_token(&self, token: &str) -> Request {
        self.bare().header("Authorization", &format!("Bearer {token}"))
    }

    /// Its answer.
    pub(crate) fn call(&self, token: &str) -> Answer {
        self.with_token(token).send(self.gateway.addr)
    }

    /// Must work.
    pub(crate) fn works(&self, what: &str, token: &str) {
        let answer = self.call(token);
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        assert_eq!(answer.result()["isError"], false, "{what}: {}", answer.text());
    }

    /// Must be refused with this status, unseen by the server.
    pub(crate) fn refuses(&self, what: &str, request: &Request, status: u16) -> Answer {
        let before = self.up.calls();
        let answer = request.send(self.gateway.addr);
        assert_eq!(answer.status, status, "{what}: {}", answer.text());
        assert_eq!(self.up.calls(), before, "{what}: the server was asked");
        if status == 401 {
            let challenge = answer.header("www-authenticate").unwrap_or_default().to_owned();
            let url =
                format!("http://{}/.well-known/oauth-protected-resource/servers/up/mcp", self.gateway.addr);
            assert!(challenge.starts_with("Bearer "), "{what}: {challenge}");
            assert!(challenge.contains(&format!("resource_metadata=\"{url}\"")), "{what}: {challenge}");
            assert!(challenge.contains("scope=\"mcp.read mcp.write\""), "{what}: {challenge}");
        }
        answer
    }
}
