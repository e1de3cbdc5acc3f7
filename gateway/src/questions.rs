//! The gateway's own requests to legacy clients, until their responses come: on whatever connection, but for the same
//! principal and session alone. A call that waits for a person holds no place among the requests being served, so the
//! questions themselves are bounded: for each caller, and all together.

use std::collections::HashMap;
use std::sync::Arc;

use mcp::json::Raw;
use mcp::message::{Id, Response};
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Questions that one principal is asked at once, however many people stand behind it.
const MOST_EACH: usize = 64;

/// Principal, session and id.
type Key = ([u8; 32], [u8; 16], Id);

/// Open questions.
#[derive(Clone, Default)]
pub struct Questions(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    open: HashMap<Key, Waiting>,
    /// Answers can't come any more.
    closed: bool,
}

struct Waiting {
    task: Arc<str>,
    answer: oneshot::Sender<Option<Raw>>,
}

/// One question; forgotten when it is dropped.
pub struct Open {
    table: Questions,
    key: Key,
    answer: oneshot::Receiver<Option<Raw>>,
}

/// Who is asked.
pub struct Asked<'a> {
    /// The principal.
    pub principal: [u8; 32],
    /// The session.
    pub session: [u8; 16],
    /// The task.
    pub task: &'a str,
}

/// How many questions may be open.
pub struct Most {
    /// For the principal under this task: no more than its calls may be.
    pub task: usize,
    /// For everybody together.
    pub all: usize,
}

/// Why a question can't be asked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// So many of the caller's own are open.
    Caller(usize),
    /// Too many are open at all.
    All,
}

impl Questions {
    /// Opens a question under an id that nobody else has.
    ///
    /// # Errors
    /// Too many are open.
    pub fn open(&self, asked: &Asked<'_>, id: Id, most: &Most) -> Result<Open, Full> {
        let (sender, answer) = oneshot::channel();
        let key = (asked.principal, asked.session, id);
        let mut table = self.0.lock();
        let mine = || table.open.iter().filter(|(key, _)| key.0 == asked.principal);
        let of_task = mine().filter(|(_, waiting)| *waiting.task == *asked.task).count();
        if of_task >= most.task {
            return Err(Full::Caller(most.task));
        }
        if mine().count() >= MOST_EACH {
            return Err(Full::Caller(MOST_EACH));
        }
        if table.open.len() >= most.all {
            return Err(Full::All);
        }
        // Of one that nobody can answer any more the sender is dropped, which ends the wait.
        if !table.closed {
            table.open.insert(key.clone(), Waiting { task: asked.task.into(), answer: sender });
        }
        drop(table);
        Ok(Open { table: self.clone(), key, answer })
    }

    /// Takes a client's response; one that answers nothing is dropped.
    pub fn answer(&self, principal: [u8; 32], session: [u8; 16], response: &Response) {
        let Some(id) = &response.id else { return };
        let asked = self.0.lock().open.remove(&(principal, session, id.clone()));
        if let Some(waiting) = asked {
            waiting.answer.send(response.outcome.as_ref().ok().cloned()).ok();
        }
    }

    /// Ends all waits, also those that begin later: no answer can come any more.
    pub fn close(&self) {
        let mut table = self.0.lock();
        table.closed = true;
        table.open.clear();
    }
}

impl Open {
    /// The id of the question.
    pub fn id(&self) -> &Id {
        &self.key.2
    }

    /// The result that the client sent; None for an error, or when no answer can come.
    pub async fn wait(mut self) -> Option<Raw> {
        (&mut self.answer).await.ok().flatten()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.table.0.lock().open.remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use mcp::message::RpcError;

    use super::*;

    const MOST: Most = Most { task: 2, all: MOST_EACH + 1 };

    fn asked(principal: u8, task: &str) -> Asked<'_> {
        Asked { principal: [principal; 32], session: [1; 16], task }
    }

    #[tokio::test]
    async fn an_answer_counts_for_its_principal_and_session_alone() {
        let (table, id) = (Questions::default(), Id::from_number(7));
        let open = table.open(&asked(1, "t"), id.clone(), &MOST).ok().unwrap();
        let yes = Response { id: Some(id.clone()), outcome: Ok(Raw::empty_object()) };
        table.answer([2; 32], [1; 16], &yes);
        table.answer([1; 32], [2; 16], &yes);
        table.answer([1; 32], [1; 16], &Response { id: None, outcome: Ok(Raw::empty_object()) });
        assert_eq!(table.0.lock().open.len(), 1);
        table.answer([1; 32], [1; 16], &yes);
        assert_eq!(open.wait().await.map(|raw| raw.len()), Some(2));
        let open = table.open(&asked(1, "t"), id.clone(), &MOST).ok().unwrap();
        table.answer([1; 32], [1; 16], &Response { id: Some(id), outcome: Err(RpcError::new(-1, "no")) });
        assert!(open.wait().await.is_none());
        drop(table.open(&asked(1, "t"), Id::from_number(8), &MOST));
        assert!(table.0.lock().open.is_empty());
    }

    #[tokio::test]
    async fn questions_are_bounded_for_a_callers_task_a_caller_and_all() {
        let (table, mut held, mut next) = (Questions::default(), Vec::new(), 0);
        let mut open = |principal, task: &str| {
            next += 1;
            let opened = table.open(&asked(principal, task), Id::from_number(next), &MOST);
            opened.map(|open| held.push(open)).err()
        };
        assert_eq!([open(1, "t0"), open(1, "t0")], [None, None]);
        assert_eq!(open(1, "t0"), Some(Full::Caller(2)));
        for task in 1..MOST_EACH / 2 {
            let task = format!("t{task}");
            assert_eq!([open(1, &task), open(1, &task)], [None, None], "{task}");
        }
        assert_eq!(open(1, "more"), Some(Full::Caller(MOST_EACH)));
        assert_eq!(open(2, "t0"), None);
        assert_eq!(open(3, "t0"), Some(Full::All));
        held.clear();
        let open = table.open(&asked(1, "t0"), Id::from_number(99), &MOST).ok().unwrap();
        table.close();
        assert!(open.wait().await.is_none());
        let late = table.open(&asked(1, "t0"), Id::from_number(100), &MOST).ok().unwrap();
        assert!(late.wait().await.is_none(), "nobody can answer it");
    }
}
