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
#[cfg(test)]
const fn ends_run(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The index of the first `"`, `\` or control byte at or after `from`; the length when there is none.
#[inline]
pub(super) fn plain_end(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let mut at = from;
    // Keys and short values end here; only long text is worth the wide blocks below.
    for word in rest.as_chunks::<8>().0.iter().take(4) {
        let hit = marks(u64::from_le_bytes(*word));
        if hit != 0 {
            return at + (hit.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    long_plain_end(text, at)
}

/// [`plain_end`] for long text: the end of the string or its next escape is looked for first, which vector
/// instructions do best, then controls before it.
fn long_plain_end(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    let end = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
    let run = rest.get(..end).unwrap_or_default();
    // Without a branch per byte, so that this is done in blocks as well.
    let control = run.iter().fold(false, |hit, byte| hit | (*byte < 0x20));
    let place = if control { run.iter().position(|byte| *byte < 0x20) } else { None };
    from + place.unwrap_or(end)
}

/// One past the closing quote of a checked string whose body starts at `from`.
#[inline]
pub(super) fn string_end(text: &[u8], from: usize) -> usize {
    let mut at = from;
    loop {
        at = plain_end(text, at);
        match text.get(at) {
            Some(b'\\') => at += 2,
            Some(_) => return at + 1,
            None => return text.len(),
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
