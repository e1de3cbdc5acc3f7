//! Stage 5: which server and which name of its own a message is for, without asking anybody. What the gateway
//! answers itself is told apart here. A name that can't belong to any server reads like one that nobody has.

use std::sync::Arc;

use mcp::entry::EntryKind;
use mcp::era::Era;
use mcp::json::{Key, ObjectWriter, Raw};
use mcp::message::{Id, Message};
use mcp::{meta::LogLevel, method, naming, uri};

use crate::catalog::Catalog;
use crate::catalog::member::Member;
use crate::reject::{Reject, Why};
use crate::stages::admit::Endpoint;
use crate::stages::session::Bound;

/// The resource that holds the capability card.
pub const CARD_URI: &str = "tollgate://capability";

/// Where a message goes.
pub enum Routed {
    /// To a server.
    Call(Box<Target>),
    /// The gateway answers itself.
    Local(Local),
}

/// What the gateway answers itself.
pub enum Local {
    /// `server/discover`.
    Discover,
    /// `initialize`.
    Initialize,
    /// `ping`.
    Ping,
    /// One of the four lists.
    List(EntryKind),
    /// `logging/setLevel`.
    SetLevel(LogLevel),
    /// `resources/read` of the capability card.
    Card,
    /// `notifications/cancelled`.
    Cancelled(Option<Id>),
    /// A notification or response that needs nothing done.
    Nothing,
}

/// A request for a server.
pub struct Target {
    /// The server.
    pub member: Arc<Member>,
    /// The JSON-RPC method.
    pub method: String,
    /// What is named.
    pub kind: EntryKind,
    /// Its name or URI as the client sent it.
    pub name: String,
    /// Its name or URI at the server.
    pub own: String,
    /// Whether names are prefixed on this endpoint.
    pub merged: bool,
    /// The members of `params` without `_meta`, the name already the server's own.
    pub params: Vec<(Key, Raw)>,
}

/// The one server of an endpoint; None for all.
///
/// # Errors
/// 404 for a server that is not configured.
pub fn endpoint<'a>(catalog: &'a Catalog, endpoint: &Endpoint) -> Result<Option<&'a Arc<Member>>, Reject> {
    match endpoint {
        Endpoint::All => Ok(None),
        Endpoint::One(id) => {
            let unknown = || Reject::new(Why::NotFound, "no server of this name is configured");
            catalog.member(id).map(Some).ok_or_else(unknown)
        }
    }
}

/// Routes a message.
///
/// # Errors
/// Unknown method, wrong parameters, unknown name.
pub fn route(catalog: &Catalog, bound: &Bound) -> Result<Routed, Reject> {
    let decoded = &bound.identified.decoded;
    let only = endpoint(catalog, &decoded.admitted.endpoint)?;
    let request = match &decoded.message {
        Message::Request(request) => request,
        Message::Notification(note) if note.method == method::CANCELLED => {
            let id = note.params.as_ref().and_then(|p| p.get("requestId")).and_then(|id| Id::from_raw(&id));
            return Ok(Routed::Local(Local::Cancelled(id)));
        }
        Message::Notification(_) | Message::Response(_) => return Ok(Routed::Local(Local::Nothing)),
    };
    let params = request.params.as_ref();
    let legacy = decoded.era == Era::Legacy;
    let local = match request.method.as_str() {
        method::DISCOVER if !legacy => Local::Discover,
        method::INITIALIZE if legacy => Local::Initialize,
        method::PING if legacy => Local::Ping,
        method::SET_LEVEL if legacy => Local::SetLevel(level(params)?),
        method::TOOLS_CALL => return call(catalog, only, EntryKind::Tool, method::TOOLS_CALL, params),
        method::PROMPTS_GET => return call(catalog, only, EntryKind::Prompt, method::PROMPTS_GET, params),
        method::RESOURCES_READ if named(params, "uri").as_deref() == Some(CARD_URI) => Local::Card,
        method::RESOURCES_READ => {
            return call(catalog, only, EntryKind::Resource, method::RESOURCES_READ, params);
        }
        method::COMPLETE => return complete(catalog, only, params),
        other => {
            let list = EntryKind::ALL.into_iter().find(|kind| kind.list_method() == other);
            Local::List(list.ok_or_else(not_served)?)
        }
    };
    Ok(Routed::Local(local))
}

fn not_served() -> Reject {
    Reject::new(Why::Method, "Method not found")
}

fn named(params: Option<&Raw>, member: &str) -> Option<String> {
    params?.get(member)?.string()
}

