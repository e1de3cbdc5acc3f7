//! Digests as they stand in records: SHA-256 and HMAC-SHA-256, written as 64 lower-case hexadecimal digits.

use std::fmt;

use ring::{digest, hmac};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// 32 bytes: a SHA-256 or an HMAC-SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// SHA-256 over the parts, one after the other.
    pub fn sha256(parts: &[&[u8]]) -> Digest {
        let mut context = digest::Context::new(&digest::SHA256);
        for part in parts {
            context.update(part);
        }
        Digest::from_slice(context.finish().as_ref()).unwrap_or_default()
    }

    /// HMAC-SHA-256 over the parts, one after the other.
    pub fn hmac(key: &[u8], parts: &[&[u8]]) -> Digest {
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
        for part in parts {
            context.update(part);
        }
        Digest::of_tag(&context.sign())
    }

    pub(crate) fn of_tag(tag: &hmac::Tag) -> Digest {
        Digest::from_slice(tag.as_ref()).unwrap_or_default()
    }

    /// From exactly 32 bytes.
    pub fn from_slice(bytes: &[u8]) -> Option<Digest> {
        bytes.try_into().ok().map(Digest)
    }

    /// From exactly 64 lower-case hexadecimal digits.
    pub fn from_hex(text: &[u8]) -> Option<Digest> {
        let mut out = [0; 32];
        if text.len() != 64 {
            return None;
        }
        let mut wrong = 0;
        for (to, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
            let [high, low] = *pair else { return None };
            let (high, low) = (value(high), value(low));
            wrong |= high | low;
            *to = (high << 4) | (low & 15);
        }
        (wrong < 16).then_some(Digest(out))
    }

    /// 64 lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }

    /// The same as bytes.
    pub(crate) fn digits(&self) -> [u8; 64] {
        let mut text = [0; 64];
        for (to, byte) in text.chunks_exact_mut(2).zip(self.0) {
            to.copy_from_slice(&pair(byte));
        }
        text
    }
}

/// The value of a lower-case hexadecimal digit; 255 is none. Without a table, so that many are read at once.
fn value(digit: u8) -> u8 {
    let (number, letter) = (digit.wrapping_sub(b'0'), digit.wrapping_sub(b'a'));
    match (number < 10, letter < 6) {
        (true, _) => number,
        (_, true) => letter + 10,
        _ => 255,
    }
}

/// The value of one lower-case hexadecimal digit.
pub(crate) fn nibble(digit: u8) -> Option<u8> {
    Some(value(digit)).filter(|value| *value < 16)
}

/// Without a branch, so that many are made at once.
fn digit(value: u8) -> u8 {
    b'0' + value + u8::from(value > 9) * (b'a' - b'0' - 10)
}

/// Lower-case hexadecimal digits of any bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|b| pair(*b)).map(char::from).collect()
}

/// The number's digits in `to`, which has two places for each byte.
pub(crate) fn digits(number: u32, to: &mut [u8]) {
    for (to, byte) in to.chunks_exact_mut(2).zip(number.to_be_bytes()) {
        to.copy_from_slice(&pair(byte));
    }
}

fn pair(byte: u8) -> [u8; 2] {
    [digit(byte >> 4), digit(byte & 15)]
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.digits()).unwrap_or_default())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Digest;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("64 lower-case hexadecimal digits")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Digest, E> {
                Digest::from_hex(text.as_bytes()).ok_or_else(|| E::custom("no digest"))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}
