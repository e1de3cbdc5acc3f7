//! What scripted servers send: HTTP answers and event streams, byte by byte as told.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

/// What a scripted server does with a connection.
#[derive(Clone, Debug)]
pub(in crate::adapters::upstream) enum Do {
    Send(Vec<u8>),
    Wait(Duration),
    /// Sends nothing more and waits for the client to leave.
    Hang,
    /// Sends what comes here until the client leaves.
    Pipe(Arc<tokio::sync::Mutex<UnboundedReceiver<Vec<u8>>>>),
    Close,
}

/// A whole HTTP answer.
pub(super) fn http(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<Do> {
    let mut head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut bytes = format!("{head}\r\n").into_bytes();
    bytes.extend_from_slice(body);
    vec![Do::Send(bytes)]
}

pub(super) fn reply(status: u16, body: &Value) -> Vec<Do> {
    http(status, &[("content-type", "application/json")], body.to_string().as_bytes())
}

pub(super) fn accepted() -> Vec<Do> {
    http(202, &[], b"")
}

/// The head of an event stream of unknown length.
pub(super) fn sse_head() -> Do {
    Do::Send(
        b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
    )
}

pub(super) fn chunk(text: &str) -> Do {
    Do::Send(format!("{:x}\r\n{text}\r\n", text.len()).into_bytes())
}

pub(super) fn event(message: &Value) -> Do {
    chunk(&format!("event: message\ndata: {message}\n\n"))
}

pub(super) fn last_chunk() -> Do {
    Do::Send(b"0\r\n\r\n".to_vec())
}

/// An event stream with these messages.
pub(super) fn sse(messages: &[Value]) -> Vec<Do> {
    let mut steps = vec![sse_head()];
    steps.extend(messages.iter().map(event));
    steps.push(last_chunk());
    steps
}
