//! The record: one typed struct, serialised once, whose bytes are what is hashed. Its fields are declared in the order
//! of their names, so that the bytes are the RFC 8785 form. It holds digests of bodies, never bodies.

mod text;
mod write;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::hash::Digest;

/// Version of the record, field `v`.
pub const VERSION: u64 = 1;
/// Greatest integer that every JSON reader keeps (RFC 8785, section 3.2.2.3); greater ones are written as strings.
pub const MAX_SAFE: u64 = (1 << 53) - 1;
/// Longest free text, in bytes as it is written with escapes; a longer one is replaced by `sha256:` and its digest.
pub const MAX_TEXT: usize = 1536;
/// Longest embedded checkpoint, in bytes as it is written.
pub const MAX_CHECKPOINT: usize = 16 * 1024;

pub use text::Text;

/// A count or an amount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Int(pub u64);

impl From<u64> for Int {
    fn from(value: u64) -> Int {
        Int(value)
    }
}

impl Serialize for Int {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 <= MAX_SAFE { serializer.serialize_u64(self.0) } else { serializer.collect_str(&self.0) }
    }
}

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Int, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Int;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an unsigned integer or its digits")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Int, E> {
                Ok(Int(value))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Int, E> {
                text.parse().map(Int).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Nanoseconds, always a string of digits: they pass 2^53 after 104 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        Int::deserialize(deserializer).map(|i| Nanos(i.0))
    }
}

/// What a record tells. Readers keep records of kinds that they don't know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A process began to write; the first record of a log names its key.
    Open,
    /// A call is about to be sent.
    Intent,
    /// How a call ended.
    Outcome,
    /// A refusal.
    Denied,
    /// Refusals before identification, counted by reason.
    DeniedCount,
    /// A person was asked to confirm a call.
    Question,
    /// A list was answered, by digest.
    List,
    /// A server or a run was taken out of service, or back into it.
    Quarantine,
    /// A manifest was pinned.
    Pin,
    /// The policy in force, by digest.
    Config,
    /// The next signing key, signed by the last; or the id of a new digest key.
    Key,
    /// A segment began.
    Rotate,
    /// Nothing else happened, and the log was being written.
    Heartbeat,
    /// The wall clock jumped against the monotonic one.
    ClockStep,
    /// Bytes after the last whole record were cut at start.
    Recovered,
    /// Another log's checkpoint was seen.
    CheckpointRef,
    /// A run's state changed.
    Run,
    /// A file was produced, by digest.
    Artefact,
    /// A claim of the task store was made, by digest.
    #[serde(rename = "task.claim_receipt")]
    ClaimReceipt,
    /// A message of the task store was passed on, by digest.
    #[serde(rename = "task.mailbox_message")]
    MailboxMessage,
    /// A process stopped writing.
    Close,
    /// A kind of a later version.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Kind {
    /// The name in field `kind`; a kind of a later version has none.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Open => "open",
            Kind::Intent => "intent",
            Kind::Outcome => "outcome",
            Kind::Denied => "denied",
            Kind::DeniedCount => "denied_count",
            Kind::Question => "question",
            Kind::List => "list",
            Kind::Quarantine => "quarantine",
            Kind::Pin => "pin",
            Kind::Config => "config",
            Kind::Key => "key",
            Kind::Rotate => "rotate",
            Kind::Heartbeat => "heartbeat",
            Kind::ClockStep => "clock_step",
            Kind::Recovered => "recovered",
            Kind::CheckpointRef => "checkpoint_ref",
            Kind::Run => "run",
            Kind::Artefact => "artefact",
            Kind::ClaimReceipt => "task.claim_receipt",
            Kind::MailboxMessage => "task.mailbox_message",
            Kind::Close => "close",
            Kind::Unknown => "unknown",
        }
    }
}

