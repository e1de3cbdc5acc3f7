//! Stage 5: which server and which name of its own a message is for, without asking anybody. What the gateway
//! answers itself is told apart here. A name that can't belong to any server reads like one that nobody has.

use std::sync::Arc;

use http::HeaderName;
use mcp::entry::EntryKind;
use mcp::era::Era;
use mcp::json::{Key, ObjectWriter, Raw};
use mcp::message::{Id, Message};
use mcp::{meta::LogLevel, method, naming, uri};
use policies::select::{BadRun, RunOffer, RunSource, choose_run};
use tokio::time::Instant;

use crate::catalog::Catalog;
use crate::catalog::member::Member;
use crate::profiles::Party;
use crate::reject::{Reject, Why};
use crate::runs::{self, Run, Runs};
use crate::sessions::Session;
use crate::stages::admit::Endpoint;
use crate::stages::identify::Identified;
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
    /// The era of the client.
    pub era: Era,
    /// The server.
    pub member: Arc<Member>,
    /// The JSON-RPC method.
    pub method: &'static str,
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

impl Target {
    /// A member of its params.
    pub fn param(&self, name: &str) -> Option<&Raw> {
        self.params.iter().find(|(key, _)| key.is(name)).map(|(_, value)| value)
    }

    /// The call's arguments, as they are sent.
    pub fn arguments(&self) -> Option<&Raw> {
        self.param("arguments")
    }
}

/// The one server of an endpoint; None for all.
///
/// # Errors
/// 404 for a server that is not configured, and with the same words for one of which the task permits nothing.
pub fn endpoint<'a>(
    catalog: &'a Catalog,
    party: &Party,
    endpoint: &Endpoint,
) -> Result<Option<&'a Arc<Member>>, Reject> {
    match endpoint {
        Endpoint::All => Ok(None),
        Endpoint::One(id) => {
            let unknown = || Reject::new(Why::NotFound, "no server of this name is served here");
            reached(catalog, party, id).map(Some).ok_or_else(unknown)
        }
    }
}

/// The server of this id, where the task permits something of it.
fn reached<'a>(catalog: &'a Catalog, party: &Party, id: &str) -> Option<&'a Arc<Member>> {
    catalog.member(id).filter(|member| party.profile.reaches(&member.spec.id))
}

/// The header that may name a run.
pub static RUN_HEADER: HeaderName = HeaderName::from_static("tollgate-run");
/// The key in `_meta` that may name a run.
const RUN_META: &str = "dev.tollgate/run";

/// The run that a message counts for: the credential's, else the header's, else that of `_meta`, else one that follows
/// from the session or from principal and task.
///
/// # Errors
/// 400 for an id that is none; a weaker source never stands in for it.
pub fn run(runs: &Runs, identified: &Identified, session: Option<&Session>) -> Result<Run, Reject> {
    let (who, decoded) = (&identified.party.who, &identified.decoded);
    let mut lines = decoded.admitted.headers.get_all(&RUN_HEADER).iter();
    // Two lines and what is no text are no id.
    let header = match (lines.next(), lines.next()) {
        (None, _) => None,
        (Some(line), None) => Some(line.to_str().map(str::trim).unwrap_or_default()),
        (Some(_), Some(_)) => Some(""),
    };
    let meta = decoded.meta.own.iter().find(|(key, _)| key.is(RUN_META));
    let meta = meta.map(|(_, value)| value.string().unwrap_or_default());
    let offer = RunOffer { claim: who.claims().1, header, meta: meta.as_deref() };
    if offer.claim.or(offer.header).or(offer.meta).is_some() {
        let (id, source) = choose_run(offer, "").map_err(|BadRun(source)| {
            let text = "a run id has 1 to 128 of the characters A-Z a-z 0-9 . _ : -";
            Reject::new(Why::Run, text).detail(format!("{source:?}"))
        })?;
        return Ok(Run { id: id.into(), source });
    }
    let id = match session.filter(|session| session.named) {
        Some(session) => runs::of_session(&session.sid),
        None => runs.derived(&who.owner, identified.party.task(), Instant::now()),
    };
    Ok(Run { id, source: RunSource::Derived })
}

