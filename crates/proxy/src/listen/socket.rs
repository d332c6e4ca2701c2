//! Sockets of clients: options, and who takes nothing for too long.

use std::future::Future;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};
use tokio_rustls::server::TlsStream;

/// Connections that may wait to be accepted: many clients come at once after a restart.
const BACKLOG: i32 = 16_384;

/// A peer that has gone without a word is noticed after about a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// Listens at `address`.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Lets small writes leave at once, and half-open connections end.
pub(crate) fn prepare(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(tcp).set_tcp_keepalive(&keepalive)
}

/// A client's connection. Writing fails when the client has taken nothing for as long as is
/// allowed: it would otherwise keep what its request has of the upstream.
#[derive(Debug)]
pub(super) struct Stream {
    socket: Plain,
    stall: Duration,
    /// When the client counts as stalled; kept for its memory.
    timer: Option<Pin<Box<Sleep>>>,
    is_armed: bool,
}

#[derive(Debug)]
enum Plain {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub(super) fn tcp(tcp: TcpStream, stall: Duration) -> Self {
        Self { socket: Plain::Tcp(tcp), stall, timer: None, is_armed: false }
    }

    pub(super) fn tls(tls: TlsStream<TcpStream>, stall: Duration) -> Self {
        Self { socket: Plain::Tls(Box::new(tls)), stall, timer: None, is_armed: false }
    }

    /// What becomes of a write that gave this.
    fn watch<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.is_armed = false;
            return written;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.stall)));
        if !self.is_armed {
            self.is_armed = true;
            timer.as_mut().reset(Instant::now() + self.stall);
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

/// Calls a method of whichever stream it is.
macro_rules! on {
    ($self:expr, $method:ident($($argument:expr),*)) => {
        match &mut $self.socket {
            Plain::Tcp(tcp) => Pin::new(tcp).$method($($argument),*),
            Plain::Tls(tls) => Pin::new(&mut **tls).$method($($argument),*),
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        on!(self, poll_read(cx, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = on!(self, poll_write(cx, bytes));
        self.watch(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = on!(self, poll_write_vectored(cx, slices));
        self.watch(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.socket {
            Plain::Tcp(tcp) => tcp.is_write_vectored(),
            Plain::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = on!(self, poll_flush(cx));
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = on!(self, poll_shutdown(cx));
        self.watch(cx, shut)
    }
}
