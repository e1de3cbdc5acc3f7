//! The object stores' HTTP on the gateway's own stack: rustls with the gateway's provider and authorities, no redirect,
//! a deadline and a bound for each exchange.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use tokio::time::timeout;

use crate::adapters::outbound::{Connector, connector};

/// TCP and TLS.
const CONNECT: Duration = Duration::from_secs(10);
/// An exchange without a body to send.
const EXCHANGE: Duration = Duration::from_secs(30);
/// Bytes that must be sent in a second at least.
const LEAST_RATE: usize = 128 << 10;
/// Largest answer; files are read in pieces that are smaller.
const MAX_ANSWER: usize = 16 << 20;
/// Connections that are kept.
const IDLE: usize = 4;

/// Makes clients for the builders of `object_store`.
#[derive(Debug)]
pub(super) struct Own {
    /// PEM authorities instead of the system's.
    pub(super) ca: Option<PathBuf>,
}

impl HttpConnector for Own {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let plain =
            options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        let connector = connector(self.ca.as_deref(), false, None, CONNECT)
            .map_err(|why| object_store::Error::Generic { store: "HTTP", source: why.into() })?;
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(EXCHANGE)
            .pool_max_idle_per_host(IDLE)
            .build(connector);
        Ok(HttpClient::new(Exchange { client, plain }))
    }
}

struct Exchange {
    client: Client<Connector, HttpRequestBody>,
    /// Whether http URLs may be asked.
    plain: bool,
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exchange")
    }
}

fn error(kind: HttpErrorKind, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> HttpError {
    HttpError::new_boxed(kind, why.into())
}

fn encrypted(uri: &Uri) -> bool {
    uri.scheme_str() == Some("https")
}

#[async_trait]
impl HttpService for Exchange {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if !self.plain && !encrypted(request.uri()) {
            return Err(error(HttpErrorKind::Unknown, "plain http, which allow_http: true would permit"));
        }
        let length = request.body().content_length();
        let more = u64::try_from(length / LEAST_RATE).unwrap_or_default();
        let within = EXCHANGE.saturating_add(Duration::from_secs(more));
        let exchange = async {
            let response = self.client.request(request).await.map_err(|e| {
                let kind = if e.is_connect() { HttpErrorKind::Connect } else { HttpErrorKind::Request };
                error(kind, e)
            })?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, MAX_ANSWER).collect().await;
            let bytes = body.map_err(|e| error(HttpErrorKind::Interrupted, e))?.to_bytes();
            let body = Full::new(bytes).map_err(|never: Infallible| -> HttpError { match never {} });
            Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
        };
        let late = || error(HttpErrorKind::Timeout, format!("no whole answer within {within:?}"));
        timeout(within, exchange).await.unwrap_or_else(|_| Err(late()))
    }
}
