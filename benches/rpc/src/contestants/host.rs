//! A thread with a runtime of its own, for servers that bring none.

use std::future::Future;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::thread::{self, JoinHandle};

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

/// A server on a thread of its own. Dropping it stops it and closes its connections.
pub(super) struct Host {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Host {
    /// Listens on a free port of loopback, and runs `serve` with that.
    pub(super) fn start<F>(
        serve: impl FnOnce(TcpListener) -> F + Send + 'static,
    ) -> io::Result<Self>
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("host".into()).spawn(move || {
            runtime.spawn(async {
                let served = match TcpListener::from_std(listener) {
                    Ok(listener) => serve(listener).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = served {
                    eprintln!("the server ended: {error}");
                }
            });
            // Said or dropped, it means the same.
            _ = runtime.block_on(stopped);
        })?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so on standard error.
            _ = thread.join();
        }
    }
}
