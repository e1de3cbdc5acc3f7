//! The checked `tracing` section, completed from the environment. Nothing is connected here.

use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use url::Url;

use crate::config::secret::Secret;

/// Where and how spans are sent.
#[derive(Clone, Debug)]
pub struct Tracing {
    /// The collector: of gRPC the origin counts, of HTTP the whole URL.
    pub endpoint: Url,
    /// How.
    pub protocol: TracingProtocol,
    /// Headers of each export.
    pub headers: Vec<(HeaderName, Secret)>,
    /// Authorities trusted instead of the system's.
    pub ca: Option<PathBuf>,
    /// Part of the traces that is exported, from 0 to 1.
    pub sample: f64,
    /// Whether a caller's decision for its trace goes before that.
    pub follow_parent: bool,
    /// Attributes of the resource.
    pub resource: Vec<(String, String)>,
    /// Longest time of one export.
    pub timeout: Duration,
    /// Messages whose spans wait.
    pub queue: usize,
    /// Messages of one export.
    pub batch: usize,
    /// Longest time until an export begins.
    pub delay: Duration,
}

/// How spans are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TracingProtocol {
    /// gRPC over HTTP/2.
    Grpc,
    /// Protobuf over HTTP.
    Http,
}
