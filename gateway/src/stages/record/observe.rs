//! What metrics and traces are told of a message at its end. One call from where the record closes; without traces
//! nothing of what they need is gathered.

use std::sync::Arc;
use std::time::Duration;

use mcp::method;
use mcp::trace::Parent;
use metrics::{Ended, Outcome, Server};
use tokio::time::Instant;

use super::Ledger;
use crate::catalog::member::Member;
use crate::config::Transport;
use crate::digest::{hex, sha256};
use crate::ports::journal::Ending;
use crate::ports::traces::{Finished, Leg, Subject};
use crate::reject::{Reject, Why};
use crate::stages::admit::Via;
use crate::stages::authorize::Permitted;
use crate::stages::decode::{Decoded, id_of};
use crate::stages::session::Bound;

/// Longest name or URI in a span, in bytes.
const MAX_NAME: usize = 256;

/// What is seen of a message on its way.
#[derive(Default)]
pub(super) struct Seen {
    member: Option<Arc<Member>>,
    tool: Option<Arc<metrics::Tool>>,
    answered: Option<Instant>,
    why: Option<Why>,
    traced: Option<Box<Traced>>,
}

/// What only traces want to know.
#[derive(Default)]
struct Traced {
    id: Option<String>,
    revision: Option<&'static str>,
    session: Option<String>,
    pipe: bool,
    own: String,
    listed: bool,
}

impl Seen {
    /// The call may go.
    pub(super) fn permitted(&mut self, permitted: &Permitted) {
        let target = permitted.target();
        self.member = Some(Arc::clone(&target.member));
        let entry = permitted.found().and_then(|found| found.entry());
        if target.method == method::TOOLS_CALL {
            self.tool = entry.and_then(|entry| entry.meter.get()).map(Arc::clone);
        }
        if let Some(traced) = &mut self.traced {
            traced.own.clone_from(&target.own);
            traced.listed = entry.is_some();
        }
    }

    /// The server has answered.
    pub(super) fn answered(&mut self) {
        self.answered = Some(Instant::now());
    }

    /// It was refused, or has failed.
    pub(super) fn blame(&mut self, reject: &Reject) {
        self.why = Some(reject.why);
    }
}

impl Ledger {
    /// Notes what traces tell of a message.
    pub fn trace(&mut self, decoded: &Decoded) {
        if self.book.traces.is_none() {
            return;
        }
        let id = id_of(&decoded.message).map(|id| id.raw());
        self.seen.traced = Some(Box::new(Traced {
            id: id.map(|raw| cut(&raw.string().unwrap_or_else(|| raw.as_str().to_owned()))),
            revision: decoded.revision.map(|revision| revision.as_str()),
            pipe: decoded.admitted.via == Via::Stdio,
            ..Traced::default()
        }));
    }

    /// Notes what traces tell of its session.
    pub fn trace_session(&mut self, bound: &Bound) {
        if let (Some(traced), Some(session)) = (&mut self.seen.traced, &bound.session) {
            traced.session = Some(hex(&session.sid));
            traced.revision = Some(session.revision.as_str());
        }
    }

    /// Tells metrics and traces of the end. `bytes`: the size of the result, before anything of the gateway's own.
    pub(super) fn observe(&mut self, ending: Ending, bytes: usize, cost_nanousd: Option<u64>) {
        let took = self.started.elapsed();
        let known = self.seen.member.as_ref().map(|member| &member.meter);
        let server = known.map_or_else(|| self.book.metrics.server_or_none(&self.server), Arc::clone);
        self.spend(&server, bytes, cost_nanousd);
        match (&self.book.traces, self.sampled()) {
            // Without traces the journal is where an id is looked up.
            (None, _) => self.count(&server, (ending, took), &self.ids.trace),
            (Some(_), None) => self.count(&server, (ending, took), ""),
            (Some(traces), Some(trace)) => {
                self.count(&server, (ending, took), &trace);
                traces.finished(Box::new(self.told(trace, (ending, took), cost_nanousd)));
            }
        }
    }

    fn count(&self, server: &Server, (ending, took): (Ending, Duration), trace: &str) {
        let (metrics, outcome) = (&self.book.metrics, Outcome::from(ending));
        let nobody;
        let task = match &self.party {
            Some(party) => party.profile.meters.task(metrics, party.task()),
            None => {
                nobody = metrics.no_task();
                &nobody
            }
        };
        if self.method == method::TOOLS_CALL {
            let end = Ended { outcome, seconds: took.as_secs_f64(), trace };
            match &self.seen.tool {
                Some(tool) => tool.ended(server, task, end),
                None => server.named(self.own_name()).ended(server, task, end),
            }
        } else {
            metrics.request(self.method, server, outcome);
        }
        match (ending, self.reason) {
            // Before anything was sent: its lists could not be read.
            (Ending::Refused, Some(reason)) if self.seen.why.is_some_and(Why::is_upstream) => {
                metrics.failed(server, reason);
            }
            (Ending::Refused, Some(reason)) => {
                metrics.denied(reason, task);
                if self.seen.why == Some(Why::Rate) {
                    metrics.rate_limited(task);
                }
            }
            (Ending::Failed, reason) => metrics.failed(server, reason.unwrap_or("server_error")),
            _ => {}
        }
        // The time of a person who was asked is not the gateway's.
        if let (Some(upstream), false) = (self.upstream(), self.asked) {
            metrics.overhead(took.saturating_sub(upstream).as_secs_f64());
        }
    }

