//! The small traits between the stages and the world. Nothing here does I/O; the adapters do.

pub mod accounts;
pub mod clock;
pub mod journal;
pub mod keys;
pub mod limiter;
pub mod nonces;
pub mod traces;
pub mod upstream;
