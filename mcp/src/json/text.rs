//! Bodies of JSON strings: finding their end, undoing and making escapes. Never judges grammar beyond one string.

use std::borrow::Cow;

/// Eight copies of one byte.
const fn lanes(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Marks the bytes of a little-endian word that end a plain run: `"`, `\` and controls below 0x20.
/// The lowest mark is exact; borrows may set marks above it, which nobody looks at.
const fn marks(word: u64) -> u64 {
    let quote = word ^ lanes(b'"');
    let slash = word ^ lanes(b'\\');
    let below = word.wrapping_sub(lanes(0x20)) & !word;
    let quote = quote.wrapping_sub(lanes(1)) & !quote;
    let slash = slash.wrapping_sub(lanes(1)) & !slash;
    (below | quote | slash) & lanes(0x80)
}

/// Whether a byte ends a plain run.
const fn ends_run(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The index of the first `"`, `\` or control byte at or after `from`; the length when there is none.
#[inline]
pub(super) fn plain_end(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let (words, tail) = rest.as_chunks::<8>();
    let mut at = from;
    for word in words {
        let hit = marks(u64::from_le_bytes(*word));
        if hit != 0 {
            return at + (hit.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + tail.iter().position(|byte| ends_run(*byte)).unwrap_or(tail.len())
}

/// One past the closing quote of a checked string whose body starts at `from`: the first quote with an even number of
/// backslashes before it. Escapes in between cost nothing, so that long text is passed at the speed of `memchr`.
#[inline]
pub(super) fn string_end(text: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        let rest = text.get(at..).unwrap_or_default();
        let Some(quote) = memchr::memchr(b'"', rest) else { return text.len() };
        let quote = at + quote;
        let before = text.get(from..quote).unwrap_or_default();
        let slashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
        at = quote + 1;
        if slashes.is_multiple_of(2) {
            return at;
        }
    }
}

/// The value of four hexadecimal digits at `at`.
pub(super) fn hex4(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at.checked_add(4)?)?;
    digits.iter().try_fold(0u16, |value, byte| {
        let digit = char::from(*byte).to_digit(16)?;
        Some(value << 4 | u16::try_from(digit).ok()?)
    })
}

/// The text of a checked string body (without its quotes); borrowed when it has no escape.
pub(super) fn unescape(body: &str) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', body.as_bytes()) else { return Cow::Borrowed(body) };
    let mut out = String::with_capacity(body.len());
    let mut at = 0;
    let mut next = Some(first);
    while let Some(slash) = next {
        out.push_str(body.get(at..slash).unwrap_or_default());
        at = slash + unescape_one(body.as_bytes(), slash, &mut out);
        let rest = body.as_bytes().get(at..).unwrap_or_default();
        next = memchr::memchr(b'\\', rest).map(|found| at + found);
    }
    out.push_str(body.get(at..).unwrap_or_default());
    Cow::Owned(out)
}

/// Pushes what the escape at `slash` stands for; returns its length in bytes.
fn unescape_one(body: &[u8], slash: usize, out: &mut String) -> usize {
    let plain = match body.get(slash + 1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => {
            let high = hex4(body, slash + 2).unwrap_or(0xFFFD);
            let low = if (0xD800..0xDC00).contains(&high) { hex4(body, slash + 8) } else { None };
            let units = [high, low.unwrap_or_default()];
            let used = if low.is_some() { 2 } else { 1 };
            let decoded = char::decode_utf16(units.into_iter().take(used)).next();
            out.push(decoded.and_then(Result::ok).unwrap_or(char::REPLACEMENT_CHARACTER));
            return 6 * used;
        }
        Some(other) => char::from(*other),
        None => return 1,
    };
    out.push(plain);
    2
}

/// Appends a JSON string with its quotes. Only what RFC 8259 demands is escaped, so the result never holds
/// a raw control byte: no CR or LF can leave through it.
pub(super) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        let end = plain_end(bytes, at);
        out.extend_from_slice(bytes.get(at..end).unwrap_or_default());
        match bytes.get(end) {
            None => break,
            Some(byte) => write_escape(out, *byte),
        }
        at = end + 1;
    }
    out.push(b'"');
}

/// Appends the escape of one byte that can't stand in a string as it is.
fn write_escape(out: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            out.extend_from_slice(b"\\u00");
            let digits = [byte >> 4, byte & 0xF];
            out.extend(digits.iter().filter_map(|digit| HEX.get(usize::from(*digit))));
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_runs_end_at_each_special_byte_wherever_it_stands() {
        for special in (0u8..0x20).chain([b'"', b'\\']) {
            for place in 0..200 {
                let mut text = vec![b'x'; 200];
                text[place] = special;
                for from in [0, place / 2, place] {
                    assert_eq!(plain_end(&text, from), place, "{special} at {place} from {from}");
                }
            }
        }
    }

    #[test]
    fn neighbours_of_special_bytes_do_not_end_a_run() {
        let harmless: Vec<u8> = (0x20..=0xFF).filter(|byte| !ends_run(*byte)).collect();
        assert_eq!(plain_end(&harmless, 0), harmless.len());
        for byte in harmless {
            assert_eq!(plain_end(&[byte; 40], 0), 40, "{byte}");
        }
    }

    #[test]
    fn a_string_ends_at_the_first_quote_that_is_not_escaped() {
        for (text, end) in [
            (r#"""#, 1),
            (r#"abc","d""#, 4),
            (r#"a\\"b""#, 4),
            (r#"a\"b"c"#, 5),
            (r#"\\\""x"#, 5),
            (r#"\\\\"x"#, 5),
            (r#"\"\"\"""#, 7),
        ] {
            assert_eq!(string_end(text.as_bytes(), 0), end, "{text}");
        }
        let long = format!("{}\"tail", r"\\n".repeat(1000));
        assert_eq!(string_end(long.as_bytes(), 0), long.len() - 4);
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(unescape("plain"), "plain");
        assert_eq!(unescape(r#"a\"\\\/\b\f\n\r\tz"#), "a\"\\/\u{8}\u{c}\n\r\tz");
        assert_eq!(unescape(r"\u0041\u00e9\u20AC\ud83d\ude00!"), "Aé€😀!");
        assert_eq!(unescape(r"\u0000"), "\0");
    }

    #[test]
    fn written_strings_match_serde_json() {
        let every: String =
            (0u32..0x300).chain([0x2028, 0x2029, 0x1F600]).filter_map(char::from_u32).collect();
        let mut ours = Vec::new();
        write_string(&mut ours, &every);
        let back: String = serde_json::from_slice(&ours).expect("valid JSON");
        assert_eq!(back, every);
        assert!(ours.iter().all(|byte| *byte >= 0x20), "no raw control byte");
    }
}
