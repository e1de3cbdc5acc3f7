//! Spent nonces in memory, each until it is void anyway. Bounded: what does not fit any more is refused, never forgotten.

use std::collections::HashMap;

use async_trait::async_trait;
use parking_lot::Mutex;
use uuid::Uuid;

use crate::ports::nonces::{Forgetful, Nonces};

/// Nonces that are remembered at once.
const MOST: usize = 100_000;

/// Nonces that this process has seen spent.
pub struct InMemory {
    spent: Mutex<HashMap<Box<str>, i64>>,
    replica: String,
    most: usize,
}

impl Default for InMemory {
    fn default() -> InMemory {
        InMemory { spent: Mutex::default(), replica: Uuid::now_v7().to_string(), most: MOST }
    }
}

#[async_trait]
impl Nonces for InMemory {
    async fn spend(&self, nonce: &str, expires: i64, now: i64) -> Result<bool, Forgetful> {
        let mut spent = self.spent.lock();
        if spent.len() >= self.most {
            spent.retain(|_, until| *until > now);
        }
        if spent.contains_key(nonce) {
            return Ok(false);
        }
        if spent.len() >= self.most {
            return Err(Forgetful("too many confirmations at once".into()));
        }
        spent.insert(nonce.into(), expires);
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
        assert_eq!(nonces.spend("a", 10, 0).await, Ok(true));
        assert_eq!(nonces.spend("a", 10, 0).await, Ok(false));
        assert_eq!(nonces.spend("b", 20, 0).await, Ok(true));
        assert!(nonces.spend("c", 10, 5).await.is_err(), "full");
        assert_eq!(nonces.spend("b", 20, 10).await, Ok(false));
        assert_eq!(nonces.spend("c", 30, 10).await, Ok(true), "'a' is void");
    }
}
