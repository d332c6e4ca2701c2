//! What waits to be written to one connection, in as few pieces as is sensible.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};

use super::Stream;

/// Payloads from this size on are written from where they are; smaller ones are copied behind their
/// header.
const COPY_MAX: usize = 4096;

/// Pieces that one write takes.
const PIECES: usize = 16;

/// A buffer is given back to the allocator when it is empty and larger than this.
const KEEP_MAX: usize = 4096;

/// Frames on their way out.
#[derive(Debug, Default)]
pub(crate) struct OutBuffer {
    pieces: VecDeque<Bytes>,
    tail: BytesMut,
    len: usize,
    /// The most that waited since the buffer was last empty.
    most: usize,
    /// The stream took bytes that it may still hold: TLS does.
    unflushed: bool,
}

impl OutBuffer {
    /// Appends a header and its body.
    pub(crate) fn push(&mut self, header: &[u8], body: Bytes) {
        self.len += header.len() + body.len();
        self.most = self.most.max(self.len);
        self.unflushed = true;
        self.tail.extend_from_slice(header);
        if body.len() < COPY_MAX {
            self.tail.extend_from_slice(&body);
        } else {
            self.pieces.push_back(self.tail.split().freeze());
            self.pieces.push_back(body);
        }
    }

    /// Bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// True when nothing waits, here or in the stream.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0 && !self.unflushed
    }

    /// Writes until all is out or the stream takes no more; gives the number of bytes and writes.
    pub(crate) fn poll_flush(
        &mut self,
        stream: &mut Stream,
        cx: &mut Context<'_>,
        written: &mut Written,
    ) -> Poll<io::Result<()>> {
        while self.len > 0 {
            let mut slices = [IoSlice::new(&[]); PIECES];
            let pieces = self.pieces.iter().map(|piece| &piece[..]).chain([&self.tail[..]]);
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(pieces.filter(|piece| !piece.is_empty())) {
                *slice = IoSlice::new(piece);
                count += 1;
            }
            let n = ready!(stream.poll_write(cx, &slices[..count]))?;
            if n == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            written.bytes += n as u64;
            written.writes += 1;
            self.advance(n);
        }
        if std::mem::take(&mut self.most) > KEEP_MAX {
            // Its capacity would not tell: what was written is no longer part of it.
            self.tail = BytesMut::new();
        }
        ready!(stream.poll_flush(cx))?;
        self.unflushed = false;
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut n: usize) {
        self.len -= n;
        while let Some(front) = self.pieces.front_mut() {
            if n < front.len() {
                bytes::Buf::advance(front, n);
                return;
            }
            n -= front.len();
            self.pieces.pop_front();
        }
        bytes::Buf::advance(&mut self.tail, n);
    }
}

/// What a flush did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Written {
    /// Bytes that the stream took.
    pub(crate) bytes: u64,
    /// Writes that it needed.
    pub(crate) writes: u64,
}
