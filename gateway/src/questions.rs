//! The gateway's own requests to legacy clients, until their responses come: on whatever connection, but for the same
//! principal and session alone. Bounded by the calls under way, each of which asks one question at a time.

use std::collections::HashMap;
use std::sync::Arc;

use mcp::json::Raw;
use mcp::message::{Id, Response};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Principal, session and id.
type Key = ([u8; 32], [u8; 16], Id);

/// Open questions.
#[derive(Clone, Default)]
pub struct Questions(Arc<Mutex<HashMap<Key, oneshot::Sender<Option<Raw>>>>>);

/// One question; forgotten when it is dropped.
pub struct Open {
    table: Questions,
    key: Key,
    answer: oneshot::Receiver<Option<Raw>>,
}

impl Questions {
    /// Opens a question under an id that nobody else has.
    pub fn open(&self, principal: [u8; 32], session: [u8; 16], id: Id) -> Open {
        let (sender, answer) = oneshot::channel();
        let key = (principal, session, id);
        self.0.lock().insert(key.clone(), sender);
        Open { table: self.clone(), key, answer }
    }

    /// Takes a client's response; one that answers nothing is dropped.
    pub fn answer(&self, principal: [u8; 32], session: [u8; 16], response: &Response) {
        let Some(id) = &response.id else { return };
        let asked = self.0.lock().remove(&(principal, session, id.clone()));
        if let Some(sender) = asked {
            sender.send(response.outcome.as_ref().ok().cloned()).ok();
        }
    }
}

impl Open {
    /// The result that the client sent; None for an error.
    pub async fn wait(mut self) -> Option<Raw> {
        (&mut self.answer).await.ok().flatten()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.table.0.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use mcp::message::RpcError;

    use super::*;

    #[tokio::test]
    async fn an_answer_counts_for_its_principal_and_session_alone() {
        let (table, id) = (Questions::default(), Id::from_number(7));
        let open = table.open([1; 32], [1; 16], id.clone());
        let yes = Response { id: Some(id.clone()), outcome: Ok(Raw::empty_object()) };
        table.answer([2; 32], [1; 16], &yes);
        table.answer([1; 32], [2; 16], &yes);
        table.answer([1; 32], [1; 16], &Response { id: None, outcome: Ok(Raw::empty_object()) });
        assert_eq!(table.0.lock().len(), 1);
        table.answer([1; 32], [1; 16], &yes);
        assert_eq!(open.wait().await.map(|raw| raw.len()), Some(2));
        let open = table.open([1; 32], [1; 16], id.clone());
        table.answer([1; 32], [1; 16], &Response { id: Some(id), outcome: Err(RpcError::new(-1, "no")) });
        assert!(open.wait().await.is_none());
        drop(table.open([1; 32], [1; 16], Id::from_number(8)));
        assert!(table.0.lock().is_empty());
    }
}
