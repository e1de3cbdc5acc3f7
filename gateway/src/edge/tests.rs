//! The edge from outside, over real loopback sockets: an in-memory handler, raw bytes, short deadlines. A
//! name starts with the id of the case it covers. Every wait is for a condition; the clock only ends a test
//! that has failed.

mod deadlines;
mod drain;
mod framing;
mod http2;
mod streams;
mod support;
mod tls;
