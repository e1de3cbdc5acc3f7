//! One export request: gRPC (a unary call over HTTP/2) or a POST of protobuf, and what its answer means.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::timeout;

use crate::adapters::outbound::{Connector, chain, connector};
use crate::config::{Tracing, TracingProtocol};

/// The method of the service.
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// The most that is read of an answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// Codes of gRPC that may be different next time: cancelled, deadline exceeded, aborted, out of range, unavailable, data
/// loss.
const LATER: [&str; 6] = ["1", "4", "10", "11", "14", "15"];

/// Why a request failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Another attempt may help, perhaps after a time that the collector names.
    Later(String, Option<Duration>),
    /// It will not.
    Never(String),
}

/// Sends requests.
pub(super) struct Sender {
    client: Client<Connector, Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    grpc: bool,
    within: Duration,
}

impl Sender {
    pub(super) fn new(spec: &Tracing) -> Result<Sender, String> {
        let grpc = spec.protocol == TracingProtocol::Grpc;
        let ca: Option<&Path> = spec.ca.as_deref();
        let plain = spec.endpoint.scheme() == "http";
        let connector = connector(ca, plain, None, spec.timeout)?;
        let client = Client::builder(TokioExecutor::new())
            .http2_only(grpc)
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(1)
            .build(connector);
        let mut url = spec.endpoint.clone();
        if grpc {
            url.set_path(EXPORT);
        }
        let uri = url.as_str().parse().map_err(|_| "the endpoint can't be used".to_owned())?;
        let mut headers = HeaderMap::new();
        for (name, value) in &spec.headers {
            let mut value = HeaderValue::from_str(value.expose())
                .map_err(|_| format!("the value of {name} can't stand in a header"))?;
            value.set_sensitive(true);
            headers.append(name.clone(), value);
        }
        let kind = if grpc { "application/grpc" } else { "application/x-protobuf" };
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        let agent = HeaderValue::from_static(concat!("tollgate/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        if grpc {
            headers.insert(header::TE, HeaderValue::from_static("trailers"));
        }
        Ok(Sender { client, uri, headers, grpc, within: spec.timeout })
    }

    /// Sends one request and reads its answer.
    pub(super) async fn send(&self, body: Vec<u8>) -> Result<(), Failure> {
        let late = || Failure::Later(format!("no whole answer within {:?}", self.within), None);
        timeout(self.within, self.exchange(body)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn exchange(&self, message: Vec<u8>) -> Result<(), Failure> {
        let body = match self.grpc {
            true => framed(&message),
            false => Bytes::from(message),
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().clone_from(&self.headers);
        let broken = |error: &dyn std::error::Error| Failure::Later(chain(error), None);
        let response = self.client.request(request).await.map_err(|error| broken(&error))?;
        let status = response.status().as_u16();
        let wait = retry_after(response.headers());
        match status {
            200..=299 => {}
            429 | 502..=504 => return Err(Failure::Later(format!("HTTP status {status}"), wait)),
            _ => return Err(Failure::Never(format!("HTTP status {status}"))),
        }
        let said = status_of(response, self.grpc).await?;
        match said.as_deref() {
            _ if !self.grpc => Ok(()),
            Some("0") => Ok(()),
            Some(code) if LATER.contains(&code) => Err(Failure::Later(format!("gRPC status {code}"), wait)),
            Some(code) if code.len() <= 3 => Err(Failure::Never(format!("gRPC status {code}"))),
            _ => Err(Failure::Never("no gRPC status".into())),
        }
    }
}

/// A message with the prefix that gRPC gives it: not compressed, and its length.
fn framed(message: &[u8]) -> Bytes {
    let mut all = Vec::with_capacity(message.len() + 5);
    all.push(0);
    all.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    all.extend_from_slice(message);
    all.into()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Reads an answer to its end, for the connection to be used again; gives gRPC's status.
async fn status_of(response: Response<Incoming>, grpc: bool) -> Result<Option<String>, Failure> {
    let name = HeaderName::from_static("grpc-status");
    let text = |headers: &HeaderMap| Some(headers.get(&name)?.to_str().ok()?.to_owned());
    let mut status = if grpc { text(response.headers()) } else { None };
    let (mut body, mut read) = (response.into_body(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Failure::Later(chain(&error), None))?;
        if let Some(data) = frame.data_ref() {
            read += data.len();
            if read > MAX_ANSWER {
                return Err(Failure::Never(format!("the answer is over {MAX_ANSWER} bytes")));
            }
        }
        if let Some(trailers) = frame.trailers_ref() {
            status = text(trailers).or(status);
        }
    }
    Ok(status)
}
