//! Stage 7: limits, spent only by what is permitted. Until rates and budgets are built there is one: the number of
//! calls that wait for servers at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::reject::{Reject, Why};
use crate::stages::authorize::Permitted;

/// A permitted call with its place among the calls under way.
pub struct Metered {
    /// The call.
    pub permitted: Permitted,
    /// Given back when the call is over.
    pub place: OwnedSemaphorePermit,
}

/// Takes a place.
///
/// # Errors
/// 503 when all places are taken.
pub fn limit(places: &Arc<Semaphore>, permitted: Permitted) -> Result<Metered, Reject> {
    match Arc::clone(places).try_acquire_owned() {
        Ok(place) => Ok(Metered { permitted, place }),
        Err(_) => Err(Reject::new(Why::Busy, "too many calls are under way; try again in a moment")),
    }
}
