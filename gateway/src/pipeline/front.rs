//! The gateway as the edge sees it: `admit` on the head, then the body's messages through the stages, and their
//! outcomes as HTTP.

use std::sync::Arc;

use async_trait::async_trait;
use auth::registration::MAX_REQUEST;
use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use mcp::era::Era;
use mcp::message;
use tokio_util::sync::CancellationToken;

use super::{Outcome, reply};
use crate::answers;
use crate::gate::{Gate, Snapshot};
use crate::profiles::Party;
use crate::reject::{Reject, Why};
use crate::stages::admit::{self, Admitted, Verb};
use crate::stages::challenge::{self, Page};
use crate::stages::decode::{self, Body, Decoded};
use crate::stages::identify::Identified;
use crate::stages::{identify, session};
use crate::who::Who;
use crate::wire::{BodyFault, Full, Handler, Head, Reply, Work};

/// The gateway as the edge sees it.
#[derive(Clone)]
pub struct Front(pub Arc<Gate>);

struct Admission {
    gate: Arc<Gate>,
    snap: Arc<Snapshot>,
    admitted: Arc<Admitted>,
}

impl Handler for Front {
    fn admit(&self, head: Head) -> Result<Box<dyn Work>, Reply> {
        let snap = self.0.snapshot.load_full();
        let certified = head.certificate.as_deref().and_then(|der| certified(&snap, der));
        let admitted = match self.0.draining.is_cancelled() {
            true => Err(Reject::new(Why::Draining, "the gateway is going down; try another replica")),
            false => admit::admit(&snap.config, head),
        };
        match admitted {
            Ok(admitted) => {
                let admitted = Arc::new(Admitted { certified, ..admitted });
                Ok(Box::new(Admission { gate: self.0.clone(), snap, admitted }))
            }
            Err(reject) => Err(self.0.refusal(None, &reject).into()),
        }
    }
}

#[async_trait]
impl Work for Admission {
    fn body_limit(&self) -> usize {
        match self.admitted.verb {
            Verb::Page(_) => MAX_REQUEST,
            _ => self.snap.config.limits.request_bytes,
        }
    }

    fn wants_body(&self) -> bool {
        matches!(self.admitted.verb, Verb::Post | Verb::Page(Page::Register))
    }

    async fn run(self: Box<Self>, body: Bytes, gone: CancellationToken) -> Reply {
        let mut reply = match self.admitted.verb {
            Verb::Post => self.gate.post(&self.snap, &self.admitted, body, &gone).await,
            Verb::Preflight => reply::preflight().into(),
            Verb::Page(page) => {
                let page = answers::oauth::page(&self.snap, &self.admitted, page, &body).await;
                page.unwrap_or_else(|reject| self.gate.refusal(None, &reject)).into()
            }
            Verb::Get => answers::stream::open(&self.gate, &self.snap, &self.admitted).await,
            Verb::Delete => answers::stream::close(&self.gate, &self.snap, &self.admitted).await,
        };
        reply::share(&mut reply, &self.admitted);
        reply
    }

    fn refuse(self: Box<Self>, fault: BodyFault) -> Full {
        let reject = match fault {
            BodyFault::TooLarge => {
                let text = format!("the body is larger than {} bytes", self.body_limit());
                Reject::new(Why::BodySize, text)
            }
            BodyFault::Timeout => Reject::new(Why::BodyTime, "the body did not arrive in time"),
            BodyFault::Malformed | BodyFault::Gone => {
                Reject::new(Why::Invalid, "the body's framing is broken")
            }
        };
        let mut full = self.gate.refusal(None, &reject);
        full.close = true;
        full
    }
}

impl Gate {
    /// The answer to a refusal that came before the message was known.
    pub fn refusal(&self, party: Option<&Party>, reject: &Reject) -> Full {
        let call_id = self.refused(party, reject);
        reply::refusal(reject, reject.why.row().status, &call_id)
    }

