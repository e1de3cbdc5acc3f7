//! SHA-256 (FIPS 180-4) as an array, for everything that is named or compared by what it holds. Keyed digests are
//! elsewhere.

use ring::digest::{Digest, SHA256, digest};

/// The digest of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    array(&digest(&SHA256, bytes))
}

/// A SHA-256 digest that was made piece by piece.
pub fn array(digest: &Digest) -> [u8; 32] {
    let mut array = [0; 32];
    array.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
    array
}

/// In hexadecimal, small letters.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One name for two things: equal again only when both are.
pub fn mixed(mut one: [u8; 32], other: [u8; 32]) -> [u8; 32] {
    one.iter_mut().zip(other).for_each(|(to, from)| *to ^= from);
    one
}

#[cfg(test)]
mod tests {
    use super::{hex, sha256};

    #[test]
    fn the_digest_of_nothing_is_the_published_one() {
        assert_eq!(sha256(b"").first_chunk(), Some(&[0xe3, 0xb0, 0xc4, 0x42]));
        assert_eq!(hex(&[0xe3, 0x0b]), "e30b");
    }
}
