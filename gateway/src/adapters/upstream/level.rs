//! The log level of one legacy session. Clients of the modern era share a session and name their levels call by call:
//! the server is told the least severe that was wanted so far, and what a call did not ask for is held back from it.

use std::future::Future;
use std::time::Duration;

use mcp::era::Era;
use mcp::json::Raw;
use mcp::meta::LogLevel;
use tokio::sync::Mutex;

use super::core::Core;
use crate::adapters::pipe::MuxEvent;
use crate::ports::upstream::{Answer, Call, Event, Facts, Fault};

/// What the server of a session was told.
pub(super) struct Level {
    /// Whether the server lets clients choose the level.
    offered: bool,
    told: Mutex<Option<LogLevel>>,
}

impl Level {
    /// Nothing told yet.
    pub(super) fn new(facts: &Facts) -> Level {
        let offered = facts.capabilities.get("logging").is_some_and(|v| v.is_object());
        Level { offered, told: Mutex::new(None) }
    }

    /// Whether the server declares `logging`.
    pub(super) fn is_offered(&self) -> bool {
        self.offered
    }

    /// Tells the server the level that this call asks for, when it is less severe than what it was told; `send` makes
    /// the request of it. A server that refuses is not asked again for the same level, and the call goes on.
    pub(super) async fn tell<F>(
        &self,
        core: &Core,
        call: &Call,
        within: Duration,
        send: impl FnOnce(Raw) -> F,
    ) where
        F: Future<Output = Result<(), Fault>>,
    {
        let Some(level) = call.log_level.as_ref().filter(|_| self.offered) else { return };
        let Some(wanted) = level.string().and_then(|text| LogLevel::parse(&text)) else { return };
        let mut told = self.told.lock().await;
        if told.is_some_and(|told| told <= wanted) {
            return;
        }
        match tokio::time::timeout(within, send(level.clone())).await {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => tracing::debug!(server = %core.server, %fault, "the log level was not taken"),
            Err(_) => tracing::debug!(server = %core.server, "the log level was not taken in time"),
        }
        *told = Some(wanted);
    }
}

/// What a caller who asked for `log` hears of a pipe's event.
pub(super) fn event(
    item: Result<MuxEvent, Fault>,
    era: Era,
    log: Option<LogLevel>,
) -> Option<Result<Event, Fault>> {
    match item {
        Ok(MuxEvent::Progress(params)) => Some(Ok(Event::Progress(params))),
        Ok(MuxEvent::Log(params)) => {
            let level = LogLevel::parse(&params.get("level")?.string()?)?;
            (level >= log?).then_some(Ok(Event::Log(params)))
        }
        Ok(MuxEvent::Done(response)) => Some(Ok(Event::Done(Answer { era, outcome: response.outcome }))),
        Err(fault) => Some(Err(fault)),
    }
}
