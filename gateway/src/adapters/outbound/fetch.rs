//! Documents and grants from authorization servers: GET and POST behind the egress rules, five seconds and a cap in all,
//! no redirect. What such a server says beyond its document is dropped unread.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use auth::client::{FORM, FormRequest};
use auth::egress::{Egress, EgressError};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt as _, Full};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::timeout;
use url::Url;

use super::Body;
use super::connect::{Connector, connector, relative};
use super::conns::Conns;

/// Total time of one exchange.
const WITHIN: Duration = Duration::from_secs(5);
/// Origins whose connections are kept.
const ORIGINS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// A document, whatever its status.
#[derive(Clone, Debug)]
pub struct Document {
    /// The HTTP status.
    pub status: u16,
    /// The body, within the cap.
    pub body: Bytes,
}

/// Why there is no document. Says nothing that the other side wrote.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The egress rules.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// A redirect, which is not followed.
    #[error("a redirect, which is not followed")]
    Redirect,
    /// Larger than the cap.
    #[error("the answer is over {0} bytes")]
    TooLarge(usize),
    /// Not within five seconds.
    #[error("no whole answer within {WITHIN:?}")]
    Late,
    /// No connection, or it broke.
    #[error("the exchange failed: {0}")]
    Broken(String),
}

/// Fetches documents.
pub struct Fetcher {
    rules: Egress,
    connector: Connector,
    conns: Mutex<LruCache<String, Arc<Conns>>>,
}

impl Fetcher {
    /// Under these rules, trusting these authorities (PEM) instead of the system's.
    ///
    /// # Errors
    /// The file of authorities is unusable.
    pub fn new(rules: &Egress, ca: Option<&Path>) -> Result<Arc<Fetcher>, String> {
        let connector = connector(ca, false, Some(rules), WITHIN)?;
        let conns = Mutex::new(LruCache::new(ORIGINS));
        Ok(Arc::new(Fetcher { rules: rules.clone(), connector, conns }))
    }

    /// GETs a JSON document of at most `cap` bytes.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn get(&self, url: &str, cap: usize) -> Result<Document, FetchError> {
        self.fetch(Method::GET, url, Bytes::new(), HeaderMap::new(), cap).await
    }

    /// POSTs a form; the answer has at most `cap` bytes.
    ///
    /// # Errors
    /// See [`FetchError`].
    pub async fn post(&self, url: &str, form: &FormRequest, cap: usize) -> Result<Document, FetchError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(FORM));
        if let Some(secret) = &form.authorization {
            let mut value = HeaderValue::from_str(secret.expose())
                .map_err(|_| FetchError::Broken("the client's credential fits no header".into()))?;
            value.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, value);
        }
        let body = Bytes::copy_from_slice(form.body.expose().as_bytes());
        self.fetch(Method::POST, url, body, headers, cap).await
    }

    async fn fetch(
        &self,
        method: Method,
        url: &str,
        body: Bytes,
        headers: HeaderMap,
        cap: usize,
    ) -> Result<Document, FetchError> {
        let url = self.rules.url(url)?;
        let conns = self.conns(&url)?;
        let request = request(method, &url, body, headers)?;
        let exchange = async {
            let response =
                conns.send(request).await.map_err(|fault| FetchError::Broken(fault.detail.clone()))?;
            if response.status().is_redirection() {
                return Err(FetchError::Redirect);
            }
            let status = response.status().as_u16();
            Ok(Document { status, body: collect(response.into_body(), cap).await? })
        };
        timeout(WITHIN, exchange).await.unwrap_or(Err(FetchError::Late))
    }

    fn conns(&self, url: &Url) -> Result<Arc<Conns>, FetchError> {
        let origin = url.origin().ascii_serialization();
        let mut kept = self.conns.lock();
        if let Some(conns) = kept.get(&origin) {
            return Ok(Arc::clone(conns));
        }
        let uri: Uri = origin.parse().map_err(|_| FetchError::Egress(EgressError::Malformed))?;
        let conns = Conns::new(self.connector.clone(), &uri);
        let conns = conns.ok_or(FetchError::Egress(EgressError::Host))?;
        kept.put(origin, Arc::clone(&conns));
        Ok(conns)
    }
}

fn request(
    method: Method,
    url: &Url,
    body: Bytes,
    headers: HeaderMap,
) -> Result<Request<Full<Bytes>>, FetchError> {
    let malformed = || FetchError::Egress(EgressError::Malformed);
    let uri: Uri = url.as_str().parse().map_err(|_| malformed())?;
    let host = uri.authority().and_then(|authority| authority.as_str().parse().ok()).ok_or_else(malformed)?;
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = relative(&uri);
    let all = request.headers_mut();
    *all = headers;
    all.insert(header::HOST, host);
    all.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
    all.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    all.insert(header::USER_AGENT, HeaderValue::from_static(concat!("tollgate/", env!("CARGO_PKG_VERSION"))));
    Ok(request)
}

async fn collect(mut body: Body, cap: usize) -> Result<Bytes, FetchError> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| FetchError::Broken("the answer broke off".into()))?;
        let Ok(data) = frame.into_data() else { continue };
        if all.len() + data.len() > cap {
            return Err(FetchError::TooLarge(cap));
        }
        all.extend_from_slice(&data);
    }
    Ok(all.freeze())
}
