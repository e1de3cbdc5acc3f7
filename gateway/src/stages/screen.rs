//! Stage 9: what a server says becomes what the client may see: checked against the contract, carried into the
//! client's era, names and URIs mapped back, the client's own progress token put back. Everything else passes
//! byte for byte.

pub mod filter;
mod outline;

use std::collections::VecDeque;

use bytes::Bytes;
use http::StatusCode;
use mcp::bridge::{self, Cache, ResultType};
use mcp::dress::Meta;
use mcp::entry::EntryKind;
use mcp::era::Era;
use mcp::json::{ArrayWriter, ObjectWriter, Raw};
use mcp::message::{self, Id, RpcError};
use mcp::meta::LogLevel;
use mcp::uri::{self, ResultKind};
use mcp::{code, method};
use memchr::memmem;

use crate::lanes::off_worker;
use crate::ports::journal::Ending;
use crate::ports::upstream::Answer;
use crate::reject::{Reject, Why};
use crate::stages::authorize::Permitted;
use crate::stages::confirm::{self, Rounds};
use crate::stages::screen::filter::{Filter, Note};
use crate::stages::screen::outline::Outline;

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
    /// How this round of the call is held together with the next.
    pub rounds: Option<Rounds>,
    /// What the task takes out.
    pub filter: Option<Filter>,
    /// Notifications that may leave.
    ready: VecDeque<Bytes>,
    /// What the client declared that it can do.
    capabilities: Raw,
    partial: Vec<Raw>,
    partial_bytes: usize,
}

/// What the client may see of the end of a call, before anything of the gateway's own is put in.
pub struct Final {
    /// The result, or the server's error.
    pub outcome: Result<Screened, RpcError>,
    /// The HTTP status, when nothing was sent before.
    pub status: StatusCode,
    /// For the record.
    pub ending: Ending,
}

/// A result on one line.
pub struct Screened {
    /// The result.
    pub result: Raw,
    /// Where its `_meta` ends.
    pub meta: Meta,
}

impl Final {
    /// The result; none for errors.
    pub fn result(&self) -> Option<&Raw> {
        self.outcome.as_ref().ok().map(|screened| &screened.result)
    }
}

impl Screen {
    /// A client's side of a call.
    pub fn new(era: Era, id: Id, capabilities: Raw) -> Screen {
        Screen {
            era,
            id,
            token: None,
            level: None,
            rounds: None,
            filter: None,
            ready: VecDeque::new(),
            capabilities,
            partial: Vec::new(),
            partial_bytes: 0,
        }
    }

    /// `notifications/progress`; dropped when the client gave no token.
    pub fn progress(&mut self, params: &Raw) {
        if self.token.is_some() {
            self.note(method::PROGRESS, params, "message");
        }
    }

    /// `notifications/message`, when the client asked for its level.
    pub fn log(&mut self, params: &Raw) {
        let level = params.get("level").and_then(|level| LogLevel::parse(&level.string()?));
        if level.is_some() && self.level.is_some() && level >= self.level {
            self.note(method::LOG, params, "data");
        }
    }

    fn note(&mut self, method: &'static str, params: &Raw, member: &'static str) {
        match &mut self.filter {
            None => self.release((method, params.clone())),
            Some(filter) => {
                if let Some(note) = filter.note(method, params, member) {
                    self.release(note);
                }
            }
        }
    }

    fn release(&mut self, (method, params): Note) {
        let params = bridge::without_claims(&params);
        let text = params.get(if method == method::LOG { "data" } else { "message" });
        if let Some(text) = text.map(|text| text.string().unwrap_or_else(|| text.as_str().to_owned())) {
            self.keep(&text);
        }
        let message = match method {
            method::LOG => Some(message::notification(method, Some(&params.single_line()))),
            _ => self.with_token(&params),
        };
        self.ready.extend(message);
    }

    /// The next notification that may leave. At the end of the call (`last`) nothing is held back.
    pub fn next(&mut self, last: bool) -> Option<Bytes> {
        if last && let Some(note) = self.filter.as_mut().and_then(Filter::last) {
            self.release(note);
        }
        self.ready.pop_front()
    }

