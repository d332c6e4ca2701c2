//! A socket that knows how long its bytes waited to be read.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use seawall_control::Instant;
use seawall_control::time::nanos;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tower_service::Service;

use crate::clock;

/// A wait longer than this is a clock that was set, not a wait.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Bytes that one read takes at most: the buffer is cleared before, which costs more than that
/// many bytes are worth.
const READ_MAX: usize = 16 << 10;

/// What a layer knows of the connection that a request came by: an extension of the request.
///
/// The [`Listener`](super::Listener) and [`Io`] make it, and axum and tonic put it into requests;
/// with the feature `tonic-tls` it is found behind tonic's TLS, too, and has the names in the
/// certificate of a client. Where hyper is driven by hand, [`wrap`](Self::wrap) does that; and
/// where bytes come in another way, [`received`](Self::received) tells of them.
#[derive(Clone, Debug, Default)]
pub struct Connection(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    peer: Option<SocketAddr>,
    /// When the bytes came that were read last, nanoseconds; 0 if that is not known.
    came: AtomicU64,
    certificate: OnceLock<Vec<String>>,
}

impl Connection {
    /// A connection from `peer`.
    pub fn new(peer: SocketAddr) -> Self {
        Self(Arc::new(Inner { peer: Some(peer), ..Inner::default() }))
    }

    /// Who is at its other end.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.0.peer
    }

    /// The names in a certificate that the peer has shown, and that was verified: what mutual TLS
    /// proves to [`Trust`](seawall_control::trust::Trust). Only the first call counts. With the
    /// feature `certificates`, `server::certificate_names` reads them.
    pub fn set_certificate(&self, names: Vec<String>) {
        _ = self.0.certificate.set(names);
    }

    /// The same, unless it was set before: `names` are read once for each connection.
    #[cfg(feature = "tonic-tls")]
    pub(super) fn set_certificate_with(&self, names: impl FnOnce() -> Vec<String>) {
        _ = self.0.certificate.get_or_init(names);
    }

    /// Bytes were read that had `waited` for that.
    pub fn received(&self, waited: Duration) {
        let now = clock::now().as_nanos();
        self.0.came.store(now.saturating_sub(nanos(waited)).max(1), Relaxed);
    }

    /// When the bytes came that were read last; `None` if that is not known.
    pub fn came(&self) -> Option<Instant> {
        match self.0.came.load(Relaxed) {
            0 => None,
            came => Some(Instant::from_nanos(came)),
        }
    }

    /// `service` for the requests of this connection: they carry it as an extension.
    pub fn wrap<S>(&self, service: S) -> OfConnection<S> {
        OfConnection { service, connection: self.clone() }
    }

    pub(super) fn certificate(&self) -> &[String] {
        self.0.certificate.get().map_or(&[], Vec::as_slice)
    }
}

/// A service whose requests all come by one [`Connection`].
#[derive(Clone, Debug)]
pub struct OfConnection<S> {
    service: S,
    connection: Connection,
}

impl<S: Service<Request<B>>, B> Service<Request<B>> for OfConnection<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> S::Future {
        request.extensions_mut().insert(self.connection.clone());
        self.service.call(request)
    }
}

/// A TCP stream whose reads tell its [`Connection`] how long the bytes waited in the kernel.
///
/// Of bytes that came in several segments the newest counts, so that the wait is a lower bound.
#[derive(Debug)]
pub struct Io {
    tcp: TcpStream,
    /// The kernel tells when bytes arrived.
    stamped: bool,
    connection: Connection,
}

impl Io {
    /// Asks the kernel for receive timestamps of `tcp`, and does without them where it has none.
    pub fn new(tcp: TcpStream) -> Self {
        let stamped = setsockopt(&tcp, sockopt::ReceiveTimestampns, &true).is_ok();
        let connection = tcp.peer_addr().map_or_else(|_| Connection::default(), Connection::new);
        Self { tcp, stamped, connection }
    }

    /// What its requests shall carry.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    fn poll_read_stamped(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.tcp.poll_read_ready(cx))?;
            let mut read = None;
            let tried = self.tcp.try_io(Interest::READABLE, || {
                let (len, waited) = receive(&self.tcp, buf)?;
                read = Some((len, waited));
                // A short read has emptied the socket. Saying so spares the next poll a vain
                // system call; tokio forgets it if new bytes have come in the meantime.
                if len > 0 && len < buf.len() {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Ok(())
            });
            match (read, tried) {
                (Some((len, waited)), _) => {
                    if let Some(waited) = waited {
                        self.connection.received(waited);
                    }
                    return Poll::Ready(Ok(len));
                }
                (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                (None, Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                (None, Err(error)) => return Poll::Ready(Err(error)),
                (None, Ok(())) => unreachable!("a read that succeeds gives what it read"),
            }
        }
    }
}

/// Receives bytes and how long they waited, by the timestamp that the kernel gave their segment.
fn receive(tcp: &TcpStream, buf: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
    thread_local! {
        static CONTROL: std::cell::RefCell<Vec<u8>> =
            std::cell::RefCell::new(nix::cmsg_space!(TimeSpec));
    }
    CONTROL.with_borrow_mut(|control| {
        let mut pieces = [IoSliceMut::new(buf)];
        let message =
            recvmsg::<()>(tcp.as_raw_fd(), &mut pieces, Some(control), MsgFlags::empty())?;
        let stamp = message.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
            _ => None,
        });
        let since = |stamp| Duration::from_nanos(clock::realtime_ns()).saturating_sub(stamp);
        Ok((message.bytes, stamp.map(since).filter(|waited| *waited <= WAIT_MAX)))
    })
}

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.stamped {
            return Pin::new(&mut this.tcp).poll_read(cx, buf);
        }
        let room = buf.remaining().min(READ_MAX);
        if room == 0 {
            return Poll::Ready(Ok(()));
        }
        let len = ready!(this.poll_read_stamped(cx, buf.initialize_unfilled_to(room)))?;
        buf.advance(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().tcp).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(cx)
    }
}

#[cfg(feature = "tonic")]
impl tonic::transport::server::Connected for Io {
    type ConnectInfo = Connection;

    fn connect_info(&self) -> Connection {
        self.connection.clone()
    }
}
