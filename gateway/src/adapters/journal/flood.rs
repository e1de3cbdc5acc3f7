//! How many refusals and answered lists of one second get records of their own. More are counted, so that no flood fills
//! the disk and no caller takes all the room.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

/// Refusals, of all callers together.
pub(super) const DENIED: Bound = Bound { all: 200, each: 200 };
/// Answered lists: clients read them when they begin and when they are told of changes.
pub(super) const LISTS: Bound = Bound { all: 200, each: 20 };

/// Records of one second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// Of all callers together.
    all: u32,
    /// Of each caller.
    each: u32,
}

/// What this second has had.
pub(super) struct Flood {
    bound: Bound,
    since: Instant,
    all: u32,
    /// By caller: no more than there were records.
    each: HashMap<Box<str>, u32>,
}

impl Flood {
    pub(super) fn new(bound: Bound) -> Flood {
        Flood { bound, since: Instant::now(), all: 0, each: HashMap::new() }
    }

    /// Whether another one of this caller gets a record.
    pub(super) fn room(&mut self, caller: &str) -> bool {
        if self.since.elapsed() >= Duration::from_secs(1) {
            (self.since, self.all) = (Instant::now(), 0);
            self.each.clear();
        }
        if self.all >= self.bound.all {
            return false;
        }
        if !self.each.contains_key(caller) {
            self.each.insert(caller.into(), 0);
        }
        let Some(had) = self.each.get_mut(caller).filter(|had| **had < self.bound.each) else { return false };
        *had += 1;
        self.all += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn z19_a_caller_has_its_share_of_each_second_and_leaves_the_others_theirs() {
        let mut flood = Flood::new(Bound { all: 5, each: 2 });
        let mut had = |callers: &str| -> Vec<bool> {
            callers.chars().map(|caller| flood.room(&caller.to_string())).collect()
        };
        assert_eq!(had("aaabb"), [true, true, false, true, true]);
        assert_eq!(had("cdc"), [true, false, false]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(had("aa"), [true, true]);
    }
}
