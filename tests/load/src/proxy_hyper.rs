//! A bare hyper proxy: a hyper server and hyper-util's pooled client, bodies streamed through, nothing looked at.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use http_body_util::{Either, Empty};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;

use crate::{Error, announce};

/// Headers that concern one connection only.
const HOP_BY_HOP: [header::HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

type Pool = Client<HttpConnector, Incoming>;
type Reply = Response<Either<Incoming, Empty<Bytes>>>;

/// Serves until killed.
pub(crate) fn serve(to: SocketAddr, threads: usize) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        announce(listener.local_addr()?)?;
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let pool: Pool = Client::builder(TokioExecutor::new()).build(connector);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let pool = pool.clone();
            let service = service_fn(move |request| {
                let pool = pool.clone();
                async move { Ok::<_, Infallible>(forward(&pool, to, request).await) }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    })
}

async fn forward(pool: &Pool, to: SocketAddr, mut request: Request<Incoming>) -> Reply {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    let Ok(uri) = Uri::builder().scheme("http").authority(to.to_string()).path_and_query(path).build() else {
        return refused(StatusCode::BAD_REQUEST);
    };
    *request.uri_mut() = uri;
    strip(request.headers_mut());
    match pool.request(request).await {
        Ok(mut response) => {
            strip(response.headers_mut());
            response.map(Either::Left)
        }
        Err(_) => refused(StatusCode::BAD_GATEWAY),
    }
}

fn strip(headers: &mut HeaderMap) {
    for name in &HOP_BY_HOP {
        headers.remove(name);
    }
}

fn refused(status: StatusCode) -> Reply {
    let mut response = Response::new(Either::Right(Empty::new()));
    *response.status_mut() = status;
    response
}
