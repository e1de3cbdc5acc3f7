//! A legacy call after its connection was lost: that is no cancellation there.

use tokio::time::{Instant, timeout, timeout_at};

use super::live::{KEEP_ALIVE, Parts};
use super::start::Asking;
use crate::ports::journal::Ending;
use crate::ports::upstream::Event;

/// Lets a call whose connection was lost go on for the grace period, or until it is cancelled.
pub(super) async fn linger(mut parts: Box<Parts>) {
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

/// The same for a call that waits for a person: the answer may come on another connection. The question and the call after
/// it have one grace period together.
pub(super) async fn asked(mut asking: Asking) {
    let end = Instant::now() + asking.grace;
    let next = tokio::select! {
        biased;
        () = asking.cancelled.wait() => return,
        () = asking.closing.cancelled() => return,
        next = timeout_at(end, &mut asking.rest) => next,
    };
    // A refusal is in its record; without an answer the record ends with what it is dropped with.
    if let Ok(Ok(mut parts)) = next {
        parts.grace = end.saturating_duration_since(Instant::now());
        linger(parts).await;
    }
}
