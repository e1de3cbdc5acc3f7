//! An answer that is read while it is being written. Never reads ahead of what the test asks for.

use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::conn::Body;
use super::{Answer, Conn, Headers};
use crate::wait::LONG;
use crate::{json, sse};

/// An answer whose body is read piece by piece.
pub struct Stream {
    conn: Conn,
    /// The HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Headers,
    body: Body,
    sse: sse::Decoder,
}

impl Stream {
    pub(super) fn new(conn: Conn, status: u16, headers: Headers, body: Body) -> Stream {
        Stream { conn, status, headers, body, sse: sse::Decoder::default() }
    }

    /// The next piece of the body; None at its clean end.
    pub fn chunk(&mut self, limit: Duration) -> Result<Option<Vec<u8>>, String> {
        self.body.chunk(&mut self.conn, Instant::now() + limit)
    }

    /// The next SSE event; None at the clean end of the body.
    pub fn event(&mut self, limit: Duration) -> Result<Option<sse::Event>, String> {
        let end = Instant::now() + limit;
        loop {
            if let Some(event) = self.sse.next_event() {
                return Ok(Some(event));
            }
            match self.body.chunk(&mut self.conn, end)? {
                Some(bytes) => self.sse.push(&bytes),
                None => return Ok(None),
            }
        }
    }

    /// The next SSE event that carries JSON, parsed.
    pub fn message(&mut self, limit: Duration) -> Option<Value> {
        loop {
            match self.event(limit) {
                Ok(Some(event)) => match event.data.as_deref() {
                    Some(data) if !data.is_empty() => return Some(json::parse(data)),
                    _ => continue,
                },
                Ok(None) => return None,
                Err(e) => panic!("stream broke: {e}"),
            }
        }
    }

    /// A header's first value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Leaves without reading on.
    pub fn leave(self) {
        let _ = self.conn.tcp.shutdown(Shutdown::Both);
    }

    /// Reads on to the end.
    pub fn finish(self) -> Answer {
        self.try_finish(LONG).unwrap_or_else(|e| panic!("body broke: {e}"))
    }

    /// Reads on to the end, or says how the body broke.
    pub fn try_finish(mut self, limit: Duration) -> Result<Answer, String> {
        let mut bytes = self.sse.rest().to_vec();
        let end = Instant::now() + limit;
        while let Some(chunk) = self.body.chunk(&mut self.conn, end)? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(Answer { status: self.status, headers: self.headers, body: bytes })
    }

    /// The connection, once the body is over.
    pub fn into_conn(self) -> Conn {
        self.conn
    }
}
