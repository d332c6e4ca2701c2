//! Replies on their way to a client, in as few writes as is sensible.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::task::{Poll, ready};

use bytes::{Buf, Bytes, BytesMut};

/// Replies from this size on are written from where they are; smaller ones are copied together.
const COPY_MAX: usize = 4096;

/// Pieces that one write takes.
const PIECES: usize = 16;

/// What waits to be written.
#[derive(Debug, Default)]
pub(super) struct Output {
    pieces: VecDeque<Bytes>,
    tail: BytesMut,
    len: usize,
}

impl Output {
    /// Appends a reply.
    pub(super) fn push(&mut self, reply: Bytes) {
        self.len += reply.len();
        if reply.len() < COPY_MAX {
            self.tail.extend_from_slice(&reply);
            return;
        }
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
        self.pieces.push_back(reply);
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// True when nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Calls `write` until all is written or it takes no more.
    pub(super) fn poll_flush(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<()>> {
        while self.len > 0 {
            let mut slices = [IoSlice::new(&[]); PIECES];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(self.pieces.iter().map(|piece| &piece[..]))
            {
                *slice = IoSlice::new(piece);
                count += 1;
            }
            if count < PIECES && !self.tail.is_empty() {
                slices[count] = IoSlice::new(&self.tail);
                count += 1;
            }
            let written = ready!(write(&slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.advance(written);
        }
        // Idle connections hold no memory.
        (self.pieces, self.tail) = Default::default();
        Poll::Ready(Ok(()))
    }

    fn advance(&mut self, mut written: usize) {
        self.len -= written;
        while let Some(front) = self.pieces.front_mut() {
            if written < front.len() {
                return front.advance(written);
            }
            written -= front.len();
            self.pieces.pop_front();
        }
        self.tail.advance(written);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes up to `most` bytes at a time, and gives all that was written.
    fn written(output: &mut Output, most: usize) -> (Vec<u8>, usize) {
        let (mut all, mut writes) = (Vec::new(), 0);
        let flushed = output.poll_flush(|pieces| {
            let before = all.len();
            all.extend(pieces.iter().flat_map(|piece| piece.iter()).take(most));
            let taken = all.len() - before;
            writes += 1;
            Poll::Ready(Ok(taken))
        });
        assert!(matches!(flushed, Poll::Ready(Ok(()))));
        assert!(output.is_empty());
        (all, writes)
    }

    #[test]
    fn bytes_leave_in_order_whatever_a_write_takes() {
        let replies: Vec<Bytes> =
            (0..60u8).map(|number| Bytes::from(vec![number; usize::from(number) * 173])).collect();
        for most in [1, 1000, 4096, usize::MAX] {
            let mut output = Output::default();
            replies.iter().for_each(|reply| output.push(reply.clone()));
            assert_eq!(output.len(), replies.iter().map(Bytes::len).sum());
            let (all, writes) = written(&mut output, most);
            assert_eq!(all, replies.concat());
            assert!(most < usize::MAX || writes <= 3, "{writes} writes");
        }
    }

    #[test]
    fn small_replies_share_a_write_and_leave_no_memory_behind() {
        let mut output = Output::default();
        (0..1000).for_each(|_| output.push(Bytes::from_static(b"STORED\r\n")));
        assert_eq!(written(&mut output, usize::MAX).1, 1);
        assert_eq!((output.pieces.capacity(), output.tail.capacity()), (0, 0));
    }

    #[test]
    fn what_is_not_taken_stays() {
        let mut output = Output::default();
        output.push(Bytes::from_static(b"hello"));
        let mut room = 2;
        let flushed = output.poll_flush(|_| match std::mem::take(&mut room) {
            0 => Poll::Pending,
            taken => Poll::Ready(Ok(taken)),
        });
        assert!(flushed.is_pending());
        assert_eq!(written(&mut output, 10).0, b"llo");
    }
}
