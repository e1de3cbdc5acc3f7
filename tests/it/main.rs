//! One integration binary: the gateway from outside, one file for each topic. Every test starts its own gateway
//! on port 0 and its own scripted servers.

mod cancel;
mod cli;
mod drain;
mod envelope;
mod eras;
mod framing;
mod front;
mod h2;
mod harness;
mod json;
mod list_faults;
mod lists;
mod mirrored;
mod passthrough;
mod peers;
mod sessions;
mod sse;
mod stdio_host;
mod stdio_servers;
mod support;
mod tidy;
mod timeouts;
mod upstream_answers;
mod upstream_conduct;
mod wire;
