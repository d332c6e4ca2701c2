//! The listener: HTTP/1.1 in a thread of its own.

use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::Semaphore;

use super::{View, http};

/// Connections at once: a few pages, `seawall top`, Prometheus. More wait to be accepted.
const CONNECTIONS: usize = 64;

/// Within how long a request must have come. A connection on which none comes is closed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What a request's line and headers may take.
const REQUEST_BYTES: usize = 16 << 10;

/// How often a recorder's samples are put in order although nobody reads them: the exporter's own
/// default.
const UPKEEP: Duration = Duration::from_secs(5);

/// Wait before the next try where no connection can be accepted, most likely for want of files.
const PAUSE: Duration = Duration::from_millis(100);

/// A listener. It lives as long as the process.
#[derive(Debug)]
pub(crate) struct Live {
    address: SocketAddr,
}

impl Live {
    /// Shows `view` to who asks at `address`; port 0 lets the system choose.
    ///
    /// # Errors
    ///
    /// If the address cannot be listened at.
    pub(crate) fn start(address: SocketAddr, view: View) -> Result<Self> {
        let listener = TcpListener::bind(address)
            .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
            .with_context(|| format!("cannot serve metrics at {address}"))?;
        let address = listener.local_addr().context("the metrics' listener has no address")?;
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "whoever reaches it reads the metrics, and the names in them");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no runtime for the metrics' listener")?;
        thread::Builder::new()
            .name("seawall-live".to_owned())
            .spawn(move || runtime.block_on(run(listener, Arc::new(view))))
            .context("no thread for the metrics' listener")?;
        Ok(Self { address })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the page.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

async fn run(listener: TcpListener, view: Arc<View>) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the metrics are not served");
            return;
        }
    };
    tokio::spawn(keep_up(Arc::clone(&view)));
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "the metrics' listener cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let view = Arc::clone(&view);
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let view = Arc::clone(&view);
                async move { Ok::<_, Infallible>(http::answer(&view, request).await) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(REQUEST_TIMEOUT)
                .max_header_size(REQUEST_BYTES)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            if let Err(error) = served {
                tracing::debug!(%error, "a connection to the metrics' listener has failed");
            }
            drop(place);
        });
    }
}

async fn keep_up(view: Arc<View>) {
    loop {
        tokio::time::sleep(UPKEEP).await;
        view.source.keep_up();
    }
}
