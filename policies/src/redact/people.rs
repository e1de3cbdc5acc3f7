//! E-mail addresses, payment cards and bank accounts in one text. Cards and accounts need their check digits and an
//! issuer's or country's length: nothing is redacted for being a long number.

use std::ops::Range;

use memchr::memchr_iter;

use super::check;

/// Longest part of an address before the at sign (RFC 5321 section 4.5.3.1.1).
const MAX_LOCAL: usize = 64;
/// Longest domain (RFC 5321 section 4.5.3.1.2).
const MAX_DOMAIN: usize = 255;
/// Longest card number with its separators.
const MAX_CARD: usize = 24;
/// Longest IBAN with its spaces.
const MAX_IBAN: usize = 42;

/// Countries and the length of their IBANs: the IBAN registry of SWIFT.
const IBANS: &str = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 \
EE20 EG29 ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 \
KZ20 LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 \
PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30";

/// Calls `hit` with the span of each e-mail address.
pub(super) fn emails(text: &[u8], mut hit: impl FnMut(Range<usize>)) {
    let local = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'%' | b'+' | b'-');
    for at in memchr_iter(b'@', text) {
        let before = text.get(at.saturating_sub(MAX_LOCAL)..at).unwrap_or_default();
        let length = before.iter().rev().take_while(|b| local(b)).count();
        let user = before.get(before.len() - length..).unwrap_or_default();
        let user = user.get(user.iter().position(|b| *b != b'.').unwrap_or(user.len())..).unwrap_or_default();
        let Some(domain) = domain(text.get(at + 1..).unwrap_or_default()) else { continue };
        let end = at + 1 + domain;
        // git@host:path names a repository.
        let scp = user == b"git" && text.get(end) == Some(&b':');
        if !user.is_empty() && !scp {
            hit(at - user.len()..end);
        }
    }
}

/// The length of the domain that a text starts with, when it has two labels and the last is of letters.
fn domain(text: &[u8]) -> Option<usize> {
    let part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-');
    let length = text.iter().take(MAX_DOMAIN).take_while(|b| part(b)).count();
    let whole = text.get(..length)?;
    let length = whole.iter().rposition(|b| b.is_ascii_alphanumeric())? + 1;
    let whole = whole.get(..length)?;
    let dot = whole.iter().rposition(|b| *b == b'.')?;
    let top = whole.get(dot + 1..)?;
    let labels = whole.get(..dot)?.split(|b| *b == b'.').all(|label| !label.is_empty());
    ((2..=24).contains(&top.len()) && top.iter().all(u8::is_ascii_alphabetic) && labels).then_some(length)
}

/// Calls `card` and `iban` with the spans of what has the right check digits.
pub(super) fn numbers(text: &[u8], mut card: impl FnMut(Range<usize>), mut iban: impl FnMut(Range<usize>)) {
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.iter().position(u8::is_ascii_digit)) {
        let start = at + found;
        let rest = text.get(start..).unwrap_or_default();
        at = start + rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
        if matches!(at - start, 4 | 13..)
            && let Some(end) = card_at(text, start)
        {
            card(start..end);
        }
        if at - start >= 2
            && let Some(from) = start.checked_sub(2)
            && let Some(end) = iban_at(text, from)
        {
            iban(from..end);
        }
    }
}

/// The end of the card number that starts at a digit: one run of digits, or groups as they are printed on cards.
fn card_at(text: &[u8], start: usize) -> Option<usize> {
    if goes_on_before(text, start) {
        return None;
    }
    let rest = text.get(start..)?;
    let rest = rest.get(..MAX_CARD + 2).unwrap_or(rest);
    let first = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let length = if first >= 13 { first } else { grouped(text, start, rest)? };
    let digits: Vec<u8> =
        rest.get(..length)?.iter().filter(|b| b.is_ascii_digit()).map(|b| b - b'0').collect();
    let follows = text.get(start + length).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    (!follows && issued(&digits) && check::luhn(&digits)).then_some(start + length)
}

/// The length of four groups of four digits, or of American Express's and Diners Club's three, between equal
/// separators; a longer row of groups is a table.
fn grouped(text: &[u8], start: usize, rest: &[u8]) -> Option<usize> {
    let separator = *rest.get(4)?;
    let row =
        [start.checked_sub(2).and_then(|at| text.get(at)), start.checked_sub(1).and_then(|at| text.get(at))];
    let in_row =
        matches!(row, [Some(digit), Some(between)] if digit.is_ascii_digit() && *between == separator);
    if !matches!(separator, b' ' | b'-') || in_row {
        return None;
    }
    let mut groups =
        rest.split(|b| *b == separator).map(|group| match group.iter().position(|b| !b.is_ascii_digit()) {
            Some(digits) => (digits, false),
            None => (group.len(), true),
        });
    let mut next = || groups.next().unwrap_or((0, false));
    match [next(), next(), next(), next(), next()] {
        [(4, true), (4, true), (4, true), (4, more), (fifth, _)] if !more || fifth != 4 => Some(19),
        [(4, true), (6, true), (last @ 4..=5, _), ..] => Some(4 + 6 + last + 2),
        _ => None,
    }
}

fn goes_on_before(text: &[u8], start: usize) -> bool {
    match text.get(start.saturating_sub(2)..start).unwrap_or_default() {
        [.., b'\\', b'n' | b't' | b'r'] => false,
        [b'0'..=b'9', b'.'] => true,
        [.., last] => last.is_ascii_alphanumeric() || *last == b'_',
        [] => false,
    }
}

/// Whether an issuer gives out numbers of that start and length (ISO/IEC 7812).
fn issued(digits: &[u8]) -> bool {
    if digits.len() < 13 {
        return false;
    }
    let head = digits.iter().take(4).fold(0_u32, |head, digit| head * 10 + u32::from(*digit));
    match digits.len() {
        14 => matches!(head, 3000..=3059 | 3600..=3699 | 3800..=3999),
        15 => matches!(head, 3400..=3499 | 3700..=3799),
        16 => matches!(
            head,
            4000..=4999 | 5100..=5599 | 2221..=2720 | 6011 | 6440..=6599 | 3528..=3589 | 6200..=6299
        ),
        _ => false,
    }
}

/// The end of the IBAN that starts with two letters.
fn iban_at(text: &[u8], from: usize) -> Option<usize> {
    let country = text.get(from..from + 2)?;
    if !country.iter().all(u8::is_ascii_uppercase) || goes_on_before(text, from) {
        return None;
    }
    let wanted = IBANS.as_bytes().split(|b| *b == b' ').find_map(|entry| entry.strip_prefix(country))?;
    let wanted: usize = std::str::from_utf8(wanted).ok()?.parse().ok()?;
    let rest = text.get(from..)?;
    let mut iban = Vec::with_capacity(34);
    let mut length = 0;
    for byte in rest.iter().take(MAX_IBAN) {
        match byte {
            b'A'..=b'Z' | b'0'..=b'9' if iban.len() < wanted => iban.push(*byte),
            b' ' if iban.len() % 4 == 0 && iban.len() < wanted => {}
            _ => break,
        }
        length += 1;
    }
    let follows = rest.get(length).is_some_and(u8::is_ascii_alphanumeric);
    (iban.len() == wanted && !follows && check::mod97(&iban)).then_some(from + length)
}
