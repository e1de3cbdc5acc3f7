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
    place: Option<(Inflight, Key)>,
    cancelled: Cancelled,
}

/// Tells when a call is cancelled by its id; never, when no id names it.
#[derive(Clone)]
pub struct Cancelled(Option<CancellationToken>);

impl Cancelled {
    /// Returns once the client has asked for the end.
    pub async fn wait(&self) {
        match &self.0 {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the client has asked for the end.
    pub fn yet(&self) -> bool {
        self.0.as_ref().is_some_and(CancellationToken::is_cancelled)
    }
}

impl Inflight {
    /// Enters a call that `token` cancels. When the same conversation already has a call of this id the new one
    /// can't be cancelled by id, since the id would be ambiguous.
    pub fn enter(&self, conversation: [u8; 16], id: &Id, token: CancellationToken) -> Entry {
        let key = (conversation, id.clone());
        let mut table = self.0.lock();
        let place = if table.contains_key(&key) { None } else { Some((self.clone(), key.clone())) };
        if place.is_some() {
            table.insert(key, token.clone());
        }
        Entry { place, cancelled: Cancelled(Some(token)) }
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
        Entry { place: None, cancelled: Cancelled(None) }
    }

    /// Tells when the client asks for the end.
    pub fn cancelled(&self) -> &Cancelled {
        &self.cancelled
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some((table, key)) = self.place.take() {
            table.0.lock().remove(&key);
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
        assert!(b.cancelled().yet() && !a.cancelled().yet());
        drop(b);
        assert!(!table.cancel([2; 16], &id));
    }
}