    /// With the client's own token.
    fn with_token(&self, params: &Raw) -> Option<Bytes> {
        let token = self.token.clone()?;
        let mut out = ObjectWriter::with_capacity(params.len() + 64);
        out.raw("progressToken", &token);
        for (key, value) in params.members().filter(|(key, _)| !key.is("progressToken")) {
            out.raw_key(&key, &value);
        }
        Some(message::notification(method::PROGRESS, Some(&out.finish().single_line())))
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
    pub fn answer(&mut self, permitted: &Permitted, answer: Answer) -> Result<Final, Reject> {
        let target = permitted.target();
        let server = target.member.spec.id.as_str();
        let result = match answer.outcome {
            Ok(result) => result,
            Err(error) if answer.era == Era::Modern && error.code == code::HEADER_MISMATCH => {
                // The headers were the gateway's own: nothing that the client could mend.
                return Err(Reject::broken(server, format!("header mismatch: {}", error.message)));
            }
            Err(error) => {
                let error = match &mut self.filter {
                    Some(filter) => filter.error(error),
                    None => error,
                };
                let mut error = bridge::error_to_client(self.era, answer.era, target.method, error);
                if target.merged {
                    error.data = error.data.map(|data| uri::expose_in_result(server, &data, ResultKind::Uri));
                }
                let status = self.status(error.code);
                return Ok(Final { outcome: Err(error), status, ending: Ending::Failed });
            }
        };
        let given = result;
        let outline = Outline::of(&given, answer.era);
        self.check(server, target.method, &outline)?;
        check_output(permitted, &outline)?;
        let ending = if outline.failed { Ending::ToolError } else { Ending::Ok };
        let result = if outline.hollow { given.without("_meta") } else { given.clone() };
        let result = self.filtered(permitted, result, (answer.era, &outline))?;
        let result = self.carried(permitted, result, &outline)?;
        let result = if target.merged { expose(server, target.kind, target.method, &result) } else { result };
        let result = if self.passes(answer.era, target.method, &outline) {
            result
        } else {
            // What a server says of freshness is passed on; what it does not say can't be relied on.
            let ttl_ms = if outline.timed { u64::MAX } else { 0 };
            bridge::to_client(self.era, answer.era, target.method, &result, Cache { ttl_ms })
        };
        let result = result.single_line();
        let meta = outline.meta_of(&given, &result);
        Ok(Final { outcome: Ok(Screened { result, meta }), status: StatusCode::OK, ending })
    }

    /// The result as the task lets it through, still as the tool promises it. A state that `carried` seals is no text that
    /// anybody sees; any other is looked at like the rest.
    fn filtered(
        &mut self,
        permitted: &Permitted,
        result: Raw,
        (era, outline): (Era, &Outline),
    ) -> Result<Raw, Reject> {
        let sealed = self.rounds.is_some() && outline.result_type() == ResultType::InputRequired;
        let Some(filter) = &mut self.filter else { return Ok(result) };
        let promised = permitted.found().and_then(|found| found.entry()?.output()).is_some();
        let state = outline.state.as_ref().filter(|state| sealed && state.is_string());
        let clean = filter::without_state(&result, state, |rest| filter.result(rest, promised))?;
        if clean.bytes() != result.bytes() {
            check_output(permitted, &Outline::of(&clean, era)).map_err(|reject| {
                let text =
                    "Without its secrets the result is not what the tool promises, so it is not passed on.";
                Reject { why: Why::Unscreened, public: text.into(), ..reject }
            })?;
        }
        Ok(clean)
    }

    /// A further round of the call: the server's state goes inside one of ours.
    fn carried(&self, permitted: &Permitted, result: Raw, outline: &Outline) -> Result<Raw, Reject> {
        let Some(rounds) = &self.rounds else { return Ok(result) };
        if outline.result_type() != ResultType::InputRequired {
            return Ok(result);
        }
        rounds.sealed(permitted.target(), &result, outline.requests.as_ref(), outline.state.as_ref())
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

    /// Whether a result is already what a client of this era may see.
    fn passes(&self, server: Era, method: &str, outline: &Outline) -> bool {
        let typed = match self.era {
            Era::Modern => outline.kind.is_some() && !method::cacheable(method),
            Era::Legacy => outline.structured.as_ref().is_none_or(Raw::is_object),
        };
        self.era == server && typed && !outline.own
    }

    fn check(&self, server: &str, method: &str, outline: &Outline) -> Result<(), Reject> {
        match outline.result_type() {
            ResultType::Complete => Ok(()),
            ResultType::Unknown => Err(Reject::broken(server, "unknown resultType")),
            ResultType::InputRequired => {
                let requests = outline.requests.as_ref().filter(|r| r.is_object());
                let asks = requests.is_some();
                let state = outline.state.as_ref().is_some_and(Raw::is_string);
                let may = matches!(method, method::TOOLS_CALL | method::PROMPTS_GET | method::RESOURCES_READ);
                if !may || !(asks || state) {
                    return Err(Reject::broken(server, "input_required where it can't be"));
                }
                if requests
                    .iter()
                    .flat_map(|all| all.view())
                    .any(|one| one.name().starts_with("dev.tollgate/"))
                {
                    return Err(Reject::broken(server, "a question under a name of the gateway's own"));
                }
                // A client is only asked for what it declared (mrtr.mdx, server requirement 7).
                if !requests
                    .iter()
                    .flat_map(|requests| requests.members())
                    .all(|(_, request)| confirm::declared(&self.capabilities, &request))
                {
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
    pub fn cancelled(&self) -> Raw {
        let content = self.partial();
        let mut result = ObjectWriter::new();
        result.boolean("partial", content.is_some());
        result.raw("content", &content.unwrap_or_else(|| ArrayWriter::new().finish()));
        result.boolean("cancelled", true);
        result.finish()
    }

    /// What the client has been given so far, as content blocks; none when that is nothing.
    pub fn partial(&self) -> Option<Raw> {
        let mut content = ArrayWriter::with_capacity(self.partial_bytes);
        for part in &self.partial {
            content.push(part);
        }
        (!self.partial.is_empty()).then(|| content.finish())
    }
}

/// A tool that declares an output schema must send what it declares, but for errors (`isError`).
fn check_output(permitted: &Permitted, outline: &Outline) -> Result<(), Reject> {
    let entry = permitted.found().and_then(|found| found.entry());
    let interim = outline.result_type() != ResultType::Complete;
    if outline.failed || interim || permitted.target().method != method::TOOLS_CALL {
        return Ok(());
    }
    let Some(entry) = entry else { return Ok(()) };
    let bytes = outline.structured.as_ref().map_or(0, Raw::len);
    let fault = off_worker(entry.is_heavy_output(bytes), || {
        let schema = entry.output()?;
        match &outline.structured {
            None => Some("structuredContent is missing though the tool declares an outputSchema".to_owned()),
            Some(content) => {
                let refusal = schema.check(content.as_str()).err()?;
                Some(format!("structuredContent against the outputSchema: {refusal}"))
            }
        }
    });
    let server = permitted.target().member.spec.id.as_str();
    fault.map_or(Ok(()), |detail| Err(Reject::broken(server, detail)))
}

fn expose(server: &str, kind: EntryKind, method: &str, result: &Raw) -> Raw {
    let what = match (method, kind) {
        (method::TOOLS_CALL, _) => ResultKind::ToolCall,
        (method::PROMPTS_GET, _) => ResultKind::Prompt,
        (method::RESOURCES_READ, _) => ResultKind::Read,
        _ => return result.clone(),
    };
    // Content that could name a URI has one of these words in it.
    if memmem::find(result.bytes(), b"resource").is_none() && method != method::RESOURCES_READ {
        return result.clone();
    }
    uri::expose_in_result(server, result, what)
}
