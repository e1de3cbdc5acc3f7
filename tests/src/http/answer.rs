//! A whole HTTP answer and the JSON-RPC messages in it.

use serde_json::Value;

use super::Headers;
use crate::{json, sse};

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Headers,
    /// The body, de-chunked.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header's first value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the body is an event stream.
    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|t| t.starts_with("text/event-stream"))
    }

    /// The raw text of each JSON-RPC message, in order.
    pub fn raw_messages(&self) -> Vec<String> {
        if self.is_stream() {
            return sse::events(&self.body)
                .into_iter()
                .filter_map(|e| e.data)
                .filter(|d| !d.is_empty())
                .collect();
        }
        if self.body.is_empty() { Vec::new() } else { vec![self.text()] }
    }

    /// The messages, parsed.
    pub fn messages(&self) -> Vec<Value> {
        self.raw_messages().iter().map(|m| json::parse(m)).collect()
    }

    /// The raw text of the response (the last message).
    pub fn raw_response(&self) -> String {
        self.raw_messages().pop().unwrap_or_else(|| panic!("no message in {self:?}"))
    }

    /// The response, parsed.
    pub fn response(&self) -> Value {
        json::parse(&self.raw_response())
    }

    /// The response's `result`; panics on an error answer.
    pub fn result(&self) -> Value {
        let response = self.response();
        response.get("result").cloned().unwrap_or_else(|| panic!("no result: {} {response}", self.status))
    }

    /// The text of `result` as it came.
    pub fn raw_result(&self) -> String {
        let response = self.raw_response();
        json::raw(&response, &["result"]).unwrap_or_else(|| panic!("no result: {} {response}", self.status))
    }

    /// The response's `error`; panics on a result.
    pub fn error(&self) -> Value {
        let response = self.response();
        response.get("error").cloned().unwrap_or_else(|| panic!("no error: {} {response}", self.status))
    }

    /// The JSON-RPC error code, if the body is an error response.
    pub fn code(&self) -> Option<i64> {
        let last = self.raw_messages().pop()?;
        json::at(&last, &["error", "code"])?.as_i64()
    }

    /// The notifications before the response.
    pub fn notifications(&self) -> Vec<Value> {
        self.messages().into_iter().filter(|m| m.get("method").is_some()).collect()
    }
}
