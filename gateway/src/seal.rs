//! Sealed tokens: what the gateway hands to clients and gets back (session ids, list cursors) is encrypted and
//! authenticated, so that any replica with the same key can read it and nobody can forge or read it.
//!
//! Token: base64url(version 1 byte ‖ key id 4 bytes ‖ salt 16 bytes ‖ ChaCha20-Poly1305 ciphertext and tag).
//! The key of each token is HKDF-SHA-256(key, salt, label), so a fixed nonce is never used twice under one key,
//! and a token made for one use never opens in another. RFC 5869, RFC 8439.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};
use ring::rand::{SecureRandom, SystemRandom};

const VERSION: u8 = 1;
const KEY_ID: usize = 4;
const SALT: usize = 16;
const HEAD: usize = 1 + KEY_ID + SALT;
const MAX_TOKEN: usize = 8 * 1024;
const MAX_STATE: usize = 96 * 1024;

/// What a token is for. Each use has its own keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// A legacy session id.
    Session,
    /// A cursor of a list.
    Cursor,
    /// A `requestState` of a confirmation; it may hold a server's own.
    Confirm,
    /// The id of an event on a legacy stream.
    Event,
}

impl Use {
    fn label(self) -> &'static [u8] {
        match self {
            Use::Session => b"tollgate session v1",
            Use::Cursor => b"tollgate cursor v1",
            Use::Confirm => b"tollgate confirm v1",
            Use::Event => b"tollgate event v1",
        }
    }

    /// Longer tokens are refused before they are decoded, in bytes.
    fn most(self) -> usize {
        match self {
            Use::Session | Use::Cursor | Use::Event => MAX_TOKEN,
            Use::Confirm => MAX_STATE,
        }
    }
}

/// The keys: the first seals, all open.
#[derive(Clone)]
pub struct Sealer {
    keys: Arc<[SealKey]>,
    random: SystemRandom,
}

struct SealKey {
    id: [u8; KEY_ID],
    secret: [u8; 32],
}

struct AeadLength;

impl KeyType for AeadLength {
    fn len(&self) -> usize {
        32
    }
}

impl Sealer {
    /// Keys of 32 bytes each; an empty list makes a key that lives as long as this process.
    pub fn new(keys: &[[u8; 32]]) -> Option<Sealer> {
        let random = SystemRandom::new();
        let mut secrets = keys.to_vec();
        if secrets.is_empty() {
            let mut made = [0; 32];
            random.fill(&mut made).ok()?;
            secrets.push(made);
        }
        let keys = secrets.into_iter().map(|secret| SealKey { id: key_id(&secret), secret }).collect();
        Some(Sealer { keys, random })
    }

    /// Seals `plain`. None only when the system gives no random bytes.
    pub fn seal(&self, what: Use, plain: &[u8]) -> Option<String> {
        let key = self.keys.first()?;
        let mut salt = [0; SALT];
        self.random.fill(&mut salt).ok()?;
        let mut out = Vec::with_capacity(HEAD + plain.len() + 16);
        out.push(VERSION);
        out.extend_from_slice(&key.id);
        out.extend_from_slice(&salt);
        let mut body = plain.to_vec();
        let aead = derive(&key.secret, &salt, what)?;
        aead.seal_in_place_append_tag(nonce(), Aad::from(out.as_slice()), &mut body).ok()?;
        out.extend_from_slice(&body);
        Some(URL_SAFE_NO_PAD.encode(out))
    }

    /// Opens a token that was sealed for this use with one of the keys. None says no more than that it is not one.
    pub fn open(&self, what: Use, token: &str) -> Option<Vec<u8>> {
        if token.len() > what.most() {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (head, body) = bytes.split_at_checked(HEAD)?;
        let (version, rest) = head.split_first()?;
        let (id, salt) = rest.split_at_checked(KEY_ID)?;
        if *version != VERSION {
            return None;
        }
        let salt: [u8; SALT] = salt.try_into().ok()?;
        let key = self.keys.iter().find(|key| key.id == id)?;
        let mut body = body.to_vec();
        let aead = derive(&key.secret, &salt, what)?;
        let plain = aead.open_in_place(nonce(), Aad::from(head), &mut body).ok()?;
        Some(plain.to_vec())
    }

    /// Random bytes for ids.
    pub fn random<const N: usize>(&self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.random.fill(&mut bytes).ok()?;
        Some(bytes)
    }
}

fn key_id(secret: &[u8; 32]) -> [u8; KEY_ID] {
    let mut id = [0; KEY_ID];
    let tag = ring::hmac::sign(&ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret), b"tollgate key id v1");
    for (to, from) in id.iter_mut().zip(tag.as_ref()) {
        *to = *from;
    }
    id
}

fn derive(secret: &[u8; 32], salt: &[u8; SALT], what: Use) -> Option<LessSafeKey> {
    let prk = Salt::new(HKDF_SHA256, salt).extract(secret);
    let info = [what.label()];
    let okm = prk.expand(&info, AeadLength).ok()?;
    let mut key = [0; 32];
    okm.fill(&mut key).ok()?;
    Some(LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).ok()?))
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_opens_with_every_key_and_for_its_use_alone() {
        let (old, new) = ([1; 32], [2; 32]);
        let before = Sealer::new(&[old]).unwrap();
        let after = Sealer::new(&[new, old]).unwrap();
        let token = before.seal(Use::Session, b"hello").unwrap();
        assert_eq!(after.open(Use::Session, &token).unwrap(), b"hello");
        assert_eq!(after.open(Use::Cursor, &token), None);
        assert_eq!(Sealer::new(&[new]).unwrap().open(Use::Session, &token), None);
    }

    #[test]
    fn a24_every_flipped_bit_is_refused() {
        let sealer = Sealer::new(&[[7; 32]]).unwrap();
        let token = sealer.seal(Use::Session, b"abc").unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(sealer.open(Use::Session, &URL_SAFE_NO_PAD.encode(bad)), None, "bit {bit}");
        }
        assert_eq!(sealer.open(Use::Session, ""), None);
        assert_eq!(sealer.open(Use::Session, &"A".repeat(MAX_TOKEN + 1)), None);
    }
}
