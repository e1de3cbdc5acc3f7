//! The wire envelope of MCP, for a gateway that must pass on what it does not understand.
//!
//! It is for: reading JSON strictly and without a tree ([`json`]), JSON-RPC messages ([`message`]), protocol eras, methods,
//! error codes and request metadata ([`era`], [`method`], [`code`], [`meta`]), headers that mirror the body ([`mirror`],
//! [`param`]), event streams ([`sse`]), list entries and the names and URIs they are shown under ([`entry`], [`naming`],
//! [`uri`]), results, errors and params between the eras ([`bridge`]), what the gateway adds to results ([`dress`]), and trace
//! contexts ([`trace`]).
//!
//! It never does I/O, keeps no clock and no state between messages, knows no HTTP library, and decides nothing about who may
//! do what. It has no typed model of results or arguments: what was checked is handed on as the same bytes, so that
//! unknown fields and the spelling of numbers survive. Nothing here panics on any input, recurses without a bound, or
//! repeats a peer's text in an error but for the short printable header values of error -32020.

pub mod bridge;
pub mod code;
pub mod dress;
pub mod entry;
pub mod era;
pub mod json;
pub mod message;
pub mod meta;
pub mod method;
pub mod mirror;
pub mod naming;
pub mod param;
pub mod sse;
pub mod trace;
pub mod uri;
