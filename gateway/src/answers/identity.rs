//! `server/discover` and `initialize`: the gateway's own identity with the merged capabilities of the servers
//! behind it. What can't be served yet is not declared.

use std::time::Duration;

use futures_util::future::join_all;
use mcp::era::{Era, Revision};
use mcp::json::{ArrayWriter, Key, ObjectWriter, Raw};
use mcp::{meta, naming};
use tokio::time::timeout;

use super::{Answer, Asking, NAME, VERSION, complete};
use crate::catalog::PATIENCE;
use crate::catalog::member::Member;
use crate::config::SessionIds;
use crate::ports::upstream::{Client, Facts};
use crate::reject::{Reject, Why};
use crate::sessions::Owner;
use crate::stages::admit::Via;
use crate::stages::decode::Window;
use crate::stages::session;

/// Instructions of all servers together are cut at this many bytes.
const MAX_INSTRUCTIONS: usize = 32 * 1024;
/// How long a client may keep what `server/discover` said.
const DISCOVER_TTL_MS: u64 = 60_000;
/// Extensions that are not served yet.
const NOT_YET: &[&str] = &["io.modelcontextprotocol/tasks"];

/// Answers `server/discover`.
pub(super) async fn discover(asking: &Asking<'_>) -> Result<Raw, Reject> {
    let merged = merge(asking, &asking.bound.client).await?;
    let mut result = ObjectWriter::new();
    complete(&mut result, Era::Modern, Some(DISCOVER_TTL_MS));
    let mut versions = ArrayWriter::new();
    for revision in (Window { legacy: &asking.snap.config.legacy, now: asking.now }).supported() {
        versions.push_str(revision.as_str());
    }
    result.raw("supportedVersions", &versions.finish());
    result.raw("capabilities", &merged.capabilities);
    if let Some(instructions) = &merged.instructions {
        result.string("instructions", instructions);
    }
    let mut about = ObjectWriter::new();
    about.raw(meta::SERVER_INFO, &server_info());
    about.raw("dev.tollgate/capabilityCard", &asking.card());
    result.raw("_meta", &about.finish());
    Ok(result.finish())
}

/// Answers `initialize` and opens a session.
pub(super) async fn initialize(asking: &Asking<'_>) -> Result<Answer, Reject> {
    let params = asking.params();
    let member = |name: &str| params.and_then(|p| p.get(name));
    let revision = member("protocolVersion")
        .and_then(|version| Revision::parse(&version.string()?))
        .filter(|revision| revision.era() == Era::Legacy)
        .unwrap_or(Revision::NEWEST_LEGACY);
    let capabilities = member("capabilities").unwrap_or_else(Raw::empty_object);
    if !capabilities.is_object() {
        return Err(Reject::new(Why::Params, "params.capabilities must be an object"));
    }
    let client = Client::new(capabilities, member("clientInfo").filter(Raw::is_object));
    let told = session::narrow(&asking.bound.identified.party.profile.task, client.clone());
    let merged = merge(asking, &told).await?;
    let mut result = ObjectWriter::new();
    result.string("protocolVersion", revision.as_str());
    result.raw("capabilities", &merged.capabilities);
    result.raw("serverInfo", &server_info());
    if let Some(instructions) = &merged.instructions {
        result.string("instructions", instructions);
    }
    result.raw("capabilityCard", &asking.card());
    let result = result.finish();
    open_session(asking, revision, &client, result)
}

fn open_session(
    asking: &Asking<'_>,
    revision: Revision,
    client: &Client,
    result: Raw,
) -> Result<Answer, Reject> {
    let sessions = &asking.snap.sessions;
    let via = asking.bound.identified.decoded.admitted.via;
    match (via, asking.snap.config.legacy.session_ids) {
        (Via::Stdio, _) => {
            let session = sessions.unsealed(revision, client.clone());
            let session =
                session.ok_or_else(|| Reject::new(Why::Internal, "no random bytes from the system"))?;
            Ok(Answer { result, session: Some(session), session_id: None })
        }
        (Via::Http, SessionIds::None) => Ok(result.into()),
        (Via::Http, SessionIds::Sealed) => {
            let party = &asking.bound.identified.party;
            let owner = Owner { principal: &party.who.owner, task: party.task() };
            let minted = sessions.mint(owner, revision, client, asking.now);
            let (session, id) = minted.map_err(|why| Reject::new(Why::Params, why))?;
            Ok(Answer { result, session: Some(session), session_id: Some(id) })
        }
    }
}

