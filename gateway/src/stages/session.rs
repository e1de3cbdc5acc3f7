//! Stage 4: on the legacy era, the session. The id must have been sealed for this very principal and task; a
//! modern request has no session and any id that it carries is ignored.

use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName};
use mcp::era::{Era, Revision};
use mcp::json::{ArrayWriter, ObjectWriter, Raw};
use mcp::message::Message;
use mcp::method;
use policies::Task;

use crate::config::{Legacy, SessionIds};
use crate::ports::upstream::{Behalf, Client, SessionKey};
use crate::profiles::{Party, Profile};
use crate::reject::{Reject, Why};
use crate::runs::{Run, Runs};
use crate::sessions::{Owner, Session, Sessions};
use crate::stages::admit::Via;
use crate::stages::decode::Window;
use crate::stages::identify::Identified;
use crate::stages::route;

/// The header that carries a legacy session id.
pub static SESSION_HEADER: HeaderName = HeaderName::from_static("mcp-session-id");

/// A message bound to its conversation.
pub struct Bound {
    /// The message and its caller.
    pub identified: Identified,
    /// The legacy session; none for modern messages, and for `initialize`, which makes one.
    pub session: Option<Session>,
    /// What servers are told of the client.
    pub client: Client,
    /// Whose upstream sessions are used.
    pub key: SessionKey,
    /// The conversation that request ids belong to.
    pub conversation: [u8; 16],
    /// The run that it counts for.
    pub run: Run,
}

/// What binding needs to know besides the message.
pub struct Desk<'a> {
    /// The legacy part of the configuration.
    pub legacy: &'a Legacy,
    /// All sessions.
    pub sessions: &'a Sessions,
    /// Runs that nobody names.
    pub runs: &'a Runs,
    /// The caller and its task.
    pub party: &'a Party,
    /// The session of the host on stdin, once it has initialized.
    pub host: Option<&'a Session>,
    /// Now.
    pub now: SystemTime,
}

/// Binds a message to its session.
///
/// # Errors
/// 400 without a session id, 404 with one that is worth nothing, -32022 after the legacy window.
pub fn bind(desk: &Desk<'_>, identified: Identified) -> Result<Bound, Reject> {
    let decoded = &identified.decoded;
    if decoded.era == Era::Modern {
        let capabilities = decoded.meta.client_capabilities.clone().unwrap_or_else(Raw::empty_object);
        let client = Client::new(capabilities, decoded.meta.client_info.clone());
        return bound(desk, identified, None, client);
    }
    check_window(desk.legacy, desk.now)?;
    let initialize = matches!(&decoded.message, Message::Request(r) if r.method == method::INITIALIZE);
    if initialize && decoded.batched {
        return Err(Reject::new(Why::Invalid, "initialize can't be part of a batch"));
    }
    if initialize {
        return bound(desk, identified, None, Client::new(Raw::empty_object(), None));
    }
    let session = find(desk, &identified)?;
    let client = session.client.clone();
    bound(desk, identified, Some(session), client)
}

/// Whether the sender of a batch may send one: its session must be of the one revision that has batches.
///
/// # Errors
/// As [`bind`], and 400 for a session of another revision.
pub fn check_batch(desk: &Desk<'_>, headers: &HeaderMap) -> Result<(), Reject> {
    if desk.legacy.session_ids == SessionIds::None {
        return check_window(desk.legacy, desk.now);
    }
    let session = open(desk, headers)?;
    if session.revision == Revision::V2025_03_26 {
        return Ok(());
    }
    Err(Reject::new(Why::Invalid, "batches exist in revision 2025-03-26 alone"))
}

