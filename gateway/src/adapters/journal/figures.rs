//! What the journal's writer tells of itself, for metrics.

use std::sync::OnceLock;
use std::time::Duration;

use audit::entry::Entry;
use audit::writer::{Receipt, Stats, Watch};

use crate::ports::journal::{Figures, SyncTimer};

/// Tells how long each sync took, once somebody wants to know.
#[derive(Default)]
pub(super) struct Syncs(OnceLock<SyncTimer>);

impl Syncs {
    /// The first one who asks is told.
    pub(super) fn tell(&self, with: SyncTimer) {
        self.0.set(with).ok();
    }
}

impl Watch for Syncs {
    fn appended(&self, _: &Entry, _: &Receipt) {}

    fn synced(&self, nanos: u64) {
        if let Some(tell) = self.0.get() {
            tell(Duration::from_nanos(nanos));
        }
    }

    fn fault(&self, why: Option<&str>) {
        match why {
            Some(why) => {
                tracing::error!(why, "the journal has a fault; calls that can't be recorded are refused")
            }
            None => tracing::info!("the journal has no fault any more"),
        }
    }
}

pub(super) fn of(stats: &Stats) -> Figures {
    let checkpoint_lag = Duration::from_nanos(stats.checkpoint_lag_ns);
    Figures { records: stats.records, checkpoint_lag, fault: stats.fault.clone() }
}