fn server_info() -> Raw {
    let mut info = ObjectWriter::new();
    info.string("name", NAME).string("title", "Tollgate").string("version", VERSION);
    info.finish()
}

/// What all servers of the endpoint offer together.
struct Merged {
    capabilities: Raw,
    instructions: Option<String>,
}

async fn merge(asking: &Asking<'_>, client: &Client) -> Result<Merged, Reject> {
    if let Some(member) = asking.only()? {
        let facts = member.facts(client).await.map_err(|fault| Reject::fault(&fault, &member.spec.id))?;
        let instructions = facts.instructions.as_ref().and_then(Raw::string);
        return Ok(Merged { capabilities: declare(asking.era(), &[facts]), instructions });
    }
    let members = asking.snap.catalog.members();
    let asked = members.iter().map(|member| async move {
        let facts = match member.spec.required {
            true => member.facts(client).await,
            // Who is late is told of by `list_changed`; who failed the last time is asked, and not waited for.
            false => match timeout(patience(member), member.facts(client)).await {
                Ok(facts) => facts,
                Err(_) => return Ok(None),
            },
        };
        match facts {
            Ok(facts) => Ok(Some((member, facts))),
            Err(fault) if member.spec.required => Err(Reject::fault(&fault, &member.spec.id)),
            Err(_) => Ok(None),
        }
    });
    let mut all = Vec::new();
    let mut instructions = String::new();
    for answer in join_all(asked).await {
        let Some((member, facts)) = answer? else { continue };
        if let Some(text) = facts.instructions.as_ref().and_then(Raw::string) {
            let text = naming::describe(&member.spec.id, &member.spec.id, Some(&text));
            if instructions.len() + text.len() < MAX_INSTRUCTIONS {
                instructions.push_str(&text);
                instructions.push('\n');
            }
        }
        all.push(facts);
    }
    let instructions = Some(instructions).filter(|text| !text.is_empty());
    Ok(Merged { capabilities: declare(asking.era(), &all), instructions })
}

fn patience(member: &Member) -> Duration {
    if member.upstream.status().connected == Some(false) { Duration::ZERO } else { PATIENCE }
}

/// Capabilities: what at least one server has, without what is not served yet. `tools` and `resources` are always
/// there: servers come and go, and the capability card is a resource.
fn declare(era: Era, all: &[std::sync::Arc<Facts>]) -> Raw {
    let has = |name: &str| all.iter().any(|facts| facts.capabilities.get(name).is_some());
    let mut changes = ObjectWriter::new();
    if era == Era::Legacy {
        changes.boolean("listChanged", true);
    }
    let changes = changes.finish();
    let mut out = ObjectWriter::new();
    out.raw("tools", &changes).raw("resources", &changes);
    if has("prompts") {
        out.raw("prompts", &changes);
    }
    for plain in ["completions", "logging"] {
        if has(plain) {
            out.raw(plain, &Raw::empty_object());
        }
    }
    for named in ["experimental", "extensions"] {
        let union = union(named, all);
        if !union.is_empty() {
            let mut members = ObjectWriter::new();
            for (key, value) in &union {
                members.raw_key(key, value);
            }
            out.raw(named, &members.finish());
        }
    }
    out.finish()
}

fn union(named: &str, all: &[std::sync::Arc<Facts>]) -> Vec<(Key, Raw)> {
    let mut union: Vec<(Key, Raw)> = Vec::new();
    for (key, value) in all.iter().filter_map(|f| f.capabilities.get(named)).flat_map(|m| m.members()) {
        if !NOT_YET.contains(&&*key) && union.iter().all(|(other, _)| *other != key) {
            union.push((key, value));
        }
    }
    union
}
