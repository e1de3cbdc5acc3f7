//! A request exactly as it goes on the wire. Never adds more than `Host` and `Content-Length`.

use std::net::SocketAddr;

use super::{Answer, Conn, Stream};
use crate::wait::LONG;

/// A request to be sent as it stands; `Host` and `Content-Length` are added unless named.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The request target.
    pub path: String,
    /// Header lines in order; duplicates allowed.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
}

impl Request {
    /// A request without headers.
    pub fn new(method: &str, path: &str) -> Request {
        Request { method: method.into(), path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// A JSON POST with the headers that every revision asks for.
    pub fn post(path: &str, body: impl Into<Vec<u8>>) -> Request {
        let mut request = Request::new("POST", path)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream");
        request.body = body.into();
        request
    }

    /// Adds a header line.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Replaces all lines of a header by one.
    #[must_use]
    pub fn set(self, name: &str, value: &str) -> Request {
        self.without(name).header(name, value)
    }

    /// Removes a header.
    #[must_use]
    pub fn without(mut self, name: &str) -> Request {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self
    }

    /// Another body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// Another path.
    #[must_use]
    pub fn path(mut self, path: &str) -> Request {
        self.path = path.into();
        self
    }

    fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name))
    }

    /// The head's bytes.
    pub fn head(&self, host: &str) -> Vec<u8> {
        let mut out = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        if !self.has("host") {
            out.push_str(&format!("Host: {host}\r\n"));
        }
        for (name, value) in &self.headers {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        let sized = self.has("content-length") || self.has("transfer-encoding");
        if !sized && (self.method == "POST" || !self.body.is_empty()) {
            out.push_str(&format!("Content-Length: {}\r\n", self.body.len()));
        }
        out.push_str("\r\n");
        out.into_bytes()
    }

    /// Head and body.
    pub fn wire(&self, host: &str) -> Vec<u8> {
        let mut out = self.head(host);
        out.extend_from_slice(&self.body);
        out
    }

    /// Sends on a connection of its own and reads the whole answer.
    pub fn send(&self, addr: SocketAddr) -> Answer {
        self.open(addr).finish()
    }

    /// Sends on a connection of its own and reads the answer's head.
    pub fn open(&self, addr: SocketAddr) -> Stream {
        let mut conn = Conn::open(addr);
        conn.write(&self.wire(&addr.to_string()));
        conn.stream_after(&self.method, LONG).unwrap_or_else(|e| panic!("no answer to {self:?}: {e}"))
    }

    /// Sends and gives back the status, or the way in which there was none.
    pub fn try_send(&self, addr: SocketAddr) -> Result<Answer, String> {
        let mut conn = Conn::try_open(addr)?;
        conn.write(&self.wire(&addr.to_string()));
        Ok(conn.stream_after(&self.method, LONG)?.finish())
    }
}
