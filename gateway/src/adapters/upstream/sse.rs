//! The HTTP+SSE transport of 2024-11-05 as a pipe: one GET stream that brings everything, one POST per message. The
//! server names the URL to POST to; one of another origin is refused, since the configured credential goes with it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{StatusCode, Uri};
use http_body_util::BodyExt as _;
use mcp::sse::Decoder;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::answer::{broken, too_large};
use super::core::{Core, Way};
use super::http::{is_event_stream, refusal};
use super::net::Net;
use super::pipes::{NotOpened, Open, Opened, Pipes};
use super::sessions::IDLE;
use crate::adapters::outbound::{Body, chain};
use crate::adapters::pipe::Pipe;
use crate::ports::upstream::{Behalf, Fault, FaultKind};

/// Messages read and not yet taken by the multiplexer.
const WAITING: usize = 32;

/// The server as pipes of this transport.
pub(super) fn pipes(core: &Arc<Core>, net: &Arc<Net>) -> Arc<Pipes> {
    let opener = OldSse {
        net: Arc::clone(net),
        within: core.spec.timeouts.initialize,
        cap: core.spec.answer_bytes,
        server: Arc::clone(&core.server),
    };
    Pipes::new(core, Box::new(opener), None, IDLE, Some(Way::OldSse))
}

struct OldSse {
    net: Arc<Net>,
    within: Duration,
    cap: usize,
    server: Arc<str>,
}

#[async_trait]
impl Open for OldSse {
    async fn open(&self) -> Result<Opened, NotOpened> {
        let opened = tokio::time::timeout(self.within, self.connect()).await;
        opened
            .unwrap_or_else(|_| {
                Err(Fault::late(FaultKind::Timeout, format!("no `endpoint` event within {:?}", self.within)))
            })
            .map_err(NotOpened::Failed)
    }
}

impl OldSse {
    async fn connect(&self) -> Result<Opened, Fault> {
        let answer = self.net.get(self.net.headers(&Behalf::gateway())).await?;
        let status = answer.status();
        if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
            return Err(Fault::late(FaultKind::Auth, format!("the server answered {}", status.as_u16())));
        }
        if status != StatusCode::OK {
            return Err(refusal(status, None));
        }
        if !is_event_stream(answer.headers()) {
            return Err(broken("the answer to GET is no event stream"));
        }
        let mut stream = Stream { body: answer.into_body(), decoder: Decoder::new(self.cap), cap: self.cap };
        let (name, data) = stream.next().await?;
        if name.as_deref() != Some("endpoint") {
            return Err(broken("the stream does not begin with an `endpoint` event"));
        }
        let endpoint = self.endpoint(&data)?;
        let end = CancellationToken::new();
        let (to, incoming) = mpsc::channel(WAITING);
        tokio::spawn(read(stream, to, end.clone()));
        let pipe = SsePipe {
            net: Arc::clone(&self.net),
            endpoint,
            within: self.within,
            end,
            server: Arc::clone(&self.server),
        };
        Ok((Arc::new(pipe), incoming))
    }

    /// The URL to POST to; of our origin, or refused.
    fn endpoint(&self, data: &[u8]) -> Result<Uri, Fault> {
        let bad = |what: &str| broken(format!("the `endpoint` event {what}"));
        let text = std::str::from_utf8(data).map_err(|_| bad("is not text"))?.trim();
        let url = self.net.url().join(text).map_err(|_| bad("holds no URL"))?;
        let own = self.net.url();
        let same = url.scheme() == own.scheme()
            && url.host_str() == own.host_str()
            && url.port_or_known_default() == own.port_or_known_default();
        if !same || !url.username().is_empty() || url.password().is_some() {
            return Err(bad("points to another origin"));
        }
        url.as_str().parse().map_err(|_| bad("holds a URL that cannot be used"))
    }
}

struct Stream {
    body: Body,
    decoder: Decoder,
    cap: usize,
}

impl Stream {
    /// The next event with data.
    async fn next(&mut self) -> Result<(Option<String>, Bytes), Fault> {
        loop {
            if let Some(event) = self.decoder.next() {
                if event.data.is_empty() {
                    continue;
                }
                return Ok((event.event, event.data));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.decoder.push(&data).map_err(|_| too_large(self.cap))?;
                    }
                }
                Some(Err(e)) => return Err(Fault::late(FaultKind::Dropped, chain(&e))),
                None => return Err(Fault::late(FaultKind::Dropped, "the server closed its stream")),
            }
        }
    }
}

/// Moves messages until the stream ends, breaks, or the pipe is closed.
async fn read(mut stream: Stream, to: mpsc::Sender<Result<Bytes, Fault>>, end: CancellationToken) {
    let moving = async {
        loop {
            match stream.next().await {
                Ok((name, data)) if name.as_deref().unwrap_or("message") == "message" => {
                    if to.send(Ok(data)).await.is_err() {
                        return;
                    }
                }
                Ok(_) => {}
                Err(fault) => {
                    let _ = to.send(Err(fault)).await;
                    return;
                }
            }
        }
    };
    tokio::select! {
        () = moving => {}
        () = end.cancelled() => {}
    }
}

struct SsePipe {
    net: Arc<Net>,
    endpoint: Uri,
    within: Duration,
    end: CancellationToken,
    server: Arc<str>,
}

#[async_trait]
impl Pipe for SsePipe {
    async fn send(&self, line: Bytes) -> Result<(), Fault> {
        let posting = self.net.post_to(self.endpoint.clone(), self.net.headers(&Behalf::gateway()), line);
        let answer = tokio::time::timeout(self.within, posting)
            .await
            .map_err(|_| Fault::late(FaultKind::Timeout, "the server did not take a message in time"))??;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        tracing::debug!(server = %self.server, status = status.as_u16(), "message refused");
        if status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN {
            return Err(Fault::late(FaultKind::Auth, format!("the server answered {}", status.as_u16())));
        }
        if status == StatusCode::NOT_FOUND || status == StatusCode::GONE {
            // The server has forgotten this connection; the next call opens another.
            self.end.cancel();
        }
        Err(refusal(status, None))
    }

    async fn close(&self, _grace: Duration) {
        self.end.cancel();
    }
}

impl Drop for SsePipe {
    fn drop(&mut self) {
        self.end.cancel();
    }
}
