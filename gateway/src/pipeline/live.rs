//! A call under way, seen from the client: events in, screened messages out, the record closed at the end. When
//! it is dropped before its end the client has left: a modern client's call is cancelled at once, a legacy
//! client's goes on for the grace period, since a lost connection is no cancellation there.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::StatusCode;
use mcp::era::Era;
use mcp::message::{self, Id};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::answer_to;
use super::start::Asking;
use crate::inflight;
use crate::ports::clock::since_epoch;
use crate::ports::journal::{Ending, Settling};
use crate::ports::upstream::{Answer, Event, Fault, FaultKind};
use crate::reject::{Reject, Why};
use crate::stages::admit::Via;
use crate::stages::forward::Exchange;
use crate::stages::limit;
use crate::stages::record::{Ledger, withheld};
use crate::stages::screen::Screen;
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
    /// When its caller's credential has ended for good.
    pub ends: Option<Instant>,
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
    parts: Option<Parts>,
    asking: Option<Asking>,
    /// The answer, while what came before it still goes out.
    answer: Option<Result<Answer, Fault>>,
    /// The end, while its record is not on disk.
    held: Option<Held>,
    quiet: Instant,
}

/// A final message that waits for its record, and what is said when there will be none.
struct Held {
    settling: Settling,
    end: (Bytes, StatusCode),
    id: Id,
    call_id: Arc<str>,
    era: Era,
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
        Live {
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
            Ok(parts) => {
                self.parts = Some(parts);
                None
            }
            Err((message, status)) => Some(Step::Final(message, status)),
        }
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
                () = parts.entry.cancelled().wait() => return self.cancelled(),
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
        let held = self.held.as_mut()?;
        let kept = held.settling.as_mut().await;
        let Held { end: (message, status), id, call_id, era, .. } = self.held.take()?;
        Some(match kept {
            Ok(()) => Step::Final(message, status),
            Err(why) => {
                let reject = withheld(why);
                tracing::error!(call_id = &*call_id, detail = reject.detail, "an outcome is not recorded");
                Step::Final(message::error(Some(&id), &reject.error(&call_id)), reject.why.status(era))
            }
        })
    }

    /// Gives a final message out, at once or when its record is on disk.
    fn last(&mut self, parts: Parts, settling: Option<Settling>, end: (Bytes, StatusCode)) -> Option<Step> {
        let Some(settling) = settling else { return Some(Step::Final(end.0, end.1)) };
        let (era, call_id) = (parts.screen.era, Arc::clone(&parts.ledger.call_id));
        self.held = Some(Held { settling, end, id: parts.screen.id, call_id, era });
        None
    }

    /// The end; none while its record is not on disk.
    fn close(&mut self, answer: Result<Answer, Fault>) -> Option<Step> {
        let Some(mut parts) = self.parts.take() else { return Some(Step::Silent) };
        parts.note(&answer);
        let answer = match answer {
            Ok(answer) => parts.screen.answer(parts.exchange.permitted(), answer),
            Err(fault) => Err(Reject::fault(&fault, &parts.ledger.server)),
        };
        match answer {
            Ok(end) => {
                let settling = parts.ledger.finish(end.ending, end.result);
                self.last(parts, settling, (end.message, end.status))
            }
            Err(reject) => self.fail(parts, &reject),
        }
    }

    /// The caller's credential has ended meanwhile. The server is told by dropping the exchange; what it has done it has
    /// done, so nobody is asked to try again.
    fn outlived(&mut self) -> Option<Step> {
        let Some(parts) = self.parts.take() else { return Some(Step::Silent) };
        let text = "the credential ended before the answer was complete; the call may have been executed";
        self.fail(parts, &Reject::new(Why::Ended, text))
    }

    fn fail(&mut self, mut parts: Parts, reject: &Reject) -> Option<Step> {
        parts.ledger.blame(reject);
        let settling = parts.ledger.finish(Ending::Failed, None);
        let era = parts.screen.era;
        let message = answer_to(reject, &parts.screen.id, era, &parts.ledger);
        self.last(parts, settling, (message, reject.why.status(era)))
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
            match parts.exchange.next(Instant::now() + KEEP_ALIVE).await {
                Ok(None | Some(Event::Progress(_) | Event::Log(_))) => {}
                Ok(Some(Event::Done(answer))) => return Some(Ok(answer)),
                Err(fault) => return Some(Err(fault)),
            }
        }
    };
    let end = tokio::select! {
        end = timeout(grace, rest) => end,
        () = token.wait() => Ok(None),
    };
    if let Ok(Some(end)) = &end {
        parts.note(end);
    }
    let answer = end.map(|end| end.and_then(Result::ok));
    // What the server did is recorded as done, even though nobody was told.
    let (ending, result) = match answer {
        Ok(Some(answer)) => match parts.screen.answer(parts.exchange.permitted(), answer) {
            Ok(end) => (end.ending, end.result),
            Err(_) => (Ending::Failed, None),
        },
        Ok(None) if !token.yet() => (Ending::Failed, None),
        _ => (Ending::Cancelled, None),
    };
    drop(parts.ledger.finish(ending, result));
}
