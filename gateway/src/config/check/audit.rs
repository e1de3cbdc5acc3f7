//! The `audit` section: names that can be a log's, values within their ranges. Folders are not looked at: the journal
//! makes them, and says so when it can't.

mod archive;

use std::time::Duration;

use audit::key::is_name;
use audit::layout::is_instance;

pub(crate) use archive::url as archive_url;

use super::bounds::seconds;
use crate::config::checked::{Audit, Durability};
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw::audit as raw;

/// The journal's folder when the file says nothing.
const DIR: &str = "var/audit";
/// Longest name of a deployment; it is in every record.
const MAX_DEPLOYMENT: usize = 64;

pub(super) fn check(raw: Option<&raw::Audit>, at: &At, context: &mut Context<'_>) -> Audit {
    let none = raw::Audit::default();
    let raw = raw.unwrap_or(&none);
    let mut path = |key: &str, text: Option<&String>| {
        let text = text?;
        if text.is_empty() || text.contains('\0') {
            context.problem(&at.key(key), "not a path", "write a path; a relative one starts at this file");
        }
        Some(context.path(text))
    };
    let dir = path("dir", raw.dir.as_ref());
    let key = path("key", raw.key.as_ref());
    let guard = path("guard", raw.guard.as_ref());
    let dir = dir.unwrap_or_else(|| context.path(DIR));
    if guard.as_ref().is_some_and(|guard| guard.starts_with(&dir) || dir.starts_with(guard)) {
        let fix = "name a folder on another volume: what puts the journal back puts the guard back too";
        context.problem(&at.key("guard"), "the guard is kept with the journal", fix);
    }
    if raw.instance.as_ref().is_some_and(|name| !is_instance(name)) {
        let fix = "write up to 64 letters, digits, '-', '_' and '.', the first no '.'";
        context.problem(&at.key("instance"), "not a log's name", fix);
    }
    let deployment = |name: &String| is_name(name) && name.len() <= MAX_DEPLOYMENT;
    if raw.deployment.as_ref().is_some_and(|name| !deployment(name)) {
        let fix = "write up to 64 characters without spaces and '+', such as eu-1.example.com";
        context.problem(&at.key("deployment"), "not the name of a deployment", fix);
    }
    let durability = match raw.durability {
        None | Some(raw::Durability::Buffered) => Durability::Buffered,
        Some(raw::Durability::Strict) => Durability::Strict,
        Some(raw::Durability::Off) => {
            let fix = "write durability: buffered; it costs next to nothing";
            context.warning(&at.key("durability"), "no journal: calls leave no record", fix);
            Durability::Off
        }
    };
    let default = raw::Segment::default();
    let (segment, within) = (raw.segment.as_ref().unwrap_or(&default), at.key("segment"));
    let bytes = context.size(&within.key("bytes"), segment.bytes.as_ref(), 64 << 20, 64 << 10..=1 << 30);
    let hour = Duration::from_secs(3_600);
    let age = context.time(&within.key("age"), segment.age.as_ref(), hour, seconds(1, 30 * 86_400));
    Audit {
        durability,
        key: key.unwrap_or_else(|| dir.join("signing-key")),
        dir,
        guard,
        instance: raw.instance.clone(),
        deployment: raw.deployment.clone(),
        segment_bytes: u64::try_from(bytes).unwrap_or(64 << 20),
        segment_age: age,
        archive: raw.archive.as_ref().and_then(|raw| archive::check(raw, &at.key("archive"), context)),
    }
}
