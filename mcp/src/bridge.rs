//! Results, errors and params between the eras: adds what one demands, takes away what the other does not know. Keeps
//! every other byte, and carries neither gateway facts that a server made up nor protocol fields of another hop.

use bytes::Bytes;

use crate::era::Era;
use crate::json::{Edit, Key, Member, ObjectWriter, Raw};
use crate::message::{self, Id, RpcError};
use crate::{code, meta, method};

#[cfg(test)]
mod tests;

/// How long a result may be kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cache {
    /// Milliseconds; a shorter time given by the server stands.
    pub ttl_ms: u64,
}

/// What `resultType` says of a server's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultType {
    /// `complete`, or absent.
    Complete,
    /// `input_required`.
    InputRequired,
    /// Anything else: an extension's, or broken.
    Unknown,
}

/// The type of a server's result. Servers of earlier revisions leave it out.
pub fn result_type(result: &Raw) -> ResultType {
    match result.get("resultType") {
        None => ResultType::Complete,
        Some(kind) if kind.is_text("complete") => ResultType::Complete,
        Some(kind) if kind.is_text("input_required") => ResultType::InputRequired,
        Some(_) => ResultType::Unknown,
    }
}

/// Whether a member of a server's `_meta`, result or error data claims to be the gateway's.
fn is_own(member: &Member<'_>) -> bool {
    member.is("_meter") || member.name().starts_with(meta::OWN_PREFIX)
}

fn without_own(object: &Raw) -> Raw {
    object.edit(&[], |member| if is_own(member) { Edit::Drop } else { Edit::Keep })
}

/// A server's result as a client of this era gets it. Modern: `resultType` is there (`complete` unless the server says
/// otherwise), and complete results of `server/discover`, lists and `resources/read` carry `ttlMs` (the smaller of the
/// server's and `cache`'s) and `cacheScope: "private"`; a legacy server's words that only mean something on the modern era go,
/// since they must not begin to mean it on the way. Legacy: a modern server's protocol fields go, and structured content
/// that is no object becomes text. Always: `_meter` and `dev.tollgate/*` that a server sends go.
pub fn to_client(client: Era, server: Era, method: &str, result: &Raw, cache: Cache) -> Raw {
    match client {
        Era::Modern => to_modern(server, method, result, cache),
        Era::Legacy => to_legacy(server, method, result),
    }
}

/// Error data or params without what claims to be the gateway's, beside its members and in its `_meta`.
pub fn without_claims(object: &Raw) -> Raw {
    object.edit(&[], common)
}

/// What happens to a member whatever the era.
fn common(member: &Member<'_>) -> Edit {
    if is_own(member) {
        return Edit::Drop;
    }
    if member.is("_meta") {
        let old = member.value();
        let new = without_own(&old);
        if new.len() != old.len() {
            let some = new.view().next().is_some();
            return if some { Edit::Replace(new) } else { Edit::Drop };
        }
    }
    Edit::Keep
}

fn to_modern(server: Era, method: &str, result: &Raw, cache: Cache) -> Raw {
    let legacy = server == Era::Legacy;
    let complete = legacy || result_type(result) == ResultType::Complete;
    let cached = method::cacheable(method) && complete;
    let hinted = method::cacheable(method);
    let limit = i64::try_from(cache.ttl_ms).unwrap_or(i64::MAX);
    let (mut typed, mut timed, mut scoped) = (false, false, false);
    let private = || Raw::from_str_value("private");
    let body = result.edit(&[], |member| match member.name().as_ref() {
        "resultType" | "inputRequests" | "requestState" if legacy => Edit::Drop,
        "resultType" => {
            typed = true;
            Edit::Keep
        }
        "ttlMs" | "cacheScope" if hinted && !cached => Edit::Drop,
        "ttlMs" if cached => {
            timed = true;
            let given = member.value().integer();
            // A value that is no integer hints nothing.
            let ttl = given.unwrap_or(0).clamp(0, limit);
            if given == Some(ttl) { Edit::Keep } else { Edit::Replace(Raw::from_integer(ttl)) }
        }
        "cacheScope" if cached => {
            scoped = true;
            if member.value().is_text("private") { Edit::Keep } else { Edit::Replace(private()) }
        }
        _ => common(member),
    });
    let mut added: Vec<(&str, Raw)> = Vec::new();
    if !typed {
        added.push(("resultType", Raw::from_str_value("complete")));
    }
    if cached && !timed {
        added.push(("ttlMs", Raw::from_integer(limit)));
    }
    if cached && !scoped {
        added.push(("cacheScope", private()));
    }
    body.edit(&added, |_| Edit::Keep)
}

fn to_legacy(server: Era, method: &str, result: &Raw) -> Raw {
    let modern = server == Era::Modern;
    // SEP-2106 lets modern servers structure any value; to legacy clients it is an object.
    let loose = if method == method::TOOLS_CALL {
        result.get("structuredContent").filter(|value| !value.is_object())
    } else {
        None
    };
    let body = result.edit(&[], |member| match member.name().as_ref() {
        "resultType" | "ttlMs" | "cacheScope" if modern => Edit::Drop,
        "structuredContent" if loose.is_some() => Edit::Drop,
        _ => common(member),
    });
    match loose {
        Some(value) if body.get("content").is_none_or(|content| content.elements().next().is_none()) => {
            let mut item = ObjectWriter::with_capacity(value.len() + 32);
            item.string("type", "text").string("text", value.as_str());
            let mut content = crate::json::ArrayWriter::with_capacity(value.len() + 40);
            content.push(&item.finish());
            body.with("content", &content.finish())
        }
        _ => body,
    }
}

/// Longest error message passed on, in bytes.
const MAX_MESSAGE: usize = 4096;

