//! One list of one server, as it was read: checked entries, their exposed forms, and an index by name. An entry
//! that is not usable is left out with a reason and costs nothing but itself. Never changes after it was built.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mcp::entry::{self, EntryKind};
use mcp::era::Era;
use mcp::json::Raw;
use mcp::naming;
use mcp::param::{self, ParamHeaders};
use mcp::uri::{self, ResultKind};
use memchr::memmem;
use policies::Hints;
use policies::arguments::Arguments;
use policies::schema::Schema;
use ring::digest::{Context, SHA256};
use tokio::time::Instant;

/// Largest schema that is compiled where it is needed, in bytes.
const MAX_INLINE: usize = 4 * 1024;

/// One usable entry.
#[derive(Debug)]
pub struct Listed {
    /// The server's own name or URI.
    pub own: String,
    /// The name or URI that clients of `/mcp` see.
    pub exposed: String,
    /// As the server sent it.
    pub raw: Raw,
    /// SHA-256 of `raw`.
    pub digest: [u8; 32],
    /// As clients of `/mcp` see it.
    pub exposed_raw: Raw,
    /// Arguments that a modern HTTP server wants mirrored into headers.
    pub params: ParamHeaders,
    /// A tool's annotations, as the server gave them.
    pub hints: Hints,
    /// Counts its calls; set for tools that were read from their server.
    pub meter: OnceLock<Arc<metrics::Tool>>,
    /// Compiled when a result is first checked against it.
    output: OnceLock<Option<Schema>>,
    /// Compiled when arguments are first checked against it.
    input: OnceLock<Option<Arguments>>,
}

/// One list of one server.
#[derive(Debug)]
pub struct Manifest {
    /// The usable entries in the server's order.
    pub entries: Vec<Listed>,
    /// What was left out and why.
    pub dropped: Vec<(String, &'static str)>,
    /// SHA-256 over the entries as sent.
    pub digest: [u8; 32],
    /// When it was read.
    pub read: Instant,
    /// For how long it is fresh.
    pub ttl: Duration,
    own: HashMap<String, usize>,
    exposed: HashMap<String, usize>,
}

/// What an entry's exposed form depends on.
#[derive(Clone, Copy, Debug)]
pub struct Naming<'a> {
    /// The server's configured id.
    pub server: &'a str,
    /// The longest exposed name.
    pub max: usize,
}

/// Reasons kept for `/status`; more are only counted.
const MAX_REASONS: usize = 32;

impl Manifest {
    /// Builds the list from entries as sent. `cut` says why the list is incomplete, if it is.
    pub fn build(
        naming: Naming<'_>,
        kind: EntryKind,
        sent: &[Raw],
        ttl: Duration,
        cut: Option<&'static str>,
    ) -> Manifest {
        let mut digest = Context::new(&SHA256);
        let mut list = Manifest {
            entries: Vec::with_capacity(sent.len()),
            dropped: Vec::new(),
            digest: [0; 32],
            read: Instant::now(),
            ttl,
            own: HashMap::with_capacity(sent.len()),
            exposed: HashMap::with_capacity(sent.len()),
        };
        for raw in sent {
            digest.update(raw.bytes());
            digest.update(b"\n");
            match list.listed(naming, kind, raw) {
                Ok(entry) => list.add(entry),
                Err(reason) => list.leave_out(&name_of(kind, raw), reason),
            }
        }
        if let Some(reason) = cut {
            list.leave_out("(the rest)", reason);
        }
        list.digest = crate::digest::array(&digest.finish());
        list
    }

