//! The port to the counters behind rates, concurrency and budgets. Counters have stable names and hold whole numbers, so
//! that a store which replicas share fits behind it. It decides nothing about who is counted under which name.

use std::time::Duration;

use async_trait::async_trait;
use policies::budget::ledger::{Level, Short, Ticket};
use policies::budget::past::Counted;
use policies::budget::{Amounts, Line};
use policies::rate::Applies;
use smallvec::SmallVec;

/// Why a call can't be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// There is too little left.
    Over(T),
    /// The counters can't be had: then no call that they bound goes through. For the log.
    Unavailable(String),
}

/// A rate that has no call left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slow {
    /// Its place among those that were asked for.
    pub at: usize,
    /// When there will be one.
    pub wait: Duration,
}

/// There are as many calls under way as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A call's reservation on budgets.
#[derive(Clone, Copy, Debug)]
pub struct Reservation<'a> {
    /// Names it; one per call.
    pub ticket: &'a Ticket,
    /// The counters.
    pub lines: &'a [Line],
    /// How much of each unit.
    pub amounts: &'a Amounts,
    /// The Unix second under which it is counted.
    pub now: i64,
}

/// Counters.
#[async_trait]
pub trait Limiter: Send + Sync {
    /// Spends one call of each of these rates, in their order, until one has none left.
    ///
    /// # Errors
    /// The first rate that has none left.
    async fn rate(&self, rates: &[Applies]) -> Result<(), Refused<Slow>>;

    /// Counts a call that begins, unless `most` are under way under this name.
    ///
    /// # Errors
    /// There are as many already.
    async fn enter(&self, name: &str, most: u32) -> Result<(), Refused<Full>>;

    /// Counts a call that is over. Must not wait: it is also called for departed clients.
    fn leave(&self, name: &str);

    /// Reserves on all lines, or on none.
    ///
    /// # Errors
    /// The first line that has too little left.
    async fn reserve(&self, what: Reservation<'_>) -> Result<SmallVec<[Level; 8]>, Refused<Short>>;

    /// Sets a counter of budgets to what is known from before the start. A store that outlives the process does nothing.
    fn restore(&self, counted: &Counted);

    /// Turns a reservation into what was spent; nothing for a call that was never sent. The second time nothing happens.
    /// Must not wait.
    fn settle(&self, ticket: &Ticket, spent: &Amounts);
}
