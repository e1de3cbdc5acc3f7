//! The one table from a rejection to what goes over the wire. Each row says the HTTP status, the JSON-RPC code,
//! the label for metrics and logs, whose fault it is and whether a retry may help. The public text and the
//! internal detail are separate fields: the detail never leaves the process.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use mcp::code;
use mcp::era::Era;
use mcp::json::{ArrayWriter, ObjectWriter, Raw};
use mcp::message::{Id, RpcError};

use crate::ports::upstream::{Fault, FaultKind};

/// The key in `_meta` of a refused call's result.
pub const REFUSAL: &str = "dev.tollgate/refusal";

/// Whose doing a rejection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The client sent what it must not.
    Client,
    /// The server behind failed.
    Server,
    /// The gateway can't.
    Gateway,
}

/// All reasons for which the gateway refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// No endpoint at this path.
    NotFound,
    /// The endpoint has no such HTTP method.
    MethodNotAllowed,
    /// `Origin` is not on the list.
    Origin,
    /// `Host` is not on the list.
    Host,
    /// `Accept` leaves out a type that the answer may have.
    Accept,
    /// The body is no `application/json` in UTF-8.
    ContentType,
    /// The header block is too large.
    Headers,
    /// The body is too large.
    BodySize,
    /// The body did not arrive in time.
    BodyTime,
    /// The body is no JSON.
    Parse,
    /// The message is no valid JSON-RPC message.
    Invalid,
    /// The message's parameters are not what the specification asks for.
    Params,
    /// A mirrored header differs from the body.
    Mirror,
    /// A protocol version that is not served.
    Version,
    /// A method that is not served.
    Method,
    /// No credential where one is needed.
    NoCredential,
    /// A credential that proves nobody here.
    Credential,
    /// The credential has ended while the answer was still being sent.
    Ended,
    /// Credentials can't be checked now.
    KeysAway,
    /// A task that the caller is not admitted to.
    Task,
    /// A run id that is none.
    Run,
    /// The call needs scopes that the caller does not hold.
    Scope,
    /// Too many calls in too short a time.
    Rate,
    /// A condition of the task does not hold.
    Rule,
    /// The arguments break the tool's input schema.
    Arguments,
    /// A budget is spent.
    Budget,
    /// Too many calls of this caller at once.
    Concurrency,
    /// Limits can't be checked now.
    LimitsAway,
    /// A person said no, or nothing.
    Declined,
    /// An answer to a question that is void: too old, used before, or not for this call.
    Confirm,
    /// The call must be confirmed and this client can't ask.
    Unasked,
    /// The client did not declare a capability that is needed.
    Capability,
    /// The result is larger than the task allows.
    ResultSize,
    /// Secrets can't be taken out so that something valid is left.
    Unscreened,
    /// A legacy request without a session.
    NoSession,
    /// A session that is unknown, expired or closed.
    SessionGone,
    /// A tool or prompt that does not exist for this caller, or a resource for a client of the modern era.
    Unknown,
    /// A resource that does not exist for this caller of the legacy era.
    NoResource,
    /// A tool that the task allows and the server does not have.
    Missing,
    /// The server could not be reached.
    Unreachable,
    /// The server did not answer in time.
    Timeout,
    /// The server's answer broke off.
    Dropped,
    /// The server broke the protocol.
    Protocol,
    /// The server's answer is too large.
    AnswerSize,
    /// The server refused the gateway's credential.
    UpstreamAuth,
    /// The journal takes no record.
    Journal,
    /// The call was made, and the journal does not take its outcome.
    Withheld,
    /// The gateway is going down.
    Draining,
    /// The gateway has too much to do.
    Busy,
    /// A fault of the gateway itself.
    Internal,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// HTTP status.
    pub status: StatusCode,
    /// JSON-RPC code.
    pub code: i64,
    /// Label in metrics and logs.
    pub label: &'static str,
    /// Whose fault it is.
    pub side: Side,
    /// Whether the same request may succeed later.
    pub retryable: bool,
}

