//! Stage 9: what a server says becomes what the client may see: checked against the contract, carried into the
//! client's era, names and URIs mapped back, the client's own progress token put back. Everything else passes
//! byte for byte.

use bytes::Bytes;
use http::StatusCode;
use mcp::bridge::{self, Cache, ResultType};
use mcp::entry::EntryKind;
use mcp::era::Era;
use mcp::json::{ObjectWriter, Raw};
use mcp::message::{self, Id};
use mcp::meta::LogLevel;
use mcp::uri::{self, ResultKind};
use mcp::{code, method};

use crate::ports::journal::Ending;
use crate::ports::upstream::Answer;
use crate::reject::{Reject, Why};
use crate::stages::authorize::Permitted;

/// Partial content that is kept for a cancelled call, in bytes.
const MAX_PARTIAL: usize = 16 * 1024;

/// The client's side of one call.
pub struct Screen {
    /// The client's era.
    pub era: Era,
    /// The request's id.
    pub id: Id,
    /// The client's progress token.
    pub token: Option<Raw>,
    /// The least severe log level that the client asked for; None: it gets no log notifications.
    pub level: Option<LogLevel>,
    /// What the client declared that it can do.
    capabilities: Raw,
    partial: Vec<Raw>,
    partial_bytes: usize,
}

/// The final message and how the call ended.
pub struct Final {
    /// The JSON-RPC message.
    pub message: Bytes,
    /// The HTTP status, when nothing was sent before.
    pub status: StatusCode,
    /// For the record.
    pub ending: Ending,
}

impl Screen {
    /// A client's side of a call.
    pub fn new(era: Era, id: Id, capabilities: Raw) -> Screen {
        Screen { era, id, token: None, level: None, capabilities, partial: Vec::new(), partial_bytes: 0 }
    }

    /// `notifications/progress` with the client's own token; none when it gave no token.
    pub fn progress(&mut self, params: &Raw) -> Option<Bytes> {
        let token = self.token.clone()?;
        if let Some(text) = params.get("message").and_then(|m| m.string()) {
            self.keep(&text);
        }
        let mut out = ObjectWriter::with_capacity(params.len() + 64);
        out.raw("progressToken", &token);
        for (key, value) in params.members().filter(|(key, _)| &**key != "progressToken") {
            out.raw_key(&key, &value);
        }
        Some(message::notification(method::PROGRESS, Some(&out.finish().single_line())))
    }

    /// `notifications/message`, when the client asked for its level.
    pub fn log(&mut self, params: &Raw) -> Option<Bytes> {
        let wanted = self.level?;
        let level = LogLevel::parse(&params.get("level")?.string()?)?;
        if level < wanted {
            return None;
        }
        if let Some(data) = params.get("data") {
            let text = data.string().unwrap_or_else(|| data.as_str().to_owned());
            self.keep(&text);
        }
        Some(message::notification(method::LOG, Some(&params.single_line())))
    }

    fn keep(&mut self, text: &str) {
        if self.partial_bytes + text.len() <= MAX_PARTIAL {
            self.partial_bytes += text.len();
            let mut content = ObjectWriter::new();
            content.string("type", "text").string("text", text);
            self.partial.push(content.finish());
        }
    }

    /// The server's answer for this client.
    ///
    /// # Errors
    /// The answer breaks the contract.
    pub fn answer(&self, permitted: &Permitted, answer: Answer) -> Result<Final, Reject> {
        let target = permitted.target();
        let server = target.member.spec.id.as_str();
        let result = match answer.outcome {
            Ok(result) => result,
            Err(error) if answer.era == Era::Modern && error.code == code::HEADER_MISMATCH => {
                // The headers were the gateway's own: nothing that the client could mend.
                return Err(Reject::broken(server, format!("header mismatch: {}", error.message)));
            }
            Err(error) => {
                let error = bridge::error_to_client(self.era, answer.era, &target.method, error);
                let message = message::error(Some(&self.id), &error);
                return Ok(Final { message, status: self.status(error.code), ending: Ending::Failed });
            }
        };
        self.check(server, &target.method, answer.era, &result)?;
        check_output(permitted, &result)?;
        let ending = match result.get("isError").and_then(|e| e.boolean()) {
            Some(true) => Ending::ToolError,
            _ => Ending::Ok,
        };
        let result =
            if target.merged { expose(server, target.kind, &target.method, &result) } else { result };
        // What the server does not say about freshness can't be relied on.
        let result = bridge::to_client(self.era, answer.era, &target.method, &result, Cache { ttl_ms: 0 });
        let message = message::result(&self.id, &result.single_line());
        Ok(Final { message, status: StatusCode::OK, ending })
    }

