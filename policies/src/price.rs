//! What one call costs: prices of a server or tool, the reservation before the call and the charge after it. The meter
//! shows what was measured; the budget is never charged less than what a lying server would have had to reserve.

use crate::money::{NanoUsd, NoAmount};

/// The prices of a tool. All that are set add up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// For every call that was sent.
    pub per_call: NanoUsd,
    /// For every second that it took, by the millisecond.
    pub per_second: NanoUsd,
    /// For every KiB (1024 bytes) of its result, by the byte.
    pub per_kib: NanoUsd,
    /// The JSON Pointer (RFC 6901) in the result at which the server reports a price in dollars.
    pub reported: Option<Box<str>>,
    /// What is reserved when the cost is not known beforehand.
    pub reserve: NanoUsd,
}

/// What the server said that the call cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reported {
    /// Nothing is to be reported for this tool.
    NotAsked,
    /// There is nothing at the pointer.
    Missing,
    /// An amount.
    Amount(NanoUsd),
    /// Something that is no amount.
    Refused(NoAmount),
}

/// What was measured of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// From dispatch to the last byte, in milliseconds.
    pub ms: u64,
    /// Bytes of the result.
    pub bytes: u64,
    /// What the server reported.
    pub reported: Reported,
}

/// What a call costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// What the meter shows.
    pub meter: NanoUsd,
    /// What the budgets are charged.
    pub charge: NanoUsd,
    /// Set when the server's report was unusable: to be counted and logged.
    pub flag: Option<Flag>,
}

/// Why a server's report was not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// It did not report.
    Missing,
    /// It reported what is no amount.
    Refused(NoAmount),
}

impl Price {
    /// Whether the cost is known before the call.
    pub fn is_fixed(&self) -> bool {
        self.per_second == NanoUsd::ZERO && self.per_kib == NanoUsd::ZERO && self.reported.is_none()
    }

    /// What to reserve before a call.
    pub fn reservation(&self) -> NanoUsd {
        if self.is_fixed() { self.per_call } else { self.per_call.max(self.reserve) }
    }

    /// What a call has cost. A report that is missing or no amount shows as 0, and the reservation is charged if that
    /// is more than what was measured.
    pub fn cost(&self, measured: &Measured) -> Cost {
        let own = self
            .per_call
            .plus(self.per_second.times(measured.ms, 1000))
            .plus(self.per_kib.times(measured.bytes, 1024));
        let flag = match (&self.reported, &measured.reported) {
            (None, _) => return Cost { meter: own, charge: own, flag: None },
            (Some(_), Reported::Amount(amount)) => {
                let all = own.plus(*amount);
                return Cost { meter: all, charge: all, flag: None };
            }
            (Some(_), Reported::Refused(why)) => Flag::Refused(*why),
            (Some(_), Reported::Missing | Reported::NotAsked) => Flag::Missing,
        };
        Cost { meter: NanoUsd::ZERO, charge: own.max(self.reservation()), flag: Some(flag) }
    }

    /// What a call costs of which nothing was measured after it was sent: the reservation.
    pub fn unknown(&self) -> Cost {
        Cost { meter: NanoUsd::ZERO, charge: self.reservation(), flag: None }
    }

    /// Reads the report from the JSON text of what stands at the pointer: a number or a decimal in a string. The text is
    /// read as it was sent, since no float would keep all its digits.
    pub fn report(&self, json: Option<&str>) -> Reported {
        if self.reported.is_none() {
            return Reported::NotAsked;
        }
        let amount = match json.map(str::trim) {
            None | Some("null") => return Reported::Missing,
            Some(text) if text.starts_with('"') => {
                serde_json::from_str::<String>(text).map_err(|_| NoAmount::NoNumber)
            }
            Some(text) => Ok(text.to_owned()),
        };
        amount.and_then(|text| NanoUsd::parse_up(&text)).map_or_else(Reported::Refused, Reported::Amount)
    }
}

/// Whether a text is a JSON Pointer (RFC 6901): empty, or parts that each begin with `/`, with `~0` and `~1` as the only
/// escapes.
pub fn is_pointer(text: &str) -> bool {
    let escapes = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> NanoUsd {
        NanoUsd::parse(text).unwrap()
    }

    fn reported() -> Price {
        Price {
            per_call: usd("0.001"),
            reported: Some("/structuredContent/cost".into()),
            reserve: usd("0.05"),
            ..Price::default()
        }
    }

    #[test]
    fn prices_add_up() {
        let price = Price {
            per_call: usd("0.002"),
            per_second: usd("0.01"),
            per_kib: usd("0.0001"),
            ..Price::default()
        };
        let cost = price.cost(&Measured { ms: 1500, bytes: 2560, reported: Reported::NotAsked });
        assert_eq!(cost.meter.to_string(), "0.01725");
        assert_eq!(cost.charge, cost.meter);
        assert!(!price.is_fixed() && Price { per_call: usd("1"), ..Price::default() }.is_fixed());
    }

    #[test]
    fn l2_a_report_that_is_no_amount_shows_as_0_and_charges_the_reservation() {
        let price = reported();
        for bad in [
            "-1",
            "\"NaN\"",
            "9223372036854775808",
            "[1]",
            "-0.5",
            "1e300",
            "true",
            "{}",
            "\"\"",
            "\"\\u0000\"",
        ] {
            let reported = price.report(Some(bad));
            let cost = price.cost(&Measured { ms: 1, bytes: 1, reported });
            assert_eq!((cost.meter, cost.charge), (NanoUsd::ZERO, usd("0.05")), "{bad}");
            assert!(matches!(cost.flag, Some(Flag::Refused(_))), "{bad}");
        }
        let cost = price.cost(&Measured { ms: 1, bytes: 1, reported: price.report(None) });
        assert_eq!((cost.charge, cost.flag), (usd("0.05"), Some(Flag::Missing)));
    }

    #[test]
    fn a_report_is_added_to_the_own_prices() {
        let price = reported();
        for good in ["0.25", "\"0.25\"", "25e-2", "\"0.2\\u0035\""] {
            let reported = price.report(Some(good));
            let cost = price.cost(&Measured { ms: 1, bytes: 1, reported });
            assert_eq!((cost.meter, cost.charge, cost.flag), (usd("0.251"), usd("0.251"), None));
        }
    }

    #[test]
    fn l2_a_number_keeps_all_its_digits() {
        let read = |text: &str| match reported().report(Some(text)) {
            Reported::Amount(amount) => amount.to_string(),
            other => format!("{other:?}"),
        };
        for text in ["99999999.999999999", "999999999.999999999", "0.000000001", "123456789.123456789"] {
            assert_eq!(read(text), text);
            assert_eq!(read(&format!("\"{text}\"")), text);
        }
        assert_eq!(read("0.1000000000000000055511151231257827"), "0.100000001");
    }

    #[test]
    fn variable_prices_reserve_what_is_set_and_fixed_ones_what_they_cost() {
        assert_eq!(reported().reservation(), usd("0.05"));
        assert_eq!(
            Price { per_call: usd("0.1"), reserve: usd("0.5"), ..Price::default() }.reservation(),
            usd("0.1")
        );
        assert_eq!(reported().unknown().charge, usd("0.05"));
    }

    #[test]
    fn pointers() {
        for (text, good) in
            [("", true), ("/a/0", true), ("/a~1b", true), ("a", false), ("/a~2", false), ("/~", false)]
        {
            assert_eq!(is_pointer(text), good, "{text}");
        }
    }
}
