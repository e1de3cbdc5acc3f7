//! The bodies of requests towards a server. Nothing of a client's envelope is in them, only its checked values.

use std::sync::LazyLock;

use bytes::Bytes;
use mcp::bridge::{self, ServerMeta};
use mcp::era::{Era, Revision};
use mcp::json::{Key, ObjectWriter, Raw};
use mcp::message::{self, Id};
use mcp::method;

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
    pub(super) fn token(&self) -> Raw {
        self.id.raw()
    }
}

/// The body of a call.
pub(super) fn call(call: &Call, era: Era, revision: Revision, id: &Id, token: &Raw) -> Bytes {
    let trace = call.trace.members().map(|(name, value)| (Key::new(name), Raw::from_str_value(value)));
    let meta = ServerMeta {
        version: revision.as_str(),
        client_info: call.client.info.clone().or_else(|| Some(gateway_info())),
        client_capabilities: call.client.capabilities.clone(),
        log_level: call.log_level.clone(),
        progress_token: call.progress.then(|| token.clone()),
        rest: call.meta.iter().cloned().chain(trace).collect(),
    };
    let params = bridge::server_params(era, &call.params, &meta);
    message::request(id, call.method, Some(&params))
}

/// `server/discover`, asked by the gateway itself.
pub(super) fn discover(id: &Id) -> Bytes {
    let meta = ServerMeta {
        version: Revision::V2026_07_28.as_str(),
        client_info: Some(gateway_info()),
        client_capabilities: Raw::empty_object(),
        log_level: None,
        progress_token: None,
        rest: Vec::new(),
    };
    let params = bridge::server_params(Era::Modern, &[], &meta);
    message::request(id, "server/discover", Some(&params))
}

/// `initialize` with the client's own capabilities; its own name too, the gateway's when it gave none.
pub(super) fn initialize(id: &Id, client: &Client, revision: Revision) -> Bytes {
    let mut params = ObjectWriter::new();
    params.string("protocolVersion", revision.as_str());
    params.raw("capabilities", &client.capabilities);
    params.raw("clientInfo", &client.info.clone().unwrap_or_else(gateway_info));
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
    Client::new(Raw::empty_object(), Some(gateway_info()))
}

/// The gateway's `Implementation`.
fn gateway_info() -> Raw {
    static INFO: LazyLock<Raw> = LazyLock::new(|| {
        let mut info = ObjectWriter::new();
        info.string("name", "tollgate");
        info.string("version", env!("CARGO_PKG_VERSION"));
        info.finish()
    });
    INFO.clone()
}
