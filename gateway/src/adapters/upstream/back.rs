//! The way back to a legacy server over HTTP: answers to its requests, cancellations, resumed streams. Everything here
//! has a deadline of its own and a bound on how much of it runs at once; nothing here ever holds up a call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode};
use mcp::json::Raw;
use mcp::message::{Id, Request};
use mcp::method;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::answer::broken;
use super::http::is_event_stream;
use super::net::{Headers, Net};
use crate::adapters::outbound::Body;
use crate::adapters::pipe;
use crate::ports::upstream::Fault;

/// Messages to one server that wait for their 202 at once; more are dropped.
pub(super) const SIDE_POSTS: usize = 32;

/// Sends what belongs to a session but is no call.
pub(super) struct Back {
    /// The server.
    pub(super) net: Arc<Net>,
    /// The session's headers.
    pub(super) headers: Headers,
    /// How long one message may take.
    pub(super) within: Duration,
    /// Bounds what runs at once, over all sessions of the server.
    pub(super) gate: Arc<Semaphore>,
    /// The server's id, for log lines.
    pub(super) server: Arc<str>,
    /// What `roots/list` is answered with.
    pub(super) roots: Option<Raw>,
}

impl Back {
    /// Answers a request of the server.
    pub(super) fn answer(self: &Arc<Self>, request: &Request) {
        tracing::debug!(server = %self.server, ping = request.method == method::PING, "the server sent a request");
        self.post(pipe::answer(request, self.roots.as_ref()));
    }

    /// Tells the server that nobody waits for `id` any more.
    pub(super) fn cancel(self: &Arc<Self>, id: &Id) {
        self.post(pipe::cancelled(id));
    }

    fn post(self: &Arc<Self>, body: Bytes) {
        let (Ok(runtime), Ok(permit)) = (Handle::try_current(), Arc::clone(&self.gate).try_acquire_owned())
        else {
            tracing::debug!(server = %self.server, "too many messages to the server at once: one is dropped");
            return;
        };
        let back = Arc::clone(self);
        runtime.spawn(async move {
            let _permit = permit;
            let sent = tokio::time::timeout(back.within, back.net.post(back.headers.clone(), body)).await;
            match sent {
                Ok(Ok(answer)) if answer.status().is_success() => {}
                Ok(Ok(answer)) => {
                    tracing::debug!(server = %back.server, status = answer.status().as_u16(), "message refused");
                }
                Ok(Err(fault)) => tracing::debug!(server = %back.server, %fault, "message not delivered"),
                Err(_) => tracing::debug!(server = %back.server, "message not delivered in time"),
            }
        });
    }

    /// DELETE; a server that cannot close sessions says 405, which is fine.
    pub(super) async fn close_session(&self) {
        match tokio::time::timeout(self.within, self.net.delete(self.headers.clone())).await {
            Ok(Ok(answer)) => {
                let status = answer.status().as_u16();
                tracing::debug!(server = %self.server, status, "upstream session closed");
            }
            Ok(Err(fault)) => tracing::debug!(server = %self.server, %fault, "session not closed"),
            Err(_) => tracing::debug!(server = %self.server, "session not closed in time"),
        }
    }

    /// Opens a broken stream again where it broke (2025-11-25, resumability).
    pub(super) async fn resume(&self, last_id: &str) -> Result<Body, Fault> {
        let mut headers = self.headers.clone();
        let value =
            HeaderValue::from_str(last_id).map_err(|_| broken("an event id that no header can carry"))?;
        headers.insert(HeaderName::from_static("last-event-id"), value);
        let answer = tokio::time::timeout(self.within, self.net.get(headers))
            .await
            .map_err(|_| broken("the stream could not be resumed in time"))??;
        if answer.status() != StatusCode::OK || !is_event_stream(answer.headers()) {
            return Err(broken(format!("the stream could not be resumed: {}", answer.status().as_u16())));
        }
        Ok(answer.into_body())
    }
}

/// Cancels a call of the legacy era that is dropped before its end. The modern era needs none: there, closing the
/// stream is the cancellation.
pub(super) struct CancelGuard {
    armed: Option<(Arc<Back>, Id)>,
}

impl CancelGuard {
    /// For a call that is about to be sent.
    pub(super) fn new(back: Option<&Arc<Back>>, id: &Id) -> CancelGuard {
        CancelGuard { armed: back.map(|back| (Arc::clone(back), id.clone())) }
    }

    /// The server has answered, or never got the call.
    pub(super) fn disarm(&mut self) {
        self.armed = None;
    }
}

impl Drop for CancelGuard {
    fn drop(&mut self) {
        if let Some((back, id)) = self.armed.take() {
            back.cancel(&id);
        }
    }
}