    fn spend(&self, server: &Server, bytes: usize, cost_nanousd: Option<u64>) {
        if bytes > 0 {
            server.result(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
        if let (Some(nanos), Some(party)) = (cost_nanousd, &self.party) {
            server.cost(party.profile.meters.task(&self.book.metrics, party.task()), nanos);
        }
    }

    /// The server's own name of a tool that was not permitted.
    fn own_name(&self) -> &str {
        let own = self.name.strip_prefix(&self.server).and_then(|rest| rest.strip_prefix("__"));
        own.unwrap_or(&self.name)
    }

    /// How long the server took, or has taken so far.
    fn upstream(&self) -> Option<Duration> {
        let sent = self.sent?;
        Some(self.seen.answered.map_or_else(|| sent.elapsed(), |at| at.saturating_duration_since(sent)))
    }

    /// The trace of a message that is told of.
    fn sampled(&self) -> Option<Arc<str>> {
        let traces = self.book.traces.as_ref().filter(|_| self.seen.traced.is_some())?;
        let parent = self.traceparent.as_deref().and_then(Parent::parse);
        let trace = match parent {
            _ if !self.ids.trace.is_empty() => Arc::clone(&self.ids.trace),
            Some(parent) => parent.trace.into(),
            // A message that is no call has a trace of its own.
            None => self.call_id.replace('-', "").into(),
        };
        traces.sampled(&trace, parent.map(|parent| parent.flags & 1 == 1)).then_some(trace)
    }

    fn told(&self, trace: Arc<str>, (ending, took): (Ending, Duration), cost: Option<u64>) -> Finished {
        let none = Traced::default();
        let traced = self.seen.traced.as_deref().unwrap_or(&none);
        let why = self.seen.why;
        let as_result = why.is_some_and(Why::is_tool_error) && self.method == method::TOOLS_CALL;
        let code = why.filter(|_| !as_result).map(|why| why.row().code);
        let error = match (ending, code) {
            (Ending::ToolError, _) => Some("tool_error".to_owned()),
            (Ending::Refused | Ending::Failed, Some(code)) => Some(code.to_string()),
            (Ending::Refused, None) => Some("tool_error".to_owned()),
            (Ending::Failed, None) => Some(if as_result { "tool_error" } else { "_OTHER" }.to_owned()),
            _ => None,
        };
        Finished {
            span: self.server_span(&trace),
            parent: self.traceparent.as_deref().and_then(Parent::parse).map(|parent| parent.span.to_owned()),
            method: self.method.to_owned(),
            subject: self.subject(&self.name, traced.listed),
            id: traced.id.clone(),
            revision: traced.revision,
            session: traced.session.clone(),
            pipe: traced.pipe,
            server: self.server.clone(),
            task: self.party.as_ref().map_or_else(String::new, |party| party.task().to_owned()),
            run: self.run.clone(),
            call_id: Arc::clone(&self.call_id),
            outcome: ending.label(),
            reason: self.reason,
            error,
            code,
            cost_nanousd: cost,
            took,
            leg: self.leg(traced, &trace),
            trace,
        }
    }

    fn subject(&self, name: &str, listed: bool) -> Option<Subject> {
        let name = || cut(name);
        match self.method {
            _ if self.name.is_empty() => None,
            method::TOOLS_CALL => Some(Subject::Tool { name: name(), listed }),
            method::PROMPTS_GET => Some(Subject::Prompt { name: name(), listed }),
            // A query may hold what opens a door.
            method::RESOURCES_READ => {
                let name = name();
                Some(Subject::Resource(name.split(['?', '#']).next().unwrap_or_default().to_owned()))
            }
            _ => None,
        }
    }

    fn leg(&self, traced: &Traced, trace: &str) -> Option<Leg> {
        let (sent, member) = (self.sent?, self.seen.member.as_ref()?);
        let address = match &member.spec.transport {
            Transport::Http(http) => {
                let host = http.url.host_str().unwrap_or_default().to_owned();
                Some((host, http.url.port_or_known_default()))
            }
            Transport::Stdio(_) => None,
        };
        let span = match self.ids.span.is_empty() {
            true => derived("client", trace, &self.call_id),
            false => Arc::clone(&self.ids.span),
        };
        Some(Leg {
            span,
            subject: self.subject(&traced.own, traced.listed),
            after: sent.saturating_duration_since(self.started),
            took: self.upstream().unwrap_or_default(),
            address,
            revision: member.upstream.status().revision.map(|revision| revision.as_str()),
        })
    }

    /// Flags of a trace that begins here: sampled, unless traces go somewhere and this one does not.
    pub fn begun(&self) -> u8 {
        u8::from(self.book.traces.is_none() || self.sampled().is_some())
    }

    /// The span that the caller's is the parent of. Made from the call's own, so that a replay has the same again.
    fn server_span(&self, trace: &str) -> Arc<str> {
        derived("server", trace, if self.ids.span.is_empty() { &self.call_id } else { &self.ids.span })
    }
}

/// A span id that follows from what it is for.
fn derived(what: &str, trace: &str, from: &str) -> Arc<str> {
    let digest = sha256(format!("tollgate {what} span\n{trace}\n{from}").as_bytes());
    let mut id: [u8; 8] = digest.first_chunk().copied().unwrap_or_default();
    // All zero is no id.
    if id == [0; 8] {
        id = [1; 8];
    }
    hex(&id).into()
}

fn cut(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_NAME)).unwrap_or_default().to_owned()
}

impl From<Ending> for Outcome {
    fn from(ending: Ending) -> Outcome {
        match ending {
            Ending::Ok => Outcome::Ok,
            Ending::ToolError => Outcome::ToolError,
            Ending::Asked => Outcome::Asked,
            Ending::Refused => Outcome::Refused,
            Ending::Failed => Outcome::Failed,
            Ending::Cancelled => Outcome::Cancelled,
        }
    }
}
