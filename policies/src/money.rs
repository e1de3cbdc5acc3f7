//! Amounts of US dollars, exact to a thousandth of a millionth. Reads and prints decimals; no floating point anywhere.

use std::fmt;

/// One dollar, in nano-dollars.
const DOLLAR: u64 = 1_000_000_000;
/// Digits after the point.
const DIGITS: i32 = 9;

/// An amount in nano-dollars, never negative. Sums stop at the largest value instead of wrapping: what would be
/// dropped could only be in the spender's favour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoUsd(u64);

/// Why a text is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAmount {
    /// Not a decimal number: also NaN and infinity.
    NoNumber,
    /// Below zero.
    Negative,
    /// More than a billion dollars.
    Absurd,
    /// More than nine digits after the point.
    TooFine,
}

impl fmt::Display for NoAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoAmount::NoNumber => "is not a decimal number",
            NoAmount::Negative => "is negative",
            NoAmount::Absurd => "is more than a billion dollars",
            NoAmount::TooFine => "has more than nine digits after the point",
        })
    }
}

impl NanoUsd {
    /// Nothing.
    pub const ZERO: NanoUsd = NanoUsd(0);
    /// The largest amount that is read: a billion dollars.
    pub const MAX: NanoUsd = NanoUsd(1_000_000_000 * DOLLAR);

    /// From nano-dollars.
    pub const fn from_nanos(nanos: u64) -> NanoUsd {
        NanoUsd(nanos)
    }

    /// In nano-dollars.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Reads an exact amount: a decimal as JSON spells numbers, also with an exponent.
    ///
    /// # Errors
    /// See [`NoAmount`].
    pub fn parse(text: &str) -> Result<NanoUsd, NoAmount> {
        match read(text)? {
            (amount, false) => Ok(amount),
            (_, true) => Err(NoAmount::TooFine),
        }
    }

    /// Reads an amount and rounds it up to the next nano-dollar: binary fractions of others have long tails.
    ///
    /// # Errors
    /// See [`NoAmount`].
    pub fn parse_up(text: &str) -> Result<NanoUsd, NoAmount> {
        read(text).map(|(amount, rest)| NanoUsd(amount.0 + u64::from(rest)))
    }

    /// The sum, or the largest value.
    #[must_use]
    pub const fn plus(self, other: NanoUsd) -> NanoUsd {
        NanoUsd(self.0.saturating_add(other.0))
    }

    /// What is left, or nothing.
    #[must_use]
    pub const fn minus(self, other: NanoUsd) -> NanoUsd {
        NanoUsd(self.0.saturating_sub(other.0))
    }

    /// This much for every `per` of a `quantity`, rounded up; or the largest value.
    #[must_use]
    pub fn times(self, quantity: u64, per: u64) -> NanoUsd {
        let product = u128::from(self.0) * u128::from(quantity);
        NanoUsd(u64::try_from(product.div_ceil(u128::from(per.max(1)))).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for NanoUsd {
    /// An exact decimal: `0`, `2`, `0.002`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / DOLLAR, self.0 % DOLLAR);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let digits = format!("{rest:09}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// The amount without what is finer than a nano-dollar, and whether there was any.
fn read(text: &str) -> Result<(NanoUsd, bool), NoAmount> {
    // Longer numbers than this have no use, and their digits would have to be gone through.
    if text.len() > 64 {
        return Err(NoAmount::NoNumber);
    }
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| NoAmount::NoNumber)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || (mantissa.ends_with('.')) {
        return Err(NoAmount::NoNumber);
    }
    let all = whole.bytes().chain(fraction.bytes()).map(|b| b - b'0');
    if all.clone().all(|d| d == 0) {
        return Ok((NanoUsd::ZERO, false));
    }
    if negative {
        return Err(NoAmount::Negative);
    }
    let fractional = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    // How many of the digits, in nano-dollars, stand before the point; zeros follow when there are more than digits.
    let places = i64::from(exponent) + i64::from(DIGITS) - i64::from(fractional);
    let count = i64::try_from(whole.len() + fraction.len()).unwrap_or(i64::MAX);
    let (mut value, mut rest) = (0_u64, false);
    for (n, digit) in (0_i64..).zip(all) {
        if n < count + places {
            value = shift(value, u64::from(digit))?;
        } else {
            rest |= digit != 0;
        }
    }
    for _ in 0..places.max(0) {
        value = shift(value, 0)?;
        if value == 0 {
            break;
        }
    }
    Ok((NanoUsd(value), rest))
}

fn shift(value: u64, digit: u64) -> Result<u64, NoAmount> {
    let next = value.checked_mul(10).and_then(|v| v.checked_add(digit)).ok_or(NoAmount::Absurd)?;
    if next > NanoUsd::MAX.0 { Err(NoAmount::Absurd) } else { Ok(next) }
}

#[cfg(test)]
mod tests;
