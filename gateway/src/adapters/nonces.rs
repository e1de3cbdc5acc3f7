//! Spent nonces in memory, each until it is void anyway. Bounded: what does not fit any more is refused, never forgotten.
//! Each owner has a part alone, so that nobody takes the places of everybody.

use std::collections::HashMap;

use async_trait::async_trait;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::ports::nonces::{Forgetful, Nonces};

/// Nonces that are remembered at once.
const MOST: usize = 100_000;
/// Of one owner.
const MOST_EACH: usize = 5_000;

/// Nonces that this process has seen spent.
pub struct InMemory {
    spent: Mutex<Spent>,
    replica: String,
    most: usize,
    each: usize,
}

#[derive(Default)]
struct Spent {
    owners: HashMap<Box<str>, HashMap<Box<str>, i64>>,
    held: usize,
}

impl Default for InMemory {
    fn default() -> InMemory {
        let replica = Uuid::now_v7().to_string();
        InMemory { spent: Mutex::default(), replica, most: MOST, each: MOST_EACH }
    }
}

impl Spent {
    fn of(&self, owner: &str) -> usize {
        self.owners.get(owner).map_or(0, HashMap::len)
    }

    /// Forgets what is void at this time, of one owner.
    fn forget(&mut self, owner: &str, now: i64) {
        if let Some(nonces) = self.owners.get_mut(owner) {
            let before = nonces.len();
            nonces.retain(|_, until| *until > now);
            self.held = self.held.saturating_sub(before - nonces.len());
        }
    }

    /// The same of everybody.
    fn forget_all(&mut self, now: i64) {
        self.owners.retain(|_, nonces| {
            nonces.retain(|_, until| *until > now);
            !nonces.is_empty()
        });
        self.held = self.owners.values().map(HashMap::len).sum();
    }
}

#[async_trait]
impl Nonces for InMemory {
    async fn spend(&self, owner: &str, nonce: &str, (expires, now): (i64, i64)) -> Result<bool, Forgetful> {
        let mut spent = self.spent.lock();
        if spent.owners.get(owner).is_some_and(|nonces| nonces.contains_key(nonce)) {
            return Ok(false);
        }
        if spent.of(owner) >= self.each {
            spent.forget(owner, now);
        }
        if spent.of(owner) >= self.each {
            return Err(Forgetful("too many confirmations of one caller at once".into()));
        }
        if spent.held >= self.most {
            spent.forget_all(now);
        }
        if spent.held >= self.most {
            return Err(Forgetful("too many confirmations at once".into()));
        }
        spent.owners.entry(owner.into()).or_default().insert(nonce.into(), expires);
        spent.held += 1;
        Ok(true)
    }

    fn replica(&self) -> Option<&str> {
        Some(&self.replica)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn r1_a_nonce_is_spent_once_and_never_forgotten_while_it_is_good() {
        let nonces = InMemory { most: 2, ..InMemory::default() };
        assert_eq!(nonces.spend("o", "a", (10, 0)).await, Ok(true));
        assert_eq!(nonces.spend("o", "a", (10, 0)).await, Ok(false));
        assert_eq!(nonces.spend("p", "b", (20, 0)).await, Ok(true));
        assert!(nonces.spend("o", "c", (10, 5)).await.is_err(), "full");
        assert_eq!(nonces.spend("p", "b", (20, 10)).await, Ok(false));
        assert_eq!(nonces.spend("o", "c", (30, 10)).await, Ok(true), "'a' is void");
    }

    #[tokio::test]
    async fn r1_nobody_takes_the_places_of_others() {
        let nonces = InMemory { each: 2, ..InMemory::default() };
        for nonce in ["a", "b"] {
            assert_eq!(nonces.spend("o", nonce, (10, 0)).await, Ok(true));
        }
        assert!(nonces.spend("o", "c", (10, 5)).await.is_err(), "full");
        assert_eq!(nonces.spend("p", "c", (10, 5)).await, Ok(true));
        assert_eq!(nonces.spend("o", "c", (20, 10)).await, Ok(true), "the first are void");
    }
}