impl Why {
    /// The row of this reason.
    pub fn row(self) -> Row {
        use Side::{Client, Gateway, Server};
        let (status, code, label, side, retryable) = match self {
            Why::NotFound => (404, code::INVALID_REQUEST, "not_found", Client, false),
            Why::MethodNotAllowed => (405, code::INVALID_REQUEST, "http_method", Client, false),
            Why::Origin => (403, code::INVALID_REQUEST, "origin", Client, false),
            Why::Host => (403, code::INVALID_REQUEST, "host", Client, false),
            Why::Accept => (406, code::INVALID_REQUEST, "accept", Client, false),
            Why::ContentType => (415, code::INVALID_REQUEST, "content_type", Client, false),
            Why::Headers => (431, code::INVALID_REQUEST, "header_size", Client, false),
            Why::BodySize => (413, code::INVALID_REQUEST, "body_size", Client, false),
            Why::BodyTime => (408, code::INVALID_REQUEST, "body_time", Client, true),
            Why::Parse => (400, code::PARSE, "parse", Client, false),
            Why::Invalid => (400, code::INVALID_REQUEST, "invalid", Client, false),
            Why::Params => (400, code::INVALID_PARAMS, "params", Client, false),
            Why::Mirror => (400, code::HEADER_MISMATCH, "header_mismatch", Client, false),
            Why::Version => (400, code::UNSUPPORTED_VERSION, "version", Client, false),
            Why::Method => (404, code::METHOD_NOT_FOUND, "method", Client, false),
            Why::NoCredential => (401, code::INVALID_REQUEST, "no_credential", Client, false),
            Why::Credential => (401, code::INVALID_REQUEST, "credential", Client, false),
            Why::Ended => (200, code::INVALID_REQUEST, "credential_ended", Client, false),
            Why::KeysAway => (503, code::INTERNAL, "keys_unavailable", Gateway, true),
            Why::Task => (403, code::INVALID_REQUEST, "task", Client, false),
            Why::Run => (400, code::INVALID_REQUEST, "run", Client, false),
            Why::Scope => (403, code::INVALID_REQUEST, "insufficient_scope", Client, false),
            Why::Rate => (429, code::RATE, "rate_limited", Client, true),
            Why::Rule => (200, code::INVALID_REQUEST, "rule", Client, false),
            Why::Arguments => (200, code::INVALID_PARAMS, "arguments", Client, false),
            Why::Budget => (200, code::RATE, "budget", Client, false),
            Why::Concurrency => (200, code::RATE, "concurrency", Client, true),
            Why::LimitsAway => (503, code::INTERNAL, "limits_unavailable", Gateway, true),
            Why::Declined => (200, code::INVALID_REQUEST, "confirm_declined", Client, false),
            Why::Confirm => (200, code::INVALID_REQUEST, "confirm_void", Client, false),
            Why::Unasked => (200, code::INVALID_REQUEST, "confirm_unavailable", Client, false),
            Why::Capability => (400, code::MISSING_CAPABILITY, "missing_capability", Client, false),
            Why::ResultSize => (200, code::SCHEMA, "result_too_large", Server, false),
            Why::Unscreened => (200, code::SCHEMA, "unscreened", Server, false),
            Why::NoSession => (400, code::INVALID_REQUEST, "no_session", Client, false),
            Why::SessionGone => (404, code::INVALID_REQUEST, "session_gone", Client, false),
            Why::Unknown => (200, code::INVALID_PARAMS, "unknown", Client, false),
            Why::NoResource => (200, code::RESOURCE_NOT_FOUND, "unknown", Client, false),
            Why::Missing => (200, code::INVALID_PARAMS, "capability_missing", Server, false),
            Why::Unreachable => (200, code::UNREACHABLE, "upstream_unreachable", Server, true),
            Why::Timeout => (200, code::TIMEOUT, "upstream_timeout", Server, true),
            Why::Dropped => (200, code::DROPPED, "stream_dropped", Server, true),
            Why::Protocol => (200, code::SCHEMA, "schema_violation", Server, false),
            Why::AnswerSize => (200, code::SCHEMA, "answer_too_large", Server, false),
            Why::UpstreamAuth => (200, code::AUTH, "upstream_auth", Server, false),
            Why::Journal => (503, code::JOURNAL, "journal_unavailable", Gateway, true),
            Why::Withheld => (503, code::JOURNAL, "answer_withheld", Gateway, false),
            Why::Draining => (503, code::INTERNAL, "draining", Gateway, true),
            Why::Busy => (503, code::INTERNAL, "busy", Gateway, true),
            Why::Internal => (500, code::INTERNAL, "internal", Gateway, false),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Row { status, code, label, side, retryable }
    }

    /// Whether a server could not be reached or answered badly, rather than that the gateway refuses.
    pub fn is_upstream(self) -> bool {
        matches!(
            self,
            Why::Unreachable
                | Why::Timeout
                | Why::Dropped
                | Why::Protocol
                | Why::AnswerSize
                | Why::UpstreamAuth
        )
    }

    /// Whether the answer to a tool call is a result that a model can act on (`isError: true`) instead of an error.
    /// Answers to other methods have no such form: they are the row's error.
    pub fn is_tool_error(self) -> bool {
        matches!(
            self,
            Why::Rule
                | Why::Arguments
                | Why::Budget
                | Why::Concurrency
                | Why::Declined
                | Why::Confirm
                | Why::Unasked
                | Why::ResultSize
                | Why::Unscreened
        )
    }

    /// The HTTP status for a client of this era: legacy clients take a 404 as the end of their session, so an
    /// unknown method is 200 for them.
    pub fn status(self, era: Era) -> StatusCode {
        match (self, era) {
            (Why::Method | Why::Params, Era::Legacy) => StatusCode::OK,
            _ => self.row().status,
        }
    }
}

/// A request refused: why, what the caller is told, and what only the log is told.
#[derive(Clone, Debug)]
pub struct Reject {
    /// The reason.
    pub why: Why,
    /// For the caller: what was wrong and what to do.
    pub public: Cow<'static, str>,
    /// For the log.
    pub detail: Option<String>,
    /// `error.data` where the specification asks for one.
    pub data: Option<Raw>,
    /// The id of the request, when it could be read.
    pub id: Option<Id>,
    /// The server whose failure it is.
    pub server: Option<String>,
    /// All scopes that the call needs, for [`Why::Scope`].
    pub scopes: Vec<String>,
    /// The value of `WWW-Authenticate`.
    pub challenge: Option<String>,
    /// When the same call may be made again, where that is known.
    pub retry_after: Option<Duration>,
}

impl Reject {
    /// A rejection with its public text.
    pub fn new(why: Why, public: impl Into<Cow<'static, str>>) -> Reject {
        Reject {
            why,
            public: public.into(),
            detail: None,
            data: None,
            id: None,
            server: None,
            scopes: Vec::new(),
            challenge: None,
            retry_after: None,
        }
    }

