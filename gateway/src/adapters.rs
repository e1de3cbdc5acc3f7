//! What stands behind the ports: real servers and child processes.

pub mod child;
pub mod limiter;
pub mod nonces;
pub mod pipe;
pub mod upstream;
