//! zlib under the name that pingora-core's compression asks for. The crate of that name builds zlib-ng with CMake,
//! which a machine with only Rust and a C compiler does not have; Tollgate itself compresses nothing.

pub use libz_sys::*;
