//! The MCP messages that the load client sends, as ready-made HTTP/1.1 bytes, and the check of what comes back.

use memchr::memmem::{Finder, find};
use serde_json::Value;

use crate::tools::{echo_name, expected_text};

/// The modern revision and the newest legacy one.
pub(crate) const MODERN: &str = "2026-07-28";
const LEGACY: &str = "2025-11-25";

/// Results of `server/discover` and `initialize`.
pub(crate) const DISCOVERED: &str = "{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\
    \"capabilities\":{\"tools\":{}},\"ttlMs\":3600000,\"cacheScope\":\"public\",\
    \"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"echo\",\"version\":\"1.0.0\"}}}";
pub(crate) const INITIALIZED: &str = "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},\
    \"serverInfo\":{\"name\":\"echo\",\"version\":\"1.0.0\"}}";

const META: &str = "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
    \"io.modelcontextprotocol/clientInfo\":{\"name\":\"tollgate-load\",\"version\":\"1.0.0\"},\
    \"io.modelcontextprotocol/clientCapabilities\":{}}";
const HELLO: &str = "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\
    \"clientInfo\":{\"name\":\"tollgate-load\",\"version\":\"1.0.0\"}";
const ARGUMENTS: &str = "\"arguments\":{\"query\":\"which documents speak of gateways\",\"limit\":10}";

/// All ids have ten digits, so that a request's length doesn't depend on its id.
const FIRST_ID: u64 = 1_000_000_000;

/// The ids of one connection; those of different connections don't meet.
pub(crate) fn first_id(connection: usize) -> u64 {
    FIRST_ID + connection as u64 * 10_000_000
}

/// Which side of the handshake's end a message belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Era {
    Modern,
    Legacy,
}

impl Era {
    pub(crate) fn word(self) -> &'static str {
        if self == Era::Modern { "modern" } else { "legacy" }
    }

    /// The path of the echo server that speaks this era, and only this.
    pub(crate) fn echo_path(self) -> &'static str {
        if self == Era::Modern { "/modern/mcp" } else { "/legacy/mcp" }
    }
}

/// Where requests go and on whose behalf.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) era: Era,
    /// The value of the Host header.
    pub(crate) host: String,
    pub(crate) path: String,
    /// The legacy session.
    pub(crate) session: Option<String>,
    /// The access token.
    pub(crate) bearer: Option<String>,
}

/// A request whose id is put in just before it is sent.
pub(crate) struct Template {
    bytes: Vec<u8>,
    id_at: usize,
}

impl Template {
    pub(crate) fn with_id(&mut self, id: u64) -> &[u8] {
        if let Some(place) = self.bytes.get_mut(self.id_at..self.id_at + 10) {
            place.copy_from_slice(id.to_string().as_bytes());
        }
        &self.bytes
    }
}

impl Endpoint {
    pub(crate) fn call(&self, tool: &str) -> Template {
        self.post("tools/call", &format!("\"name\":\"{tool}\",{ARGUMENTS}"), Some(tool))
    }

    pub(crate) fn list(&self, cursor: Option<&str>) -> Template {
        let params = cursor.map(|cursor| format!("\"cursor\":{}", Value::from(cursor))).unwrap_or_default();
        self.post("tools/list", &params, None)
    }

    pub(crate) fn initialize(&self) -> Template {
        self.post("initialize", HELLO, None)
    }

    pub(crate) fn initialized(&self) -> Vec<u8> {
        let body = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
        self.head("POST", body.len(), "").into_bytes().into_iter().chain(body.bytes()).collect()
    }

    /// Opens the legacy stream from server to client.
    pub(crate) fn get(&self) -> Vec<u8> {
        self.head("GET", 0, "").into_bytes()
    }

    pub(crate) fn delete(&self) -> Vec<u8> {
        self.head("DELETE", 0, "").into_bytes()
    }

    fn post(&self, method: &str, params: &str, name: Option<&str>) -> Template {
        let meta = if self.era == Era::Modern { META } else { "" };
        let comma = if meta.is_empty() || params.is_empty() { "" } else { "," };
        let start = "{\"jsonrpc\":\"2.0\",\"id\":";
        let body =
            format!("{start}{FIRST_ID},\"method\":\"{method}\",\"params\":{{{params}{comma}{meta}}}}}");
        let mut mirrored = String::new();
        if self.era == Era::Modern {
            let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
            mirrored = format!("Mcp-Method: {method}\r\n{name}");
        }
        let head = self.head("POST", body.len(), &mirrored);
        Template { id_at: head.len() + start.len(), bytes: (head + &body).into_bytes() }
    }

    fn head(&self, verb: &str, length: usize, more: &str) -> String {
        let version = if self.era == Era::Modern { MODERN } else { LEGACY };
        let accept = if verb == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
        let body = match verb {
            "POST" => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
            _ => String::new(),
        };
        let bearer =
            self.bearer.as_ref().map(|t| format!("Authorization: Bearer {t}\r\n")).unwrap_or_default();
        let session = self.session.as_ref().map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default();
        format!(
            "{verb} {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: tollgate-load\r\nAccept: {accept}\r\n\
             MCP-Protocol-Version: {version}\r\n{body}{bearer}{session}{more}\r\n",
            self.path, self.host
        )
    }
}

