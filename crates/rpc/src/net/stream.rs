//! A connection's stream, with or without TLS.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
#[cfg(feature = "tls")]
use tokio_rustls::TlsStream;

use super::BouncedStream;
use crate::clock;

/// A wait longer than this is a clock that was set, not a wait.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// TCP, or TLS over it.
#[derive(Debug)]
pub(crate) enum Stream {
    /// Bytes as they are.
    Plain {
        /// The socket.
        tcp: TcpStream,
        /// Whether the kernel tells when bytes arrived.
        stamped: bool,
    },
    /// TCP on which somebody else answers, too.
    Bounced(Box<BouncedStream>),
    /// Bytes through rustls, which does not tell when they arrived.
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<TcpStream>>),
}

/// What a read brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// Bytes; zero at the end of the stream.
    pub(crate) len: usize,
    /// How long they waited in the kernel; zero if unknown. Of bytes that came in several segments
    /// the newest counts, so it is a lower bound.
    pub(crate) waited: Duration,
}

impl Stream {
    /// A stream without TLS; asks the kernel for receive timestamps if `stamped`, and does without
    /// them where it has none.
    pub(crate) fn plain(tcp: TcpStream, stamped: bool) -> Self {
        let stamped = stamped && setsockopt(&tcp, sockopt::ReceiveTimestampns, &true).is_ok();
        Self::Plain { tcp, stamped }
    }

    /// Reads into `buf`.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<Read>> {
        match self {
            Self::Plain { tcp, stamped: true } => poll_read_stamped(tcp, cx, buf),
            Self::Plain { tcp, .. } => poll_read_with(Pin::new(tcp), cx, buf),
            Self::Bounced(bounced) => bounced.poll_read(cx, buf),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => poll_read_with(Pin::new(tls.as_mut()), cx, buf),
        }
    }

    /// Writes some of the pieces.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain { tcp, .. } => Pin::new(tcp).poll_write_vectored(cx, pieces),
            Self::Bounced(bounced) => bounced.poll_write(cx, pieces),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_write_vectored(cx, pieces),
        }
    }

    /// All was written: pushes out what TLS still holds.
    #[cfg_attr(not(feature = "tls"), expect(unused_variables, reason = "only TLS flushes"))]
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain { .. } => Poll::Ready(Ok(())),
            Self::Bounced(bounced) => Poll::Ready(bounced.release()),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_flush(cx),
        }
    }

    /// Tells the peer that nothing more will come.
    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Plain { tcp, .. } => Pin::new(tcp).poll_shutdown(cx),
            Self::Bounced(bounced) => bounced.poll_shutdown(cx),
            #[cfg(feature = "tls")]
            Self::Tls(tls) => Pin::new(tls.as_mut()).poll_shutdown(cx),
        }
    }
}

fn poll_read_with<S: AsyncRead>(
    stream: Pin<&mut S>,
    cx: &mut Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<Read>> {
    let mut buf = ReadBuf::new(buf);
    ready!(stream.poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(Read { len: buf.filled().len(), waited: Duration::ZERO }))
}

fn poll_read_stamped(
    tcp: &TcpStream,
    cx: &mut Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<Read>> {
    loop {
        ready!(tcp.poll_read_ready(cx))?;
        let mut read = None;
        let tried = tcp.try_io(Interest::READABLE, || {
            let got = receive(tcp, buf)?;
            read = Some(got);
            // A short read has emptied the socket. Saying so spares the next poll a vain system
            // call; tokio forgets it if new bytes have come in the meantime.
            if got.len > 0 && got.len < buf.len() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(())
        });
        match (read, tried) {
            (Some(read), _) => return Poll::Ready(Ok(read)),
            (None, Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
            (None, Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            (None, Err(error)) => return Poll::Ready(Err(error)),
            (None, Ok(())) => unreachable!("a read that succeeds gives what it read"),
        }
    }
}

/// Receives bytes and how long they waited, by the timestamp that the kernel gave their segment.
fn receive(tcp: &TcpStream, buf: &mut [u8]) -> io::Result<Read> {
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
        let waited = stamp.map_or(Duration::ZERO, |stamp| {
            Duration::from_nanos(clock::realtime_ns()).saturating_sub(stamp)
        });
        let waited = if waited > WAIT_MAX { Duration::ZERO } else { waited };
        Ok(Read { len: message.bytes, waited })
    })
}
