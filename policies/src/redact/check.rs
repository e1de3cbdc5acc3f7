//! What tells a real secret from a text of the same shape: checksums, structure and how mixed its characters are.
//! Never longer than its input, and never certain of more than the shape.

/// Most bytes of a JWT's header that are decoded.
const MAX_HEADER: usize = 1024;

/// GitHub's and npm's tokens end in the CRC-32 of what is before, in six base-62 digits.
/// Source: github.blog, "Behind GitHub's new authentication token formats" (2021).
pub(super) fn crc32_base62(body: &[u8]) -> bool {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let Some((random, sum)) = body.split_last_chunk::<6>() else { return false };
    let mut left = crc32fast::hash(random);
    sum.iter().rev().all(|digit| {
        let expected = usize::try_from(left % 62).ok().and_then(|at| DIGITS.get(at));
        left /= 62;
        expected == Some(digit)
    })
}

/// Whether it looks drawn by chance: placeholders repeat one character, and words use one class.
pub(super) fn mixed(body: &[u8]) -> bool {
    let mut seen = 0_u128;
    for byte in body.iter().filter(|b| b.is_ascii()) {
        seen |= 1 << byte;
    }
    let has =
        |class: std::ops::RangeInclusive<u8>| usize::from(class.into_iter().any(|b| seen >> b & 1 == 1));
    let classes = has(b'0'..=b'9') + has(b'A'..=b'Z') + has(b'a'..=b'z');
    let distinct = usize::try_from(seen.count_ones()).unwrap_or_default();
    classes >= 2 && distinct >= (body.len() / 3).min(10)
}

/// A digit and a letter are in it: words alone are no credential.
pub(super) fn has_digit(body: &[u8]) -> bool {
    body.iter().any(u8::is_ascii_digit)
}

/// A JWT's header is a JSON object that names an algorithm (RFC 7515 section 4.1.1).
pub(super) fn jwt_header(segment: &[u8]) -> bool {
    let decoded = decode64(segment.get(..MAX_HEADER).unwrap_or(segment));
    decoded.first() == Some(&b'{') && memchr::memmem::find(&decoded, b"\"alg\"").is_some()
}

/// Base64 in either alphabet, up to the first byte that is in none; padding isn't asked for.
pub(super) fn decode64(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut held) = (0_u32, 0);
    for byte in text {
        let Some(six) = six_bits(*byte) else { break };
        bits = bits << 6 | u32::from(six);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff).to_le_bytes()[0]);
        }
    }
    out
}

/// Six bits of either base64 alphabet (RFC 4648 sections 4 and 5).
pub(super) fn six_bits(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

/// The check digit of payment cards (ISO/IEC 7812-1 annex B).
pub(super) fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| match u32::from(*digit) << (place % 2) {
            twice if twice > 9 => twice - 9,
            once => once,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// The check digits of an IBAN without its spaces (ISO 7064, MOD 97-10).
pub(super) fn mod97(iban: &[u8]) -> bool {
    let (country, rest) = iban.split_at_checked(4).unwrap_or((iban, &[]));
    let left = rest.iter().chain(country).fold(0_u32, |left, byte| match byte {
        b'0'..=b'9' => (left * 10 + u32::from(byte - b'0')) % 97,
        letter => (left * 100 + u32::from(letter.wrapping_sub(b'A')) + 10) % 97,
    });
    left == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_agree_with_published_examples() {
        assert!(crc32_base62(b"zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17"));
        assert!(!crc32_base62(b"zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq18"));
        assert!(luhn(&[4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]));
        assert!(!luhn(&[4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]));
        assert!(mod97(b"GB82WEST12345698765432") && mod97(b"DE89370400440532013000"));
        assert!(!mod97(b"DE89370400440532013001"));
        assert_eq!(decode64(b"aGVsbG8="), b"hello");
    }
}