/// A server's error as a client of this era gets it: codes that the era forbids or that speak of the hop between gateway
/// and server are translated, the message is bounded and printable, and gateway facts in `data` go.
pub fn error_to_client(client: Era, server: Era, method: &str, e: RpcError) -> RpcError {
    let code = match client {
        Era::Modern => modern_code(method, e.code),
        Era::Legacy => legacy_code(server, method, e.code),
    };
    RpcError { code, message: printable(e.message), data: e.data.as_ref().map(without_claims) }
}

/// -32002 and -32042 are withdrawn. Of the range reserved for the specification only a missing capability can be the
/// client's: headers and versions towards the server are the gateway's doing.
fn modern_code(method: &str, code: i64) -> i64 {
    match code {
        code::RESOURCE_NOT_FOUND if method == method::RESOURCES_READ => code::INVALID_PARAMS,
        code::MISSING_CAPABILITY => code,
        code::RESOURCE_NOT_FOUND | -32099..=-32020 => code::INTERNAL,
        _ => code,
    }
}

fn legacy_code(server: Era, method: &str, code: i64) -> i64 {
    match (server, code) {
        (Era::Modern, code::INVALID_PARAMS) if method == method::RESOURCES_READ => code::RESOURCE_NOT_FOUND,
        (Era::Legacy, code::URL_ELICITATION_REQUIRED) => code,
        (_, -32099..=-32020) => code::INTERNAL,
        _ => code,
    }
}

/// Line breaks and tabs become spaces, other control characters go, and what is too long is cut.
fn printable(message: String) -> String {
    if message.len() <= MAX_MESSAGE && !message.chars().any(char::is_control) {
        return message;
    }
    let mut out = String::with_capacity(message.len().min(MAX_MESSAGE));
    for c in message.chars() {
        let c = match c {
            '\n' | '\r' | '\t' => ' ',
            c if c.is_control() => continue,
            c => c,
        };
        if out.len() + c.len_utf8() > MAX_MESSAGE {
            break;
        }
        out.push(c);
    }
    out
}

/// What goes into `_meta` towards a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerMeta<'a> {
    /// The revision agreed with the server (modern servers are told).
    pub version: &'a str,
    /// The client's own `clientInfo` (modern servers).
    pub client_info: Option<&'a Raw>,
    /// The client's capabilities, narrowed (modern servers).
    pub client_capabilities: &'a Raw,
    /// The log level the client asked for (modern servers; legacy ones have `logging/setLevel`).
    pub log_level: Option<&'a Raw>,
    /// The gateway's own progress token.
    pub progress_token: Option<&'a Raw>,
    /// Members passed through. Protocol fields and gateway keys among them are left out.
    pub rest: &'a [(Key, Raw)],
    /// Texts that are added last: the gateway's own trace context.
    pub added: &'a [(&'a str, &'a str)],
}

/// A request to a server of this era: `params` byte for byte, and a `_meta` made anew. Legacy servers get no `_meta`
/// when it would be empty.
pub fn server_request(
    server: Era,
    (id, method): (&Id, &str),
    params: &[(Key, Raw)],
    meta: &ServerMeta<'_>,
) -> Bytes {
    let mut out = message::envelope(method.len() + 24 + params_size(params, meta));
    out.raw("id", id.text()).string("method", method);
    out.object("params", |out| write_params(out, server, params, meta));
    out.finish().into_bytes()
}

/// Bytes that the params take, never much fewer.
fn params_size(params: &[(Key, Raw)], meta: &ServerMeta<'_>) -> usize {
    let member = |(key, value): &(Key, Raw)| key.raw().len() + value.len() + 2;
    let added: usize = meta.added.iter().map(|(key, value)| key.len() + value.len() + 6).sum();
    let given = meta.client_capabilities.len() + meta.client_info.map_or(0, Raw::len);
    // The keys of a modern server's `_meta` and its short values.
    params.iter().chain(meta.rest).map(member).sum::<usize>() + added + given + 256
}

fn write_params(out: &mut ObjectWriter, server: Era, params: &[(Key, Raw)], meta: &ServerMeta<'_>) {
    for (key, value) in params {
        if key != "_meta" {
            out.raw_key(key, value);
        }
    }
    let empty = server == Era::Legacy
        && meta.progress_token.is_none()
        && meta.added.is_empty()
        && !meta.rest.iter().any(|(key, _)| passes(key));
    if !empty {
        out.object("_meta", |out| write_meta(out, server, meta));
    }
}

fn write_meta(out: &mut ObjectWriter, server: Era, meta: &ServerMeta<'_>) {
    if server == Era::Modern {
        out.string(meta::VERSION, meta.version);
        if let Some(info) = meta.client_info {
            out.raw(meta::CLIENT_INFO, info);
        }
        out.raw(meta::CLIENT_CAPABILITIES, meta.client_capabilities);
        if let Some(level) = meta.log_level {
            out.raw(meta::LOG_LEVEL, level);
        }
    }
    if let Some(token) = meta.progress_token {
        out.raw(meta::PROGRESS_TOKEN, token);
    }
    for (key, value) in meta.rest.iter().filter(|(key, _)| passes(key)) {
        out.raw_key(key, value);
    }
    for (key, value) in meta.added {
        out.string(key, value);
    }
}

/// Whether a member of a client's `_meta` goes on: not what is made here, and nothing that speaks to the gateway.
fn passes(key: &Key) -> bool {
    let made_here =
        [meta::VERSION, meta::CLIENT_INFO, meta::CLIENT_CAPABILITIES, meta::LOG_LEVEL, meta::PROGRESS_TOKEN];
    !made_here.contains(&key.as_str()) && !key.starts_with(meta::OWN_PREFIX)
}
