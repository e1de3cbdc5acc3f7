//! The set of an object's keys, for objects with many of them. Holds hashes alone; whether keys with equal hashes are equal
//! is for the caller to see. Hashes are keyed at random, so that no sender can choose collisions.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

use super::text::unescape;

/// Passes on what is a hash already.
#[derive(Default)]
pub(super) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// Hashes of the keys seen.
pub(super) struct Seen {
    state: RandomState,
    hashes: HashSet<u64, BuildHasherDefault<Hashed>>,
}

impl Seen {
    pub(super) fn new(known: &[&[u8]]) -> Seen {
        let mut seen = Seen { state: RandomState::new(), hashes: HashSet::default() };
        for key in known {
            seen.insert(&unescaped(key));
        }
        seen
    }

    /// Whether no key with this hash was seen before.
    pub(super) fn insert(&mut self, key: &[u8]) -> bool {
        self.hashes.insert(self.state.hash_one(key))
    }
}

/// The text of a key as bytes, escapes undone.
pub(super) fn unescaped(body: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', body).is_none() {
        return Cow::Borrowed(body);
    }
    let text = std::str::from_utf8(body).unwrap_or_default();
    Cow::Owned(unescape(text).into_owned().into_bytes())
}
