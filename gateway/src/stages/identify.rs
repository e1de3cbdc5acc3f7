//! Stage 3: who is calling, proven by a credential, and under which task. Without a credential a caller is nobody in
//! particular, which only tasks on a loopback listener admit. The credential is looked at here and in token exchange
//! alone; no server ever gets it.

use std::sync::Arc;
use std::time::SystemTime;

use auth::bearer::{self, BearerError};
use http::header::{AUTHORIZATION, HeaderName};
use policies::select::TaskOffer;

use crate::gate::Snapshot;
use crate::ports::keys::Denied;
use crate::profiles::{Door, Party, Unfit};
use crate::reject::{Reject, Why};
use crate::stages::admit::{Admitted, Via};
use crate::stages::decode::{self, Decoded};
use crate::who::Who;

/// The header that may name a task.
pub static TASK_HEADER: HeaderName = HeaderName::from_static("tollgate-task");

/// A decoded message with its caller and task.
pub struct Identified {
    /// The message.
    pub decoded: Box<Decoded>,
    /// Whose it is, and under which task.
    pub party: Party,
}

/// Finds the caller and the task of a request. Once for all messages of a body.
///
/// # Errors
/// 401 for a credential that proves nobody, 403 for a task that the caller is not admitted to.
pub async fn identify(snap: &Snapshot, admitted: &Admitted, now: SystemTime) -> Result<Party, Reject> {
    // Where nothing could prove anybody, credentials are for somebody else.
    let token = if snap.keys.any() { credential(admitted)? } else { None };
    let who = match token {
        None => match &admitted.certified {
            Some(who) => Arc::clone(who),
            None => Who::anonymous(),
        },
        Some(token) => snap.keys.present(token, now).await.map_err(denied)?,
    };
    party(snap, admitted, who)
}

/// The credential of the request.
fn credential(admitted: &Admitted) -> Result<Option<&str>, Reject> {
    if admitted.via == Via::Stdio {
        return Ok(None);
    }
    let lines =
        admitted.headers.get_all(AUTHORIZATION).iter().map(|value| value.to_str().unwrap_or_default());
    bearer::credential(lines, admitted.query.as_deref()).map_err(malformed)
}

fn malformed(error: BearerError) -> Reject {
    Reject::new(Why::Credential, "send one credential: Authorization: Bearer <token>").detail(error.reason())
}

fn denied(denied: Denied) -> Reject {
    match denied {
        Denied::Invalid(reason) => {
            Reject::new(Why::Credential, "the credential is not valid here").detail(reason)
        }
        Denied::Unavailable(detail) => {
            Reject::new(Why::KeysAway, "credentials can't be checked at present").detail(detail)
        }
    }
}

/// The task that the caller works under.
///
/// # Errors
/// 401 where a credential could help, else 403.
pub fn party(snap: &Snapshot, admitted: &Admitted, who: Arc<Who>) -> Result<Party, Reject> {
    let offer = TaskOffer {
        claim: who.claims().0,
        url: admitted.task.as_deref(),
        header: decode::header(&admitted.headers, &TASK_HEADER),
    };
    let door = Door { credentials: snap.keys.any(), http: admitted.via == Via::Http };
    match snap.profiles.admit(&who.caller, offer, door) {
        Ok(profile) => Ok(Party { who, profile }),
        Err(unfit @ Unfit::Credential) => Err(Reject::new(Why::NoCredential, unfit.public())),
        Err(unfit @ Unfit::Task(_)) => Err(Reject::new(Why::Task, unfit.public())),
    }
}
