//! The capability card: what this gateway offers, for people and programs that decide whether to use it. Built
//! at each reading, from the configuration in force.

use mcp::era::Revision;
use mcp::json::{ArrayWriter, ObjectWriter, Raw};

use super::{NAME, VERSION};
use crate::config::Placement;
use crate::digest::hex;
use crate::gate::Snapshot;
use crate::ports::journal::{Head, Journal};

/// Builds the card; an empty task is none.
pub fn card(snap: &Snapshot, task: &str, journal: &dyn Journal) -> Raw {
    let config = &snap.config;
    let texts = |all: &[&str]| {
        let mut array = ArrayWriter::new();
        for text in all {
            array.push_str(text);
        }
        array.finish()
    };
    let mut oauth = ObjectWriter::new();
    oauth.boolean("enabled", false);
    let mut auth = ObjectWriter::new();
    auth.raw("modes", &texts(&["anonymous-loopback"])).raw("oauth", &oauth.finish());
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
    card.raw("eras", &texts(&["modern", "legacy"]));
    match config.legacy.until {
        Some(until) => card.string("legacyUntil", &until.to_string()),
        None => card.raw("legacyUntil", &Raw::null()),
    };
    card.raw("transports", &texts(&["streamable-http", "stdio"]));
    card.raw("auth", &auth.finish());
    if !task.is_empty() {
        card.string("task", task);
    }
    card.string("discovery", "server/discover");
    card.raw("meter", &meter.finish());
    card.raw("journal", &journal);
    card.raw("prompts", &prompts.finish());
    card.raw("limits", &limits.finish());
    card.finish()
}
