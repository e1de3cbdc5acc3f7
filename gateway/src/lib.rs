//! Tollgate: a gateway for MCP traffic.
//!
//! `edge` takes HTTP off the wire, `pipeline` is the list of `stages` that a request goes through, the stages
//! talk to the world through `ports`, and `adapters` stand behind those.

pub mod adapters;
pub mod admin;
pub mod answers;
pub mod assemble;
pub mod catalog;
pub mod cli;
pub mod config;
pub mod digest;
pub mod edge;
pub mod gate;
pub mod host;
pub mod inflight;
pub mod lanes;
pub mod partials;
pub mod pipeline;
pub mod ports;
pub mod profiles;
pub mod questions;
pub mod reject;
pub mod runs;
pub mod seal;
pub mod sessions;
pub mod stages;
pub mod who;
pub mod wire;
