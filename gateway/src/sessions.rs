//! Legacy sessions. What a session is stands sealed in its id, so that any replica with the same key can serve
//! it; only what changes during a session (log level, closed) is kept here, by sid, bounded.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use lru::LruCache;
use mcp::era::Revision;
use mcp::json::{Limits, ObjectWriter, Raw};
use mcp::meta::LogLevel;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::ports::clock::since_epoch;
use crate::ports::upstream::Client;
use crate::seal::{Sealer, Use};

/// Ids stay below this many bytes.
pub const MAX_ID: usize = 1024;
/// Sessions whose changing state is kept on this replica.
const KEPT: NonZeroUsize = NonZeroUsize::new(100_000).unwrap();
/// Ids whose content is remembered, so that a session in use is not unsealed and parsed with every request. Each
/// takes about twice [`MAX_ID`] at most.
const REMEMBERED: NonZeroUsize = NonZeroUsize::new(8_192).unwrap();

/// One legacy session, as its id says.
#[derive(Clone, Debug)]
pub struct Session {
    /// Random, the session's name inside the gateway.
    pub sid: [u8; 16],
    /// The revision agreed at `initialize`.
    pub revision: Revision,
    /// What the client declared.
    pub client: Client,
    /// What changes during the session.
    pub state: Arc<State>,
    /// Whether it has a name of its own. Without session ids all requests of a principal are one conversation.
    pub named: bool,
}

/// Whom a session belongs to: nobody else's request opens its id.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The principal's digest.
    pub principal: &'a [u8; 32],
    /// The task.
    pub task: &'a str,
}

/// The changing part of a session, on this replica.
#[derive(Debug, Default)]
pub struct State {
    level: Mutex<Option<LogLevel>>,
    closed: CancellationToken,
}

impl State {
    /// The least severe level that the client wants; None before it asked.
    pub fn level(&self) -> Option<LogLevel> {
        *self.level.lock()
    }

    /// Remembers what the client asked for.
    pub fn set_level(&self, level: LogLevel) {
        *self.level.lock() = Some(level);
    }

    /// Cancelled when the session is closed: its streams end.
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }
}

/// All legacy sessions of this replica.
pub struct Sessions {
    sealer: Sealer,
    ttl: Duration,
    table: Mutex<LruCache<[u8; 16], Arc<State>>>,
    /// Only ids that opened are in it: what it says of them is as true as what they say themselves.
    opened: Mutex<LruCache<Box<str>, Arc<Content>>>,
}

/// What an id says.
struct Content {
    sid: [u8; 16],
    principal: Vec<u8>,
    task: String,
    expires: u64,
    revision: Revision,
    client: Client,
}

impl Content {
    fn parse(plain: &Raw) -> Option<Content> {
        let text = |key: &str| plain.get(key).and_then(|raw| raw.string());
        Some(Content {
            sid: URL_SAFE_NO_PAD.decode(text("s")?).ok()?.try_into().ok()?,
            principal: URL_SAFE_NO_PAD.decode(text("p")?).ok()?,
            task: text("t")?,
            expires: u64::try_from(plain.get("x")?.integer()?).ok()?,
            revision: Revision::parse(&text("r")?)?,
            client: Client::new(plain.get("c")?, plain.get("i")),
        })
    }
}

impl Sessions {
    /// `ttl` is the life of an id.
    pub fn new(sealer: Sealer, ttl: Duration) -> Sessions {
        let (table, opened) = (Mutex::new(LruCache::new(KEPT)), Mutex::new(LruCache::new(REMEMBERED)));
        Sessions { sealer, ttl, table, opened }
    }

    /// A session that lives as long as its connection, without an id (`tollgate stdio`).
    pub fn unsealed(&self, revision: Revision, client: Client) -> Option<Session> {
        let sid = self.sealer.random()?;
        Some(Session { sid, revision, client, state: self.state(sid), named: true })
    }

