//! Records that a snapshot holds beside its sums: they came while the sums were written down.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Totals;
use crate::entry::Entry;
use crate::tree::leaf_hash;

/// As they stand in the snapshot, behind one that is none.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Late(Vec<Option<Box<RawValue>>>);

/// It is there only until it is added.
impl PartialEq for Late {
    fn eq(&self, _: &Late) -> bool {
        true
    }
}
impl Eq for Late {}

impl Totals {
    /// With the records that came while the sums were written down; none if one of them can't be read.
    pub(crate) fn caught_up(mut self) -> Option<Totals> {
        let Late(late) = std::mem::take(&mut self.late);
        for record in late.into_iter().flatten() {
            let json = record.get().as_bytes();
            self.add(&Entry::parse(json)?, &leaf_hash(json));
        }
        Some(self)
    }

    /// How many sums there are.
    pub(crate) fn sums(&self) -> usize {
        self.runs.len() + self.days.len() + self.spent.len() + self.past.runs.len() + self.open.len()
    }
}
