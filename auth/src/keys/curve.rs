//! Points of elliptic-curve keys. A point off its curve or of small order is no key: signatures "by" it can be made by
//! anyone, or not at all.

use jsonwebtoken::DecodingKey;
use ring::agreement::{self, ECDH_P256, ECDH_P384, EphemeralPrivateKey, UnparsedPublicKey};
use ring::rand::SystemRandom;

use super::{Algorithm, DropReason};

/// The key at `x`, `y` on the algorithm's curve.
pub(super) fn ec(algorithm: Algorithm, x: &[u8], y: &[u8]) -> Result<DecodingKey, DropReason> {
    let (curve, size): (&'static agreement::Algorithm, usize) = match algorithm {
        Algorithm::Es256 => (&ECDH_P256, 32),
        Algorithm::Es384 => (&ECDH_P384, 48),
        _ => return Err(DropReason::Algorithm),
    };
    if x.len() != size || y.len() != size {
        return Err(DropReason::Malformed);
    }
    let point = [&[4], x, y].concat();
    // ring looks whether a point is on its curve where it is used, and says so only when it agrees on a key with it.
    let ours = EphemeralPrivateKey::generate(curve, &SystemRandom::new()).map_err(|_| DropReason::Point)?;
    agreement::agree_ephemeral(ours, &UnparsedPublicKey::new(curve, &point), |_| ())
        .map_err(|_| DropReason::Point)?;
    Ok(DecodingKey::from_ec_der(&point))
}

/// The y of the points of small order on edwards25519, little-endian, each in every form that decoders accept.
pub(super) const SMALL_ORDER: [[u8; 32]; 7] = [
    little(0x00, 0x00, 0x00),
    little(0x01, 0x00, 0x00),
    little(0xec, 0xff, 0x7f),
    little(0xed, 0xff, 0x7f),
    little(0xee, 0xff, 0x7f),
    [
        0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5,
        0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
    ],
    [
        0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a,
        0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
    ],
];

const fn little(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    bytes[0] = first;
    bytes[31] = last;
    bytes
}

/// The Ed25519 key with this point.
pub(super) fn ed25519(x: &[u8]) -> Result<DecodingKey, DropReason> {
    let mut y: [u8; 32] = x.try_into().map_err(|_| DropReason::Malformed)?;
    // The highest bit is the sign of the other coordinate.
    if let Some(last) = y.last_mut() {
        *last &= 0x7f;
    }
    if SMALL_ORDER.contains(&y) {
        return Err(DropReason::Point);
    }
    Ok(DecodingKey::from_ed_der(x))
}
