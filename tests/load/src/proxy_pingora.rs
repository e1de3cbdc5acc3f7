//! A bare Pingora proxy: `ProxyHttp` with nothing but the choice of its one upstream.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::IntoRawFd;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use pingora_core::server::Fds;
use pingora_core::server::configuration::ServerConf;
use pingora_core::services::Service as _;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

use crate::{Error, announce};

struct PassThrough {
    to: SocketAddr,
}

#[async_trait]
impl ProxyHttp for PassThrough {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, (): &mut ()) -> pingora_core::Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.to, false, String::new())))
    }
}

/// Serves until killed. The service runs on our own runtime, which is what `Server` would make for it, because
/// `Server` can't tell which port it was given.
pub(crate) fn serve(to: SocketAddr, threads: usize) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut fds = Fds::new();
        fds.add(address.to_string(), listener.into_raw_fd());
        let mut service = http_proxy_service(&Arc::new(ServerConf::default()), PassThrough { to });
        service.add_tcp(&address.to_string());
        announce(address)?;
        let (_running, shutdown) = tokio::sync::watch::channel(false);
        service.start_service(Some(Arc::new(Mutex::new(fds))), shutdown, 1).await;
        Err("the Pingora service ended".into())
    })
}
