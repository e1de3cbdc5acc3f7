//! The capability card: what this gateway offers, for people and programs that decide whether to use it. Built
//! at each reading, from the configuration in force.

use std::time::SystemTime;

use mcp::era::Revision;
use mcp::json::{ArrayWriter, ObjectWriter, Raw};

use super::{NAME, VERSION, oauth};
use crate::config::Placement;
use crate::digest::hex;
use crate::gate::Snapshot;
use crate::ports::journal::{Head, Journal};
use crate::profiles::Door;
use crate::stages::admit::Admitted;
use crate::stages::challenge;
use crate::stages::decode::Window;
use crate::who::Who;

/// Who reads the card.
pub struct Reader<'a> {
    /// The task; empty for none.
    pub task: &'a str,
    /// The request, for the addresses that the card names. None: whoever reads it is no client.
    pub admitted: Option<&'a Admitted>,
    /// Now.
    pub now: SystemTime,
}

/// Builds the card.
pub fn card(snap: &Snapshot, reader: &Reader<'_>, journal: &dyn Journal) -> Raw {
    let config = &snap.config;
    let mut auth = ObjectWriter::new();
    auth.raw("modes", &texts(&modes(snap, reader.task))).raw("oauth", &authorization(snap, reader));
    let mut meter = ObjectWriter::new();
    let placement = config.meter.placement;
    meter.boolean("enabled", placement != Placement::Off).string("placement", placement.as_str());
    let journal = journal.head().map_or_else(Raw::null, |Head { log, size, leaf }| {
        let mut journal = ObjectWriter::new();
        journal.string("log", &log).decimal("size", size, 0).string("head", &hex(&leaf));
        journal.finish()
    });
    let mut prompts = ObjectWriter::new();
    prompts.boolean("catalogue", true);
    let mut limits = ObjectWriter::new();
    let size = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    limits.integer("requestBytes", size(config.limits.request_bytes));
    limits.integer("headerBytes", size(config.limits.header_bytes));
    limits.integer("depth", i64::from(config.limits.depth));
    let mut card = ObjectWriter::new();
    card.string("name", NAME).string("version", VERSION);
    card.string("specRevision", Revision::MODERN.as_str());
    let window = Window { legacy: &config.legacy, now: reader.now };
    let eras: &[&str] = if window.closed().is_some() { &["modern"] } else { &["modern", "legacy"] };
    card.raw("eras", &texts(eras));
    match config.legacy.until {
        Some(until) => card.string("legacyUntil", &until.to_string()),
        None => card.raw("legacyUntil", &Raw::null()),
    };
    card.raw("transports", &texts(&["streamable-http", "stdio"]));
    card.raw("auth", &auth.finish());
    if !reader.task.is_empty() {
        card.string("task", reader.task);
    }
    card.string("discovery", "server/discover");
    card.raw("meter", &meter.finish());
    card.raw("journal", &journal);
    card.raw("prompts", &prompts.finish());
    card.raw("limits", &limits.finish());
    card.finish()
}

fn texts(all: &[&str]) -> Raw {
    let mut array = ArrayWriter::new();
    for text in all {
        array.push_str(text);
    }
    array.finish()
}

/// What proves callers over HTTP, and whether the task (without one: any task) admits those who prove nothing.
fn modes(snap: &Snapshot, task: &str) -> Vec<&'static str> {
    let auth = &snap.config.auth;
    let (nobody, door) = (Who::anonymous(), Door { credentials: snap.keys.any(), http: true });
    let mut tasks = snap.profiles.iter().filter(|one| task.is_empty() || one.task.name() == task);
    let anonymous = tasks.any(|one| {
        one.task.admits(&nobody.caller, snap.profiles.loopback) && door.admits(&nobody.caller, one)
    });
    let all = [
        ("oauth", !auth.issuers.is_empty()),
        ("static-token", !auth.tokens.is_empty()),
        ("client-certificate", auth.clients.is_some()),
        ("anonymous-loopback", anonymous),
    ];
    all.into_iter().filter_map(|(mode, on)| on.then_some(mode)).collect()
}

/// What the protected-resource metadata of the endpoint says, and where it is.
fn authorization(snap: &Snapshot, reader: &Reader<'_>) -> Raw {
    let config = &snap.config;
    let enabled = !config.auth.issuers.is_empty();
    let base = match reader.admitted {
        Some(admitted) => challenge::base(config, admitted),
        None => challenge::public(config),
    };
    let mut oauth = ObjectWriter::new();
    oauth.boolean("enabled", enabled);
    let issuers = oauth::servers(&config.auth, base.as_deref());
    let issuers: Vec<&str> = issuers.iter().map(AsRef::as_ref).collect();
    oauth.raw("issuers", &texts(&issuers));
    match base.filter(|_| enabled) {
        Some(base) => {
            oauth.string("protectedResource", &challenge::resource_metadata(&base, reader.admitted))
        }
        None => oauth.raw("protectedResource", &Raw::null()),
    };
    oauth.raw("scopes", &texts(&config.auth.scopes()));
    oauth.finish()
}
