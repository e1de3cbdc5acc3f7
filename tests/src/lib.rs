//! Harness of the integration tests: runs the gateway's binary and plays its clients and its servers.
//! Uses no code of the gateway, so that both can't be wrong in the same way.

pub mod client;
pub mod gateway;
pub mod host;
pub mod http;
pub mod issuer;
pub mod json;
pub mod peer;
pub mod scripted;
pub mod sse;
pub mod tls;
pub mod wait;