    /// The same with a detail for the log.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Reject {
        self.detail = Some(detail.into());
        self
    }

    /// The same with `error.data`.
    #[must_use]
    pub fn data(mut self, data: Raw) -> Reject {
        self.data = Some(data);
        self
    }

    /// The same with all scopes that the call needs, at once.
    #[must_use]
    pub fn needs(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Reject {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// The same for a known request id.
    #[must_use]
    pub fn id(mut self, id: Option<Id>) -> Reject {
        self.id = id;
        self
    }

    /// The same for a call that may be repeated after this time.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Reject {
        self.retry_after = Some(wait);
        self
    }

    /// A server's failure, told without the server's own words.
    pub fn fault(fault: &Fault, server: &str) -> Reject {
        let (why, text) = match fault.kind {
            FaultKind::Unreachable => (Why::Unreachable, "could not be reached"),
            FaultKind::Timeout => (Why::Timeout, "did not answer in time"),
            FaultKind::Dropped => (Why::Dropped, "broke off before its answer was complete"),
            FaultKind::Protocol => (Why::Protocol, "sent an answer that breaks the protocol"),
            FaultKind::TooLarge => (Why::AnswerSize, "sent an answer larger than the limit"),
            FaultKind::Auth => (Why::UpstreamAuth, "refused the gateway's credential"),
        };
        let public = format!("server '{server}' {text}; its state is on the gateway's status page");
        Reject { server: Some(server.to_owned()), ..Reject::new(why, public).detail(fault.detail.clone()) }
    }

    /// The server broke the protocol; `detail` says how.
    pub fn broken(server: &str, detail: impl Into<String>) -> Reject {
        Reject::fault(&Fault::late(FaultKind::Protocol, detail), server)
    }

    /// The JSON-RPC error. `call_id` goes into `data` unless the specification fixes what is there.
    pub fn error(&self, call_id: &str) -> RpcError {
        let row = self.why.row();
        let data = match &self.data {
            Some(data) if matches!(self.why, Why::Version | Why::Capability) => data.clone(),
            Some(data) => data.with("call_id", &Raw::from_str_value(call_id)),
            None => {
                let mut data = ObjectWriter::new();
                data.string("reason", row.label);
                if let Some(server) = &self.server {
                    data.string("server", server);
                }
                self.retry(&mut data);
                data.string("call_id", call_id);
                data.finish()
            }
        };
        RpcError { code: row.code, message: self.public.to_string(), data: Some(data) }
    }

    /// Whether and when the same call may be made again.
    fn retry(&self, into: &mut ObjectWriter) {
        into.boolean("retryable", self.why.row().retryable || self.retry_after.is_some());
        if let Some(wait) = self.retry_after {
            into.integer("retry_after_ms", i64::try_from(wait.as_millis()).unwrap_or(i64::MAX));
        }
    }

    /// The result of a tool call that was refused: the text for a model, and why for a program in
    /// `_meta["dev.tollgate/refusal"]`, an object with `reason`, `retryable`, `retry_after_ms` where it is known, and
    /// `call_id`.
    pub fn tool_result(&self, era: Era, call_id: &str) -> Raw {
        let mut text = ObjectWriter::new();
        text.string("type", "text").string("text", &self.public);
        let mut content = ArrayWriter::new();
        content.push(&text.finish());
        let mut refusal = ObjectWriter::new();
        refusal.string("reason", self.why.row().label);
        self.retry(&mut refusal);
        refusal.string("call_id", call_id);
        let mut meta = ObjectWriter::new();
        meta.raw(REFUSAL, &refusal.finish());
        let mut result = ObjectWriter::new();
        if era == Era::Modern {
            result.string("resultType", "complete");
        }
        result.raw("content", &content.finish()).boolean("isError", true);
        result.raw("_meta", &meta.finish());
        result.finish()
    }
}
