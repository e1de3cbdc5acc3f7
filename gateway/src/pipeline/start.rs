//! From a call that nothing stands against to a call under way; for a legacy call that a person is asked about, the wait
//! in between. Everything that it takes is owned here, so that it can go on beside the request's own future.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use mcp::dress::Meta;
use mcp::era::Era;
use mcp::json::{ObjectWriter, Raw};
use mcp::message::Id;
use mcp::meta::LogLevel;
use policies::redact::Redactor;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::live::{self, Gauge, Parts};
use super::tags::Tags;
use super::{Taken, last};
use crate::gate::{Gate, Means, Snapshot};
use crate::inflight::Cancelled;
use crate::ports::upstream::{Fault, FaultKind};
use crate::profiles::Profile;
use crate::questions::Open;
use crate::reject::Reject;
use crate::seal::Sealer;
use crate::stages::admit::Via;
use crate::stages::confirm::ask::Pending;
use crate::stages::confirm::{self, Confirmed, Rounds};
use crate::stages::decode::{self, id_of};
use crate::stages::forward::{self, Ask};
use crate::stages::limit::{self, Caller, Metered};
use crate::stages::record::Ledger;
use crate::stages::record::dress::Outlook;
use crate::stages::screen::Screen;
use crate::stages::screen::filter::{self, Filter};
use crate::stages::trace;

/// What starting a call needs of the gateway.
pub(super) struct Starter {
    means: Arc<Means>,
    sealer: Sealer,
    grace: Duration,
    stream_grace: Duration,
}

impl Starter {
    pub(super) fn new(gate: &Gate, snap: &Snapshot) -> Starter {
        Starter {
            means: Arc::clone(&gate.means),
            sealer: snap.sealer.clone(),
            grace: snap.config.legacy.resume_grace,
            stream_grace: snap.config.auth.stream_grace,
        }
    }

    /// Sends a call whose intent is written.
    pub(super) fn call(self, taken: Taken, mut metered: Metered, ledger: Box<Ledger>) -> Box<Parts> {
        let Taken { bound, entry, .. } = taken;
        let ends = live::ends(&bound.identified.party.who, self.means.clock.now(), self.stream_grace);
        let (decoded, profile) = (bound.identified.decoded, bound.identified.party.profile);
        let id = id_of(&decoded.message).unwrap_or_else(|| Id::from_number(0));
        let wanted = match &bound.session {
            Some(session) => session.state.level(),
            None => decoded.meta.log_level.as_ref().and_then(Raw::string).and_then(|l| LogLevel::parse(&l)),
        };
        let mut screen = Screen::new(decoded.era, id, bound.client.capabilities.clone());
        screen.token.clone_from(&decoded.meta.progress_token);
        screen.level = wanted;
        screen.filter = Filter::new(&profile, &self.means.metrics);
        screen.rounds = metered.carry.take().map(|carry| Rounds {
            carry,
            sealer: self.sealer.clone(),
            clock: Arc::clone(&self.means.clock),
        });
        let ask = Ask {
            extra: match profile.redact_arguments {
                // A header that nothing declares may hold what was taken out of the arguments.
                true => Vec::new(),
                false => decode::extra_params(&decoded.admitted, decoded.era),
            },
            trace: trace::towards(&decoded, ledger.ids(), metered.permitted.target().method, ledger.begun()),
            meta: decoded.meta.rest.into_iter().filter(|(key, _)| !mcp::trace::is_own(key)).collect(),
            client: bound.client,
            log_level: wanted.map(|level| Raw::from_str_value(level.as_str())),
            progress: decoded.meta.progress_token.is_some(),
            session: bound.key,
            call_id: Arc::clone(&ledger.call_id),
            started: ledger.started(),
            times: forward::times(metered.permitted.target(), &profile),
        };
        // Clients of the modern era know no event ids.
        let numbered = decoded.era == Era::Legacy && decoded.admitted.via == Via::Http;
        let tags = Tags::new(ledger.span(), numbered.then_some(self.sealer));
        Box::new(Parts {
            tags,
            exchange: forward::forward(metered, ask),
            screen,
            ledger,
            entry,
            via: decoded.admitted.via,
            grace: self.grace,
            gauge: Gauge::call(&self.means.metrics),
            closing: self.means.closing.clone(),
            ends,
        })
    }

    /// Takes a legacy call on that a person is asked about first.
    pub(super) fn ask(
        self,
        mut taken: Taken,
        (pending, open): (Pending, Open),
        ledger: Box<Ledger>,
    ) -> Asking {
        // A person takes minutes, in which others are served: the place is taken anew when the call goes on.
        taken.place = None;
        let (era, via) = (taken.bound.identified.decoded.era, taken.bound.identified.decoded.admitted.via);
        let profile = &taken.bound.identified.party.profile;
        let end = ledger.started() + forward::times(pending.permitted.target(), profile).1;
        let unheard = CancellationToken::new();
        let client = id_of(&taken.bound.identified.decoded.message).unwrap_or_else(|| Id::from_number(0));
        Asking {
            question: Some(pending.request(open.id())),
            outlook: ledger.outlook(),
            cancelled: taken.entry.cancelled().clone(),
            closing: self.means.closing.clone(),
            grace: self.grace,
            id: client,
            era,
            via,
            end,
            unheard: unheard.clone(),
            rest: Box::pin(self.rest(taken, pending, ledger, (open, end, unheard))),
        }
    }