/// The JSON-RPC messages in a body: the body itself, or the `data:` lines of an event stream.
fn messages(body: &[u8], sse: bool) -> impl Iterator<Item = &[u8]> {
    let whole = (!sse).then_some(body);
    let lines = if sse { body } else { b"" };
    whole.into_iter().chain(lines.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"data:")))
}

/// Finds what is wrong with an answer without parsing it; one in `Checker::EVERY` is read in full.
pub(crate) struct Checker {
    size: usize,
    text: Finder<'static>,
    seen: u64,
}

impl Checker {
    const EVERY: u64 = 256;

    pub(crate) fn new(size: usize) -> Self {
        Self { size, text: Finder::new(expected_text(size).get(..64).unwrap_or_default()), seen: 0 }
    }

    /// `None` when the answer is right.
    pub(crate) fn fault(&mut self, id: u64, body: &[u8], sse: bool) -> Option<String> {
        self.seen += 1;
        let key = format!("\"id\":{id}");
        let message = messages(body, sse).find(|message| find(message, key.as_bytes()).is_some());
        let Some(message) = message else { return Some(format!("no answer with {key}: {}", start_of(body))) };
        let bad = message.len() < self.size
            || find(message, b"\"result\":").is_none()
            || find(message, b"\"isError\":true").is_some()
            || self.text.find(message).is_none();
        if bad {
            return Some(format!("not the result asked for: {}", start_of(message)));
        }
        if self.seen % Self::EVERY == 1 { self.full_fault(id, message) } else { None }
    }

    fn full_fault(&self, id: u64, message: &[u8]) -> Option<String> {
        let Ok(value) = serde_json::from_slice::<Value>(message) else {
            return Some(format!("not JSON: {}", start_of(message)));
        };
        let text = value.pointer("/result/content/0/text").and_then(Value::as_str).unwrap_or_default();
        let expected = expected_text(self.size).replace("\\n", "\n");
        let right = value.get("id").and_then(Value::as_u64) == Some(id) && text == expected;
        (!right).then(|| format!("another id or text: {}", start_of(message)))
    }
}

/// The result of the answer with this id.
pub(crate) fn result_of(id: u64, body: &[u8], sse: bool) -> Result<Value, String> {
    let values = messages(body, sse).filter_map(|message| serde_json::from_slice::<Value>(message).ok());
    let mut answers = values.filter(|value| value.get("id").and_then(Value::as_u64) == Some(id));
    let mut answer = answers.next().ok_or_else(|| format!("no answer with id {id}: {}", start_of(body)))?;
    answer.get_mut("result").map(Value::take).ok_or_else(|| format!("an error: {}", start_of(body)))
}

/// The tool's name behind an endpoint that prefixes names with their server, or doesn't.
pub(crate) fn tool_name(sse: bool, size: usize, prefixed: bool) -> String {
    format!("{}{}", if prefixed { "echo__" } else { "" }, echo_name(sse, size))
}

/// The beginning of a body, for messages.
pub(crate) fn start_of(body: &[u8]) -> String {
    String::from_utf8_lossy(body.get(..300).unwrap_or(body)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::KIB;

    fn answer(id: u64, text: &str) -> String {
        format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"{text}\"}}]}}}}"
        )
    }

    #[test]
    fn a_right_answer_has_no_fault_as_json_and_as_a_stream() {
        let right = answer(7, expected_text(KIB));
        assert_eq!(Checker::new(KIB).fault(7, right.as_bytes(), false), None);
        let stream = format!(": hello\n\nevent: message\ndata: {right}\n\n");
        assert_eq!(Checker::new(KIB).fault(7, stream.as_bytes(), true), None);
    }

    #[test]
    fn another_id_an_error_and_a_wrong_text_are_faults() {
        let right = answer(7, expected_text(KIB));
        let error = "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":7001,\"message\":\"no\"}}";
        let other = answer(7, &expected_text(KIB).replace("over a lazy dog", "over a lazy cat"));
        let failed = right.replace("\"result\":{", "\"result\":{\"isError\":true,");
        for (id, body) in [(8, &right), (7, &error.to_owned()), (7, &other), (7, &failed)] {
            assert!(Checker::new(KIB).fault(id, body.as_bytes(), false).is_some(), "{body}");
        }
    }

    #[test]
    fn the_id_is_put_where_the_body_has_it() {
        let endpoint =
            Endpoint { era: Era::Modern, host: "h".into(), path: "/mcp".into(), session: None, bearer: None };
        let mut template = endpoint.call("echo_json_1k");
        let request = String::from_utf8(template.with_id(1_234_567_890).to_vec()).unwrap();
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["id"], 1_234_567_890_u64);
        assert_eq!(body["params"]["name"], "echo_json_1k");
    }
}
