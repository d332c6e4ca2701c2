//! A listener whose sockets know how long their bytes waited to be read.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::net::{TcpListener, TcpStream};

use super::io::Io;

/// After an error of the system, such as too many open files, nobody is accepted for so long.
const PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections as [`Io`]. It is axum's `Listener` (feature `axum`), and the stream of
/// connections that tonic takes.
///
/// A layer finds the connection in its requests where axum is served with
/// `into_make_service_with_connect_info::<Connection>()`, and with tonic always (feature `tonic`;
/// where others than tonic accept TLS for it, `tonic-tls`).
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens at `address`.
    ///
    /// # Errors
    ///
    /// The system's, when the address cannot be listened at.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        Ok(TcpListener::bind(address).await?.into())
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Accepts the next connection. Those that are gone before are passed over; after an error of
    /// the system's own it tries again a little later.
    pub async fn accept(&self) -> (Io, SocketAddr) {
        loop {
            match self.0.accept().await {
                Ok((tcp, peer)) => return (welcome(tcp), peer),
                Err(error) if is_theirs(&error) => {}
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        // Sockets inherit it, so that bytes are stamped that come before they are accepted. Where
        // the kernel has no stamps, `Io` does without.
        _ = setsockopt(&listener, sockopt::ReceiveTimestampns, &true);
        Self(listener)
    }
}

fn welcome(tcp: TcpStream) -> Io {
    // Small responses are not to wait for the acknowledgement of earlier ones. Where this fails,
    // the next use of the socket fails, too.
    _ = tcp.set_nodelay(true);
    Io::new(tcp)
}

/// The connection was gone before it was accepted.
fn is_theirs(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

impl Stream for Listener {
    type Item = io::Result<Io>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            match ready!(self.0.poll_accept(cx)) {
                Ok((tcp, _)) => return Poll::Ready(Some(Ok(welcome(tcp)))),
                Err(error) if is_theirs(&error) => {}
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

#[cfg(feature = "axum")]
impl axum::serve::Listener for Listener {
    type Io = Io;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Io, SocketAddr) {
        Self::accept(self).await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[cfg(feature = "axum")]
impl axum::extract::connect_info::Connected<axum::serve::IncomingStream<'_, Listener>>
    for super::Connection
{
    fn connect_info(stream: axum::serve::IncomingStream<'_, Listener>) -> Self {
        stream.io().connection().clone()
    }
}
