//! Stage 7: limits, spent only by what is permitted: first the rates, then (after the answer of a person, where one is
//! asked) concurrency and budgets. Who is counted is who was proven, never what a header or a client says of itself.

mod left;
mod restore;
pub mod spending;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mcp::json::Raw;
use mcp::method;
use metrics::Metrics;
use parking_lot::Mutex;
use policies::budget::ledger::Ticket;
use policies::budget::{Amounts, Drawn, Line, Spent, Steady, Unit, day};
use policies::price::Price;
use policies::rate::{Applies, Per, Quota, Who};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::ports::clock::unix_seconds;
use crate::ports::limiter::{Limiter, Refused, Reservation};
use crate::profiles::Party;
use crate::reject::{Reject, Why};
use crate::runs::Run;
use crate::runs::named::Named;
use crate::stages::authorize::Permitted;
use crate::stages::confirm::{Carry, Confirmed};
use crate::stages::limit::spending::{Reserved, Spending};

/// A permitted call with its place among the calls under way.
pub struct Metered {
    /// The call.
    pub permitted: Permitted,
    /// Given back when the call is over.
    pub place: OwnedSemaphorePermit,
    /// How a person's agreement is carried through later rounds of the call.
    pub carry: Option<Carry>,
    /// Answers that came before any question.
    pub ahead: Option<Raw>,
}

/// A permitted call that has kept its rates.
pub struct Rated {
    permitted: Permitted,
}

impl Rated {
    /// The call.
    pub fn permitted(&self) -> &Permitted {
        &self.permitted
    }

    /// The call.
    pub fn into_permitted(self) -> Permitted {
        self.permitted
    }
}

/// Takes a place among the requests being served. It is taken before anything waits, so that waiting requests are
/// bounded too; rates and budgets are only spent by what is permitted.
///
/// # Errors
/// 503 when all places are taken.
pub fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Reject> {
    Arc::clone(places).try_acquire_owned().map_err(|_| busy())
}

/// What is told where all places are taken.
pub fn busy() -> Reject {
    Reject::new(Why::Busy, "too many requests are under way; try again in a moment")
}

/// All counters, and the clock that budgets are counted under.
pub struct Limits {
    limiter: Arc<dyn Limiter>,
    steady: Mutex<Steady>,
    runs: Named,
    metrics: Arc<Metrics>,
}

/// Whose call it is.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    /// The caller and its task.
    pub party: &'a Party,
    /// The run.
    pub run: &'a Run,
}

impl<'a> Caller<'a> {
    /// As it is counted.
    pub fn who(&self) -> Who<'a> {
        Who { task: self.party.task(), principal: &self.party.who.key, run: &self.run.id }
    }
}

impl Limits {
    /// Counts behind this port.
    pub fn new(limiter: Arc<dyn Limiter>, metrics: Arc<Metrics>) -> Limits {
        Limits { limiter, steady: Mutex::default(), runs: Named::default(), metrics }
    }

    /// Spends one call of each rate that applies.
    ///
    /// # Errors
    /// 429 with the time to wait.
    pub async fn rate(&self, caller: Caller<'_>, permitted: Permitted) -> Result<Rated, Reject> {
        let target = permitted.target();
        self.run(caller)?;
        let mut rates =
            caller.party.profile.rates.applying(&caller.who(), &target.member.spec.id, permitted.exposed());
        if target.method != method::TOOLS_CALL {
            rates.retain(|rate| rate.per != Per::Tool);
        }
        if let Some(quota) = target.member.spec.policy.calls {
            let key = shared("rate", &target.member.spec.id);
            rates.push(Applies { key, quota, per: Per::Server });
        }
        if rates.is_empty() {
            return Ok(Rated { permitted });
        }
        match self.limiter.rate(&rates).await {
            Ok(()) => Ok(Rated { permitted }),
            Err(Refused::Unavailable(detail)) => Err(away(detail)),
            Err(Refused::Over(slow)) => {
                let whose = match rates.get(slow.at).map(|rate| rate.per) {
                    Some(Per::Tool) => "of this tool",
                    Some(Per::Server) => "to this server",
                    Some(Per::Run) => "in this run",
                    Some(Per::Runs) => "in all your runs together",
                    Some(Per::Principal) | None => "of yours",
                };
                let seconds = Quota::retry_after(slow.wait);
                let text = format!("too many calls {whose} in too short a time; try again in {seconds} s");
                Err(Reject::new(Why::Rate, text).after(slow.wait))
            }
        }
    }

    /// A run of the caller's. New ones are refused while it has too many: what one run may do is bounded, and so is what
    /// all of them may, but their number is what the counters are kept for.
    fn run(&self, caller: Caller<'_>) -> Result<(), Reject> {
        let (party, most) = (caller.party, caller.party.profile.runs);
        if most == usize::MAX {
            return Ok(());
        }
        let taken = self.runs.take(&party.who.owner, party.task(), &caller.run.id, (most, Instant::now()));
        taken.map_err(|wait| {
            let text = format!(
                "you have {most} runs under this task, and no more are allowed; go on with one of them, or wait until \
                 one has had no call for an hour"
            );
            Reject::new(Why::Rate, text).after(wait)
        })
    }

