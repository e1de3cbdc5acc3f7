//! Connections that wait for a request: a shelf for each lane, so that a request finds one of its own thread; another
//! lane's is better than to open one. It opens none, and closes those that nobody used for a while.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::conns::Wire;
use crate::lanes;

/// Idle connections are dropped before the usual server does it (Node and uvicorn: 5 s), so that a request is not
/// written into a connection that is just being closed.
const IDLE: Duration = Duration::from_secs(4);
/// Idle connections kept, per lane.
const MOST: usize = 256;

/// The shelves of one origin.
#[derive(Clone)]
pub(super) struct Shelves(Arc<[Mutex<Shelf>]>);

/// The connection used last is on top.
#[derive(Default)]
struct Shelf {
    wires: Vec<(Box<Wire>, Instant)>,
    swept: bool,
}

impl Shelves {
    pub(super) fn new() -> Shelves {
        Shelves(lanes::each(|_| Mutex::default()).into())
    }

    /// One of this lane's, or of another's. It was free when it was put here. That the server has closed it since is
    /// seen before the request is written, which then goes over another one.
    pub(super) fn take(&self) -> Option<Box<Wire>> {
        let here = lanes::here();
        loop {
            let others = self.0.iter().enumerate().filter(|(lane, _)| *lane != here).map(|(_, shelf)| shelf);
            let mut all = self.0.get(here).into_iter().chain(others);
            let (wire, since) = all.find_map(|shelf| shelf.lock().wires.pop())?;
            if since.elapsed() < IDLE {
                return Some(wire);
            }
        }
    }

    /// Keeps a connection, if there is room.
    pub(super) fn put(&self, wire: Box<Wire>) {
        let lane = wire.lane;
        let Some(mut shelf) = self.0.get(lane).map(Mutex::lock) else { return };
        if shelf.wires.len() >= MOST {
            return;
        }
        shelf.wires.push((wire, Instant::now()));
        if !std::mem::replace(&mut shelf.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self.0), lane));
        }
    }

    /// Those of one lane that can serve.
    #[cfg(test)]
    pub(super) fn free_on(&self, lane: usize) -> usize {
        self.0[lane].lock().wires.iter_mut().map(|(wire, _)| usize::from(wire.is_free())).sum()
    }

    /// All that can serve.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        (0..self.0.len()).map(|lane| self.free_on(lane)).sum()
    }
}

/// Closes what nobody used for a while, as long as there is anything.
async fn sweep(shelves: std::sync::Weak<[Mutex<Shelf>]>, lane: usize) {
    loop {
        tokio::time::sleep(IDLE / 4).await;
        let Some(shelves) = shelves.upgrade() else { return };
        let Some(mut shelf) = shelves.get(lane).map(Mutex::lock) else { return };
        // The oldest stand first.
        let stale = shelf.wires.iter().take_while(|(_, since)| since.elapsed() >= IDLE).count();
        let closed: Vec<_> = shelf.wires.drain(..stale).collect();
        shelf.swept = !shelf.wires.is_empty();
        let more = shelf.swept;
        drop(shelf);
        drop(closed);
        if !more {
            return;
        }
    }
}
