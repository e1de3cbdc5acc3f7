//! A call under way, seen from the client: events in, screened messages out, the record closed at the end. When
//! it is dropped before its end the client has left: a modern client's call is cancelled at once, a legacy
//! client's goes on for the grace period, since a lost connection is no cancellation there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use mcp::era::Era;
use mcp::message;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::inflight;
use crate::ports::journal::Ending;
use crate::ports::upstream::{Event, Fault, FaultKind};
use crate::reject::Reject;
use crate::stages::admit::Via;
use crate::stages::forward::Exchange;
use crate::stages::record::Ledger;
use crate::stages::screen::Screen;

/// Silence after which a stream is kept alive by a comment; load balancers cut idle ones after a minute or so.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The parts of a call under way.
pub struct Parts {
    /// The server's side.
    pub exchange: Exchange,
    /// The client's side.
    pub screen: Screen,
    /// The record.
    pub ledger: Ledger,
    /// Its place in the table of cancellable calls.
    pub entry: inflight::Entry,
    /// How it came.
    pub via: Via,
    /// How long it outlives a lost legacy connection.
    pub grace: Duration,
    /// Counts it as under way.
    pub gauge: Gauge,
    /// Cancelled shortly before the process cuts what is still under way.
    pub closing: CancellationToken,
}

/// A gauge that is one higher as long as this lives.
pub struct Gauge(Arc<metrics::Metrics>, fn(&metrics::Metrics, i64));

impl Gauge {
    /// Counts a call that waits for a server.
    pub fn call(metrics: &Arc<metrics::Metrics>) -> Gauge {
        Gauge::up(metrics, |m, by| m.inflight().add(by))
    }

    /// Counts a stream that is open to a client.
    pub fn stream(metrics: &Arc<metrics::Metrics>) -> Gauge {
        Gauge::up(metrics, |m, by| m.streams().add(by))
    }

    fn up(metrics: &Arc<metrics::Metrics>, add: fn(&metrics::Metrics, i64)) -> Gauge {
        add(metrics, 1);
        Gauge(Arc::clone(metrics), add)
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        (self.1)(&self.0, -1);
    }
}

/// A call under way.
pub struct Live {
    parts: Option<Parts>,
    quiet: Instant,
}

/// What a call comes up with.
pub enum Step {
    /// A notification.
    Message(Bytes),
    /// The answer; nothing comes after it. The status counts when nothing was sent before.
    Final(Bytes, StatusCode),
    /// Nothing for a while.
    Quiet,
    /// Cancelled: nothing more is sent.
    Silent,
}

impl Live {
    /// Takes a call on.
    pub fn new(parts: Parts) -> Live {
        Live { parts: Some(parts), quiet: Instant::now() + KEEP_ALIVE }
    }

    /// When the call ends at the latest, unless it has ended.
    pub fn end(&self) -> Option<Instant> {
        self.parts.as_ref().map(|parts| parts.exchange.end())
    }

    /// What comes next. May be dropped and asked again.
    pub async fn step(&mut self) -> Step {
        loop {
            let Some(parts) = &mut self.parts else { return Step::Silent };
            let event = tokio::select! {
                biased;
                () = parts.entry.cancelled().wait() => return self.cancelled(),
                event = parts.exchange.next() => event,
                () = parts.closing.cancelled() => {
                    Err(Fault::late(FaultKind::Dropped, "the gateway ended before the answer came"))
                }
                () = sleep_until(self.quiet) => {
                    self.quiet = Instant::now() + KEEP_ALIVE;
                    return Step::Quiet;
                }
            };
            let message = match event {
                Ok(Event::Progress(params)) => parts.screen.progress(&params),
                Ok(Event::Log(params)) => parts.screen.log(&params),
                Ok(Event::Done(_)) | Err(_) => return self.close(event),
            };
            if let Some(message) = message {
                self.quiet = Instant::now() + KEEP_ALIVE;
                return Step::Message(message);
            }
        }
    }

    fn close(&mut self, event: Result<Event, Fault>) -> Step {
        let Some(mut parts) = self.parts.take() else { return Step::Silent };
        let answer = match event {
            Ok(Event::Done(answer)) => parts.screen.answer(parts.exchange.permitted(), answer),
            Ok(_) => Err(Reject::broken(&parts.ledger.server, "no answer")),
            Err(fault) => Err(Reject::fault(&fault, &parts.ledger.server)),
        };
        match answer {
            Ok(end) => {
                parts.ledger.close(end.ending);
                Step::Final(end.message, end.status)
            }
            Err(reject) => {
                parts.ledger.blame(&reject);
                parts.ledger.close(Ending::Failed);
                let error = reject.error(&parts.ledger.call_id);
                let message = message::error(Some(&parts.screen.id), &error);
                Step::Final(message, reject.why.status(parts.screen.era))
            }
        }
    }

    /// The client asked for the end: the server is told by dropping the exchange, and a legacy client that still
    /// waits on its connection gets what there was.
    fn cancelled(&mut self) -> Step {
        let Some(mut parts) = self.parts.take() else { return Step::Silent };
        parts.ledger.close(Ending::Cancelled);
        match (parts.screen.era, parts.via) {
            (Era::Legacy, Via::Http) => Step::Final(parts.screen.cancelled(), StatusCode::OK),
            _ => Step::Silent,
        }
    }

    /// Goes to the end, leaving notifications out; None when the call was cancelled silently.
    pub async fn finish(mut self) -> Option<Bytes> {
        loop {
            match self.step().await {
                Step::Message(_) | Step::Quiet => {}
                Step::Final(message, _) => return Some(message),
                Step::Silent => return None,
            }
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let Some(mut parts) = self.parts.take() else { return };
        if parts.exchange.end() <= Instant::now() {
            // Its client was too slow to be told.
            let fault =
                Fault::late(FaultKind::Timeout, "the total time ran out while the client did not read");
            parts.ledger.blame(&Reject::fault(&fault, &parts.ledger.server));
            return parts.ledger.close(Ending::Failed);
        }
        let lost = parts.screen.era == Era::Legacy && parts.via == Via::Http;
        if let (true, Ok(runtime)) = (lost, tokio::runtime::Handle::try_current()) {
            runtime.spawn(linger(parts));
        }
    }
}

/// Lets a call whose connection was lost go on for the grace period, or until it is cancelled.
async fn linger(mut parts: Parts) {
    let grace = parts.grace;
    let token = parts.entry.cancelled().clone();
    let rest = async {
        loop {
            match parts.exchange.next().await {
                Ok(Event::Progress(_) | Event::Log(_)) => {}
                Ok(Event::Done(answer)) => return Some(answer),
                Err(_) => return None,
            }
        }
    };
    let answer = tokio::select! {
        answer = timeout(grace, rest) => answer,
        () = token.wait() => Ok(None),
    };
    // What the server did is recorded as done, even though nobody was told.
    let ending = match answer {
        Ok(Some(answer)) => match parts.screen.answer(parts.exchange.permitted(), answer) {
            Ok(end) => end.ending,
            Err(_) => Ending::Failed,
        },
        Ok(None) if !token.yet() => Ending::Failed,
        _ => Ending::Cancelled,
    };
    parts.ledger.close(ending);
}
