//! What stands behind the ports: real servers and child processes, proof of callers, credentials for servers, the journal, trace
//! collectors.

pub mod archive;
pub mod child;
pub mod credentials;
pub mod journal;
pub mod keys;
pub mod limiter;
pub mod nonces;
pub mod otlp;
pub mod outbound;
pub mod pipe;
pub mod upstream;
