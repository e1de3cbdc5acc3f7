//! How a handler answers: whole answers, event streams, or raw bytes. Never hides a departed client.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use super::Shared;
use super::read::Wire;
use crate::sse;

/// The answering side of one request.
pub struct Out<'a> {
    wire: &'a mut dyn Wire,
    tcp: &'a TcpStream,
    shared: &'a Shared,
    streaming: bool,
    close: bool,
    left: bool,
}

impl<'a> Out<'a> {
    pub(super) fn new(wire: &'a mut dyn Wire, tcp: &'a TcpStream, shared: &'a Shared) -> Out<'a> {
        Out { wire, tcp, shared, streaming: false, close: false, left: false }
    }

    pub(super) fn keeps_alive(&self) -> bool {
        !self.close && !self.left
    }

    /// Raw bytes.
    pub fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        if self.wire.write_all(bytes.as_ref()).and_then(|()| self.wire.flush()).is_err() {
            self.left = true;
        }
    }

    /// A whole answer with a length.
    pub fn reply(&mut self, status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) {
        let mut bytes = format!("HTTP/1.1 {status} Scripted\r\nContent-Length: {}\r\n", body.as_ref().len());
        for (name, value) in headers {
            bytes.push_str(&format!("{name}: {value}\r\n"));
        }
        bytes.push_str("\r\n");
        let mut bytes = bytes.into_bytes();
        bytes.extend_from_slice(body.as_ref());
        self.raw(bytes);
    }

    /// What legacy servers answer when they do not know the session (any more).
    pub fn session_not_found(&mut self) {
        self.json(
            404,
            r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}"#,
        );
    }

    /// A JSON answer.
    pub fn json(&mut self, status: u16, body: impl AsRef<[u8]>) {
        self.reply(status, &[("Content-Type", "application/json")], body);
    }

    /// Opens an event stream.
    pub fn stream(&mut self, headers: &[(&str, &str)]) {
        let mut head = String::from(
            "HTTP/1.1 200 Scripted\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n",
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.raw(head + "\r\n");
        self.streaming = true;
    }

    /// Whether a stream is open.
    pub fn is_streaming(&self) -> bool {
        self.streaming
    }

    /// One chunk of a stream.
    pub fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let mut out = format!("{:x}\r\n", bytes.as_ref().len()).into_bytes();
        out.extend_from_slice(bytes.as_ref());
        out.extend_from_slice(b"\r\n");
        self.raw(out);
    }

    /// One event.
    pub fn event(&mut self, data: &str) {
        self.chunk(sse::frame(data));
    }

    /// The clean end of a stream.
    pub fn end(&mut self) {
        self.raw("0\r\n\r\n");
        self.streaming = false;
    }

    /// Closes the connection when the handler is done.
    pub fn close(&mut self) {
        self.close = true;
    }

    /// Closes by a reset.
    pub fn reset(&mut self) {
        let _ = rustix::net::sockopt::set_socket_linger(self.tcp, Some(Duration::ZERO));
        self.close = true;
    }

    /// Whether the other side has closed the connection.
    pub fn gone(&mut self) -> bool {
        if self.left {
            return true;
        }
        let _ = self.tcp.set_nonblocking(true);
        let mut byte = [0u8; 1];
        let seen = self.tcp.peek(&mut byte);
        let _ = self.tcp.set_nonblocking(false);
        self.left = match seen {
            Ok(0) => true,
            Ok(_) => false,
            Err(e) => e.kind() != ErrorKind::WouldBlock,
        };
        self.left
    }

    /// Waits until the other side has closed, or the limit.
    pub fn wait_gone(&mut self, limit: Duration) -> bool {
        let end = std::time::Instant::now() + limit;
        while std::time::Instant::now() < end {
            if self.gone() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// Keeps this stream open for [`super::Scripted::push`] until the other side leaves.
    pub fn park(&mut self) {
        self.shared.streams.lock().extend(self.tcp.try_clone());
        self.wait_gone(Duration::from_secs(90));
        self.close = true;
    }
}
