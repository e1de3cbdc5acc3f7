//! A call under way, seen from the client: events in, screened messages out, the record closed at the end. When
//! it is dropped before its end the client has left: a modern client's call is cancelled at once, a legacy
//! client's goes on for the grace period, since a lost connection is no cancellation there.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;
use mcp::era::Era;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::last::{Ended, Held, Last, Said};
use super::linger;
use super::start::Asking;
use super::tags::Tags;
use crate::inflight;
use crate::ports::clock::since_epoch;
use crate::ports::journal::{Ending, Kept};
use crate::ports::upstream::{Answer, Event, Fault, FaultKind};
use crate::reject::{Reject, Why};
use crate::stages::admit::Via;
use crate::stages::forward::Exchange;
use crate::stages::limit;
use crate::stages::record::Ledger;
use crate::stages::screen::{Final, Screen};
use crate::who::Who;

/// Silence after which a stream is kept alive by a comment; load balancers cut idle ones after a minute or so.
pub const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The parts of a call under way.
pub struct Parts {
    /// The server's side.
    pub exchange: Exchange,
    /// The client's side.
    pub screen: Screen,
    /// The record.
    pub ledger: Box<Ledger>,
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
    /// When its caller's credential has ended for good.
    pub ends: Option<Instant>,
    /// What names it in the answer's headers and events.
    pub tags: Tags,
}

/// When a stream of this caller is cut: when its credential has ended and the grace after it.
pub fn ends(who: &Who, now: SystemTime, grace: Duration) -> Option<Instant> {
    let now = since_epoch(now);
    let end = Duration::from_secs(who.principal.expires()?).saturating_add(grace);
    Instant::now().checked_add(end.saturating_sub(now))
}

