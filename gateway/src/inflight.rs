//! Calls under way, known by conversation and request id, so that `notifications/cancelled` reaches the right
//! one and nobody else's. It holds no more entries than there are calls.

use std::collections::HashMap;
use std::sync::Arc;

use mcp::message::Id;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// Conversation and request id.
type Key = ([u8; 16], Id);

/// The table of cancellable calls.
#[derive(Clone, Default)]
pub struct Inflight(Arc<Mutex<HashMap<Key, CancellationToken>>>);

/// Keeps a call in the table as long as it lives.
pub struct Entry {
    table: Inflight,
    key: Option<Key>,
    token: CancellationToken,
}

impl Inflight {
    /// Enters a call that `token` cancels. When the same conversation already has a call of this id the new one
    /// can't be cancelled by id, since the id would be ambiguous.
    pub fn enter(&self, conversation: [u8; 16], id: &Id, token: CancellationToken) -> Entry {
        let key = (conversation, id.clone());
        let mut table = self.0.lock();
        let key = if table.contains_key(&key) { None } else { Some(key) };
        if let Some(key) = &key {
            table.insert(key.clone(), token.clone());
        }
        Entry { table: self.clone(), key, token }
    }

    /// Cancels a call; false when there is none.
    pub fn cancel(&self, conversation: [u8; 16], id: &Id) -> bool {
        let found = self.0.lock().get(&(conversation, id.clone())).cloned();
        found.inspect(CancellationToken::cancel).is_some()
    }
}

impl Entry {
    /// A call that no id names.
    pub fn unknown() -> Entry {
        Entry { table: Inflight::default(), key: None, token: CancellationToken::new() }
    }

    /// Cancelled when the client asked for it.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.table.0.lock().remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j15_the_same_id_in_two_conversations_is_two_calls() {
        let table = Inflight::default();
        let id = Id::from_number(1);
        let enter = |conversation| table.enter([conversation; 16], &id, CancellationToken::new());
        let (a, b) = (enter(1), enter(2));
        assert!(table.cancel([2; 16], &id));
        assert!(b.token().is_cancelled() && !a.token().is_cancelled());
        drop(b);
        assert!(!table.cancel([2; 16], &id));
    }
}
