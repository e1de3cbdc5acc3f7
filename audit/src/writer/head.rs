//! The chain's end: gives records their number, their place in the chain and their times, and appends them in one
//! write. It knows no queue and never syncs.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Watch;
use super::slot::{Receipt, Slot};
use crate::clock::{Clock, rfc3339};
use crate::costs::Totals;
use crate::entry::{Entry, Int, Kind, Nanos, Text, VERSION};
use crate::error::Unavailable;
use crate::frame::{self, HEAD};
use crate::hash::Digest;
use crate::storage::{AppendError, StoredFile, append_all};
use crate::tree::leaf_hash;

/// Most records of one write.
pub(crate) const MAX_RECORDS: usize = 256;
/// A write ends with the record that passes this length, in bytes.
const MAX_BYTES: usize = 1 << 20;
/// Steps of the wall clock from here on are recorded, in milliseconds.
const STEP_MS: i64 = 1_000;

/// A record that waits to be written.
pub(crate) struct Item {
    pub(crate) entry: Box<Entry>,
    pub(crate) slot: Arc<Slot>,
    /// Kept when writing fails: what it tells has happened.
    pub(crate) keep: bool,
    /// Written only if this one was.
    pub(crate) after: Option<Arc<Slot>>,
    /// Gives a place of the queue back.
    pub(crate) place: bool,
}

/// Records that are written and not yet known to be durable.
#[derive(Default)]
pub(crate) struct Unsynced {
    pub(crate) leaves: Vec<Digest>,
    pub(crate) bytes: u64,
    pub(crate) acks: Vec<(Arc<Slot>, Receipt)>,
}

pub(crate) struct Head {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watch: Vec<Arc<dyn Watch>>,
    pub(crate) log: Arc<str>,
    pub(crate) boot: Text,
    /// The last record's time in milliseconds and as it is written.
    pub(crate) ts: (u64, Text),
    pub(crate) strict: bool,
    pub(crate) file: Arc<dyn StoredFile>,
    /// Length of the segment's log.
    pub(crate) offset: u64,
    pub(crate) seq: u64,
    pub(crate) prev: Digest,
    pub(crate) totals: Totals,
    pub(crate) unsynced: Unsynced,
    /// Wall minus monotonic time at the last record, in milliseconds.
    pub(crate) skew_ms: Option<i64>,
    pub(crate) buffer: Vec<u8>,
}

/// A batch that was not written.
pub(crate) struct Refused {
    /// Those that must be tried again, in order.
    pub(crate) kept: Vec<Item>,
    pub(crate) error: Unavailable,
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Head {
    /// Writes what fits into one batch, in order, and tells each its fate: at once when `buffered`, after the sync
    /// when `strict`. What is left in `items` was not tried.
    pub(crate) fn write(&mut self, items: &mut VecDeque<Item>) -> Result<(), Refused> {
        self.buffer.clear();
        let (mut seq, mut prev) = (self.seq, self.prev);
        let mut written: Vec<(Item, Digest)> = Vec::with_capacity(items.len() + 1);
        // A segment's header is its first record.
        let header = items.front().is_some_and(|i| i.entry.segment.is_some());
        let now = (self.clock.wall_ms(), self.clock.mono_ns());
        let mut step = if header { None } else { self.step(now) };
        while self.buffer.len() < MAX_BYTES {
            let Some(mut item) = step.take().or_else(|| items.pop_front()) else { break };
            if item.after.as_ref().is_some_and(|intent| intent.failed()) {
                item.slot.complete(Err(Unavailable::Write("the call was not recorded".into())));
                continue;
            }
            let leaf = self.serialize(&mut item.entry, seq, prev, now);
            (seq, prev) = (seq + 1, leaf);
            written.push((item, leaf));
        }
        if let Err(error) = append_all(&*self.file, self.offset, &self.buffer) {
            return Err(refuse(error, written));
        }
        (self.seq, self.prev) = (seq, prev);
        self.commit(written);
        Ok(())
    }

    fn commit(&mut self, written: Vec<(Item, Digest)>) {
        let bytes = u64::try_from(self.buffer.len()).unwrap_or_default();
        self.offset += bytes;
        self.unsynced.bytes += bytes;
        for (item, leaf) in written {
            let receipt = Receipt { log: self.log.clone(), seq: item.entry.seq.0, leaf };
            self.watch.iter().for_each(|w| w.appended(&item.entry, &receipt));
            self.totals.take(item.entry, &leaf);
            self.unsynced.leaves.push(leaf);
            if self.strict {
                self.unsynced.acks.push((item.slot, receipt));
            } else {
                item.slot.complete(Ok(receipt));
            }
        }
    }

    /// Appends the line to the buffer and hashes the very bytes that will be written.
    fn serialize(
        &mut self,
        entry: &mut Entry,
        seq: u64,
        prev: Digest,
        (wall_ms, mono_ns): (u64, u64),
    ) -> Digest {
        entry.bound();
        entry.boot = self.boot.clone();
        entry.log = (&self.log).into();
        entry.mono_ns = Nanos(mono_ns);
        entry.prev = prev;
        entry.seq = Int(seq);
        if self.ts.0 != wall_ms || self.ts.1.is_empty() {
            self.ts = (wall_ms, rfc3339(wall_ms).into());
        }
        entry.ts = self.ts.1.clone();
        entry.v = Int(VERSION);
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&[b' '; HEAD]);
        entry.write(&mut self.buffer);
        let leaf = leaf_hash(self.buffer.get(start + HEAD..).unwrap_or_default());
        frame::close(&mut self.buffer, start);
        leaf
    }

    /// A record of the wall clock's jump since the last record, if there was one.
    fn step(&mut self, (wall_ms, mono_ns): (u64, u64)) -> Option<Item> {
        let skew = signed(wall_ms) - signed(mono_ns / 1_000_000);
        let step = skew - self.skew_ms.replace(skew)?;
        (step.abs() >= STEP_MS).then(|| {
            let entry = Box::new(Entry { step_ms: Some(step), ..Entry::new(Kind::ClockStep) });
            Item { entry, slot: Slot::new(), keep: true, after: None, place: false }
        })
    }
}

fn refuse(error: AppendError, written: Vec<(Item, Digest)>) -> Refused {
    let error = match error {
        AppendError::Undone(e) => Unavailable::Write(e.to_string()),
        AppendError::Lost(e) => Unavailable::Poisoned(format!("a write failed and could not be undone: {e}")),
    };
    let mut kept = Vec::new();
    for (item, _) in written {
        if item.keep && error.retryable() {
            kept.push(item);
        } else {
            item.slot.complete(Err(error.clone()));
        }
    }
    Refused { kept, error }
}