    /// The HTTP status that the modern era binds to an error's code; the legacy era answers with 200.
    fn status(&self, code: i64) -> StatusCode {
        match (self.era, code) {
            (Era::Modern, code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
            (Era::Modern, code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION) => {
                StatusCode::BAD_REQUEST
            }
            _ => StatusCode::OK,
        }
    }

    fn check(&self, server: &str, method: &str, era: Era, result: &Raw) -> Result<(), Reject> {
        if era == Era::Legacy {
            return Ok(());
        }
        match bridge::result_type(result) {
            ResultType::Complete => Ok(()),
            ResultType::Unknown => Err(Reject::broken(server, "unknown resultType")),
            ResultType::InputRequired => {
                let requests = result.get("inputRequests").filter(Raw::is_object);
                let asks = requests.is_some();
                let state = result.get("requestState").is_some_and(|s| s.is_string());
                let may = matches!(method, method::TOOLS_CALL | method::PROMPTS_GET | method::RESOURCES_READ);
                if !may || !(asks || state) {
                    return Err(Reject::broken(server, "input_required where it can't be"));
                }
                // A client is only asked for what it declared (mrtr.mdx, server requirement 7).
                let declared = |request: &Raw| match request.get("method").and_then(|m| m.string()).as_deref()
                {
                    Some("elicitation/create") => self.capabilities.get("elicitation").is_some(),
                    Some("sampling/createMessage") => self.capabilities.get("sampling").is_some(),
                    Some("roots/list") => self.capabilities.get("roots").is_some(),
                    _ => false,
                };
                if !requests.iter().flat_map(Raw::members).all(|(_, request)| declared(&request)) {
                    return Err(Reject::broken(server, "input of a kind that the client did not declare"));
                }
                if self.era == Era::Legacy {
                    let text =
                        "the server asks for input, which clients of this revision can't be asked for yet";
                    return Err(Reject::new(Why::Method, text));
                }
                Ok(())
            }
        }
    }

    /// What a legacy client that cancelled and still waits is told.
    pub fn cancelled(&self) -> Bytes {
        let mut content = mcp::json::ArrayWriter::new();
        for part in &self.partial {
            content.push(part);
        }
        let mut result = ObjectWriter::new();
        result.raw("content", &content.finish());
        result.boolean("cancelled", true);
        result.boolean("partial", !self.partial.is_empty());
        message::result(&self.id, &result.finish())
    }
}

/// A tool that declares an output schema must send what it declares, but for errors (`isError`).
fn check_output(permitted: &Permitted, result: &Raw) -> Result<(), Reject> {
    let entry = permitted.found().and_then(|found| found.entry());
    let interim = bridge::result_type(result) != ResultType::Complete;
    let failed = result.get("isError").and_then(|e| e.boolean()) == Some(true);
    if failed || interim || permitted.target().method != method::TOOLS_CALL {
        return Ok(());
    }
    let Some(schema) = entry.and_then(|entry| entry.output()) else { return Ok(()) };
    let server = permitted.target().member.spec.id.as_str();
    let refuse = |detail: String| Err(Reject::broken(server, detail));
    match result.get("structuredContent") {
        None => refuse("structuredContent is missing though the tool declares an outputSchema".to_owned()),
        Some(content) => match schema.check(content.as_str()) {
            Ok(()) => Ok(()),
            Err(refusal) => refuse(format!("structuredContent against the outputSchema: {refusal}")),
        },
    }
}

fn expose(server: &str, kind: EntryKind, method: &str, result: &Raw) -> Raw {
    let what = match (method, kind) {
        (method::TOOLS_CALL, _) => ResultKind::ToolCall,
        (method::PROMPTS_GET, _) => ResultKind::Prompt,
        (method::RESOURCES_READ, _) => ResultKind::Read,
        _ => return result.clone(),
    };
    uri::expose_in_result(server, result, what)
}