/// A record. `boot`, `log`, `mono_ns`, `prev`, `seq`, `ts` and `v` are the writer's: what a caller puts there is lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Arguments' length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_bytes: Option<Int>,
    /// Arguments' digest, [`crate::span::DigestKey::body`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_mac: Option<Digest>,
    /// Random id of the writing process, 16 hexadecimal digits.
    #[serde(default)]
    pub boot: Text,
    /// Bytes that recovery cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_dropped: Option<Int>,
    /// The gateway's id of the call, a UUIDv7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<Text>,
    /// Bytes of the result as budgets count them, in `outcome`; absent when the call was never sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub charged_bytes: Option<Int>,
    /// A signed checkpoint, of another log or of this log's keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Text>,
    /// OAuth client id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<Text>,
    /// What the call cost, in 10^-9 dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_nanousd: Option<Int>,
    /// How many, for counted records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<Int>,
    /// The day (UTC) under which budgets count the call, `YYYY-MM-DD`; absent when none is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<Text>,
    /// The decision: `allowed`, `hidden`, `needs_scope`, `needs_confirm`, `refused`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Text>,
    /// SHA-256 of what the record is about: a list, a policy, a manifest, a file, the bytes that were cut.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// `buffered` or `strict`, in `open`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub durability: Option<Text>,
    /// Key epoch, from 0, in `open`, `rotate` and `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<Int>,
    /// The log that this one continues after a fork was declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork_log: Option<Text>,
    /// That log's last root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork_root: Option<Digest>,
    /// That log's last size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork_size: Option<Int>,
    /// The call's index in its run, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<Int>,
    /// Issuer of the principal's credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<Text>,
    /// What the record tells.
    pub kind: Kind,
    /// The log's id.
    #[serde(default)]
    pub log: Text,
    /// JSON-RPC method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Text>,
    /// Monotonic time of the writing process.
    #[serde(default)]
    pub mono_ns: Nanos,
    /// How long the call took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ms: Option<Int>,
    /// `ok`, `tool_error`, `refused`, `failed`, `cancelled` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Text>,
    /// SHA-256 of the policy in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_digest: Option<Digest>,
    /// The previous record's leaf hash.
    #[serde(default)]
    pub prev: Digest,
    /// Why, from a fixed list, or a short text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Text>,
    /// How many redactions the result had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redactions: Option<Int>,
    /// Bytes of its result that the call has reserved on budgets, in `intent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_bytes: Option<Int>,
    /// What the call has reserved, in 10^-9 dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_nanousd: Option<Int>,
    /// Result's length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<Int>,
    /// Result's digest, [`crate::span::DigestKey::body`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_mac: Option<Digest>,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Text>,
    /// The run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Text>,
    /// Number of the segment, in `open`, `rotate` and `key` at a segment's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<Int>,
    /// The record's number in its log, from 0.
    #[serde(default)]
    pub seq: Int,
    /// The server's configured id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<Text>,
    /// The old key's signature over the hand-over, base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sig: Option<Text>,
    /// Tree size, in `rotate` and in records about checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Int>,
    /// SHA-256 of the segment's snapshot file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Digest>,
    /// The call's span id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<Text>,
    /// The server's HTTP status or JSON-RPC error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<i32>,
    /// By how much the wall clock jumped, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_ms: Option<i64>,
    /// Subject of the principal's credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub: Option<Text>,
    /// The task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<Text>,
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Text>,
    /// The server's own name of the tool or prompt, or the URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<Text>,
    /// The tool's digest in the manifest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_digest: Option<Digest>,
    /// Trace id, 32 hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Text>,
    /// The caller's `traceparent`, as it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<Text>,
    /// Wall time, RFC 3339 in UTC with milliseconds.
    #[serde(default)]
    pub ts: Text,
    /// [`VERSION`].
    #[serde(default)]
    pub v: Int,
    /// A C2SP verifier key, in the first `open` and in `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vkey: Option<Text>,
}

impl Entry {
    /// An empty record of a kind.
    pub fn new(kind: Kind) -> Entry {
        Entry { kind, ..Entry::default() }
    }

    /// Reads a record's JSON. `None` when it is none; unknown fields are ignored.
    pub fn parse(json: &[u8]) -> Option<Entry> {
        serde_json::from_slice(json).ok()
    }

    /// Appends the JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        write::write(self, out);
    }

    /// The JSON.
    pub fn json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(768);
        self.write(&mut out);
        out
    }

    fn texts(&mut self) -> [&mut Option<Text>; 23] {
        [
            &mut self.call,
            &mut self.client,
            &mut self.day,
            &mut self.decision,
            &mut self.durability,
            &mut self.fork_log,
            &mut self.iss,
            &mut self.method,
            &mut self.outcome,
            &mut self.reason,
            &mut self.rule,
            &mut self.run,
            &mut self.server,
            &mut self.sig,
            &mut self.span,
            &mut self.sub,
            &mut self.task,
            &mut self.tenant,
            &mut self.tool,
            &mut self.trace,
            &mut self.traceparent,
            &mut self.vkey,
            &mut self.checkpoint,
        ]
    }

    /// Bounds every text, so that no record is over the greatest length and none must be refused for its length.
    pub(crate) fn bound(&mut self) {
        let last = self.texts().len() - 1;
        for (at, text) in self.texts().into_iter().enumerate() {
            let most = if at == last { MAX_CHECKPOINT } else { MAX_TEXT };
            if let Some(long) = text.as_deref().filter(|t| t.len() * 6 > most && escaped(t) > most) {
                *text = Some(format!("sha256:{}", Digest::sha256(&[long.as_bytes()])).into());
            }
        }
    }
}

/// At least as long as the text is in JSON.
fn escaped(text: &str) -> usize {
    text.bytes().map(|b| if b < 0x20 { 6 } else { 1 + usize::from(matches!(b, b'"' | b'\\')) }).sum()
}

#[cfg(test)]
pub(crate) mod tests;
