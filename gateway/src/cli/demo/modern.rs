//! The demo's modern server: revision 2026-07-28 over HTTP, two tools. A server in its own right: it shares no code
//! with the stages that it is called through.

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use mcp::json::{Limits, Raw};
use mcp::message::{self, Message, Request, RpcError};
use mcp::{code, method};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::answers::VERSION;
use crate::wire::{Full, Handler, Head, Reply, Work};

/// Tells the time and adds numbers.
pub(super) struct Clock;

struct Ask;

impl Handler for Clock {
    fn admit(&self, head: Head) -> Result<Box<dyn Work>, Reply> {
        match (head.path.as_str(), head.method.as_str()) {
            ("/mcp", "POST") => Ok(Box::new(Ask)),
            ("/mcp", _) => Err(Full::empty(StatusCode::METHOD_NOT_ALLOWED).into()),
            _ => Err(Full::empty(StatusCode::NOT_FOUND).into()),
        }
    }
}

#[async_trait]
impl Work for Ask {
    fn body_limit(&self) -> usize {
        64 * 1024
    }

    async fn run(self: Box<Self>, body: Bytes, _: CancellationToken) -> Reply {
        let message = Raw::parse(body, &Limits::REQUEST).ok().and_then(|raw| message::decode(&raw).ok());
        let Some(Message::Request(request)) = message else {
            return Full::empty(StatusCode::BAD_REQUEST).into();
        };
        let (status, body) = match answer(&request) {
            Ok(result) => (StatusCode::OK, message::result(&request.id, &raw(&result))),
            Err((status, error)) => (status, message::error(Some(&request.id), &error)),
        };
        Full::new(status, "application/json", body).into()
    }
}

fn answer(request: &Request) -> Result<Value, (StatusCode, RpcError)> {
    let params = request.params.as_ref();
    let named = |path: &[&str]| params.and_then(|p| p.at(path));
    if named(&["_meta", mcp::meta::VERSION]).and_then(|v| v.string()).as_deref() != Some("2026-07-28") {
        let data = raw(&json!({ "supported": ["2026-07-28"], "requested": "" }));
        let error = RpcError::new(code::UNSUPPORTED_VERSION, "Unsupported protocol version").with_data(data);
        return Err((StatusCode::BAD_REQUEST, error));
    }
    match request.method.as_str() {
        method::DISCOVER => Ok(json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} },
            "instructions": "Tells the time and adds numbers.",
            "ttlMs": 3_600_000, "cacheScope": "public",
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "clock", "version": VERSION } },
        })),
        method::TOOLS_LIST => Ok(json!({
            "resultType": "complete", "tools": tools(), "ttlMs": 60_000, "cacheScope": "public",
        })),
        method::TOOLS_CALL => {
            let name = named(&["name"]).and_then(|n| n.string()).unwrap_or_default();
            call(&name, &|argument| named(&["arguments", argument]).and_then(|v| v.as_str().parse().ok()))
        }
        _ => Err((StatusCode::NOT_FOUND, RpcError::new(code::METHOD_NOT_FOUND, "Method not found"))),
    }
}

fn tools() -> Value {
    let number = json!({ "type": "number" });
    json!([
        {
            "name": "add",
            "description": "Adds two numbers.",
            "inputSchema": { "type": "object", "properties": { "a": number, "b": number }, "required": ["a", "b"] },
            "annotations": { "readOnlyHint": true },
        },
        {
            "name": "now",
            "description": "The time in UTC.",
            "inputSchema": { "type": "object", "additionalProperties": false },
            "annotations": { "readOnlyHint": true },
        },
    ])
}

fn call(name: &str, number: &dyn Fn(&str) -> Option<f64>) -> Result<Value, (StatusCode, RpcError)> {
    let (text, wrong) = match (name, number("a"), number("b")) {
        ("add", Some(a), Some(b)) => ((a + b).to_string(), false),
        ("add", _, _) => ("a and b must be numbers".to_owned(), true),
        ("now", _, _) => (jiff::Timestamp::now().to_string(), false),
        _ => return Err((StatusCode::OK, RpcError::new(code::INVALID_PARAMS, "Unknown tool"))),
    };
    Ok(json!({ "resultType": "complete", "content": [{ "type": "text", "text": text }], "isError": wrong }))
}

fn raw(value: &Value) -> Raw {
    Raw::parse(Bytes::from(value.to_string()), &Limits::ANSWER).unwrap_or_else(|_| Raw::empty_object())
}
