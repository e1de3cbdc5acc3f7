//! The stages of a request, one file each. Each takes what the stage before it made, so that leaving one out does
//! not compile. No stage names an adapter or the edge.

pub mod admit;
pub mod authorize;
pub mod challenge;
pub mod confirm;
pub mod decode;
pub mod forward;
pub mod identify;
pub mod limit;
pub mod record;
pub mod route;
pub mod screen;
pub mod session;
pub mod trace;
