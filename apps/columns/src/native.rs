//! The native protocol's payloads.
//!
//! [`COMPUTE`] carries out either operation; [`MAX`] and [`SMOOTH`] are the same for one of them,
//! and tell the server beforehand which it is, so that it can measure the two apart. Numbers are
//! little-endian.
//!
//! | | payload |
//! |---|---|
//! | request for the maximum | 0 (u8), first row (u32), number of rows (u32) |
//! | request to smooth | 1 (u8), span in rows (u32), from 1 on |
//! | reply | rows that were read (u32), the maximum, or the last smoothed value (f64) |

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

/// Carries out a request. No other service of Seawall has methods of these numbers, so that a load
/// which meets a server of another kind fails instead of measuring nonsense.
pub const COMPUTE: u16 = 221;
/// Carries out a [`Request::Max`].
pub const MAX: u16 = 222;
/// Carries out a [`Request::Smooth`].
pub const SMOOTH: u16 = 223;

const MAX_CODE: u8 = 0;
const SMOOTH_CODE: u8 = 1;

/// What is to be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// The maximum of the closing prices in some rows. Rows that are not there are left out; the
    /// maximum of none is the least number there is.
    Max {
        /// The first row, from 0 on.
        first: u32,
        /// How many rows.
        rows: u32,
    },
    /// The closing prices, smoothed with decay, to be written back as a column.
    Smooth {
        /// How many rows it takes about to forget, from 1 on.
        span: u32,
    },
}

/// What was computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Computed {
    /// How many rows were read.
    pub rows: u32,
    /// The maximum, or the last smoothed value.
    pub value: f64,
}

/// Why a payload could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It ends too early.
    #[error("the payload ends too early")]
    Truncated,
    /// It goes on after its last field.
    #[error("the payload has {0} bytes too many")]
    Trailing(usize),
    /// No operation has this number.
    #[error("there is no operation {0}; allowed: 0 (maximum) and 1 (smoothing)")]
    UnknownOperation(u8),
    /// The operation is not that of the method.
    #[error("method {0} is for another operation")]
    OtherMethod(u16),
    /// A span is at least one row.
    #[error("a span of 0 rows; allowed: 1 to 4294967295")]
    Span,
}

impl Request {
    /// The maximum of all closing prices.
    pub const fn max() -> Self {
        Self::Max { first: 0, rows: u32::MAX }
    }

    /// The method that is for this operation alone.
    pub const fn method(self) -> u16 {
        match self {
            Self::Max { .. } => MAX,
            Self::Smooth { .. } => SMOOTH,
        }
    }

    /// The payload.
    pub fn encode(self) -> Bytes {
        let mut payload = BytesMut::with_capacity(9);
        match self {
            Self::Max { first, rows } => {
                payload.put_u8(MAX_CODE);
                payload.put_u32_le(first);
                payload.put_u32_le(rows);
            }
            Self::Smooth { span } => {
                payload.put_u8(SMOOTH_CODE);
                payload.put_u32_le(span);
            }
        }
        payload.freeze()
    }

    /// Reads the payload of a call of `method`.
    ///
    /// # Errors
    ///
    /// If it is none; see [`DecodeError`].
    pub fn decode(method: u16, mut payload: &[u8]) -> Result<Self, DecodeError> {
        let request = match payload.try_get_u8().map_err(truncated)? {
            MAX_CODE => {
                let first = payload.try_get_u32_le().map_err(truncated)?;
                let rows = payload.try_get_u32_le().map_err(truncated)?;
                Self::Max { first, rows }
            }
            SMOOTH_CODE => match payload.try_get_u32_le().map_err(truncated)? {
                0 => return Err(DecodeError::Span),
                span => Self::Smooth { span },
            },
            unknown => return Err(DecodeError::UnknownOperation(unknown)),
        };
        match payload.len() {
            0 if method == COMPUTE || method == request.method() => Ok(request),
            0 => Err(DecodeError::OtherMethod(method)),
            left => Err(DecodeError::Trailing(left)),
        }
    }
}

impl Computed {
    /// The payload.
    pub fn encode(self) -> Bytes {
        let mut payload = BytesMut::with_capacity(12);
        payload.put_u32_le(self.rows);
        payload.put_f64_le(self.value);
        payload.freeze()
    }

    /// Reads the payload of a reply.
    ///
    /// # Errors
    ///
    /// If it is none; see [`DecodeError`].
    pub fn decode(mut payload: &[u8]) -> Result<Self, DecodeError> {
        let rows = payload.try_get_u32_le().map_err(truncated)?;
        let value = payload.try_get_f64_le().map_err(truncated)?;
        match payload.len() {
            0 => Ok(Self { rows, value }),
            left => Err(DecodeError::Trailing(left)),
        }
    }
}

fn truncated(_: bytes::TryGetError) -> DecodeError {
    DecodeError::Truncated
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn request() -> impl Strategy<Value = Request> {
        prop_oneof![
            any::<(u32, u32)>().prop_map(|(first, rows)| Request::Max { first, rows }),
            (1..=u32::MAX).prop_map(|span| Request::Smooth { span }),
        ]
    }

    proptest! {
        #[test]
        fn payloads_survive_the_wire(request in request(), rows: u32, value in -1e9..1e9_f64) {
            for method in [COMPUTE, request.method()] {
                prop_assert_eq!(Request::decode(method, &request.encode()), Ok(request));
            }
            let computed = Computed { rows, value };
            prop_assert_eq!(Computed::decode(&computed.encode()), Ok(computed));
        }

        #[test]
        fn decoding_never_panics(method in 220..225_u16, payload in vec(any::<u8>(), 0..20)) {
            let _ = Request::decode(method, &payload);
            let _ = Computed::decode(&payload);
        }
    }

    #[test]
    fn what_a_peer_can_get_wrong() {
        use DecodeError::*;
        for (method, payload, expected) in [
            (COMPUTE, &b""[..], Truncated),
            (COMPUTE, b"\x01\x05\0\0", Truncated),
            (COMPUTE, b"\0\0\0\0\0\x05\0\0", Truncated),
            (COMPUTE, b"\0\0\0\0\0\x05\0\0\0\0", Trailing(1)),
            (COMPUTE, b"\x02", UnknownOperation(2)),
            (MAX, b"\x01\x05\0\0\0", OtherMethod(MAX)),
            (SMOOTH, b"\0\0\0\0\0\x05\0\0\0", OtherMethod(SMOOTH)),
            (SMOOTH, b"\x01\0\0\0\0", Span),
        ] {
            assert_eq!(Request::decode(method, payload), Err(expected));
        }
        assert_eq!(Computed::decode(&[0; 11]), Err(Truncated));
        assert_eq!(Computed::decode(&[0; 13]), Err(Trailing(1)));
    }

    #[test]
    fn the_layout_is_as_documented() {
        assert_eq!(&Request::Smooth { span: 5 }.encode()[..], b"\x01\x05\0\0\0");
        let max = Request::Max { first: 2, rows: 3 };
        assert_eq!(&max.encode()[..], b"\0\x02\0\0\0\x03\0\0\0");
        let computed = Computed { rows: 2, value: 1.0 };
        assert_eq!(&computed.encode()[..], b"\x02\0\0\0\0\0\0\0\0\0\xf0\x3f");
    }
}
