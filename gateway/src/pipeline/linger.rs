//! A legacy call after its connection was lost: that is no cancellation there.

use tokio::time::{Instant, timeout};

use super::live::{KEEP_ALIVE, Parts};
use crate::ports::journal::Ending;
use crate::ports::upstream::Event;

/// Lets a call whose connection was lost go on for the grace period, or until it is cancelled.
pub(super) async fn linger(mut parts: Parts) {
    let grace = parts.grace;
    let token = parts.entry.cancelled().clone();
    let rest = async {
        loop {
            match parts.exchange.next(Instant::now() + KEEP_ALIVE).await {
                Ok(None | Some(Event::Progress(_) | Event::Log(_))) => {}
                Ok(Some(Event::Done(answer))) => return Ok(answer),
                Err(fault) => return Err(fault),
            }
        }
    };
    let answer = tokio::select! {
        answer = timeout(grace, rest) => answer.ok(),
        () = token.wait() => None,
    };
    let Some(answer) = answer else {
        parts.ledger.partial = parts.screen.partial();
        return parts.ledger.close(Ending::Cancelled);
    };
    // What the server did is recorded as done, even though nobody is told.
    drop(match parts.end(answer) {
        Ok(end) => parts.ledger.finish(end.ending, end.result().cloned()),
        Err(reject) => parts.ledger.fail(&reject),
    });
}
