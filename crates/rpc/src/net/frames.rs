//! Whole frames out of whatever a read brings.

use bytes::{Bytes, BytesMut};
use seawall_control::wire::{self, DecodeError, HEADER_LEN};

/// A kind of frame that can be read from a stream.
pub(crate) trait Frame: Sized {
    /// Reads a header at the front of `input`.
    fn decode(input: &[u8], body_max: u32) -> Result<Self, DecodeError>;

    /// Length of the whole frame.
    fn len(&self) -> usize;
}

impl Frame for wire::Request {
    fn decode(input: &[u8], body_max: u32) -> Result<Self, DecodeError> {
        Self::decode(input, body_max)
    }

    fn len(&self) -> usize {
        self.frame_len()
    }
}

impl Frame for wire::Response {
    fn decode(input: &[u8], body_max: u32) -> Result<Self, DecodeError> {
        Self::decode(input, body_max)
    }

    fn len(&self) -> usize {
        self.frame_len()
    }
}

/// Keeps the beginning of a frame whose end has not come yet. Holds no memory between frames.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    partial: BytesMut,
}

impl FrameReader {
    /// Takes the next whole frame off the front of `input`, with all its bytes, header included;
    /// `None` once less than a frame is left, which is then kept.
    ///
    /// Small frames are copied out of the read buffer, which is shared by all connections of a
    /// thread; a frame that spans reads is gathered in one buffer of its size and handed on
    /// without a copy.
    pub(crate) fn next<'a, F: Frame>(
        &mut self,
        input: &mut &'a [u8],
        body_max: u32,
    ) -> Result<Option<(F, FrameBytes<'a>)>, DecodeError> {
        if !self.partial.is_empty() {
            return self.complete_partial(input, body_max);
        }
        match F::decode(input, body_max) {
            Ok(frame) if frame.len() <= input.len() => {
                let (bytes, rest) = input.split_at(frame.len());
                *input = rest;
                return Ok(Some((frame, FrameBytes::Borrowed(bytes))));
            }
            Ok(frame) => self.partial.reserve(frame.len()),
            Err(error) if error.is_incomplete() => {}
            Err(error) => return Err(error),
        }
        self.fill(usize::MAX, input);
        Ok(None)
    }

    /// True while the beginning of a frame waits for its end.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.partial.is_empty()
    }

    /// Adds to the partial frame what it lacks, and hands it on if that is there.
    fn complete_partial<'a, F: Frame>(
        &mut self,
        input: &mut &'a [u8],
        body_max: u32,
    ) -> Result<Option<(F, FrameBytes<'a>)>, DecodeError> {
        self.fill(HEADER_LEN, input);
        let frame = match F::decode(&self.partial, body_max) {
            Ok(frame) => frame,
            Err(error) if error.is_incomplete() => return Ok(None),
            Err(error) => return Err(error),
        };
        self.partial.reserve(frame.len().saturating_sub(self.partial.len()));
        self.fill(frame.len(), input);
        if self.partial.len() < frame.len() {
            return Ok(None);
        }
        let bytes = std::mem::take(&mut self.partial).freeze();
        Ok(Some((frame, FrameBytes::Owned(bytes))))
    }

    /// Moves bytes from `input` until the partial frame has `len` of them, or none are left.
    fn fill(&mut self, len: usize, input: &mut &[u8]) {
        let missing = len.saturating_sub(self.partial.len()).min(input.len());
        let (taken, rest) = input.split_at(missing);
        self.partial.extend_from_slice(taken);
        *input = rest;
    }
}

/// The bytes of one frame.
#[derive(Debug)]
pub(crate) enum FrameBytes<'a> {
    /// In the shared read buffer.
    Borrowed(&'a [u8]),
    /// In a buffer of their own.
    Owned(Bytes),
}

impl FrameBytes<'_> {
    /// All bytes, header included.
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }

    /// A part that outlives the read buffer.
    pub(crate) fn slice(&self, range: std::ops::Range<usize>) -> Bytes {
        match self {
            Self::Borrowed(bytes) => Bytes::copy_from_slice(&bytes[range]),
            Self::Owned(bytes) => bytes.slice(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_control::wire::{Request, RequestOp};

    /// Feeds a stream cut into pieces of `size`, and gives back ids and bodies.
    fn read_in_pieces(stream: &[u8], size: usize) -> Vec<(u64, Vec<u8>)> {
        let mut reader = FrameReader::default();
        let mut frames = Vec::new();
        for piece in stream.chunks(size) {
            let mut input = piece;
            while let Some((request, bytes)) = reader.next::<Request>(&mut input, 1024).unwrap() {
                let body = bytes.slice(HEADER_LEN..request.frame_len());
                frames.push((request.claims.id, body.to_vec()));
            }
        }
        assert!(!reader.is_waiting());
        frames
    }

    #[test]
    fn frames_survive_every_cut() {
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for (id, len) in [(1, 0), (2, 5), (3, 700), (4, 0), (5, 1)] {
            let mut request = Request::new(RequestOp::Call);
            request.claims.id = id;
            request.body_len = len as u32;
            let body = vec![id as u8; len];
            stream.extend_from_slice(&request.encode());
            stream.extend_from_slice(&body);
            expected.push((id, body));
        }
        for size in [1, 2, 3, 63, 64, 65, 100, 511, 4096] {
            assert_eq!(read_in_pieces(&stream, size), expected, "cut every {size} bytes");
        }
    }

    #[test]
    fn an_oversize_frame_is_refused_before_its_body_comes() {
        let mut request = Request::new(RequestOp::Call);
        request.body_len = 2_000;
        let header = request.encode();
        let error =
            FrameReader::default().next::<Request>(&mut &header[..], 1024).map(|_| ()).unwrap_err();
        assert_eq!(error, DecodeError::TooLarge { len: 2_000, max: 1_024 });
    }
}
