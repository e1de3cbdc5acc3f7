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

/// Takes a place among the requests being served. It is taken before anything waits, so that waiting requests are
/// bounded too; rates and budgets, once there are any, are only spent by [`limit`].
///
/// # Errors
/// 503 when all places are taken.
pub fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Reject> {
    Arc::clone(places).try_acquire_owned().map_err(|_| busy())
}

/// Lets a permitted call with a place go.
///
/// # Errors
/// 503 for a call without a place.
pub fn limit(permitted: Permitted, place: Option<OwnedSemaphorePermit>) -> Result<Metered, Reject> {
    let place = place.ok_or_else(busy)?;
    Ok(Metered { permitted, place })
}

fn busy() -> Reject {
    Reject::new(Why::Busy, "too many requests are under way; try again in a moment")
}
