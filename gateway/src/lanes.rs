//! The threads that serve connections, each with a runtime of its own: a connection, its calls and the connections to
//! servers that they use stay where they are, so that no other thread is woken for them and nothing moves between
//! cores. It does not know what is served.

use std::cell::{Cell, OnceCell};
use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

thread_local! {
    static HERE: Cell<usize> = const { Cell::new(NONE) };
    /// What the lane of this thread serves.
    static SERVED: OnceCell<Arc<AtomicUsize>> = const { OnceCell::new() };
}

/// Where threads are that belong to no lane.
pub const NONE: usize = 0;

/// The lane that this thread belongs to, or [`NONE`].
pub fn here() -> usize {
    HERE.get()
}

/// Whether this thread's lane serves one connection alone.
pub fn is_alone() -> bool {
    SERVED.with(|served| served.get().is_some_and(|served| served.load(Ordering::Relaxed) <= 1))
}

/// Something for [`NONE`] and each lane, by their numbers.
pub fn each<T>(make: impl FnMut(usize) -> T) -> Box<[T]> {
    (NONE..=count()).map(make).collect()
}

/// One for each core.
fn count() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// All lanes of the process. Dropped, it ends what still runs on them; not from within a runtime.
pub struct Lanes(Vec<(Runtime, Arc<AtomicUsize>)>);

impl Lanes {
    /// One for each core.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start() -> io::Result<Lanes> {
        let lane = |number: usize| {
            let served: Arc<AtomicUsize> = Arc::default();
            let of_thread = Arc::clone(&served);
            // One worker, and no more: there is nobody to take its work, or to wake for it. Heavy work can still hand
            // the worker's place to another thread meanwhile.
            let mut lane = Builder::new_multi_thread();
            lane.worker_threads(1).enable_all().thread_name(format!("lane-{number}"));
            lane.on_thread_start(move || {
                HERE.set(number);
                SERVED.with(|served| served.set(Arc::clone(&of_thread)).ok());
            });
            Ok((lane.build()?, served))
        };
        (NONE + 1..=count()).map(lane).collect::<io::Result<_>>().map(Lanes)
    }

    /// Where connections can be put.
    pub fn places(&self) -> Places {
        Places(self.0.iter().map(|(lane, served)| (lane.handle().clone(), Arc::clone(served))).collect())
    }
}

/// Lanes with what they serve now.
#[derive(Clone, Default)]
pub struct Places(Arc<[(Handle, Arc<AtomicUsize>)]>);

impl Places {
    /// The lane that serves least, and a place on it for as long as it is held. None when there are no lanes.
    pub fn take(&self) -> Option<(Handle, Place)> {
        let (lane, served) = self.0.iter().min_by_key(|(_, served)| served.load(Ordering::Relaxed))?;
        served.fetch_add(1, Ordering::Relaxed);
        Some((lane.clone(), Place(Arc::clone(served))))
    }
}

/// A place on a lane.
pub struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Does heavy work without holding up what else the worker serves.
pub fn off_worker<T>(heavy: bool, work: impl FnOnce() -> T) -> T {
    let many = || Handle::try_current().is_ok_and(|on| on.runtime_flavor() == RuntimeFlavor::MultiThread);
    if heavy && many() { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_connection_is_put_where_the_fewest_are() {
        assert!(Places::default().take().is_none());
        let lanes = Lanes::start().unwrap();
        let places = lanes.places();
        let counts = |places: &Places| -> Vec<usize> {
            places.0.iter().map(|(_, served)| served.load(Ordering::Relaxed)).collect()
        };
        let held: Vec<Place> = (0..2 * count()).map(|_| places.take().unwrap().1).collect();
        assert_eq!(counts(&places), vec![2; count()]);
        let (first, mut rest) = (held.into_iter(), Vec::new());
        for (number, place) in first.enumerate() {
            if number != 1 {
                rest.push(place);
            }
        }
        assert_eq!(counts(&places).iter().sum::<usize>(), 2 * count() - 1);
        rest.push(places.take().unwrap().1);
        assert_eq!(counts(&places), vec![2; count()]);
        drop(rest);
        assert_eq!(counts(&places), vec![0; count()]);
    }

    #[test]
    fn what_a_lane_starts_stays_on_it_and_heavy_work_there_holds_up_nobody() {
        assert_eq!(here(), NONE);
        let lanes = Lanes::start().unwrap();
        let places = lanes.places();
        let (lane, _place) = places.take().unwrap();
        let ((go, come), (told, tell)) = (mpsc::channel(), mpsc::channel());
        lane.spawn(async move {
            let on = here();
            tokio::spawn(async move { go.send(here()).unwrap() });
            // The other task has this lane alone.
            let other = off_worker(true, || come.recv_timeout(PATIENCE));
            told.send((on, other)).unwrap();
        });
        let (on, other) = tell.recv_timeout(PATIENCE).unwrap();
        assert_ne!(on, NONE);
        assert_eq!(other, Ok(on));
        let alone = async || lane.spawn(async { is_alone() }).await.unwrap();
        let alone = || lane.block_on(alone());
        assert!(alone() && !is_alone());
        let _more: Vec<Place> = (0..count()).map(|_| places.take().unwrap().1).collect();
        assert!(!alone());
    }

    #[test]
    fn there_is_one_of_each_for_every_lane() {
        let numbers = each(|number| number);
        assert_eq!(numbers.len(), count() + 1);
        assert_eq!(numbers.first(), Some(&NONE));
        let lanes = Lanes::start().unwrap();
        let found: Vec<usize> = lanes
            .0
            .iter()
            .map(|(lane, _)| lane.block_on(async { tokio::spawn(async { here() }).await.unwrap() }))
            .collect();
        assert_eq!(numbers.get(1..), Some(&*found));
    }
}
