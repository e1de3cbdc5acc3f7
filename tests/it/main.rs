//! One integration binary: the gateway from outside, one file for each topic. Every test starts its own gateway
//! on port 0 and its own scripted servers.

mod admin;
mod aged;
mod audit_cli;
mod cancel;
mod cli;
mod drain;
mod edges;
mod envelope;
mod eras;
mod framing;
mod front;
mod h2;
mod harness;
mod json;
mod legacy_servers;
mod limits_of_servers;
mod list_faults;
mod lists;
mod mirrored;
mod old_sse;
mod passthrough;
mod peers;
mod sessions;
mod sse;
mod stdio_host;
mod stdio_servers;
mod support;
mod tidy;
mod timeouts;
mod tls;
mod upstream_answers;
mod upstream_conduct;
mod wire;
