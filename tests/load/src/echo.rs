//! The echo MCP server: a modern path, a legacy path, 200 paths with 25 tools each and one with all 5,000.

use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;

use crate::{Error, announce, mcp, tools};

static SESSIONS: AtomicU64 = AtomicU64::new(0);

/// Serves until killed.
pub(crate) fn serve(threads: usize) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        announce(listener.local_addr()?)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    })
}

/// A sized JSON body, one event without a length, or a stream on which nothing ever comes.
enum Reply {
    Full(Option<Bytes>),
    Event(Option<Bytes>),
    Idle,
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Reply::Full(bytes) | Reply::Event(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Reply::Idle => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Reply::Full(None) | Reply::Event(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            _ => SizeHint::default(),
        }
    }
}

/// The parts of a JSON-RPC message that the server looks at.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
}

async fn answer(request: Request<Incoming>) -> Response<Reply> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    if !tools::knows(path) {
        return plain(StatusCode::NOT_FOUND);
    }
    let legacy = path == "/legacy/mcp";
    match parts.method {
        Method::POST => {}
        Method::GET if legacy && known_session(&parts.headers) => return stream(Reply::Idle),
        Method::DELETE if legacy && known_session(&parts.headers) => return plain(StatusCode::OK),
        _ => return plain(StatusCode::METHOD_NOT_ALLOWED),
    }
    let Ok(body) = body.collect().await.map(|body| body.to_bytes()) else {
        return plain(StatusCode::BAD_REQUEST);
    };
    match serde_json::from_slice::<Message<'_>>(&body) {
        Ok(message) if legacy => legacy_answer(&parts.headers, &message),
        Ok(message) => modern_answer(&parts, &message),
        Err(_) => error(StatusCode::BAD_REQUEST, "null", -32700, "no JSON-RPC message"),
    }
}

fn modern_answer(parts: &Parts, message: &Message<'_>) -> Response<Reply> {
    let headers = &parts.headers;
    let Some(id) = message.id.map(RawValue::get) else { return plain(StatusCode::ACCEPTED) };
    let params = message.params.as_ref();
    let version = params.and_then(|params| params.meta.as_ref()).and_then(|meta| meta.version.as_deref());
    if version != Some(mcp::MODERN) {
        let text = "this server speaks 2026-07-28 only";
        return error(StatusCode::BAD_REQUEST, id, -32022, text);
    }
    let name = params.and_then(|params| params.name.as_deref());
    let agree = says(headers, "mcp-protocol-version", version)
        && says(headers, "mcp-method", Some(&message.method))
        && (message.method != "tools/call" || says(headers, "mcp-name", name));
    if !agree {
        return error(StatusCode::BAD_REQUEST, id, -32020, "a header is missing or differs from the body");
    }
    match &*message.method {
        "server/discover" => json(id, &[mcp::DISCOVERED.as_bytes()]),
        "tools/list" => json(id, &[MODERN_LIST.as_bytes(), &tools::list_of(parts.uri.path()), b"]}"]),
        "tools/call" => called(id, name, MODERN_CALL),
        _ => error(StatusCode::NOT_FOUND, id, -32601, "no such method"),
    }
}

fn legacy_answer(headers: &HeaderMap, message: &Message<'_>) -> Response<Reply> {
    let Some(id) = message.id.map(RawValue::get) else { return plain(StatusCode::ACCEPTED) };
    if message.method == "initialize" {
        let number = SESSIONS.fetch_add(1, Ordering::Relaxed);
        let mut response = json(id, &[mcp::INITIALIZED.as_bytes()]);
        if let Ok(value) = format!("echo-{number}").parse() {
            response.headers_mut().insert("mcp-session-id", value);
        }
        return response;
    }
    if !headers.contains_key("mcp-session-id") {
        return error(StatusCode::BAD_REQUEST, id, -32600, "no session");
    }
    if !known_session(headers) {
        return error(StatusCode::NOT_FOUND, id, -32600, "unknown session");
    }
    match &*message.method {
        "ping" => json(id, &[b"{}"]),
        "tools/list" => json(id, &[b"{\"tools\":[", &tools::list_of("/legacy/mcp"), b"]}"]),
        "tools/call" => called(id, message.params.as_ref().and_then(|p| p.name.as_deref()), LEGACY_CALL),
        _ => error(StatusCode::OK, id, -32601, "no such method"),
    }
}

const MODERN_LIST: &str =
    "{\"resultType\":\"complete\",\"ttlMs\":3600000,\"cacheScope\":\"public\",\"tools\":[";
const MODERN_CALL: &str = "{\"resultType\":\"complete\",\"content\":[{\"type\":\"text\",\"text\":\"";
const LEGACY_CALL: &str = "{\"content\":[{\"type\":\"text\",\"text\":\"";

fn called(id: &str, name: Option<&str>, open: &str) -> Response<Reply> {
    match name.and_then(tools::answer_of) {
        Some((false, text)) => json(id, &[open.as_bytes(), text.as_bytes(), b"\"}]}"]),
        Some((true, text)) => {
            let parts = [open.as_bytes(), text.as_bytes(), b"\"}]}"];
            let event = [b"event: message\ndata: ".as_slice(), &envelope(id, &parts), b"\n\n"].concat();
            stream(Reply::Event(Some(event.into())))
        }
        None => error(StatusCode::OK, id, -32602, "unknown tool"),
    }
}

fn says(headers: &HeaderMap, name: &str, value: Option<&str>) -> bool {
    headers.get(name).and_then(|header| header.to_str().ok()) == value
}

/// Whether the session id is one that this process has given out.
fn known_session(headers: &HeaderMap) -> bool {
    let id = headers.get("mcp-session-id").and_then(|value| value.to_str().ok());
    let number = id.and_then(|id| id.strip_prefix("echo-")).and_then(|number| number.parse::<u64>().ok());
    number.is_some_and(|number| number < SESSIONS.load(Ordering::Relaxed))
}

fn envelope(id: &str, result: &[&[u8]]) -> Vec<u8> {
    let length: usize = result.iter().map(|part| part.len()).sum();
    let mut body = Vec::with_capacity(length + id.len() + 40);
    body.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    body.extend_from_slice(id.as_bytes());
    body.extend_from_slice(b",\"result\":");
    result.iter().for_each(|part| body.extend_from_slice(part));
    body.push(b'}');
    body
}

fn json(id: &str, result: &[&[u8]]) -> Response<Reply> {
    typed(StatusCode::OK, "application/json", Reply::Full(Some(envelope(id, result).into())))
}

fn error(status: StatusCode, id: &str, code: i32, message: &str) -> Response<Reply> {
    let data =
        if code == -32022 { ",\"data\":{\"supported\":[\"2026-07-28\"],\"requested\":\"\"}" } else { "" };
    let error = format!("{{\"code\":{code},\"message\":\"{message}\"{data}}}");
    let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}");
    typed(status, "application/json", Reply::Full(Some(body.into())))
}

fn stream(reply: Reply) -> Response<Reply> {
    typed(StatusCode::OK, "text/event-stream", reply)
}

fn plain(status: StatusCode) -> Response<Reply> {
    let mut response = Response::new(Reply::Full(None));
    *response.status_mut() = status;
    response
}

fn typed(status: StatusCode, content_type: &'static str, reply: Reply) -> Response<Reply> {
    let mut response = plain(status);
    *response.body_mut() = reply;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
