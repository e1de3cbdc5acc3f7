//! What stays known of runs that are not kept any more: what budgets count of them, where their indices go on, and that
//! there was something. Without it a run that goes on would be taken for a new one.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{RunKey, Spent};
use crate::entry::Text;
use crate::hash::Digest;
use crate::runs::RunTotals;

/// Runs of which this is known; those that no budget counts go first, then those idle longest.
pub(super) const MAX_GONE: usize = 131_072;
/// Bits by which a run is known again that left nothing else: 1 MiB, once there is any.
const BITS: usize = 1 << 23;

/// A run that is not kept any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    /// What budgets count.
    pub spent: Spent,
    /// The index that its next call gets.
    pub next_index: u64,
    /// `seq` of its last record.
    pub seq: u64,
    /// That record's `ts`.
    pub last: Text,
}

/// Which runs were forgotten, by a bit of their names' hash. Now and then it says so of one that was not.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Marks(Vec<u8>);

/// All runs that are not kept any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    /// Those that made calls.
    #[serde(with = "pairs")]
    pub runs: BTreeMap<RunKey, Gone>,
    marks: Marks,
}

impl Past {
    /// Takes a run that is not kept any more. `counts`: budgets may still count it.
    pub(super) fn put(&mut self, key: RunKey, run: &RunTotals, counts: bool) {
        self.marks.set(&key);
        if run.next_index > 0 {
            let spent = if counts { run.spent } else { Spent::default() };
            let gone = Gone { spent, next_index: run.next_index, seq: run.seq, last: run.last.clone() };
            self.runs.insert(key, gone);
        }
    }

    /// What a run starts from that has a record and is not kept.
    pub(super) fn take(&mut self, key: &RunKey) -> RunTotals {
        let Gone { spent, next_index, .. } = self.runs.remove(key).unwrap_or_default();
        RunTotals { spent, next_index, partial: self.marks.has(key), ..RunTotals::default() }
    }

    /// Once for an eighth of all, so that it costs nothing in the mean.
    pub(super) fn bound(&mut self) {
        if self.runs.len() > MAX_GONE {
            let rank = |gone: &Gone| (gone.spent != Spent::default(), gone.seq);
            let from = super::bounds::eighth(self.runs.values().map(rank).collect());
            self.runs.retain(|_, gone| rank(gone) >= from);
        }
    }

    /// What was spent in runs that were used last before this record counts no more.
    pub(super) fn expire(&mut self, before: u64) {
        for gone in self.runs.values_mut().filter(|gone| gone.seq < before) {
            gone.spent = Spent::default();
        }
    }
}

impl Marks {
    /// Where a run's bit is.
    fn place(key: &RunKey) -> (usize, u8) {
        let RunKey { run, task, principal } = key;
        let parts = [run, task, &principal.iss, &principal.sub, &principal.client, &principal.tenant];
        let parts: Vec<&[u8]> = parts.into_iter().flat_map(|part| [part.as_bytes(), b"\0"]).collect();
        let Digest(hash) = Digest::sha256(&parts);
        let number = hash.iter().take(4).fold(0_usize, |number, byte| number << 8 | usize::from(*byte));
        let bit = number % BITS;
        (bit / 8, 1 << (bit % 8))
    }

    fn set(&mut self, key: &RunKey) {
        self.0.resize(BITS / 8, 0);
        let (at, bit) = Marks::place(key);
        if let Some(byte) = self.0.get_mut(at) {
            *byte |= bit;
        }
    }

    fn has(&self, key: &RunKey) -> bool {
        let (at, bit) = Marks::place(key);
        self.0.get(at).is_some_and(|byte| byte & bit != 0)
    }
}

impl std::fmt::Debug for Marks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} marks", self.0.iter().map(|byte| byte.count_ones()).sum::<u32>())
    }
}

impl Serialize for Marks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&BASE64_STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Marks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Marks, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bits = BASE64_STANDARD.decode(text).map_err(de::Error::custom)?;
        match bits.len() {
            0 => Ok(Marks::default()),
            length if length == BITS / 8 => Ok(Marks(bits)),
            _ => Err(de::Error::custom("marks of another length")),
        }
    }
}

/// A map as a list of pairs, since JSON has no other keys than texts.
pub(super) mod pairs {
    use super::*;

    pub(crate) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(crate) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}
