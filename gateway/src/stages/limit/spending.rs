//! What one call holds of limits while it is under way: its place among the calls of its caller, and its reservation on
//! budgets. Given back exactly once, whatever becomes of the call; the record does it, and dropping does it too.

use std::sync::Arc;

use mcp::json::Raw;
use policies::budget::ledger::Ticket;
use policies::budget::{Amounts, Drawn, Standing};
use policies::price::{Cost, Measured, Price, Reported};
use smallvec::SmallVec;

use crate::ports::journal::Held;
use crate::ports::limiter::Limiter;

/// A reservation that is not settled yet.
pub struct Spending {
    limiter: Arc<dyn Limiter>,
    /// The names under which the call counts as under way.
    open: SmallVec<[Box<str>; 2]>,
    reserved: Option<Reserved>,
}

/// What is reserved on budgets.
pub struct Reserved {
    /// Names the reservation.
    pub ticket: Ticket,
    /// What the call costs.
    pub price: Price,
    /// What was reserved.
    pub amounts: Amounts,
    /// The day (UTC) that budgets count it under; none when none is asked.
    pub day: Option<Box<str>>,
    /// What was left of each budget then.
    pub drawn: Vec<Drawn>,
}

/// What is known of a call at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It never reached the server.
    Unsent,
    /// It reached the server, or may have; what came of it is not known.
    Unknown,
    /// It was answered.
    Answered(Measured),
}

impl Spending {
    /// Holds nothing yet.
    pub fn new(limiter: Arc<dyn Limiter>) -> Spending {
        Spending { limiter, open: SmallVec::new(), reserved: None }
    }

    /// Counts as one of the calls under way under this name, which was entered.
    pub fn entered(&mut self, name: Box<str>) {
        self.open.push(name);
    }

    /// Holds this reservation.
    pub fn reserved(&mut self, reserved: Reserved) {
        self.reserved = Some(reserved);
    }

    /// What the journal is told of the reservation before the call is sent.
    pub fn held(&self) -> Option<Held<'_>> {
        let Reserved { amounts, day, .. } = self.reserved.as_ref()?;
        let counted = day.as_deref().map(|day| (day, amounts.bytes));
        Some(Held { nanousd: amounts.usd.nanos(), counted })
    }

    /// The bytes that budgets will count; none when they count nothing of the call.
    pub fn charged_bytes(&self, fate: &Fate) -> Option<u64> {
        let Reserved { amounts, day, .. } = self.reserved.as_ref()?;
        day.as_ref()?;
        match fate {
            Fate::Unsent => None,
            Fate::Unknown => Some(amounts.bytes),
            Fate::Answered(measured) => Some(measured.bytes),
        }
    }

    /// Gives everything back that was not spent. Gives the cost, none when no budget was asked, and how far budgets are
    /// spent.
    pub fn settle(&mut self, fate: &Fate) -> (Option<Cost>, Standing) {
        for name in self.open.drain(..) {
            self.limiter.leave(&name);
        }
        let Some(Reserved { ticket, price, amounts, drawn, .. }) = self.reserved.take() else {
            return (None, Standing::default());
        };
        let (spent, cost) = match fate {
            Fate::Unsent => (Amounts::default(), None),
            Fate::Unknown => {
                let cost = price.unknown();
                (Amounts { usd: cost.charge, ..amounts }, Some(cost))
            }
            Fate::Answered(measured) => {
                let cost = price.cost(measured);
                (Amounts { usd: cost.charge, calls: amounts.calls, bytes: measured.bytes }, Some(cost))
            }
        };
        self.limiter.settle(&ticket, &spent);
        (cost, Standing::after(&drawn, &amounts, &spent))
    }
}

impl Drop for Spending {
    fn drop(&mut self) {
        self.settle(&Fate::Unknown);
    }
}

/// What the server reports as the price in its result. Only what the pointer names is looked at.
pub fn reported(price: &Price, result: Option<&Raw>) -> Reported {
    let Some(pointer) = &price.reported else { return Reported::NotAsked };
    let value = result.and_then(|result| pluck(result, pointer));
    price.report(value.as_ref().map(Raw::as_str))
}

/// The value at a JSON Pointer (RFC 6901).
fn pluck(value: &Raw, pointer: &str) -> Option<Raw> {
    let mut at = value.clone();
    for part in pointer.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        at = if at.is_array() { at.elements().nth(name.parse().ok()?)? } else { at.get(&name)? };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mcp::json::Limits;
    use policies::money::NanoUsd;

    use super::*;

    #[test]
    fn l2_only_what_the_pointer_names_is_a_report() {
        let price = |pointer: &str| Price { reported: Some(pointer.into()), ..Price::default() };
        let result = r#"{"structuredContent":{"a/b":[{"usd":"0.25"}],"bad":-1,"nan":"NaN"}}"#;
        let result = Raw::parse(Bytes::from(result), &Limits::ANSWER).unwrap();
        let at = |pointer: &str| reported(&price(pointer), Some(&result));
        assert_eq!(at("/structuredContent/a~1b/0/usd"), Reported::Amount(NanoUsd::parse("0.25").unwrap()));
        assert_eq!(at("/structuredContent/a~1b/1/usd"), Reported::Missing);
        assert!(matches!(at("/structuredContent/bad"), Reported::Refused(_)));
        assert!(matches!(at("/structuredContent/nan"), Reported::Refused(_)));
        assert_eq!(reported(&Price::default(), Some(&result)), Reported::NotAsked);
        let result = Raw::parse(Bytes::from(r#"{"usd": 99999999.999999999 }"#), &Limits::ANSWER).unwrap();
        let exact = NanoUsd::parse("99999999.999999999").unwrap();
        assert_eq!(reported(&price("/usd"), Some(&result)), Reported::Amount(exact));
    }
}