fn level(params: Option<&Raw>) -> Result<LogLevel, Reject> {
    named(params, "level")
        .and_then(|text| LogLevel::parse(&text))
        .ok_or_else(|| Reject::new(Why::Params, "params.level must be one of the eight levels of RFC 5424"))
}

/// The same text for what does not exist and for what the task does not allow.
pub fn unknown(kind: EntryKind, name: &str) -> Reject {
    let name: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
    match kind {
        EntryKind::Tool => Reject::new(Why::Unknown, format!("Unknown tool: {name}")),
        EntryKind::Prompt => Reject::new(Why::Unknown, format!("Unknown prompt: {name}")),
        EntryKind::Resource | EntryKind::Template => {
            let mut data = ObjectWriter::new();
            data.string("uri", &name);
            Reject::new(Why::Unknown, format!("Resource not found: {name}")).data(data.finish())
        }
    }
}

fn call(
    catalog: &Catalog,
    only: Option<&Arc<Member>>,
    kind: EntryKind,
    method: &str,
    params: Option<&Raw>,
) -> Result<Routed, Reject> {
    let member = kind.id_member();
    let name = named(params, member)
        .ok_or_else(|| Reject::new(Why::Params, format!("params.{member} must be a string")))?;
    let (server, own) = locate(catalog, only, kind, &name).ok_or_else(|| unknown(kind, &name))?;
    let renamed = Raw::from_str_value(&own);
    let replace = |key: &Key, value: Raw| if &**key == member { renamed.clone() } else { value };
    let target = Target {
        params: members(params, replace),
        member: server,
        method: method.to_owned(),
        kind,
        name,
        own,
        merged: only.is_none(),
    };
    Ok(Routed::Call(Box::new(target)))
}

/// `completion/complete` names a prompt or a resource template inside `ref`.
fn complete(catalog: &Catalog, only: Option<&Arc<Member>>, params: Option<&Raw>) -> Result<Routed, Reject> {
    let wrong = || {
        Reject::new(Why::Params, "params.ref must be a ref/prompt with a name or a ref/resource with a uri")
    };
    let reference = params.and_then(|p| p.get("ref")).ok_or_else(wrong)?;
    let kind = match reference.get("type").and_then(|t| t.string()).as_deref() {
        Some("ref/prompt") => EntryKind::Prompt,
        Some("ref/resource") => EntryKind::Template,
        _ => return Err(wrong()),
    };
    let member = if kind == EntryKind::Prompt { "name" } else { "uri" };
    let name = named(Some(&reference), member).ok_or_else(wrong)?;
    let (server, own) = locate(catalog, only, kind, &name).ok_or_else(|| unknown(kind, &name))?;
    let mut renamed = ObjectWriter::with_capacity(reference.len());
    for (key, value) in reference.members() {
        let value = if &*key == member { Raw::from_str_value(&own) } else { value };
        renamed.raw_key(&key, &value);
    }
    let renamed = renamed.finish();
    let replace = |key: &Key, value: Raw| if &**key == "ref" { renamed.clone() } else { value };
    let target = Target {
        params: members(params, replace),
        member: server,
        method: method::COMPLETE.to_owned(),
        kind,
        name,
        own,
        merged: only.is_none(),
    };
    Ok(Routed::Call(Box::new(target)))
}

fn members(params: Option<&Raw>, replace: impl Fn(&Key, Raw) -> Raw) -> Vec<(Key, Raw)> {
    let all = params.into_iter().flat_map(Raw::members);
    all.filter(|(key, _)| &**key != "_meta")
        .map(|(key, value)| {
            let value = replace(&key, value);
            (key, value)
        })
        .collect()
}

/// The server and its own name for what the client named. A shortened name is resolved later, by the list.
fn locate(
    catalog: &Catalog,
    only: Option<&Arc<Member>>,
    kind: EntryKind,
    name: &str,
) -> Option<(Arc<Member>, String)> {
    if let Some(member) = only {
        return Some((Arc::clone(member), name.to_owned()));
    }
    match kind {
        EntryKind::Tool | EntryKind::Prompt => {
            let (server, own) = naming::split(name)?;
            Some((Arc::clone(catalog.member(server)?), own.to_owned()))
        }
        EntryKind::Resource | EntryKind::Template => match uri::split(name) {
            Some((server, own)) => Some((Arc::clone(catalog.member(&server)?), own)),
            None => Some((Arc::clone(catalog.owner(name)?), name.to_owned())),
        },
    }
}
