//! The admin listener: health, readiness, status, metrics, costs and runs. Reads only; it changes nothing and shows no
//! secret.

mod accounts;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, StatusCode, header};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::answers::{VERSION, card};
use crate::catalog::member::Member;
use crate::edge::Counters;
use crate::gate::{Gate, Snapshot};
use crate::ports::journal::Archive;
use crate::ports::keys::IssuerState;
use crate::wire::{self, Full, Handler, Head, Reply, Work};

/// Answers the admin listener's requests.
pub struct Admin {
    /// The gateway.
    pub gate: Arc<Gate>,
    /// What the data listener counts.
    pub counters: Arc<Counters>,
}

struct Question {
    gate: Arc<Gate>,
    counters: Arc<Counters>,
    path: String,
    query: Option<String>,
    accept: Option<String>,
}

impl Handler for Admin {
    fn admit(&self, head: Head) -> Result<Box<dyn Work>, Reply> {
        if head.method != Method::GET && head.method != Method::HEAD {
            return Err(text(StatusCode::METHOD_NOT_ALLOWED, "use GET\n").into());
        }
        if head.headers.contains_key(header::ORIGIN) || !host_allowed(&self.gate, &head) {
            return Err(text(StatusCode::FORBIDDEN, "this Host or Origin is not served here\n").into());
        }
        let (gate, counters) = (Arc::clone(&self.gate), Arc::clone(&self.counters));
        let accept = head.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
        let accept = accept.map(str::to_owned);
        Ok(Box::new(Question { gate, counters, path: head.path, query: head.query, accept }))
    }
}

/// An address, `localhost` or a configured name: a name that a stranger chose (DNS rebinding) is refused.
fn host_allowed(gate: &Gate, head: &Head) -> bool {
    let Some(host) = wire::host(&head.headers) else { return false };
    let name = wire::host_name(&host);
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let snap = gate.snapshot.load();
    bare.parse::<IpAddr>().is_ok()
        || name == "localhost"
        || snap.config.hosts.iter().any(|h| h == name || *h == host)
}

#[async_trait]
impl Work for Question {
    fn body_limit(&self) -> usize {
        0
    }

    fn wants_body(&self) -> bool {
        false
    }

