//! A small HTTP/1.1 client that sends exactly the bytes it is told to. Never retries, redirects or repairs.

mod answer;
mod conn;
mod request;
mod stream;

pub use answer::Answer;
pub use conn::{Conn, Wire};
pub use request::Request;
pub use stream::Stream;

/// Header lines as received, names in lower case.
pub type Headers = Vec<(String, String)>;