    async fn post(
        &self,
        snap: &Snapshot,
        admitted: &Arc<Admitted>,
        body: Bytes,
        gone: &CancellationToken,
    ) -> Reply {
        let now = self.means.clock.now();
        let body = match decode::decode(&snap.config, now, Arc::clone(admitted), body).await {
            Ok(body) => body,
            Err(reject) => return self.refusal(None, &reject).into(),
        };
        let party = match identify::identify(snap, admitted, now).await {
            Ok(party) => party,
            Err(reject) => {
                let reject = challenge::dress(&snap.config, admitted, reject.id(body.id()));
                return self.refusal(None, &reject).into();
            }
        };
        match body {
            Body::Batch(batch) => {
                let desk = self.desk(snap, &party, None);
                match session::check_batch(&desk, &admitted.headers) {
                    Ok(()) => self.batch(snap, &party, batch, gone).await.into(),
                    Err(reject) => self.refusal(Some(&party), &reject).into(),
                }
            }
            Body::One(decoded) => self.one(snap, Identified { decoded, party }, gone).await,
        }
    }

    async fn one(&self, snap: &Snapshot, identified: Identified, gone: &CancellationToken) -> Reply {
        // Who leaves has cancelled, on the modern era; a legacy client that is lost has not.
        let modern = identified.decoded.era == Era::Modern;
        let admitted = Arc::clone(&identified.decoded.admitted);
        let outcome = tokio::select! {
            biased;
            () = gone.cancelled(), if modern => return Full::empty(StatusCode::ACCEPTED).into(),
            outcome = self.message(snap, identified, None) => outcome,
        };
        match outcome {
            Outcome::Accepted => Full::empty(StatusCode::ACCEPTED).into(),
            Outcome::Answer(message, session) => answered(message, session).into(),
            Outcome::Refused(reject, status, call_id) => {
                reply::refusal(&challenge::dress(&snap.config, &admitted, reject), status, &call_id).into()
            }
            Outcome::Live(live) => reply::first(*live, gone, self).await,
        }
    }

    /// Each message of a batch goes through all stages by itself; notifications of its calls are left out. When the
    /// client is lost, what is under way goes on for its grace.
    async fn batch(
        &self,
        snap: &Snapshot,
        party: &Party,
        batch: Vec<Result<Box<Decoded>, Reject>>,
        gone: &CancellationToken,
    ) -> Full {
        let answers = reply::batch(batch.into_iter().map(|decoded| async {
            let refused =
                |reject: &Reject, call_id: &str| message::error(reject.id.as_ref(), &reject.error(call_id));
            match decoded {
                Err(reject) => Some(refused(&reject, &self.refused(Some(party), &reject))),
                Ok(decoded) => {
                    match self.message(snap, Identified { decoded, party: party.clone() }, None).await {
                        Outcome::Accepted => None,
                        Outcome::Answer(message, _) => Some(message),
                        Outcome::Refused(reject, _, call_id) => Some(refused(&reject, &call_id)),
                        Outcome::Live(live) => live.finish().await,
                    }
                }
            }
        }));
        let answers = tokio::select! {
            biased;
            () = gone.cancelled() => return Full::empty(StatusCode::ACCEPTED),
            answers = answers => answers,
        };
        match answers {
            Ok(None) => Full::empty(StatusCode::ACCEPTED),
            Ok(Some(array)) => reply::json(StatusCode::OK, array),
            Err(reject) => self.refusal(Some(party), &reject),
        }
    }
}

/// Whose certificate the client has shown. One that names nobody proves nobody.
fn certified(snap: &Snapshot, der: &[u8]) -> Option<Arc<Who>> {
    match snap.keys.certificate(der) {
        Ok(who) => Some(who),
        Err(denied) => {
            tracing::debug!(?denied, "a client certificate that names nobody");
            None
        }
    }
}

fn answered(message: Bytes, session: Option<String>) -> Full {
    let mut full = reply::json(StatusCode::OK, message);
    if let Some(id) = session.and_then(|id| HeaderValue::from_str(&id).ok()) {
        full.headers.insert(&session::SESSION_HEADER, id);
    }
    full
}
