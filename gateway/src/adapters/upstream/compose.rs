//! The bodies of requests towards a server. Nothing of a client's envelope is in them, only its checked values.

use std::sync::LazyLock;

use bytes::Bytes;
use mcp::bridge::{self, ServerMeta};
use mcp::era::{Era, Revision};
use mcp::json::{ObjectWriter, Raw};
use mcp::message::{self, Id};
use mcp::method;
use smallvec::SmallVec;

use crate::ports::upstream::{Call, Client};

/// One request of ours: its id is also its progress token, so neither is ever used twice.
pub(super) struct Ticket {
    /// As JSON-RPC id.
    pub(super) id: Id,
}

impl Ticket {
    /// From a number that was never used with this server.
    pub(super) fn new(number: u64) -> Ticket {
        Ticket { id: Id::from_number(number) }
    }

    /// As progress token.
    pub(super) fn token(&self) -> &Raw {
        self.id.text()
    }
}

/// The body of a call.
pub(super) fn call(call: &Call, era: Era, revision: Revision, id: &Id, token: &Raw) -> Bytes {
    let trace: SmallVec<[(&str, &str); 3]> = call.trace.members().collect();
    let meta = ServerMeta {
        version: revision.as_str(),
        client_info: call.client.info.as_ref().or_else(|| Some(gateway_info())),
        client_capabilities: &call.client.capabilities,
        log_level: call.log_level.as_ref(),
        progress_token: call.progress.then_some(token),
        rest: &call.meta,
        added: &trace,
    };
    bridge::server_request(era, (id, call.method), &call.params, &meta)
}

/// `server/discover`, asked by the gateway itself.
pub(super) fn discover(id: &Id) -> Bytes {
    let meta = ServerMeta {
        version: Revision::V2026_07_28.as_str(),
        client_info: Some(gateway_info()),
        client_capabilities: &Raw::empty_object(),
        log_level: None,
        progress_token: None,
        rest: &[],
        added: &[],
    };
    bridge::server_request(Era::Modern, (id, "server/discover"), &[], &meta)
}

/// `initialize` with the client's own capabilities; its own name too, the gateway's when it gave none.
pub(super) fn initialize(id: &Id, client: &Client, revision: Revision) -> Bytes {
    let mut params = ObjectWriter::new();
    params.string("protocolVersion", revision.as_str());
    // Roots are the task's and the gateway tells them, whatever the client declared.
    let capabilities = match client.roots.is_some() {
        true => client.capabilities.with("roots", &Raw::empty_object()),
        false => client.capabilities.clone(),
    };
    params.raw("capabilities", &capabilities);
    params.raw("clientInfo", client.info.as_ref().unwrap_or_else(gateway_info));
    message::request(id, "initialize", Some(&params.finish()))
}

/// `ping`.
pub(super) fn ping(id: &Id) -> Bytes {
    message::request(id, method::PING, None)
}

/// `logging/setLevel`.
pub(super) fn set_level(id: &Id, level: &Raw) -> Bytes {
    let mut params = ObjectWriter::new();
    params.raw("level", level);
    message::request(id, "logging/setLevel", Some(&params.finish()))
}

/// A client without a name and without capabilities: the gateway when it asks for itself.
pub(super) fn nobody() -> Client {
    Client::new(Raw::empty_object(), Some(gateway_info().clone()))
}

/// The gateway's `Implementation`.
fn gateway_info<'a>() -> &'a Raw {
    static INFO: LazyLock<Raw> = LazyLock::new(|| {
        let mut info = ObjectWriter::new();
        info.string("name", "tollgate");
        info.string("version", env!("CARGO_PKG_VERSION"));
        info.finish()
    });
    &INFO
}
