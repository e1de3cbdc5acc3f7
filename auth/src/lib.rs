//! Credentials: who is calling, and as whom the gateway calls. Pure: it opens no connection, reads no clock and no file,
//! and never sees a request; keys and answers are brought to it, and what it wants fetched it says.

pub mod bearer;
pub mod certificate;
mod claims;
pub mod client;
mod digest;
pub mod egress;
mod error;
pub mod introspect;
pub mod issuer;
mod json;
pub mod jwt;
pub mod keys;
pub mod metadata;
pub mod outgoing;
mod principal;
pub mod registration;
pub mod scope;
mod secret;
#[cfg(test)]
mod testing;
pub mod tokens;

pub use claims::LEEWAY;
pub use digest::Digest;
pub use error::TokenError;
pub use principal::{CertificateName, Identifier, MAX_IDENTIFIER, Oauth, Principal};
pub use secret::Secret;