/// Waits for that moment.
pub async fn ended(ends: Option<Instant>) {
    match ends {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl Parts {
    /// What the client may see of the end, noted for the record.
    pub(super) fn end(&mut self, answer: Result<Answer, Fault>) -> Result<Final, Reject> {
        self.note(&answer);
        match answer {
            Ok(answer) => self.screen.answer(self.exchange.permitted(), answer),
            Err(fault) => Err(Reject::fault(&fault, &self.ledger.server)),
        }
    }

    /// What the call is charged by.
    fn note(&mut self, answer: &Result<Answer, Fault>) {
        match answer {
            Ok(answer) => {
                let price = limit::price_of(self.exchange.permitted());
                self.ledger.answered(price, answer.outcome.as_ref().ok());
            }
            Err(fault) if !fault.dispatched => self.ledger.unsent(),
            Err(_) => {}
        }
    }
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
    parts: Option<Box<Parts>>,
    asking: Option<Asking>,
    /// The answer, while what came before it still goes out.
    answer: Option<Result<Answer, Fault>>,
    /// The end, while its record is not on disk.
    held: Option<Box<Held>>,
    quiet: Instant,
    tags: Tags,
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
    pub fn new(mut parts: Box<Parts>) -> Live {
        Live {
            tags: std::mem::take(&mut parts.tags),
            parts: Some(parts),
            asking: None,
            answer: None,
            held: None,
            quiet: Instant::now() + KEEP_ALIVE,
        }
    }

    /// Takes a call on that a person is asked about first.
    pub fn asking(asking: Asking) -> Live {
        Live {
            tags: Tags::default(),
            parts: None,
            asking: Some(asking),
            answer: None,
            held: None,
            quiet: Instant::now() + KEEP_ALIVE,
        }
    }

    /// Gives out the question, then waits for what follows on its answer; None once the call is under way.
    async fn ask(&mut self) -> Option<Step> {
        let asking = self.asking.as_mut()?;
        if let Some(question) = asking.question.take() {
            return Some(Step::Message(question));
        }
        let next = tokio::select! {
            biased;
            () = asking.cancelled.wait() => {
                let step = match (asking.era, asking.via) {
                    (Era::Legacy, Via::Http) => Step::Final(asking.given_up(), StatusCode::OK),
                    _ => Step::Silent,
                };
                self.asking = None;
                return Some(step);
            }
            next = &mut asking.rest => next,
            () = asking.closing.cancelled() => Err((asking.ended(), StatusCode::OK)),
            () = sleep_until(self.quiet) => {
                self.quiet = Instant::now() + KEEP_ALIVE;
                return Some(Step::Quiet);
            }
        };
        self.asking = None;
        match next {
            Ok(mut parts) => {
                self.tags = std::mem::take(&mut parts.tags);
                self.parts = Some(parts);
                None
            }
            Err((message, status)) => Some(Step::Final(message, status)),
        }
    }

    /// What was given out reaches nobody: a question among it is not waited for.
    pub fn unheard(&self) {
        if let Some(asking) = &self.asking {
            asking.unheard.cancel();
        }
    }

    /// What names the call in the answer.
    pub fn tags(&mut self) -> &mut Tags {
        &mut self.tags
    }

    /// When the call ends at the latest, unless it has ended.
    pub fn end(&self) -> Option<Instant> {
        let asking = self.asking.as_ref().map(|asking| asking.end);
        asking.or_else(|| self.parts.as_ref().map(|parts| parts.exchange.end()))
    }

    /// What comes next. May be dropped and asked again.
    pub async fn step(&mut self) -> Step {
        loop {
            if let Some(step) = self.ask().await {
                return step;
            }
            if let Some(step) = self.settle().await {
                return step;
            }
            let Some(parts) = &mut self.parts else { return Step::Silent };
            if let Some(message) = parts.screen.next(self.answer.is_some()) {
                self.quiet = Instant::now() + KEEP_ALIVE;
                return Step::Message(message);
            }
            if let Some(answer) = self.answer.take() {
                match self.close(answer) {
                    Some(step) => return step,
                    None => continue,
                }
            }
            // One timer for both.
            let alarm = parts.ends.map_or(self.quiet, |ends| ends.min(self.quiet));
            let event = tokio::select! {
                biased;
                () = parts.entry.cancelled().wait() => match self.cancelled() {
                    Some(step) => return step,
                    None => continue,
                },
                event = parts.exchange.next(alarm) => event,
                () = parts.closing.cancelled() => {
                    Err(Fault::late(FaultKind::Dropped, "the gateway ended before the answer came"))
                }
            };
            match event {
                Ok(None) if alarm < self.quiet => match self.outlived() {
                    Some(step) => return step,
                    None => continue,
                },
                Ok(None) => {
                    self.quiet = Instant::now() + KEEP_ALIVE;
                    return Step::Quiet;
                }
                Ok(Some(Event::Progress(params))) => parts.screen.progress(&params),
                Ok(Some(Event::Log(params))) => parts.screen.log(&params),
                Ok(Some(Event::Done(answer))) => self.answer = Some(Ok(answer)),
                Err(fault) => self.answer = Some(Err(fault)),
            }
        }
    }

    /// Waits until the record of the call's end is on disk, and gives the answer out, or what stands for it.
    async fn settle(&mut self) -> Option<Step> {
        let kept = self.held.as_mut()?.wait().await;
        let (message, status) = self.held.take()?.end(kept);
        Some(Step::Final(message, status))
    }

    /// Gives a final message out, at once or when its record is on disk.
    fn last(&mut self, parts: Box<Parts>, kept: Kept, said: Said) -> Option<Step> {
        let Parts { ledger, screen, .. } = *parts;
        match (Last { ledger, id: screen.id, era: screen.era, said }).when(kept) {
            Ended::Now(message, status) => Some(Step::Final(message, status)),
            Ended::Held(held) => {
                self.held = Some(held);
                None
            }
        }
    }

    /// The end; none while its record is not on disk.
    fn close(&mut self, answer: Result<Answer, Fault>) -> Option<Step> {
        let Some(mut parts) = self.parts.take() else { return Some(Step::Silent) };
        match parts.end(answer) {
            Ok(end) => {
                let kept = parts.ledger.finish(end.ending, end.result().cloned());
                self.last(parts, kept, Said::Answer(end))
            }
            Err(reject) => self.fail(parts, reject),
        }
    }

    /// The caller's credential has ended meanwhile. The server is told by dropping the exchange; what it has done it has
    /// done, so nobody is asked to try again.
    fn outlived(&mut self) -> Option<Step> {
        let Some(parts) = self.parts.take() else { return Some(Step::Silent) };
        let text = "the credential ended before the answer was complete; the call may have been executed";
        self.fail(parts, Reject::new(Why::Ended, text))
    }

    fn fail(&mut self, mut parts: Box<Parts>, reject: Reject) -> Option<Step> {
        let kept = parts.ledger.fail(&reject);
        self.last(parts, kept, Said::Refusal(reject))
    }

    /// The client asked for the end: the server is told by dropping the exchange, and a legacy client that still
    /// waits on its connection gets what there was. None while the record of that is not on disk.
    fn cancelled(&mut self) -> Option<Step> {
        let Some(mut parts) = self.parts.take() else { return Some(Step::Silent) };
        parts.ledger.partial = parts.screen.partial();
        let kept = parts.ledger.finish(Ending::Cancelled, None);
        match (parts.screen.era, parts.via) {
            (Era::Legacy, Via::Http) => {
                let given = parts.screen.cancelled();
                self.last(parts, kept, Said::Own(given))
            }
            _ => Some(Step::Silent),
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
        if let Some(asking) = self.asking.take() {
            // Only a question that has left can be answered, on whatever connection.
            let asked = asking.question.is_none() && !asking.grace.is_zero();
            let lost = asking.era == Era::Legacy && asking.via == Via::Http && asked;
            if let (true, Ok(runtime)) = (lost, tokio::runtime::Handle::try_current()) {
                runtime.spawn(linger::asked(asking));
            }
            return;
        }
        let Some(mut parts) = self.parts.take() else { return };
        parts.ledger.partial = parts.screen.partial();
        if parts.exchange.end() <= Instant::now() {
            // Its client was too slow to be told.
            let fault =
                Fault::late(FaultKind::Timeout, "the total time ran out while the client did not read");
            let reject = Reject::fault(&fault, &parts.ledger.server);
            return drop(parts.ledger.fail(&reject));
        }
        let lost = parts.screen.era == Era::Legacy && parts.via == Via::Http;
        if let (true, Ok(runtime)) = (lost, tokio::runtime::Handle::try_current()) {
            runtime.spawn(linger::linger(parts));
        }
    }
}
