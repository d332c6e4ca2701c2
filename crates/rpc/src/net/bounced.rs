//! A TCP stream on which something below the server answers, too.
//!
//! Two rules keep the stream whole. The server writes only while it [holds](Bounced::hold) the
//! stream, and releases it when no frame is half written. And it does not believe a read that finds
//! nothing: the kernel says so, too, while its parser is at work, and what a parser then refuses
//! makes no socket readable. So it asks whether there is something, and if so reads again.

use std::future::Future;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout};
use nix::sys::socket::{MsgFlags, recv};
use seawall_control::bounce::{Bounced, Problem};
use tokio::io::{AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::poll_again;
use super::stream::Read;
use crate::clock;

/// Reads of one turn that find nothing, or are interrupted.
const READS: u32 = 4;

/// Vain attempts in a row that are made at once; later ones wait for a while.
const HASTY: u32 = 16;

/// How long those wait.
const WHILE: Duration = Duration::from_millis(1);

/// The kernel's own threads need this many whiles at most, even where the CPU is wanted by many.
/// After that the stream is broken.
const ATTEMPTS: u32 = 30_000;

#[derive(Debug)]
pub(crate) struct BouncedStream {
    /// Goes first: it is about the socket.
    below: Box<dyn Bounced>,
    tcp: TcpStream,
    /// Bytes that were written here.
    written: u64,
    /// Nobody else writes.
    is_held: bool,
    reads: Attempts,
    holds: Attempts,
}

/// Vain attempts in a row, and the time until the next.
#[derive(Debug, Default)]
struct Attempts {
    count: u32,
    pause: Option<Pin<Box<Sleep>>>,
}

impl BouncedStream {
    /// `below` answers on `tcp`, from which nothing was read yet.
    pub(crate) fn new(tcp: TcpStream, below: Box<dyn Bounced>) -> Self {
        let (reads, holds) = Default::default();
        Self { below, tcp, written: 0, is_held: false, reads, holds }
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<Read>> {
        ready!(self.reads.poll_pause(cx));
        for _ in 0..READS {
            match recv(self.tcp.as_raw_fd(), buf, MsgFlags::MSG_DONTWAIT) {
                Ok(len) => {
                    self.reads.count = 0;
                    let now = clock::now();
                    let waited = self.below.arrived().map_or(Duration::ZERO, |at| now.since(at));
                    return Poll::Ready(Ok(Read { len, waited }));
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) if self.is_readable()? => return self.reads.poll_next(cx),
                Err(Errno::EAGAIN) => {
                    ready!(self.tcp.poll_read_ready(cx))?;
                    // It was ready before it was read, or has become so since: it is forgotten, and
                    // looked at once more.
                    let forget = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
                    _ = self.tcp.try_io(Interest::READABLE, forget);
                }
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        self.reads.poll_next(cx)
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_hold(cx))?;
        let written = ready!(Pin::new(&mut self.tcp).poll_write_vectored(cx, pieces))?;
        self.written += written as u64;
        Poll::Ready(Ok(written))
    }

    /// All that there was is written.
    pub(super) fn release(&mut self) -> io::Result<()> {
        self.is_held = false;
        self.below.release().map_err(other)
    }

    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_hold(cx))?;
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_hold(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_held {
            return Poll::Ready(Ok(()));
        }
        ready!(self.holds.poll_pause(cx));
        if !self.below.hold(self.written).map_err(other)? {
            return self.holds.poll_next(cx);
        }
        self.holds.count = 0;
        self.is_held = true;
        Poll::Ready(Ok(()))
    }

    fn is_readable(&self) -> io::Result<bool> {
        let mut asked = [PollFd::new(self.tcp.as_fd(), PollFlags::POLLIN)];
        nix::poll::poll(&mut asked, PollTimeout::ZERO)?;
        Ok(asked[0].revents().is_some_and(|events| events.contains(PollFlags::POLLIN)))
    }
}

impl Attempts {
    /// One was vain: there will be another.
    fn poll_next<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.count += 1;
        if self.count > ATTEMPTS {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if self.count <= HASTY {
            poll_again(cx);
            return Poll::Pending;
        }
        let mut pause = Box::pin(tokio::time::sleep(WHILE));
        if pause.as_mut().poll(cx).is_ready() {
            poll_again(cx);
        } else {
            self.pause = Some(pause);
        }
        Poll::Pending
    }

    fn poll_pause(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        Poll::Ready(())
    }
}

fn other(problem: Problem) -> io::Error {
    io::Error::other(problem)
}
