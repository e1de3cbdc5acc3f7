//! The one HTTP client stack: connections to servers, and documents from authorization servers behind the egress rules.
//! It never follows a redirect and never repeats a request of which a byte was written.

mod body;
mod connect;
mod conns;
mod fetch;
mod shelves;
mod watched;

pub(in crate::adapters) use body::Body;
pub(in crate::adapters) use connect::{Connector, chain, connector, relative};
pub(in crate::adapters) use conns::Conns;
pub use fetch::{Document, FetchError, Fetcher};
pub(in crate::adapters) use watched::Watched;
