//! Waiting for a record: the promise that it is written (or durable), and the places of the bounded queue. Plain
//! futures, for any runtime; [`block_on`] for threads.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

use super::shared::Shared;
use crate::error::Unavailable;
use crate::hash::Digest;

/// Names a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The log's id.
    pub log: Arc<str>,
    /// The record's number.
    pub seq: u64,
    /// The record's leaf hash.
    pub leaf: Digest,
}

enum State<T> {
    Waiting(Option<Waker>),
    /// It could not be written now, and is kept until it can.
    Kept(Option<Waker>),
    Done(Result<T, Unavailable>),
}

/// Where a record's fate is told once.
pub(crate) struct Slot<T = Receipt>(Mutex<State<T>>);

impl<T> Slot<T> {
    pub(crate) fn new() -> Arc<Slot<T>> {
        Arc::new(Slot(Mutex::new(State::Waiting(None))))
    }

    pub(crate) fn complete(&self, result: Result<T, Unavailable>) {
        let before = std::mem::replace(&mut *self.0.lock(), State::Done(result));
        if let State::Waiting(Some(waker)) | State::Kept(Some(waker)) = before {
            waker.wake();
        }
    }

    /// Says that it was tried in vain and will be tried again.
    pub(crate) fn keep(&self) {
        let mut state = self.0.lock();
        if let State::Waiting(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Kept(None);
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    pub(crate) fn failed(&self) -> bool {
        matches!(&*self.0.lock(), State::Done(Err(_)))
    }

    pub(crate) fn done(&self) -> bool {
        matches!(&*self.0.lock(), State::Done(_))
    }
}

/// Resolves when the record is written (`buffered`) or durable (`strict`). It may be dropped: the record is written
/// all the same.
pub struct Ticket<T = Receipt> {
    slot: Arc<Slot<T>>,
    gather: Option<Gather>,
}

/// A record that waits for others that come in the same moment: written together they cost less than one by one. Who
/// asks twice, or never again, writes whatever has come.
struct Gather {
    shared: Arc<Shared>,
    asked: bool,
}

impl Drop for Gather {
    fn drop(&mut self) {
        self.shared.drain();
    }
}

impl<T> Ticket<T> {
    pub(crate) fn new(slot: Arc<Slot<T>>) -> Ticket<T> {
        Ticket { slot, gather: None }
    }

    /// Of a record that nobody is at yet.
    pub(crate) fn gathering(slot: Arc<Slot<T>>, shared: &Arc<Shared>) -> Ticket<T> {
        Ticket { slot, gather: Some(Gather { shared: shared.clone(), asked: false }) }
    }
}

impl<T: Clone> Ticket<T> {
    /// Waits on this thread.
    ///
    /// # Errors
    /// The record is not in the journal.
    pub fn wait(self) -> Result<T, Unavailable> {
        block_on(self)
    }
}

impl<T: Clone> Future for Ticket<T> {
    type Output = Result<T, Unavailable>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let written = self.slot.done();
        if let Some(gather) = self.gather.as_mut().filter(|gather| !gather.asked && !written) {
            // Behind everybody else who is to run now.
            gather.asked = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.gather = None;
        let mut state = self.slot.0.lock();
        match &mut *state {
            State::Done(result) => Poll::Ready(result.clone()),
            State::Waiting(waker) | State::Kept(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Ticket {
    /// Whether the record was written, or could not be for now.
    pub fn attempted(&self) -> bool {
        !matches!(&*self.slot.0.lock(), State::Waiting(_))
    }

    /// Waits until then: what a process has done before it tells of it, and not for a disk that is full.
    pub fn attempt(self) -> Attempt {
        Attempt(self)
    }
}

/// Resolves when a record was tried to be written; with its receipt when it was.
pub struct Attempt(Ticket);

impl Future for Attempt {
    type Output = Option<Receipt>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Receipt>> {
        match Pin::new(&mut self.0).poll(context) {
            Poll::Ready(result) => Poll::Ready(result.ok()),
            Poll::Pending if self.0.attempted() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// The queue's free places.
pub(crate) struct Places(Mutex<Free>);

struct Free {
    free: usize,
    waiting: VecDeque<Waker>,
}

impl Places {
    pub(crate) fn new(free: usize) -> Places {
        Places(Mutex::new(Free { free, waiting: VecDeque::new() }))
    }

    pub(crate) fn give(&self, places: usize) {
        let mut state = self.0.lock();
        state.free += places;
        let woken: Vec<Waker> = (0..places).map_while(|_| state.waiting.pop_front()).collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes one that waits while there is room: the one that was woken last may have left.
    pub(crate) fn nudge(&self) {
        let mut state = self.0.lock();
        let woken = if state.free > 0 { state.waiting.pop_front() } else { None };
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn free(&self) -> usize {
        self.0.lock().free
    }

    pub(crate) fn take(&self, places: usize) -> TakePlaces<'_> {
        TakePlaces { all: self, places }
    }
}

pub(crate) struct TakePlaces<'a> {
    all: &'a Places,
    places: usize,
}

impl Future for TakePlaces<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.all.0.lock();
        if state.free >= self.places {
            state.free -= self.places;
            return Poll::Ready(());
        }
        state.waiting.push_back(context.waker().clone());
        Poll::Pending
    }
}

/// A call that waits for room. Dropped it is counted, since it has no record.
pub(crate) struct Waiting<'a>(pub(crate) Option<&'a Shared>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(shared) = self.0 {
            shared.count("cancelled");
        }
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
