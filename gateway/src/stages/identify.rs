//! Stage 3: who is calling. Until credentials are served there is one principal, `anonymous`, and the
//! configuration has already refused every listener that is not on loopback. A credential in the request is
//! never looked at here and never passed on.

use std::sync::LazyLock;

use auth::Principal;

use crate::digest::sha256;
use crate::stages::decode::Decoded;

/// A decoded message with its caller.
pub struct Identified {
    /// The message.
    pub decoded: Decoded,
    /// The caller.
    pub principal: Principal,
    /// SHA-256 over the principal: what the gateway binds to a caller is bound to this.
    pub owner: [u8; 32],
}

/// Finds the caller.
pub fn identify(decoded: Decoded) -> Identified {
    Identified { decoded, principal: Principal::Anonymous, owner: anonymous() }
}

/// The digest of the one principal that there is.
pub fn anonymous() -> [u8; 32] {
    static OWNER: LazyLock<[u8; 32]> = LazyLock::new(|| sha256(Principal::Anonymous.canonical().as_bytes()));
    *OWNER
}
