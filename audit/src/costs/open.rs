//! Calls without an outcome: what stays known of their intents, and the outcome that is written when nobody knows one.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serializer};

use crate::entry::{Entry, Kind, Text};

/// The fields of an intent that its `outcome: unknown` repeats, and what it has reserved.
pub(super) fn brief(entry: &Entry) -> Entry {
    Entry {
        kind: Kind::Intent,
        seq: entry.seq,
        call: entry.call.clone(),
        iss: entry.iss.clone(),
        sub: entry.sub.clone(),
        client: entry.client.clone(),
        tenant: entry.tenant.clone(),
        task: entry.task.clone(),
        run: entry.run.clone(),
        index: entry.index,
        method: entry.method.clone(),
        server: entry.server.clone(),
        tool: entry.tool.clone(),
        span: entry.span.clone(),
        trace: entry.trace.clone(),
        day: entry.day.clone(),
        reserved_bytes: entry.reserved_bytes,
        reserved_nanousd: entry.reserved_nanousd,
        ..Entry::default()
    }
}

impl Entry {
    /// Makes an intent that was written what [`brief`] makes of it, without copies.
    pub(super) fn shorten(&mut self) {
        self.kind = Kind::Intent;
        (self.boot, self.log, self.ts, self.mono_ns, self.prev, self.v) = Default::default();
        (self.args_bytes, self.args_mac, self.tool_digest, self.policy_digest) = Default::default();
        (self.decision, self.rule, self.traceparent, self.bytes_dropped) = Default::default();
        (self.charged_bytes, self.checkpoint, self.cost_nanousd, self.count) = Default::default();
        (self.digest, self.durability, self.epoch, self.fork_log) = Default::default();
        (self.fork_root, self.fork_size, self.ms, self.outcome, self.reason) = Default::default();
        (self.redactions, self.result_bytes, self.result_mac, self.segment) = Default::default();
        (self.sig, self.size, self.snapshot, self.status, self.step_ms, self.vkey) = Default::default();
    }
}

/// The outcome of a call whose end nobody knows. It is charged what its intent has reserved: too much rather than too
/// little.
pub fn unknown(intent: &Entry, reason: &'static str) -> Entry {
    let (reserved_nanousd, reserved_bytes) = (intent.reserved_nanousd, intent.reserved_bytes);
    Entry {
        kind: Kind::Outcome,
        outcome: Some(Text::Borrowed("unknown")),
        reason: Some(Text::Borrowed(reason)),
        cost_nanousd: reserved_nanousd,
        charged_bytes: reserved_bytes,
        reserved_nanousd: None,
        reserved_bytes: None,
        ..brief(intent)
    }
}

/// Intents as they stand in a snapshot: without their ids before them, which are in them.
pub(super) mod intents {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        open: &BTreeMap<Text, Box<Entry>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(open.values())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<Text, Box<Entry>>, D::Error> {
        let open = Vec::<Box<Entry>>::deserialize(deserializer)?;
        Ok(open.into_iter().filter_map(|entry| Some((entry.call.clone()?, entry))).collect())
    }
}