/// Routes a message.
///
/// # Errors
/// Unknown method, wrong parameters, unknown name.
pub fn route(catalog: &Catalog, bound: &Bound) -> Result<Routed, Reject> {
    let (decoded, party) = (&bound.identified.decoded, &bound.identified.party);
    let only = endpoint(catalog, party, &decoded.admitted.endpoint)?;
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
    let asking = Asking { catalog, party, only, era: decoded.era, params };
    let local = match request.method.as_str() {
        method::DISCOVER if !legacy => Local::Discover,
        method::INITIALIZE if legacy => Local::Initialize,
        method::PING if legacy => Local::Ping,
        method::SET_LEVEL if legacy => Local::SetLevel(level(params)?),
        method::TOOLS_CALL => return asking.call(EntryKind::Tool, method::TOOLS_CALL),
        method::PROMPTS_GET => return asking.call(EntryKind::Prompt, method::PROMPTS_GET),
        method::RESOURCES_READ if named(params, "uri").as_deref() == Some(CARD_URI) => Local::Card,
        method::RESOURCES_READ => return asking.call(EntryKind::Resource, method::RESOURCES_READ),
        method::COMPLETE => return asking.complete(),
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
pub fn unknown(era: Era, kind: EntryKind, name: &str) -> Reject {
    let name: String = name.chars().filter(|c| !c.is_control()).take(128).collect();
    match kind {
        EntryKind::Tool => Reject::new(Why::Unknown, format!("Unknown tool: {name}")),
        EntryKind::Prompt => Reject::new(Why::Unknown, format!("Unknown prompt: {name}")),
        EntryKind::Resource | EntryKind::Template => {
            let mut data = ObjectWriter::new();
            data.string("uri", &name);
            // 2026-07-28 has given -32002 up; the revisions before it know no other code.
            let why = if era == Era::Modern { Why::Unknown } else { Why::NoResource };
            Reject::new(why, format!("Resource not found: {name}")).data(data.finish())
        }
    }
}

/// A request that names something of a server.
struct Asking<'a> {
    catalog: &'a Catalog,
    party: &'a Party,
    only: Option<&'a Arc<Member>>,
    era: Era,
    params: Option<&'a Raw>,
}

impl Asking<'_> {
    fn call(&self, kind: EntryKind, method: &'static str) -> Result<Routed, Reject> {
        let member = kind.id_member();
        let mut params = self.members()?;
        let name = params.iter().find(|(key, _)| key.is(member)).and_then(|(_, value)| value.string());
        let name =
            name.ok_or_else(|| Reject::new(Why::Params, format!("params.{member} must be a string")))?;
        if params.iter().any(|(key, value)| key.is("arguments") && !value.is_object()) {
            return Err(Reject::new(Why::Params, "params.arguments must be an object"));
        }
        let (server, own) = self.locate(kind, &name)?;
        if own != name {
            put(&mut params, member, &Raw::from_str_value(&own));
        }
        let (era, merged) = (self.era, self.only.is_none());
        Ok(Routed::Call(Box::new(Target { era, params, member: server, method, kind, name, own, merged })))
    }

    /// `completion/complete` names a prompt or a resource template inside `ref`.
    fn complete(&self) -> Result<Routed, Reject> {
        let text = "params.ref must be a ref/prompt with a name or a ref/resource with a uri";
        let wrong = || Reject::new(Why::Params, text);
        let reference = self.params.and_then(|p| p.get("ref")).ok_or_else(wrong)?;
        let (kind, member) = match named(Some(&reference), "type").as_deref() {
            Some("ref/prompt") => (EntryKind::Prompt, "name"),
            Some("ref/resource") => (EntryKind::Template, "uri"),
            _ => return Err(wrong()),
        };
        let name = named(Some(&reference), member).ok_or_else(wrong)?;
        let (server, own) = self.locate(kind, &name)?;
        let mut renamed = ObjectWriter::with_capacity(reference.len());
        for (key, value) in reference.members() {
            let value = if &*key == member { Raw::from_str_value(&own) } else { value };
            renamed.raw_key(&key, &value);
        }
        let mut params = self.members()?;
        put(&mut params, "ref", &renamed.finish());
        let (era, merged, method) = (self.era, self.only.is_none(), method::COMPLETE);
        Ok(Routed::Call(Box::new(Target { era, params, member: server, method, kind, name, own, merged })))
    }

    /// `params` without `_meta`.
    fn members(&self) -> Result<Vec<(Key, Raw)>, Reject> {
        let all = self.params.into_iter().flat_map(Raw::members).filter(|(key, _)| !key.is("_meta"));
        let params: Vec<(Key, Raw)> = all.collect();
        match params.iter().find_map(|(key, _)| twin_of(key)) {
            None => Ok(params),
            Some(twin) => {
                let text = format!("params has a member that differs from '{twin}' in letter case alone");
                Err(Reject::new(Why::Params, text))
            }
        }
    }

    fn locate(&self, kind: EntryKind, name: &str) -> Result<(Arc<Member>, String), Reject> {
        self.find(kind, name).ok_or_else(|| unknown(self.era, kind, name))
    }

    /// The server and its own name for what the client named. A shortened name is resolved later, by the list.
    fn find(&self, kind: EntryKind, name: &str) -> Option<(Arc<Member>, String)> {
        if let Some(member) = self.only {
            return Some((Arc::clone(member), name.to_owned()));
        }
        let member = |server: &str| reached(self.catalog, self.party, server).cloned();
        match kind {
            EntryKind::Tool | EntryKind::Prompt => {
                let (server, own) = naming::split(name)?;
                Some((member(server)?, own.to_owned()))
            }
            EntryKind::Resource | EntryKind::Template => match uri::split(name) {
                Some((server, own)) => Some((member(&server)?, own)),
                None => Some((member(&self.catalog.owner(name)?.spec.id)?, name.to_owned())),
            },
        }
    }
}

/// The specification's member that a key differs from in letter case alone: some parsers would take it for that member
/// and obey it in its place (CVE-2026-27896).
fn twin_of(key: &str) -> Option<&'static str> {
    const KNOWN: [&str; 8] =
        ["name", "arguments", "uri", "_meta", "ref", "argument", "inputResponses", "requestState"];
    KNOWN.into_iter().find(|known| *known != key && known.eq_ignore_ascii_case(key))
}

/// Another value for a member that is there.
fn put(params: &mut [(Key, Raw)], member: &str, value: &Raw) {
    for (_, old) in params.iter_mut().filter(|(key, _)| key.is(member)) {
        old.clone_from(value);
    }
}