    async fn run(self: Box<Self>, _: Bytes, _: CancellationToken) -> Reply {
        let snap = self.gate.snapshot.load_full();
        match self.path.as_str() {
            "/healthz" => text(StatusCode::OK, "ok\n"),
            "/readyz" => ready(&self.gate, &snap),
            "/status" => document(&status(&self.gate, &snap, &self.counters)),
            "/capability" => capability(&self.gate, &snap),
            "/metrics" => metrics(&self.gate, &snap, self.accept.as_deref()),
            path if path == "/costs" || path == "/runs" || path.starts_with("/runs/") => {
                accounts::answer(&self.gate, path, self.query.as_deref()).await
            }
            _ => text(
                StatusCode::NOT_FOUND,
                "try /healthz /readyz /status /capability /metrics /costs /runs\n",
            ),
        }
        .into()
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Full {
    Full::new(status, "text/plain; charset=utf-8", body)
}

fn capability(gate: &Gate, snap: &Snapshot) -> Full {
    let task = snap.config.default_task.as_deref().unwrap_or_default();
    let reader = card::Reader { task, admitted: None, now: gate.means.clock.now() };
    let card = card::card(snap, &reader, &*gate.book.journal);
    Full::new(StatusCode::OK, "application/json", card.into_bytes())
}

fn document(value: &Value) -> Full {
    Full::new(StatusCode::OK, "application/json", format!("{value:#}\n"))
}

/// What is known elsewhere is put into its metric when somebody reads it.
fn metrics(gate: &Gate, snap: &Snapshot, accept: Option<&str>) -> Full {
    for member in snap.catalog.members() {
        let open = member.upstream.status().connections;
        member.meter.connections().set(i64::try_from(open).unwrap_or(i64::MAX));
    }
    if let Some(figures) = gate.book.journal.figures() {
        let lag = figures.checkpoint_lag.as_secs_f64();
        gate.book.metrics.audit(figures.records, lag, figures.fault.is_some());
    }
    if let Some(archive) = gate.book.journal.archive() {
        gate.book.metrics.archive(archive.lag_segments);
    }
    match gate.book.metrics.render(accept) {
        Ok(page) => Full::new(StatusCode::OK, page.content_type, page.body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

/// What is wrong with the journal now.
fn fault(gate: &Gate) -> Option<String> {
    gate.book.journal.figures()?.fault
}

/// Ready: every server was asked once, the lists of those that everybody needs are good, calls can be recorded, and the
/// end is not near.
fn ready(gate: &Gate, snap: &Snapshot) -> Full {
    if gate.draining.is_cancelled() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    if !gate.warm.is_cancelled() {
        return text(StatusCode::SERVICE_UNAVAILABLE, "servers are still being asked for the first time\n");
    }
    if let Some(why) = fault(gate) {
        return text(StatusCode::SERVICE_UNAVAILABLE, format!("the journal has a fault: {why}\n"));
    }
    let missing: Vec<_> =
        snap.catalog.members().iter().filter(|member| member.spec.required && !member.ready()).collect();
    if missing.is_empty() {
        return text(StatusCode::OK, "ready\n");
    }
    let names: Vec<_> = missing.iter().map(|member| member.spec.id.as_str()).collect();
    text(StatusCode::SERVICE_UNAVAILABLE, format!("required servers are missing: {}\n", names.join(", ")))
}

/// The names of all tasks, sorted.
fn tasks(snap: &Snapshot) -> Vec<&str> {
    let mut names: Vec<&str> = snap.profiles.iter().map(|profile| profile.task.name()).collect();
    names.sort_unstable();
    names
}

fn status(gate: &Gate, snap: &Snapshot, counters: &Counters) -> Value {
    json!({
        "version": VERSION,
        "ready": ready(gate, snap).status == StatusCode::OK,
        "draining": gate.draining.is_cancelled(),
        "tasks": tasks(snap),
        "listener": {
            "connections": counters.connections.load(Relaxed),
            "in_flight": counters.in_flight.load(Relaxed),
            "accepted": counters.accepted.load(Relaxed),
            "refused": counters.refused.load(Relaxed),
            "handshakes_failed": counters.handshakes_failed.load(Relaxed),
            "bad_heads": counters.bad_heads.load(Relaxed),
            "departed": counters.departed.load(Relaxed),
            "slow_readers": counters.slow_readers.load(Relaxed),
        },
        "issuers": snap.keys.issuers().iter().map(|state| issuer(state, gate.means.clock.now())).collect::<Vec<_>>(),
        "audit": gate.book.journal.figures().map(|figures| json!({ "fault": figures.fault })),
        "archive": gate.book.journal.archive().map(archive),
        "servers": snap.catalog.members().iter().map(|member| server(member)).collect::<Vec<_>>(),
    })
}

/// One issuer: whether its tokens can be verified, and since when its keys can't be read.
fn issuer(state: &IssuerState, now: SystemTime) -> Value {
    let ago = |age: Duration| now.checked_sub(age).map(time);
    json!({
        "issuer": state.issuer,
        "state": match (state.usable, state.age) {
            (true, _) => "usable",
            (false, None) if state.failing.is_none() => "not_asked_yet",
            (false, _) => "unusable",
        },
        "keys": state.keys,
        "unusable_keys": state.dropped,
        "read": state.age.and_then(ago),
        "failures": state.failing.map_or(0, |(failures, _)| failures),
        "failing_since": state.failing.and_then(|(_, since)| ago(since)),
        "last_error": state.last_error,
    })
}

/// One server as `/status` and `tollgate tools` show it.
pub fn server(member: &Member) -> Value {
    let status = member.upstream.status();
    let lists = member.overview();
    let dropped: Vec<_> =
        lists.dropped.iter().map(|(entry, reason)| json!({ "entry": entry, "reason": reason })).collect();
    let state = match status.connected {
        None => "configured",
        Some(true) => "connected",
        Some(false) => "failed",
    };
    let error = status.last_error.as_ref().map(|(text, at)| json!({ "message": text, "at": time(*at) }));
    json!({
        "id": member.spec.id,
        "transport": status.transport,
        "era": status.era.map(mcp::era::Era::as_str),
        "revision": status.revision.map(mcp::era::Revision::as_str),
        "state": state,
        "since": status.since.map(time),
        "required": member.spec.required,
        "sessions": status.sessions,
        "tools": lists.tools,
        "prompts": lists.prompts,
        "resources": lists.resources,
        "templates": lists.templates,
        "dropped": dropped,
        "last_error": error,
        "list_error": lists.failure,
    })
}

/// The journal's archive; `null` where none is configured.
fn archive(archive: Archive) -> Value {
    json!({
        "url": archive.url,
        "lag_segments": archive.lag_segments,
        "kept_segments": archive.kept_segments,
        "refused": archive.refused,
        "error": archive.error.map(|(text, at)| json!({ "message": text, "at": time(at) })),
    })
}

fn time(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map(|t| format!("{t:.3}")).unwrap_or_default()
}