    /// Lets a call with a place go, once it has its place among its caller's calls and its reservation.
    ///
    /// # Errors
    /// 503 for a call without a place; a tool error when a budget is spent or too many calls are under way.
    pub async fn limit(
        &self,
        caller: Caller<'_>,
        mut confirmed: Confirmed,
        place: Option<OwnedSemaphorePermit>,
        (ticket, now): (Ticket, SystemTime),
    ) -> Result<(Metered, Spending), Reject> {
        let place = place.ok_or_else(busy)?;
        let (carry, ahead) = (confirmed.carry.take(), confirmed.ahead.take());
        let permitted = confirmed.into_permitted();
        let mut spending = Spending::new(Arc::clone(&self.limiter));
        let spec = &permitted.target().member.spec;
        let own = caller.party.profile.rates.concurrency(&caller.who()).map(|cap| (cap, "of yours"));
        let all = spec.policy.concurrency.map(|most| ((shared("open", &spec.id), most), "to this server"));
        for ((name, most), whose) in own.into_iter().chain(all) {
            match self.limiter.enter(&name, most).await {
                Ok(()) => spending.entered(name),
                Err(Refused::Unavailable(detail)) => return Err(away(detail)),
                Err(Refused::Over(_)) => {
                    let text = format!(
                        "{most} calls {whose} are under way, and no more are allowed at once. Wait for one to end."
                    );
                    return Err(Reject::new(Why::Concurrency, text).after(Duration::from_secs(1)));
                }
            }
        }
        let target = permitted.target();
        let call = target.method == method::TOOLS_CALL;
        let price = if call { target.member.spec.policy.price(&target.own).cloned() } else { None };
        if !caller.party.profile.budgets.all.is_empty() || price.is_some() {
            let what = (call, price.unwrap_or_default(), ticket, now);
            // Boxed: what costs nothing does not carry what a reservation needs.
            spending.reserved(Box::pin(self.reserve(caller.party, &caller.who(), what)).await?);
        }
        Ok((Metered { permitted, place, carry, ahead }, spending))
    }

    async fn reserve(
        &self,
        party: &Party,
        who: &Who<'_>,
        (call, price, ticket, now): (bool, Price, Ticket, SystemTime),
    ) -> Result<Reserved, Reject> {
        let (profile, now) = (&party.profile, self.now(now));
        let mut lines = profile.budgets.lines(who, now);
        if !call {
            // What only tools cost bounds nothing else; the bytes of any result count.
            lines.retain(|line: &mut Line| line.unit == Unit::Bytes);
        }
        let bytes = profile.caps.map_or(0, |caps| u64::try_from(caps.bytes).unwrap_or(u64::MAX));
        let amounts = Amounts { usd: price.reservation(), calls: u64::from(call), bytes };
        if lines.is_empty() {
            return Ok(Reserved { ticket, price, amounts, day: None, drawn: Vec::new() });
        }
        let day = Some(day(now).into());
        let what = Reservation { ticket: &ticket, lines: &lines, amounts: &amounts, now };
        match self.limiter.reserve(what).await {
            Ok(levels) => {
                left::show(&self.metrics, profile, &lines, &levels);
                let drawn = levels.iter().filter_map(|level| {
                    let line = lines.get(level.line)?.clone();
                    let scope = profile.budgets.all.get(line.budget)?.scope;
                    Some(Drawn { line, scope, left: level.left })
                });
                Ok(Reserved { drawn: drawn.collect(), day, ticket, price, amounts })
            }
            Err(Refused::Unavailable(detail)) => Err(away(detail)),
            Err(Refused::Over(short)) => Err(match lines.get(short.0) {
                Some(line) => spent(profile, line, now),
                None => away("the limiter named a line that was not asked for".into()),
            }),
        }
    }

    fn now(&self, wall: SystemTime) -> i64 {
        self.steady.lock().now(unix_seconds(wall))
    }
}

/// The name of a counter that all callers of a server share. Server ids hold no `|`.
fn shared(kind: &str, server: &str) -> Box<str> {
    format!("{kind}|all|{server}").into()
}

fn spent(profile: &crate::profiles::Profile, line: &Line, now: i64) -> Reject {
    let Some(budget) = profile.budgets.all.get(line.budget) else {
        return Reject::new(Why::Budget, "a budget of this task is spent");
    };
    let spent = Spent { line: line.clone(), scope: budget.scope };
    let reject = Reject::new(Why::Budget, spent.to_string()).detail(line.key.to_string());
    match spent.renews() {
        Some(at) => reject.after(Duration::from_secs(u64::try_from(at.saturating_sub(now)).unwrap_or(0))),
        None => reject,
    }
}

fn away(detail: String) -> Reject {
    let text = "limits can't be checked at present, so no calls that they bound are let through";
    Reject::new(Why::LimitsAway, text).detail(detail)
}

/// The price by which a call is measured, where it has one.
pub fn price_of(permitted: &Permitted) -> Option<&Price> {
    let target = permitted.target();
    (target.method == method::TOOLS_CALL).then(|| target.member.spec.policy.price(&target.own)).flatten()
}