/// The session named by a bare head (`GET`, `DELETE`).
///
/// # Errors
/// As [`bind`].
pub fn open(desk: &Desk<'_>, headers: &HeaderMap) -> Result<Session, Reject> {
    check_window(desk.legacy, desk.now)?;
    let mut ids = headers.get_all(&SESSION_HEADER).iter();
    let (Some(id), None) = (ids.next().and_then(|id| id.to_str().ok()), ids.next()) else {
        let reject = Reject::new(Why::NoSession, "Invalid request parameters");
        return Err(reject.detail("not exactly one Mcp-Session-Id header"));
    };
    let gone =
        || Reject::new(Why::SessionGone, "this session is unknown, expired or closed; initialize again");
    let owner = Owner { principal: &desk.party.who.owner, task: desk.party.task() };
    desk.sessions.open(id, owner, desk.now).ok_or_else(gone)
}

fn find(desk: &Desk<'_>, identified: &Identified) -> Result<Session, Reject> {
    let admitted = &identified.decoded.admitted;
    match (admitted.via, desk.legacy.session_ids) {
        (Via::Stdio, _) => desk.host.cloned().ok_or_else(|| {
            Reject::new(Why::NoSession, "send initialize first, or name the protocol version in params._meta")
        }),
        (Via::Http, SessionIds::Sealed) => open(desk, &admitted.headers),
        (Via::Http, SessionIds::None) => {
            // Nothing proves an `initialize`, so none is demanded: the caller is its own conversation.
            let revision = identified.decoded.revision.unwrap_or(Revision::V2025_03_26);
            let mut sid = [0; 16];
            sid.iter_mut().zip(identified.party.who.owner).for_each(|(to, from)| *to = from);
            let client = Client::new(Raw::empty_object(), None);
            Ok(Session { sid, revision, client, state: Arc::default(), named: false })
        }
    }
}

fn bound(
    desk: &Desk<'_>,
    identified: Identified,
    session: Option<Session>,
    client: Client,
) -> Result<Bound, Reject> {
    let conversation = session.as_ref().map_or([0; 16], |s| s.sid);
    let key = SessionKey::Caller { principal: identified.party.who.owner, conversation };
    let run = route::run(desk.runs, &identified, session.as_ref())?;
    let party = &identified.party;
    let behalf = Behalf { who: Arc::clone(&party.who), task: party.task().into(), run: Arc::clone(&run.id) };
    let client = narrow(&party.profile, client).on_behalf(behalf);
    Ok(Bound { identified, session, client, key, conversation, run })
}

/// What servers are told of the client: nothing that the task does not let them ask for, and the task's roots. What is
/// said of the client to the gateway itself stays whole in the message and in the session.
pub fn narrow(profile: &Profile, client: Client) -> Client {
    let client = narrowed(&profile.task, client);
    match &profile.roots {
        Some(roots) => client.with_roots(roots.clone()),
        None => client,
    }
}

fn narrowed(task: &Task, client: Client) -> Client {
    if task.is_open() || client.capabilities.bytes() == "{}" {
        return client;
    }
    let allowed = task.capabilities();
    let withheld = |name: &str| match name {
        "sampling" => !allowed.sampling,
        "elicitation" => !allowed.elicitation,
        // Roots are those of the task, and the client's own are never told.
        "roots" => true,
        _ => false,
    };
    if client.capabilities.view().all(|member| !withheld(&member.name())) {
        return client;
    }
    let mut kept = ObjectWriter::with_capacity(client.capabilities.len());
    for (key, value) in client.capabilities.members().filter(|(key, _)| !withheld(key)) {
        kept.raw_key(&key, &value);
    }
    Client::new(kept.finish(), client.info)
}

fn check_window(legacy: &Legacy, now: SystemTime) -> Result<(), Reject> {
    let Some(until) = (Window { legacy, now }).closed() else { return Ok(()) };
    let mut supported = ArrayWriter::new();
    supported.push_str(Revision::MODERN.as_str());
    let mut data = ObjectWriter::new();
    data.raw("supported", &supported.finish());
    data.string("until", &until.to_string());
    let text = format!(
        "the handshake era ended here on {until}; supported protocol versions: {}",
        Revision::MODERN.as_str()
    );
    Err(Reject::new(Why::Version, text).data(data.finish()))
}