    async fn rest(
        self,
        mut taken: Taken,
        pending: Pending,
        mut ledger: Box<Ledger>,
        (open, end, unheard): (Open, Instant, CancellationToken),
    ) -> Result<Box<Parts>, (Bytes, StatusCode)> {
        let confirmed = tokio::select! {
            biased;
            () = unheard.cancelled() => Err(limit::busy()),
            confirmed = self.agreed(pending, open, (end, &ledger.server)) => confirmed,
        };
        let metered = match confirmed {
            Ok((confirmed, place)) => {
                taken.place = Some(place);
                self.metered(&mut taken, confirmed, &mut ledger).await
            }
            Err(reject) => Err(reject),
        };
        match metered {
            Ok(metered) => Ok(self.call(taken, metered, ledger)),
            Err(reject) => {
                ledger.refuse(&reject).await;
                let decoded = &taken.bound.identified.decoded;
                let id = id_of(&decoded.message).unwrap_or_else(|| Id::from_number(0));
                let message = last::refusal(&reject, &id, decoded.era, &ledger);
                Err((message, reject.why.status(decoded.era)))
            }
        }
    }

    async fn agreed(
        &self,
        pending: Pending,
        open: Open,
        (end, server): (Instant, &str),
    ) -> Result<(Confirmed, OwnedSemaphorePermit), Reject> {
        let confirmed = timeout_at(end, pending.answer(open)).await.map_err(|_| late(server))??;
        // Who has answered waits for a place rather than be asked again; such waits are as few as questions are.
        let place = timeout_at(end, Arc::clone(&self.means.places).acquire_owned()).await;
        let place = place.map_err(|_| late(server))?.map_err(|_| limit::busy())?;
        Ok((confirmed, place))
    }

    /// The last steps before a call is sent: secrets out of its arguments, its place, its reservation, its intent.
    pub(super) async fn metered(
        &self,
        taken: &mut Taken,
        mut confirmed: Confirmed,
        ledger: &mut Ledger,
    ) -> Result<Metered, Reject> {
        let bound = &taken.bound;
        self.mask(&bound.identified.party.profile, &mut confirmed)?;
        let caller = Caller { party: &bound.identified.party, run: &bound.run };
        let what = (Arc::clone(&ledger.call_id), self.means.clock.now());
        let (metered, spending) =
            self.means.limits.limit(caller, confirmed, taken.place.take(), what).await?;
        ledger.hold(spending);
        ledger.intent(&metered.permitted).await?;
        Ok(metered)
    }
}

impl Starter {
    /// Takes secrets out of what a server gets, where the task asks for that. Mirrored headers are built from what is
    /// left.
    fn mask(&self, profile: &Profile, confirmed: &mut Confirmed) -> Result<(), Reject> {
        let Some(redactor) = profile.redactor.as_deref().filter(|_| profile.redact_arguments) else {
            return Ok(());
        };
        for (key, value) in confirmed.params_mut().iter_mut() {
            match &**key {
                "arguments" | "argument" => {
                    if let Some(clean) = filter::redacted(redactor, &self.means.metrics, value)? {
                        *value = clean;
                    }
                }
                confirm::RESPONSES => *value = self.masked(redactor, value)?,
                _ => {}
            }
        }
        confirmed.ahead = match confirmed.ahead.take() {
            Some(answers) => Some(self.masked(redactor, &answers)?),
            None => None,
        };
        Ok(())
    }

    /// Answers without secrets. Each by itself: its name is the question's, which says nothing of a secret.
    fn masked(&self, redactor: &Redactor, answers: &Raw) -> Result<Raw, Reject> {
        let mut masked = ObjectWriter::with_capacity(answers.len());
        for (name, answer) in answers.members() {
            let clean = filter::redacted(redactor, &self.means.metrics, &answer)?;
            masked.raw_key(&name, clean.as_ref().unwrap_or(&answer));
        }
        Ok(masked.finish())
    }
}

/// The total time of a call ran out before it was sent.
pub(super) fn late(server: &str) -> Reject {
    let fault = Fault::early(FaultKind::Timeout, "the total time ran out before the call was sent");
    Reject::fault(&fault, server)
}

/// The call that follows on a person's answer, or the message that refuses it with its status.
type Resting = Pin<Box<dyn Future<Output = Result<Box<Parts>, (Bytes, StatusCode)>> + Send>>;

/// A legacy call that waits for a person's answer.
pub struct Asking {
    /// The question, until it was given out.
    pub question: Option<Bytes>,
    /// What can be told of the call meanwhile.
    pub outlook: Outlook,
    /// Tells when the client gives up.
    pub cancelled: Cancelled,
    /// Tells when the process ends.
    pub closing: CancellationToken,
    /// How long it outlives a lost legacy connection.
    pub grace: Duration,
    /// The call's id.
    pub id: Id,
    /// The client's era.
    pub era: Era,
    /// How it came.
    pub via: Via,
    /// To be cancelled when the question can't be given out.
    pub unheard: CancellationToken,
    /// When the call ends at the latest.
    pub end: Instant,
    /// The answer, and the call that follows; or the message that refuses it.
    pub rest: Resting,
}

impl Asking {
    /// The end that a client gets which has given up, or whom the gateway leaves.
    pub fn given_up(&self) -> Bytes {
        let result = Screen::new(self.era, self.id.clone(), Raw::empty_object()).cancelled();
        self.outlook.unsent().result(&self.id, &result, Meta::Absent)
    }

    /// What a client is told when the process ends.
    pub fn ended(&self) -> Bytes {
        let fault = Fault::early(FaultKind::Dropped, "the gateway ended before the question was answered");
        let reject = Reject::fault(&fault, "");
        self.outlook.unsent().refusal(&self.id, reject.error(&self.outlook.call_id))
    }
}
