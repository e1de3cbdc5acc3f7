//! The journal: an append-only, hash-chained, signed log of who called what, and the offline verifier that needs
//! nothing but its files. `FORMAT.md` beside this crate says what the files hold, byte by byte.
//!
//! Writing: [`writer`] (with [`recover`], [`storage`], [`clock`] below it). The record: [`entry`], [`frame`]. The
//! proofs: [`tree`], [`note`], [`proof`], [`key`]. Reading: [`verify`], [`read`], [`costs`], [`runs`], [`prove`]. What is kept
//! elsewhere: [`archive`]. Ids and digests
//! of calls: [`span`].
//!
//! It never sees a request, a credential or a body: callers give it digests. It opens no connection.

pub mod archive;
pub mod clock;
pub mod costs;
pub mod entry;
pub mod error;
pub mod frame;
pub mod hash;
pub mod key;
pub mod layout;
pub mod note;
pub mod proof;
pub mod prove;
pub mod read;
pub mod recover;
pub mod runs;
pub mod span;
pub mod storage;
pub mod tree;
pub mod verify;
pub mod writer;
