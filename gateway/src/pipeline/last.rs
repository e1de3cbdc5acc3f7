//! The last message of a call: made when its record is closed, since it names the record; where the journal is strict it
//! waits until the record is on disk.

use bytes::Bytes;
use http::StatusCode;
use mcp::dress::Meta;
use mcp::era::Era;
use mcp::json::Raw;
use mcp::message::{Id, RpcError};
use mcp::method;

use crate::ports::journal::{Kept, Settling};
use crate::reject::Reject;
use crate::stages::record::{Ledger, withheld};
use crate::stages::screen::{Final, Screened};

/// What is told at the end.
pub(super) enum Said {
    /// What the server answered.
    Answer(Final),
    /// Why there is no answer.
    Refusal(Reject),
    /// What the gateway says itself.
    Own(Raw),
}

/// Whose end it is: the closed record, the request's id and the client's era.
pub(super) struct Last {
    pub(super) ledger: Box<Ledger>,
    pub(super) id: Id,
    pub(super) era: Era,
    pub(super) said: Said,
}

/// The end of a call.
pub(super) enum Ended {
    /// It may leave.
    Now(Bytes, StatusCode),
    /// It waits for its record.
    Held(Box<Held>),
}

/// An end that waits for its record.
pub(super) struct Held {
    settling: Settling,
    last: Last,
}

impl Last {
    /// The end, at once or when its record is on disk.
    pub(super) fn when(self, kept: Kept) -> Ended {
        match kept {
            Kept::Later(settling) => Ended::Held(Box::new(Held { settling, last: self })),
            Kept::Now(_) => {
                let (message, status) = self.message();
                Ended::Now(message, status)
            }
        }
    }

    fn message(self) -> (Bytes, StatusCode) {
        let Last { ledger, id, era, said } = self;
        match said {
            Said::Answer(Final { outcome, status, .. }) => (answer(&ledger, &id, outcome), status),
            Said::Refusal(reject) => (refusal(&reject, &id, era, &ledger), reject.why.status(era)),
            Said::Own(result) => (own(&result, &id, &ledger), StatusCode::OK),
        }
    }
}

impl Held {
    /// Waits for the record. May be dropped and asked again.
    pub(super) async fn wait(&mut self) -> Result<(), Reject> {
        if let Some(receipt) = self.settling.as_mut().await.map_err(withheld)? {
            self.last.ledger.receipt = Some(receipt);
        }
        Ok(())
    }

    /// The end after that wait.
    pub(super) fn end(mut self, kept: Result<(), Reject>) -> (Bytes, StatusCode) {
        if let Err(reject) = kept {
            let call_id = &self.last.ledger.call_id;
            tracing::error!(call_id = &**call_id, detail = reject.detail, "an outcome is not recorded");
            self.last.said = Said::Refusal(reject);
        }
        self.last.message()
    }
}

fn answer(ledger: &Ledger, id: &Id, outcome: Result<Screened, RpcError>) -> Bytes {
    match outcome {
        Ok(Screened { result, meta }) => ledger.dress(Some(result.len())).result(id, &result, meta),
        Err(error) => ledger.dress(None).refusal(id, error),
    }
}

/// The message with a result that the gateway made itself.
pub(super) fn own(result: &Raw, id: &Id, ledger: &Ledger) -> Bytes {
    ledger.dress(Some(result.len())).result(id, result, Meta::of(result))
}

/// The message that tells a client of a refusal.
pub(super) fn refusal(reject: &Reject, id: &Id, era: Era, ledger: &Ledger) -> Bytes {
    match reject.why.is_tool_error() && ledger.method == method::TOOLS_CALL {
        true => own(&reject.tool_result(era, &ledger.call_id), id, ledger),
        false => ledger.dress(None).refusal(id, reject.error(&ledger.call_id)),
    }
}