    /// Mints a session, and its id.
    ///
    /// # Errors
    /// What the client declared does not fit into an id.
    pub fn mint(
        &self,
        owner: Owner<'_>,
        revision: Revision,
        client: &Client,
        now: SystemTime,
    ) -> Result<(Session, String), &'static str> {
        let sid = self.sealer.random().ok_or("no random bytes from the system")?;
        let expires = seconds(now.checked_add(self.ttl).unwrap_or(now));
        for info in [client.info.clone(), None] {
            let client = Client { info, ..client.clone() };
            let session = Session { sid, revision, client, state: self.state(sid), named: true };
            let plain = encode(&session, owner, expires);
            let id =
                self.sealer.seal(Use::Session, plain.bytes()).ok_or("no random bytes from the system")?;
            if id.len() <= MAX_ID {
                return Ok((session, id));
            }
        }
        Err("the client's capabilities are too large for a session id (about 500 bytes)")
    }

    /// Opens an id. None for all that is not a live session of this owner.
    pub fn open(&self, id: &str, owner: Owner<'_>, now: SystemTime) -> Option<Session> {
        if id.len() > MAX_ID {
            return None;
        }
        let content = self.content(id)?;
        let ours = content.principal == owner.principal.as_slice() && content.task == owner.task;
        if !ours || seconds(now) >= content.expires {
            return None;
        }
        let state = self.state(content.sid);
        if state.closed.is_cancelled() {
            return None;
        }
        let (sid, revision, client) = (content.sid, content.revision, content.client.clone());
        Some(Session { sid, revision, client, state, named: true })
    }

    fn content(&self, id: &str) -> Option<Arc<Content>> {
        if let Some(content) = self.opened.lock().get(id) {
            return Some(Arc::clone(content));
        }
        let plain = self.sealer.open(Use::Session, id)?;
        let plain = Raw::parse(Bytes::from(plain), &Limits::REQUEST).ok()?;
        let content = Arc::new(Content::parse(&plain)?);
        self.opened.lock().put(id.into(), Arc::clone(&content));
        Some(content)
    }

    /// Closes a session on this replica: its id is worth nothing any more and its streams end.
    pub fn close(&self, session: &Session) {
        session.state.closed.cancel();
    }

    fn state(&self, sid: [u8; 16]) -> Arc<State> {
        self.table.lock().get_or_insert(sid, Arc::default).clone()
    }
}

fn encode(session: &Session, owner: Owner<'_>, expires: u64) -> Raw {
    let mut plain = ObjectWriter::new();
    plain.string("s", &URL_SAFE_NO_PAD.encode(session.sid));
    plain.string("p", &URL_SAFE_NO_PAD.encode(owner.principal));
    plain.string("t", owner.task);
    plain.string("r", session.revision.as_str());
    plain.integer("x", i64::try_from(expires).unwrap_or(i64::MAX));
    plain.raw("c", &session.client.capabilities);
    if let Some(info) = &session.client.info {
        plain.raw("i", info);
    }
    plain.finish()
}

fn seconds(time: SystemTime) -> u64 {
    since_epoch(time).as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWNER: Owner<'_> = Owner { principal: &[1; 32], task: "t" };

    fn client(capabilities: &str) -> Client {
        let capabilities = Raw::parse(Bytes::from(capabilities.to_owned()), &Limits::REQUEST).unwrap();
        Client::new(capabilities, Some(Raw::from_str_value("someone")))
    }

    #[test]
    fn a24_an_id_is_worth_something_for_its_owner_and_task_and_time_alone() {
        let keys = [[3; 32]];
        let here = Sessions::new(Sealer::new(&keys).unwrap(), Duration::from_secs(60));
        let there = Sessions::new(Sealer::new(&keys).unwrap(), Duration::from_secs(60));
        let now = SystemTime::now();
        let (session, id) = here.mint(OWNER, Revision::V2025_06_18, &client(r#"{"roots":{}}"#), now).unwrap();
        assert!(id.len() <= MAX_ID);
        let opened = there.open(&id, OWNER, now).unwrap();
        assert_eq!(opened.sid, session.sid);
        assert_eq!(opened.client.capabilities.as_str(), r#"{"roots":{}}"#);
        assert!(there.open(&id, Owner { principal: &[2; 32], ..OWNER }, now).is_none());
        assert!(there.open(&id, Owner { task: "u", ..OWNER }, now).is_none());
        assert!(there.open(&id, OWNER, now + Duration::from_secs(60)).is_none());
        here.close(&session);
        assert!(here.open(&id, OWNER, now).is_none());
    }

    #[test]
    fn an_id_never_outgrows_its_bound() {
        let sessions = Sessions::new(Sealer::new(&[]).unwrap(), Duration::from_secs(60));
        let big = format!(r#"{{"experimental":{{"x":"{}"}}}}"#, "y".repeat(900));
        let now = SystemTime::now();
        assert!(sessions.mint(OWNER, Revision::V2025_06_18, &client(&big), now).is_err());
    }
}
