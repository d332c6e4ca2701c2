//! Frames: four bytes of length, little-endian, and the payload.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::net::TcpStream;
use tokio_util::io::{poll_read_buf, poll_write_buf};

const PREFIX: usize = 4;

/// Longer payloads are nonsense.
const PAYLOAD_MAX: usize = 1 << 20;

/// Room for one read.
const READ_BYTES: usize = 64 << 10;

/// A smaller rest of the room is not worth a read.
const READ_MIN: usize = 4 << 10;

/// A connection that carries frames both ways.
pub(super) struct Framed {
    tcp: TcpStream,
    input: BytesMut,
    /// Frames on their way out.
    pub(super) output: BytesMut,
}

impl Framed {
    pub(super) fn new(tcp: TcpStream) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        Ok(Self { tcp, input: BytesMut::new(), output: BytesMut::new() })
    }

    /// Reads what has come; ready with zero at the end of the stream.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.input.capacity() - self.input.len() < READ_MIN {
            self.input.reserve(READ_BYTES);
        }
        poll_read_buf(Pin::new(&mut self.tcp), cx, &mut self.input)
    }

    /// The next payload of what was read.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        let Some(len) = self.whole()? else { return Ok(None) };
        self.input.advance(PREFIX);
        Ok(Some(self.input.split_to(len).freeze()))
    }

    /// Sends every payload that was read back to where it came from.
    pub(super) fn echo(&mut self) -> io::Result<()> {
        while let Some(len) = self.whole()? {
            push(&mut self.output, &self.input[PREFIX..PREFIX + len]);
            self.input.advance(PREFIX + len);
        }
        Ok(())
    }

    /// Writes the output, as far as the socket takes it.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            if std::task::ready!(poll_write_buf(Pin::new(&mut self.tcp), cx, &mut self.output))?
                == 0
            {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
        }
        // Writing has moved the buffer's beginning forward; an empty one gets all its room back.
        self.output.clear();
        Poll::Ready(Ok(()))
    }

    /// Length of the payload that the input begins with, if it is all there.
    fn whole(&self) -> io::Result<Option<usize>> {
        let Some(prefix) = self.input.first_chunk::<PREFIX>() else { return Ok(None) };
        let len = u32::from_le_bytes(*prefix) as usize;
        if len > PAYLOAD_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok((self.input.len() >= PREFIX + len).then_some(len))
    }
}

/// Appends a frame.
pub(super) fn push(output: &mut BytesMut, payload: &[u8]) {
    output.reserve(PREFIX + payload.len());
    output.put_u32_le(payload.len() as u32);
    output.extend_from_slice(payload);
}
