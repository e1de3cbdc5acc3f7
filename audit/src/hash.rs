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
        Digest::from_slice(context.sign().as_ref()).unwrap_or_default()
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
        for (to, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
            let [high, low] = *pair else { return None };
            *to = (nibble(high)? << 4) | nibble(low)?;
        }
        Some(Digest(out))
    }

    /// 64 lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        hex(&self.0)
    }
}

/// The value of one lower-case hexadecimal digit.
pub(crate) fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn digit(value: u8) -> u8 {
    if value < 10 { b'0' + value } else { b'a' + value - 10 }
}

/// Lower-case hexadecimal digits of any bytes.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|b| [char::from(digit(b >> 4)), char::from(digit(b & 15))]).collect()
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
        let mut text = [0; 64];
        for (to, byte) in text.chunks_exact_mut(2).zip(self.0) {
            if let [high, low] = to {
                (*high, *low) = (digit(byte >> 4), digit(byte & 15));
            }
        }
        serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
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