    fn listed(&self, naming: Naming<'_>, kind: EntryKind, raw: &Raw) -> Result<Listed, &'static str> {
        let checked = entry::check(kind, raw)?;
        if self.own.contains_key(&checked.key) {
            return Err("the server lists this name twice");
        }
        let params = match (kind, raw.get("inputSchema")) {
            (EntryKind::Tool, Some(schema)) => param::from_schema(&schema)?,
            _ => ParamHeaders::default(),
        };
        let exposed = expose(naming, kind, &checked.key);
        if self.exposed.contains_key(&exposed) {
            return Err("its shortened name is the same as another's");
        }
        let said = raw.get("description").and_then(|d| d.string());
        let exposed_raw = match kind {
            EntryKind::Tool | EntryKind::Prompt => {
                let description = naming::describe(naming.server, &checked.key, said.as_deref());
                let renamed = entry::rewrite(&checked, kind, &exposed, Some(&description));
                match kind {
                    EntryKind::Tool => uri::expose_in_result(naming.server, &renamed, ResultKind::ToolEntry),
                    _ => renamed,
                }
            }
            EntryKind::Resource | EntryKind::Template => entry::rewrite(&checked, kind, &exposed, None),
        };
        let hints = match kind {
            EntryKind::Tool => raw.get("annotations").map(|said| hints(&said)).unwrap_or_default(),
            _ => Hints::default(),
        };
        let (meter, output, input) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let digest = crate::digest::sha256(checked.raw.bytes());
        let (own, raw) = (checked.key, checked.raw);
        Ok(Listed { own, exposed, raw, digest, exposed_raw, params, hints, meter, output, input })
    }

    fn add(&mut self, entry: Listed) {
        let at = self.entries.len();
        self.own.insert(entry.own.clone(), at);
        self.exposed.insert(entry.exposed.clone(), at);
        self.entries.push(entry);
    }

    fn leave_out(&mut self, name: &str, reason: &'static str) {
        if self.dropped.len() < MAX_REASONS {
            self.dropped.push((name.to_owned(), reason));
        }
    }

    /// Gives tools their handles of metrics.
    pub fn count_with(&self, kind: EntryKind, server: &metrics::Server) {
        for entry in self.entries.iter().filter(|_| kind == EntryKind::Tool) {
            entry.meter.get_or_init(|| server.listed(&entry.own));
        }
    }

    /// The entry of this exposed name.
    pub fn by_exposed(&self, name: &str) -> Option<&Listed> {
        self.exposed.get(name).and_then(|at| self.entries.get(*at))
    }

    /// Where the entry of this own name stands.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.own.get(name).copied()
    }

    /// What is left of its freshness.
    pub fn left(&self, now: Instant) -> Duration {
        (self.read + self.ttl).saturating_duration_since(now)
    }
}

impl Listed {
    /// Whether checking arguments of so many bytes is nothing for a thread that others wait for.
    pub fn is_heavy_input(&self, bytes: usize) -> bool {
        match self.input.get() {
            Some(known) => known.as_ref().is_some_and(|schema| schema.is_heavy(bytes)),
            None => self.is_heavy("inputSchema"),
        }
    }

    /// The same of `structuredContent`.
    pub fn is_heavy_output(&self, bytes: usize) -> bool {
        match self.output.get() {
            Some(known) => known.as_ref().is_some_and(|schema| schema.is_heavy(bytes)),
            None => self.is_heavy("outputSchema"),
        }
    }

    /// A schema has to be compiled first, which takes as long as it is large.
    fn is_heavy(&self, member: &str) -> bool {
        self.raw.get(member).is_some_and(|schema| {
            schema.len() > MAX_INLINE || memmem::find(schema.bytes(), b"unevaluated").is_some()
        })
    }

    /// What `structuredContent` must look like; None when the tool says nothing, or nothing that can be checked.
    pub fn output(&self) -> Option<&Schema> {
        let compile = || {
            let schema = self.raw.get("outputSchema")?;
            let compiled = Schema::compile(schema.as_str());
            if let Err(reason) = &compiled {
                tracing::warn!(tool = %self.exposed, reason, "results can't be checked against the output schema");
            }
            compiled.ok()
        };
        self.output.get_or_init(compile).as_ref()
    }

    /// What the arguments must look like; None when the tool says nothing.
    pub fn input(&self) -> Option<&Arguments> {
        let compile = || {
            let compiled = Arguments::compile(self.raw.get("inputSchema")?.as_str());
            if let Some(reason) = compiled.unfit() {
                tracing::warn!(tool = %self.exposed, reason, "arguments can't be checked against the input schema");
            }
            Some(compiled)
        };
        self.input.get_or_init(compile).as_ref()
    }

    /// The entry for a client of this era, with the server's own names (`plain`) or with exposed ones.
    pub fn for_client(&self, kind: EntryKind, era: Era, plain: bool) -> Raw {
        let raw = if plain { &self.raw } else { &self.exposed_raw };
        entry::for_client(raw, kind, era)
    }
}

/// Annotations that are no booleans are as good as absent.
fn hints(annotations: &Raw) -> Hints {
    let hint = |name: &str| annotations.get(name).and_then(|hint| hint.boolean());
    Hints {
        read_only: hint("readOnlyHint"),
        destructive: hint("destructiveHint"),
        idempotent: hint("idempotentHint"),
        open_world: hint("openWorldHint"),
    }
}

/// The name or URI that clients of `/mcp` see.
pub fn expose(naming: Naming<'_>, kind: EntryKind, own: &str) -> String {
    match kind {
        EntryKind::Tool | EntryKind::Prompt => naming::expose(naming.server, own, naming.max),
        EntryKind::Resource | EntryKind::Template => uri::expose(naming.server, own),
    }
}

fn name_of(kind: EntryKind, raw: &Raw) -> String {
    let name = raw.get(kind.id_member()).and_then(|name| name.string()).unwrap_or_default();
    name.chars().take(128).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
