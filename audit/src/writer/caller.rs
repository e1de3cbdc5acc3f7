//! What a caller's own thread does of the writer's work: in `strict`, with hardly anybody else about, it syncs its record
//! itself. To wake a thread for that and to be woken by it takes longer than many a disk needs for the sync.

use std::sync::atomic::Ordering;

use super::sealer::{Fault, Sealer};
use super::shared::Shared;
use super::thread::settle;

/// Places of the queue that are taken when so few calls are under way; a call has two. With more of them one sync for
/// several is worth to be waited for.
const FEW: usize = 4;
/// A disk whose last sync took so long at most, in nanoseconds, is expected to be quick.
const QUICK_NS: u64 = 500_000;

impl Shared {
    /// Writes and syncs what is queued; false when that is for the thread to do, which has to be woken then.
    pub(crate) fn settle_here(&self) -> bool {
        if self.taken() > FEW || self.failing() || self.due() {
            return false;
        }
        // Who has it is writing or syncing: what came meanwhile is the thread's.
        let Some(mut sealer) = self.sealer.try_lock() else { return false };
        if self.broken.lock().is_some() {
            return false;
        }
        let mut good = false;
        let mut settle = || good = self.settle_with(&mut sealer);
        let quick = self.sync_took.load(Ordering::Relaxed) <= QUICK_NS;
        (self.options.aside)(quick, &mut settle);
        good
    }

    /// Faults are left to the thread, and what comes after a segment's last record.
    fn settle_with(&self, sealer: &mut Sealer) -> bool {
        let settled = match self.drain_blocking() {
            Ok(_) => settle(self, sealer).map(|_| self.publish(sealer)),
            Err(why) => Err(Fault::Fatal(why)),
        };
        match settled {
            Ok(()) => !self.has_work() && sealer.offset < self.options.segment_bytes,
            // The thread finds the same.
            Err(Fault::Later(_)) => false,
            Err(Fault::Fatal(why)) => {
                *self.broken.lock() = Some(why);
                false
            }
        }
    }
}
