//! The `tracing` section as it is written. Types and names alone, no rules.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Ordered, Time};

/// Traces for a collector that speaks OTLP. What is not said here is taken from the OTEL_* variables of the environment.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tracing {
    /// The collector, such as http://127.0.0.1:4317 (grpc) or http://127.0.0.1:4318 (http; `/v1/traces` is added to a URL
    /// without a path). Absent here and in the environment: no traces.
    pub(crate) endpoint: Option<String>,
    /// `grpc`, or `http`: protobuf over HTTP. Default http.
    pub(crate) protocol: Option<Protocol>,
    /// Headers of each export. Credentials only by reference, as for servers.
    pub(crate) headers: Option<Ordered<String>>,
    /// PEM file of the authorities trusted for the collector instead of the system's.
    pub(crate) ca: Option<String>,
    /// Part of the traces that is exported, from 0 to 1. A caller's own decision for its trace goes before it. Default 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) sample: Option<f64>,
    /// Attributes of the resource, such as service.name (default tollgate) or deployment.environment.name.
    pub(crate) resource: Option<Ordered<String>>,
    /// Longest time of one export. Default 10s.
    pub(crate) timeout: Option<Time>,
    /// Messages whose spans wait to be sent; more are dropped and counted. Default 2048.
    pub(crate) queue: Option<u64>,
}

/// How spans are sent.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protocol {
    Grpc,
    Http,
}
