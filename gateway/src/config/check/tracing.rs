//! The `tracing` section together with the OTEL_* variables: what the file says goes before the environment. A variable
//! that says nothing usable is warned of and ignored, as OpenTelemetry asks.

mod environment;

use std::time::Duration;

use http::HeaderName;
use url::Url;

use self::environment::Otel;
use super::bounds::seconds;
use super::headers;
use crate::config::checked::{Tracing, TracingProtocol};
use crate::config::context::Context;
use crate::config::place::At;
use crate::config::raw::tracing as raw;
use crate::config::secret::Secret;

/// The path of the service over HTTP.
const PATH: &str = "v1/traces";
/// Longest key or value of a resource's attribute, in bytes.
const MAX_ATTRIBUTE: usize = 1024;

/// `None`: no traces.
pub(super) fn check(raw: Option<&raw::Tracing>, at: &At, context: &mut Context<'_>) -> Option<Tracing> {
    let none = raw::Tracing::default();
    let (written, raw) = (raw.is_some(), raw.unwrap_or(&none));
    let mut otel = Otel::new(at, context);
    if otel.off() {
        return None;
    }
    let protocol = match raw.protocol {
        Some(raw::Protocol::Grpc) => TracingProtocol::Grpc,
        Some(raw::Protocol::Http) => TracingProtocol::Http,
        None => otel.protocol().unwrap_or(TracingProtocol::Http),
    };
    let environment = otel.endpoint(protocol);
    let (sample, follow_parent) = otel.sampler().unwrap_or((1.0, true));
    let (timeout, queue) = (otel.timeout(), otel.count("OTEL_BSP_MAX_QUEUE_SIZE"));
    let batch = otel.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE");
    let delay = otel.millis("OTEL_BSP_SCHEDULE_DELAY");
    let (mut given, mut resource, ca) = (otel.headers(), otel.resource(), otel.ca());
    let endpoint = match raw.endpoint.as_deref() {
        Some(text) => Some(endpoint(text, protocol, &at.key("endpoint"), context)?),
        None => environment,
    };
    if written && endpoint.is_none() {
        let fix = "write the collector's URL, or set OTEL_EXPORTER_OTLP_ENDPOINT";
        context.warning(at, "no endpoint: nothing is traced", fix);
    }
    let (sample, follow_parent) = match raw.sample {
        None => (sample, follow_parent),
        Some(part) if (0.0..=1.0).contains(&part) => (part, true),
        Some(_) => {
            context.problem(&at.key("sample"), "not a part of one", "write a number from 0 to 1");
            (1.0, true)
        }
    };
    let own = headers::check(raw.headers.as_ref(), &at.key("headers"), context);
    given.retain(|(name, _): &(HeaderName, Secret)| own.iter().all(|(other, _)| other != name));
    given.extend(own);
    attributes(raw, &mut resource, &at.key("resource"), context);
    let default = timeout.unwrap_or(Duration::from_secs(10));
    let timeout = context.time(&at.key("timeout"), raw.timeout.as_ref(), default, seconds(1, 60));
    let queue = queue.unwrap_or(2048).clamp(1, 1 << 20);
    let queue = context.count(&at.key("queue"), raw.queue, queue, 1..=1 << 20);
    Some(Tracing {
        endpoint: endpoint?,
        protocol,
        headers: given,
        ca: raw.ca.as_deref().map(|text| context.path(text)).or(ca),
        sample,
        follow_parent,
        resource,
        timeout,
        queue,
        batch: batch.unwrap_or(512).clamp(1, 4096),
        delay: delay.unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(60)),
    })
}

/// The file's attributes over those that are there.
fn attributes(raw: &raw::Tracing, all: &mut Vec<(String, String)>, at: &At, context: &mut Context<'_>) {
    for (key, value) in raw.resource.iter().flat_map(|written| &written.0) {
        if key.is_empty() || key.len() > MAX_ATTRIBUTE || value.len() > MAX_ATTRIBUTE {
            let fix = format!("write a key and a value of at most {MAX_ATTRIBUTE} bytes");
            context.problem(&at.key(key), "no attribute", fix);
        }
        all.retain(|(other, _)| other != key);
        all.push((key.clone(), value.clone()));
    }
}

/// `None` after a problem.
fn endpoint(text: &str, protocol: TracingProtocol, at: &At, context: &mut Context<'_>) -> Option<Url> {
    let url = usable(text);
    if url.is_none() {
        let fix = "write an http or https URL without credentials in it; those go into `headers`";
        context.problem(at, "not the URL of a collector", fix);
    }
    url.map(|url| if protocol == TracingProtocol::Http { with_path(url, false) } else { url })
}

/// A URL that can be one of a collector.
fn usable(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (matches!(url.scheme(), "http" | "https") && url.has_host() && plain).then_some(url)
}

/// The URL of the service below a base; one that names a path may be the service's already.
fn with_path(mut url: Url, base: bool) -> Url {
    let path = url.path().trim_end_matches('/');
    if base || path.is_empty() {
        let path = format!("{path}/{PATH}");
        url.set_path(&path);
    }
    url
}
